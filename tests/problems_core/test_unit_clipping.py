"""Units of several records: each unit's summed gradient is clipped as one, and a unit moves a sum by no more."""

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie._types import PyTree
from coterie.mechanisms.clipping import Order, Outer
from coterie.mechanisms.places import Places
from coterie.problems import problem as problems
from coterie.problems.losses import Loss, huber, logistic, softmax
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped, clipped_sum
from coterie.program import Batch
from coterie.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE

UNITS, MOST, DIM = 9, 4, 6
CLIP = 0.7
ROUNDING = 1 + 1e-5


def _patches() -> Model:
    """A convolution over three patches of two numbers: a record meets its weights at three places."""

    def scores(params: PyTree, x: jax.Array) -> jax.Array:
        return jnp.sum(x.reshape(x.shape[0], 3, 2) @ params["w"], axis=1) + params["b"][None]

    def factors(params: PyTree, x: jax.Array, slope: Callable) -> PyTree:
        inputs, last = x.reshape(x.shape[0], 3, 2), slope(scores(params, x))
        return {
            "w": Places(inputs, jnp.broadcast_to(last[:, None], (x.shape[0], 3, 3))),
            "b": Outer(None, last),
        }

    def init(key: jax.Array) -> PyTree:
        return {"w": jax.random.normal(key, (2, 3)), "b": jnp.zeros(3)}

    return Model("patches", 3, init, scores, factors)


PATCHES = _patches()
PROBLEMS = {
    "logistic": Problem(linear(DIM), logistic(), none()),
    "huber": Problem(linear(DIM), huber(), none()),
    "softmax": Problem(linear(DIM, 3), softmax(3), none()),
    "network": Problem(two_layer(DIM, 5, 3, "relu"), softmax(3), none()),
    "patches": Problem(PATCHES, softmax(3), none()),
    "formed": Problem(linear(DIM, 3)._replace(factors=None), softmax(3), none()),
}
each_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())


def units_for(problem: Problem, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(UNITS, MOST, DIM)) * rng.choice([0.1, 1.0, 10.0], (UNITS, 1, 1))
    if problem.loss.outputs > 1:
        y = rng.integers(0, problem.loss.outputs, (UNITS, MOST)).astype(np.int32)
    else:
        y = rng.choice([-1.0, 1.0], (UNITS, MOST)).astype(np.float32)
    within = np.append(rng.integers(1, MOST + 1, UNITS - 2), [1, MOST]).astype(np.int32)
    mask = np.ones(UNITS, np.float32)
    mask[2] = 0.0
    x[np.arange(MOST)[None] >= within[:, None]] = 7.0  # visible where somebody reads what is not there
    return Batch(*map(jnp.asarray, (x.astype(np.float32), y, mask, within)))


def params_of(problem: Problem) -> PyTree:
    start = problem.model.init(jax.random.key(1))
    return jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(2), leaf.shape), start)


@lru_cache
def gradients(model: Model, loss: Loss) -> Callable:
    """Of every record of every unit."""

    def value(params: PyTree, x: jax.Array, y: jax.Array) -> jax.Array:
        return loss.value(model.scores(params, x[None]), y[None])[0]

    return jax.jit(jax.vmap(jax.vmap(jax.grad(value), (None, 0, 0)), (None, 0, 0)))


def by_hand(problem: Problem, params: PyTree, batch: Batch, order: Order = 2) -> PyTree:
    """Record by record, in double precision."""
    each = gradients(problem.model, problem.loss)(params, batch.x, batch.y)
    total = jax.tree.map(lambda leaf: np.zeros(leaf.shape), params)
    for unit, many in enumerate(np.asarray(batch.within)):
        scale = 1 / many if problem.mean else 1.0
        whole = jax.tree.map(
            lambda leaf, unit=unit, many=many, scale=scale: (
                scale * np.sum(np.asarray(leaf[unit, :many], np.float64), axis=0)
            ),
            each,
        )
        factor = float(batch.mask[unit]) * min(1.0, CLIP / length(whole, order))
        total = jax.tree.map(lambda sum_, leaf, factor=factor: sum_ + factor * leaf, total, whole)
    return total


def length(tree: PyTree, order: Order = 2) -> float:
    return float(
        np.linalg.norm(
            np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)]), order
        )
    )


def apart(one: PyTree, other: PyTree, order: Order = 2) -> float:
    return length(
        jax.tree.map(lambda a, b: np.asarray(a, np.float64) - np.asarray(b, np.float64), one, other), order
    )


@each_problem
def test_units_are_summed_in_parts(problem: Problem) -> None:
    batch, params = units_for(problem), params_of(problem)
    found = jax.jit(partial(clipped_sum, problem._replace(microbatch=3 * MOST)))(params, batch, CLIP)
    assert apart(found, by_hand(problem, params, batch)) <= 1e-4


@each_problem
def test_a_unit_too_large_for_the_cache_is_summed_in_parts(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "_CACHED", 2 * DIM)
    monkeypatch.setattr(problems, "_LEAST", 3)
    batch, params = units_for(problem), params_of(problem)
    found = jax.jit(partial(clipped_sum, problem))(params, batch, CLIP)
    assert apart(found, by_hand(problem, params, batch)) <= 1e-4


