"""From 10 to 10,000 owners on sparse graphs, and 100,000 on one: what an owner's step costs, and what is held.

Memory is what XLA says that the compiled program of 100 rounds holds: arguments (records, states, links, keys), results
and temporaries. The process's own, several hundred MiB of Python and JAX whatever the case, would hide it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Row
from coterie import topologies
from coterie.engines import steps
from coterie.engines.schedule import ticks_of
from coterie.engines.simulate import simulate
from coterie.problems.losses import logistic
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Program, Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task
from coterie.topologies.mixing import Mixer

DIM, RECORDS = 50, 10
FEW, MANY = 10, 10_000  # the row that others are compared with, and the one that is judged
COUNTS = {
    "ring": (FEW, 100, 1_000, MANY, 100_000),
    "exponential": (FEW, 100, 1_000, MANY),
    "random_regular": (FEW, 100, 1_000, MANY),
}
OPTIONS: dict[str, dict] = {"exponential": {"directed": False}}
ROUNDS = 100
LIMIT = 60.0  # seconds that MANY owners may take for ROUNDS rounds
WANTED = f"at most 2 × the step of {FEW} owners; {ROUNDS} rounds under {LIMIT:.0f} s; memory at most linear"


def rows() -> list[Row]:
    """One row for each graph and number of owners, each measured in a process of its own."""
    return [row for graph, counts in COUNTS.items() for row in _graph(graph, counts)]


def _graph(graph: str, counts: tuple[int, ...]) -> list[Row]:
    found = {owners: _alone(graph, owners) for owners in counts}
    steps = {owners: one["seconds"] / one["rounds"] / owners for owners, one in found.items()}
    each = {owners: one["held"] / owners for owners, one in found.items()}
    lines = []
    for owners, one in found.items():
        compilation = one["first"] - one["seconds"]
        whole = one["setup"] + compilation + ROUNDS * steps[owners] * owners
        judged = owners == MANY
        good = steps[MANY] <= 2 * steps[FEW] and whole < LIMIT and each[MANY] <= each[1_000]
        lines.append(
            Row(
                case=f"an owner's step, {owners:,} owners on a {graph} graph, d = {DIM}, {RECORDS} records",
                work=f"{DIM} normals; {ROUNDS} rounds hold {one['held'] / 1e6:,.1f} MB, "
                f"{each[owners] / 1e3:.1f} kB an owner",
                floor=None,
                ours=steps[owners],
                wanted=WANTED if judged else "",
                met=good if judged else None,
                note=f"{steps[owners] / steps[FEW]:.2f} × the step of {FEW}; "
                f"graph, compilation and {ROUNDS} rounds {whole:.1f} s",
            )
        )
    return lines


def _alone(graph: str, owners: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.owners", graph, str(owners)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(graph: str, owners: int) -> dict[str, float]:
    """Seconds for building, for the first run with compilation, and for the best of three; bytes that are held."""
    rounds = max(20, 200_000 // owners)
    started = time.perf_counter()
    topology = topologies.build(graph, owners, **OPTIONS.get(graph, {}))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((owners, RECORDS, DIM), dtype=np.float32) / 7
    y = np.sign(rng.standard_normal((owners, RECORDS))).astype(np.float32)
    task = Task(
        problem=Problem(linear(DIM, 1), logistic(), l2(0.01)),
        sizes=(RECORDS,) * owners,
        clip_norm=1.0,
        epsilon=(1.0,) * owners,
        delta=0.01,
        topology=topology,
        params=jnp.zeros((DIM, 1)),
    )
    program = build(task, Settings(rounds=rounds), "paper")
    shards = Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(owners, RECORDS, jnp.int32))
    mixer = topologies.mixer(topology)
    setup = time.perf_counter() - started
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        jax.block_until_ready(simulate(program, shards, mixer, seed=1).model)
        seconds.append(time.perf_counter() - started)
    return {
        "setup": setup,
        "first": seconds[0],
        "seconds": min(seconds[1:]),
        "rounds": rounds,
        "held": _held(build(task, Settings(rounds=ROUNDS), "paper"), shards, mixer),
    }


def _held(program: Program, shards: Shards, mixer: Mixer) -> int:
    """Bytes that a run's compiled program holds: arguments, results and temporaries."""
    static = steps.compile_key(program, shards, mixer, None)
    world, (ticks, _) = steps.build_world(program, shards, mixer, 1), ticks_of(program)
    block = steps.block_length(static, shards, len(ticks.step))
    with jax.threefry_partitionable(False):
        carry = steps.start(static, world, program.params)
        compiled = steps.advance.lower(static, block, world, carry, ticks).compile()
    found = compiled.memory_analysis()
    if found is None:
        raise RuntimeError("XLA does not tell what programs hold on this backend")
    passed_on = found.alias_size_in_bytes  # results that take the place of arguments
    held = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return held - passed_on


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
