"""100 repeats of paper B's experiment (three banks, T = 1,000): as one program, and one after the other.

The squared loss in a box, so that an owner's second moments are all it needs (`clip="once"`). Both ways run the same
compiled steps; the program that reads all records at each visit is shown beside them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Row, in_turns
from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, sweep
from coterie.problems.losses import squared
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Program, Shards
from coterie.protocols.async_learner import Settings, build
from coterie.protocols.task import Task

OWNERS, RECORDS, DIM, TICKS, REPEATS = 3, 31_620, 10, 1000, 100


def rows() -> list[Row]:
    """One row."""
    once, each = (_program(clip) for clip in ("once", "visit"))
    shards = _shards()
    lanes = [Lane(once, None, seed) for seed in range(REPEATS)]

    def together() -> object:
        return sweep(lanes, shards, every=TICKS, probe=np.asarray)[1]

    def in_turn() -> object:
        return [simulate(once, shards, seed=seed).model for seed in range(REPEATS)]

    def reading() -> jax.Array:
        return simulate(each, shards, seed=0).model

    best = in_turns({"together": together, "in turn": in_turn, "reading": reading}, repeats=3)
    return [
        Row(
            case=f"{REPEATS} repeats of paper B: {OWNERS} banks of {RECORDS:,} records, d = {DIM}, T = {TICKS:,}",
            work=f"{REPEATS * TICKS * DIM / 1e6:.0f} M Laplace numbers",
            floor=None,
            ours=best["together"],
            peers={
                "the same, one after the other": best["in turn"],
                "one after the other, reading all records at each visit": REPEATS * best["reading"],
            },
            wanted="at least 5 × faster than one after the other",
            met=best["in turn"] >= 5 * best["together"],
        )
    ]


def _program(clip: str) -> Program:
    task = Task(
        problem=Problem(linear(DIM, 1), squared(), l2(1e-5)),
        sizes=(RECORDS,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=1e-6,
        topology=topologies.build("complete", OWNERS),
        params=jnp.zeros((DIM, 1)),
    )
    settings = Settings(ticks=TICKS, rho=0.3, theta_max=1.0, clip=clip)  # type: ignore[arg-type]
    return build(task, settings, "paper")


def _shards() -> Shards:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((OWNERS, RECORDS, DIM), dtype=np.float32) / 3
    y = 0.3 * x.sum(2) + 0.1 * rng.standard_normal((OWNERS, RECORDS), dtype=np.float32)
    return Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(OWNERS, RECORDS, jnp.int32))
