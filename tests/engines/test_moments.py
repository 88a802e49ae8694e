"""Second moments in place of records: same gradients, the same guarantee, and one computation for all visits."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie import topologies
from coterie.engines.owners import context_of
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, sweep
from coterie.errors import InputError
from coterie.problems.losses import logistic, squared
from coterie.problems.models import linear
from coterie.problems.moments import gradient_sum, moments
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Batch, Program, Shards, Visits
from coterie.protocols.async_learner import Settings, build
from coterie.protocols.task import Task

ROWS, DIM = 40, 5
RNG = np.random.default_rng(0)


def batch(scale: float = 1.0) -> Batch:
    x = scale * RNG.standard_normal((ROWS, DIM)).astype(np.float32)
    y = scale * RNG.standard_normal(ROWS).astype(np.float32)
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray((np.arange(ROWS) < 33).astype(np.float32)))


def thetas(reach: float) -> list[jax.Array]:
    drawn = RNG.standard_normal((20, DIM, 1))
    return [jnp.asarray(reach * one / np.linalg.norm(one), jnp.float32) for one in drawn]


def test_gradients_of_records_that_no_weight_touches() -> None:
    some = batch()
    known = moments(some, 1e9, 2.0)
    for theta in thetas(2.0):
        expected = some.x.T @ (some.mask[:, None] * (some.x @ theta - some.y[:, None]))
        np.testing.assert_allclose(gradient_sum(known, theta), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e18])
def test_one_record_moves_a_gradient_by_at_most_the_clip_norm(scale: float) -> None:
    """The bound is attained by some record and query, so that a weight twice as large would fail."""
    clip_norm, reach, largest = 0.7, 2.0, 0.0
    records = batch(scale)
    for row in range(10):
        alone = records._replace(mask=jnp.zeros(ROWS).at[row].set(1.0))
        known = moments(alone, clip_norm, reach)
        x, y = records.x[row], records.y[row]
        worst = -jnp.sign(y) * reach * x / jnp.maximum(jnp.linalg.norm(x / scale) * scale, 1e-30)
        for theta in [*thetas(reach), worst[:, None]]:
            largest = max(largest, float(jnp.linalg.norm(gradient_sum(known, theta))))
    assert largest <= clip_norm * (1 + 1e-4)
    assert largest > 0.6 * clip_norm or scale < 1


@pytest.mark.parametrize("poison", [np.nan, np.inf, 3e38])
def test_a_hostile_record_counts_for_nothing(poison: float) -> None:
    good = batch()
    bad = good._replace(x=good.x.at[0, 0].set(poison))
    without = good._replace(mask=good.mask.at[0].set(0.0))
    for theta in thetas(2.0):
        np.testing.assert_allclose(
            gradient_sum(moments(bad, 1.0, 2.0), theta),
            gradient_sum(moments(without, 1.0, 2.0), theta),
            rtol=1e-5,
            atol=1e-5,
        )


def world(clip: str = "once", loss=squared) -> tuple[Program, Shards]:
    sizes = (30, 50, 20)
    task = Task(
        problem=Problem(linear(DIM, 1), loss(), l2(0.1)),
        sizes=sizes,
        clip_norm=1.0,
        epsilon=(1.0,) * 3,
        delta=1e-5,
        topology=topologies.build("complete", 3),
        params=jnp.zeros((DIM, 1)),
    )
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((3, 50, DIM)), rng.standard_normal((3, 50))
    shards = Shards(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(sizes, jnp.int32))
    return build(task, Settings(ticks=60, theta_max=1.0, clip=clip), "certified"), shards  # type: ignore[arg-type]


def test_engines_may_condense_or_not() -> None:
    program, shards = world()
    assert isinstance(program.functions, Visits)
    plain = program._replace(functions=program.functions._replace(condense=None))
    found, expected = (simulate(one, shards, seed=3).model for one in (program, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found, simulate(program, shards, seed=4).model, atol=1e-3)


def test_a_sweep_is_its_runs() -> None:
    """Lanes that differ in seed alone, and in budget too, give what `simulate` gives."""
    program, shards = world()
    louder = program._replace(plan=replace(program.plan, noise_multiplier=(9.0,) * 3))
    lanes = [Lane(program, None, 3), Lane(program, None, 4), Lane(louder, None, 3)]
    _, looks = sweep(lanes, shards, every=25, probe=np.asarray)
    for lane, found in zip(lanes, looks[-1]):
        np.testing.assert_allclose(
            found, simulate(lane.program, shards, seed=lane.seed).model, rtol=1e-4, atol=1e-5
        )


def test_once_is_for_the_squared_loss() -> None:
    with pytest.raises(InputError, match="clip='once'"):
        world(loss=logistic)


def test_a_query_outside_the_box_is_answered_at_its_edge() -> None:
    """A learner that asks from far away cannot make one record's part larger."""
    program, shards = world()
    assert isinstance(program.functions, Visits)
    one = Batch(shards.x[0], shards.y[0], jnp.zeros(50).at[0].set(1.0))
    ctx = context_of(program, 0)
    far = 1e6 * jnp.ones((DIM, 1))
    message, _ = program.functions.emit((), far, one, jnp.zeros((DIM, 1)), ctx)
    assert float(jnp.linalg.norm(message)) <= 1.0 + 1e-5
