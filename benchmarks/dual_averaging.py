"""Paper D's loop (20 owners on a ring, one record a step, with noise) against a careful vectorised NumPy loop.

Floor: the normals. A round of N owners in d dimensions needs N × d of them and nothing else of that size but
a few additions, so the generator's own speed bounds the loop; both are reported.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Rates, Row, in_turns
from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.problems.losses import hinge
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Shards
from coterie.protocols.dual_averaging import GAMMA, Settings, build
from coterie.protocols.task import Task

OWNERS, RECORDS, STRENGTH = 20, 1000, 0.0005
ROUNDS = {200: 6000, 2000: 1200}
WANTED = {200: 3.0, 2000: 1.5}  # times as fast as NumPy


def rows() -> list[Row]:
    """One row for each dimension."""
    return [_case(dim, rounds) for dim, rounds in ROUNDS.items()]


def _case(dim: int, rounds: int) -> Row:
    records = _records(dim)
    task = Task(
        problem=Problem(linear(dim, 1), hinge(), l2(STRENGTH)),
        sizes=(RECORDS,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=0.01,
        topology=topologies.build("ring", OWNERS, weights="uniform"),
        params=jnp.zeros((dim, 1)),
    )
    program = build(task, Settings(rounds=rounds), "paper")
    mixer = topologies.mixer(task.topology)
    shards = Shards(*(jnp.asarray(part) for part in records))

    def ours() -> jax.Array:
        return simulate(program, shards, mixer, seed=1).model

    scale = float(program.plan.noise_scale[0])
    some = rounds // 4

    def numpy_loop() -> np.ndarray:
        return _numpy_loop(records, dim, some, scale)

    best = in_turns({"ours": ours, "NumPy": numpy_loop, **Rates.probes()})
    engine, loop = best["ours"] / rounds, best["NumPy"] / some
    return Row(
        case=f"a round of dual averaging (paper D), {OWNERS} owners on a ring, d = {dim:,}, one record a step, noise",
        work=f"{OWNERS * dim:,} normals",
        floor=OWNERS * dim / Rates.of(best)["normals"],
        ours=engine,
        peers={"NumPy": loop},
        wanted=f"at least {WANTED[dim]:g} × NumPy",
        met=loop >= WANTED[dim] * engine,
    )


def _records(dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((OWNERS, RECORDS, dim), dtype=np.float32)
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    y = np.sign(rng.standard_normal((OWNERS, RECORDS))).astype(np.float32)
    return x, y, np.full(OWNERS, RECORDS, np.int32)


def _numpy_loop(records: tuple[np.ndarray, ...], dim: int, rounds: int, scale: float) -> np.ndarray:
    """The same algorithm with NumPy's fastest generator, everything of size owners × d in place."""
    x_all, y_all, _ = records
    rng, everyone = np.random.Generator(np.random.SFC64(0)), np.arange(OWNERS)
    z, x, total = (np.zeros((OWNERS, dim), np.float32) for _ in range(3))
    noise, weight = np.empty((OWNERS, dim), np.float32), 0.0
    for t in range(1, rounds + 1):
        row = rng.integers(0, RECORDS, OWNERS)
        records_x, records_y = x_all[everyone, row], y_all[everyone, row]
        margin = np.einsum("nd,nd->n", records_x, x) * records_y
        rng.standard_normal(out=noise, dtype=np.float32)
        noise *= np.float32(scale)
        noise += np.where(margin < 1, -records_y, 0)[:, None] * records_x
        z += np.float32(t) * noise
        z = (z + np.roll(z, 1, 0) + np.roll(z, -1, 0)) / np.float32(3)
        total += np.float32(t) * x
        weight += t
        x = z / np.float32(-(STRENGTH * (weight + t + 1) + GAMMA))
    return total / np.float32(weight)