def neighbours(batch: Batch, at: int) -> list[Batch]:
    """The unit at `at`, of one record, replaced by what a hostile owner might put there."""
    x, y, mask, within = map(np.array, batch)
    within[at] = MOST
    same, label = np.tile(x[at, :1], (MOST, 1)), np.full(MOST, y[at, 0])
    signs = np.tile(np.float32([1.0, -1.0]), MOST // 2)[:, None]
    others = [
        same * np.float32(1e3),  # aligned
        -same,
        same,  # duplicated
        same * signs * np.float32(1e3),  # cancelling, where slopes agree
        same * signs * np.float32(1e-30),
        same * np.float32([1e6, 1.0, -1e6, 1.0])[:, None],
        *(_with_row(same, row, bad) for row, bad in ((1, np.nan), (2, np.inf), (3, 3e38))),
    ]
    found = [Batch(_with_row(x, at, one), _with_row(y, at, label), mask, within) for one in others]
    opposite = label.copy()
    opposite[::2] = -label[0] if label.dtype == np.float32 else (label[0] + 1) % 3
    return [*found, Batch(_with_row(x, at, others[0]), _with_row(y, at, opposite), mask, within)]


def _with_row(whole: np.ndarray, at: int, row: np.ndarray | float) -> np.ndarray:
    other = whole.copy()
    other[at] = row
    return other


@each_problem
@pytest.mark.parametrize("how", ["sum", "mean", "careful", "order"])
def test_the_sum_of_a_units_gradients_is_clipped_and_replacing_one_moves_it_as_declared(
    problem: Problem, how: str
) -> None:
    order: Order = 1 if how == "order" else 2
    problem = problem._replace(mean=how == "mean", careful=how == "careful")
    params, batch = params_of(problem), units_for(problem)
    at = UNITS - 2  # of one record
    worlds = [batch, batch._replace(mask=batch.mask.at[at].set(0.0)), *neighbours(batch, at)]
    many = jax.tree.map(lambda *leaves: np.stack(leaves), *worlds)
    sums = jax.jit(jax.vmap(lambda one: clipped_sum(problem, params, one, CLIP, order)))(many)
    before, gone, *after = [jax.tree.map(lambda leaf, at=at: leaf[at], sums) for at in range(len(worlds))]
    for found, world in ((before, batch), (gone, worlds[1])):
        assert apart(found, by_hand(problem, params, world, order), order) <= 1e-4
    replaced, added = ([apart(first, one, order) for one in after] for first in (before, gone))
    assert 0 < max(replaced) <= REPLACE_ONE.reach * CLIP * ROUNDING
    assert 0 < max(added) <= ADD_OR_REMOVE_ONE.reach * CLIP * ROUNDING


@each_problem
def test_hostile_records_void_their_unit_and_padding_is_never_seen(problem: Problem) -> None:
    params, batch = params_of(problem), units_for(problem)
    assert batch.within is not None
    release = jax.jit(partial(clipped, problem))
    plain = release(params, batch, CLIP)
    there = jnp.arange(MOST)[None] < batch.within[:, None]
    for fill in (jnp.nan, jnp.inf, -1e30):
        other = batch._replace(x=jnp.where(there[:, :, None], batch.x, fill))
        assert apart(plain.total, release(params, other, CLIP).total) == 0.0
    at = UNITS - 1
    without = release(params, batch._replace(mask=batch.mask.at[at].set(0.0)), CLIP).total
    for bad in (jnp.nan, jnp.inf, -jnp.inf):
        hostile = batch._replace(x=batch.x.at[at, 1, 0].set(bad))
        assert apart(without, release(params, hostile, CLIP).total) <= 1e-6


def test_units_of_one_record_are_records() -> None:
    problem = PROBLEMS["softmax"]
    batch, params = units_for(problem), params_of(problem)
    single = batch._replace(x=batch.x[:, :1], y=batch.y[:, :1], within=jnp.ones(UNITS, jnp.int32))
    rows = Batch(batch.x[:, 0], batch.y[:, 0], batch.mask)
    release = jax.jit(partial(clipped_sum, problem))
    assert apart(release(params, single, CLIP), release(params, rows, CLIP)) <= 1e-5


def test_what_cancels_within_a_unit_pays_for_its_rounding() -> None:
    """A thousand times the features, in pairs that leave almost nothing: what is added stays within the clip norm."""
    problem = PROBLEMS["softmax"]
    rng = np.random.default_rng(3)
    base = rng.normal(size=(200, 1, DIM)) * 10.0 ** rng.uniform(0, 6, (200, 1, 1))
    x = (base * np.array([1.0, -1.0, 1.0, -1.0])[None, :, None]) * (
        1 + 1e-7 * rng.normal(size=(200, MOST, DIM))
    )
    y, within = np.zeros((200, MOST), np.int32), np.full(200, MOST, np.int32)
    alone = jax.jit(
        jax.vmap(
            lambda x, y, within: clipped_sum(
                problem, jnp.zeros((DIM, 3)), Batch(x[None], y[None], jnp.ones(1), within[None]), CLIP
            )
        )
    )(x.astype(np.float32), y, within)
    assert max(length(one) for one in np.asarray(alone)) <= CLIP * ROUNDING
