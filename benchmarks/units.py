"""Units of up to five records beside the same records as rows, on the shapes of the softmax and the network row.

A unit's summed gradient is clipped as one, so rounds compute 25 products of slopes for every five records more; those
of features are computed once. Linear softmax models take the C function (`onepass`) either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Row, in_turns
from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.mechanisms import FullBatch, onepass
from coterie.problems.losses import softmax
from coterie.problems.models import linear, two_layer
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task
from coterie.units import RECORD, Unit

DIM, HIDDEN, CLASSES, ROUNDS = 784, 128, 10, 40
PERSON = Unit("column", column="person", records=5)
ALLOWED = 1.5


def rows() -> list[Row]:
    """One row for each model: owners, and records of each."""
    return [_row(linear(DIM, CLASSES), 10, 6000), _row(two_layer(DIM, HIDDEN, CLASSES), 20, 320)]


def _row(model, owners: int, records: int) -> Row:
    rng, most = np.random.default_rng(0), PERSON.records
    units = records // most
    x = jnp.asarray(rng.random((owners, records, DIM), dtype=np.float32) / 28)
    y = jnp.asarray(rng.integers(0, CLASSES, (owners, records)).astype(np.int32))
    plain = Shards(x, y, jnp.full(owners, records, jnp.int32))
    by_unit = Shards(
        x.reshape(owners, units, most, DIM),
        y.reshape(owners, units, most),
        jnp.full(owners, units, jnp.int32),
        jnp.full((owners, units), most, jnp.int32),
    )
    problem = Problem(model, softmax(CLASSES), l2(1e-3))
    ours, as_rows = _runs(problem, by_unit, PERSON), _runs(problem, plain, RECORD)
    products = _runs(problem._replace(microbatch=1200), plain, RECORD)
    with mock.patch.object(onepass, "serves", return_value=False):
        products()  # compiles without it
    best = in_turns({"units": ours, "rows": as_rows, "products": products})
    times = best["units"] / best["rows"]
    return Row(
        case=f"a round of {owners} owners, {model.name} on {DIM} × {CLASSES}, {units:,} units of {most} records each",
        work=f"{owners * records:,} records: norms of summed gradients, clip, noise, ring",
        floor=None,
        ours=best["units"] / ROUNDS,
        peers={
            "the same records as rows": best["rows"] / ROUNDS,
            "as rows with XLA's products": best["products"] / ROUNDS,
        },
        wanted=f"at most {ALLOWED} × the same records as rows",
        met=times <= ALLOWED,
        note=f"{times:.2f} × rows",
    )


def _runs(problem: Problem, shards: Shards, unit: Unit) -> Callable[[], jax.Array]:
    """ROUNDS rounds of everyone."""
    owners = len(shards.counts)
    task = Task(
        problem=problem,
        sizes=tuple(int(count) for count in shards.counts),
        clip_norm=1.0,
        epsilon=(1.0,) * owners,
        delta=1e-5,
        topology=topologies.build("ring", owners),
        params=problem.model.init(jax.random.key(0)),
        unit=unit,
    )
    program = build(task, Settings(rounds=ROUNDS), "paper")
    program = program._replace(plan=replace(program.plan, sampler=FullBatch()))
    mixer = topologies.mixer(task.topology)
    return lambda: simulate(program, shards, mixer, seed=1).model
