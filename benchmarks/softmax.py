"""Linear softmax on MNIST's shapes: 10 owners of 6,000 records, 784 × 10 parameters, all records in each round.

Floor: the larger of the records' bytes over the bandwidth of a plain sum, and the two matrix products over the rate of
a large square one. A product with ten columns cannot reach that rate; the row shows how near it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Rates, Row, in_turns
from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.mechanisms import FullBatch, onepass
from coterie.problems.losses import softmax
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task

OWNERS, RECORDS, DIM, CLASSES, ROUNDS = 10, 6000, 784, 10, 10


def rows() -> list[Row]:
    """One row."""
    rng = np.random.default_rng(0)
    x = rng.random((OWNERS, RECORDS, DIM), dtype=np.float32) / 28
    y = rng.integers(0, CLASSES, (OWNERS, RECORDS)).astype(np.int32)
    shards = Shards(jnp.asarray(x), jnp.asarray(y), jnp.full(OWNERS, RECORDS, jnp.int32))
    del x, y
    ours = _runs(Problem(linear(DIM, CLASSES), softmax(CLASSES), l2(1e-3)), shards)
    products = _runs(Problem(linear(DIM, CLASSES), softmax(CLASSES), l2(1e-3), microbatch=1200), shards)
    with mock.patch.object(onepass, "serves", return_value=False):
        products()  # compiles without it
    host = (np.asarray(shards.x), np.asarray(shards.y))
    functions = {"ours": ours, "products": products, "NumPy": lambda: _numpy_round(*host)}
    best = in_turns({**functions, **Rates.probes()}, repeats=4)
    rates = Rates.of(best)
    operations, read = 4 * OWNERS * RECORDS * DIM * CLASSES, 4 * OWNERS * RECORDS * DIM
    floor = max(operations / rates["operations"], read / rates["bytes"])
    seconds = best["ours"] / ROUNDS
    return [
        Row(
            case=f"a round of {OWNERS} owners, linear softmax {DIM} × {CLASSES}, {RECORDS:,} records each, noise, ring",
            work=f"{operations / 1e9:.2f} G operations, {read / 1e6:.0f} MB, {OWNERS * DIM * CLASSES:,} normals",
            floor=floor,
            ours=seconds,
            peers={"NumPy": best["NumPy"], "ours with XLA's products": best["products"] / ROUNDS},
            wanted="at most 1.7 × the floor",
            met=seconds <= 1.7 * floor,
            note=f"one pass: {onepass.available() or 'not compiled here'}",
        )
    ]


def _runs(problem: Problem, shards: Shards) -> Callable[[], jax.Array]:
    """ROUNDS rounds of everyone."""
    task = Task(
        problem=problem,
        sizes=(RECORDS,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1.0,) * OWNERS,
        delta=1e-5,
        topology=topologies.build("ring", OWNERS),
        params=jnp.zeros((DIM, CLASSES)),
    )
    program = build(task, Settings(rounds=ROUNDS), "paper")
    program = program._replace(plan=replace(program.plan, sampler=FullBatch()))
    mixer = topologies.mixer(task.topology)
    return lambda: simulate(program, shards, mixer, seed=1).model


def _numpy_round(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One round of the same, owner by owner: two matrix products and the norms are all that is large."""
    rng, params = np.random.Generator(np.random.SFC64(0)), np.zeros((DIM, CLASSES), np.float32)
    found = np.empty((OWNERS, DIM, CLASSES), np.float32)
    for owner in range(OWNERS):
        scores = x[owner] @ params
        slopes = np.exp(scores - scores.max(1, keepdims=True))
        slopes /= slopes.sum(1, keepdims=True)
        slopes[np.arange(RECORDS), y[owner]] -= 1
        norms = np.sqrt(np.einsum("rd,rd->r", x[owner], x[owner]) * np.einsum("rk,rk->r", slopes, slopes))
        slopes *= np.minimum(1, 1 / np.maximum(norms, 1e-30))[:, None]
        found[owner] = (slopes.T @ x[owner]).T + rng.standard_normal((DIM, CLASSES), dtype=np.float32)
    return (found + np.roll(found, 1, 0) + np.roll(found, -1, 0)) / np.float32(3)
