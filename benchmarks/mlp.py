"""A network 784-128-10, 20 owners, 32 records each: clip, add noise, send, average on a ring; and three peers.

Floor: the matrix products that no one can avoid (forward, slopes of the hidden layer, one weighted sum a layer) at the
rate of a large matrix product, plus the normals at the generator's own speed.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Rates, Row, in_turns
from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.mechanisms import Passes
from coterie.problems.losses import softmax
from coterie.problems.models import two_layer
from coterie.problems.penalties import none
from coterie.problems.problem import Problem
from coterie.program import Program, Shards
from coterie.protocols.push_sum import Settings, build
from coterie.protocols.task import Task

OWNERS, BATCH, DIM, HIDDEN, CLASSES, ROUNDS = 20, 32, 784, 128, 10, 20
PEERS = Path(__file__).parent.parent / ".venv-bench" / "bin" / "python"
SCRIPTS = {"Opacus": "opacus_mlp.py", "gossipy": "gossipy_mlp.py", "Flower": "flower_mlp.py"}


def rows() -> list[Row]:
    """One row."""
    program, shards = _program()
    mixer = topologies.mixer(topologies.build("ring", OWNERS))

    def ours() -> jax.Array:
        return simulate(program, shards, mixer, seed=1).model

    best = in_turns({"ours": ours, **Rates.probes()})
    rates = Rates.of(best)
    layers = DIM * HIDDEN + HIDDEN * CLASSES
    operations = OWNERS * BATCH * 2 * (2 * layers + HIDDEN * CLASSES)
    normals = OWNERS * (layers + HIDDEN + CLASSES)
    floor = operations / rates["operations"] + normals / rates["normals"]
    peers = {name: one for library in SCRIPTS for name, one in _peer(library).items()}
    seconds = best["ours"] / ROUNDS
    row = Row(
        case=f"a round of {OWNERS} owners, network {DIM}-{HIDDEN}-{CLASSES}, batch {BATCH}: clip, noise, ring",
        work=f"{operations / 1e6:.0f} M operations, {normals / 1e6:.2f} M normals",
        floor=floor,
        ours=seconds,
        peers=peers,
        wanted="at least 5 × faster than Opacus, at most 2 × the floor",
    )
    opacus = [one for name, one in peers.items() if name.startswith("Opacus") and not isinstance(one, str)]
    return [replace(row, met=seconds <= 2 * floor and bool(opacus) and min(opacus) >= 5 * seconds)]


def _program() -> tuple[Program, Shards]:
    rng = np.random.default_rng(0)
    rows = 10 * BATCH
    x = rng.random((OWNERS, rows, DIM), dtype=np.float32) / 28
    y = rng.integers(0, CLASSES, (OWNERS, rows)).astype(np.int32)
    problem = Problem(two_layer(DIM, HIDDEN, CLASSES), softmax(CLASSES), none())
    task = Task(
        problem=problem,
        sizes=(rows,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=1e-5,
        topology=topologies.build("ring", OWNERS),
        params=problem.model.init(jax.random.key(0)),
    )
    program = build(task, Settings(policy="clipped", rounds=ROUNDS, sigma=1.0), "paper")
    program = program._replace(plan=replace(program.plan, sampler=Passes(BATCH)))
    return program, Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(OWNERS, rows, jnp.int32))


def _peer(library: str) -> dict[str, float | str]:
    """Its modes and their seconds a round, or why there are none."""
    if not PEERS.exists():
        return {library: "not installed: `make bench` sets .venv-bench up"}
    script = Path(__file__).parent / "peers" / SCRIPTS[library]
    done = subprocess.run([PEERS, script, "8"], capture_output=True, text=True, check=False)
    if done.returncode:
        return {library: "failed: " + done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])
