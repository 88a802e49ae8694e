"""Closed forms against one gradient a record; the objective; models."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.errors import InputError
from coterie.mechanisms.clipping import Order, clip_per_record
from coterie.problems.losses import logistic, one_vs_all, softmax, squared
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.penalties import l2, none
from coterie.problems.problem import Problem, clipped, clipped_sum, objective
from coterie.program import Batch

ROWS, DIM = 11, 6


def batch(problem: Problem, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.normal(size=(ROWS, DIM)), jnp.float32)
    y = jnp.asarray(rng.integers(0, problem.loss.outputs, ROWS), jnp.int32)
    if problem.loss.outputs == 1:
        y = jnp.asarray(rng.choice([-1.0, 1.0], ROWS), jnp.float32)
    return Batch(x, y, jnp.asarray([1.0] * 8 + [0.0] * 3, jnp.float32))


def by_hand(problem: Problem, params: object, rows: Batch, clip_norm: float, order: Order) -> object:
    """Autodiff of each record's loss, clipped one after the other in NumPy."""

    def record_loss(params: object, i: jax.Array) -> jax.Array:
        return problem.loss.value(problem.model.scores(params, rows.x[i][None]), rows.y[i][None])[0]

    total = jax.tree.map(np.zeros_like, params)
    gradients = jax.jit(jax.vmap(jax.grad(record_loss), (None, 0)))(params, jnp.arange(8))
    for i in range(8):
        gradient = jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), gradients)
        norm = np.linalg.norm(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)]), order)
        total = jax.tree.map(
            lambda t, g, n=norm: t + np.asarray(g) * min(1.0, clip_norm / n), total, gradient
        )
    return total


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (linear(DIM), logistic()),
        (linear(DIM, 3), one_vs_all(3)),
        (two_layer(DIM, 4, 3), softmax(3)),
        (two_layer(DIM, 4, 1, "relu"), squared()),
        (two_layer(DIM, 64, 3), softmax(3)),  # broad: multiplied the other way round
    ],
    ids=lambda value: value.name,
)
def test_closed_forms_equal_autodiff(model: Model, loss, order: Order) -> None:
    problem = Problem(model, loss, l2(0.5))  # the penalty must have no part in the sum
    rows = batch(problem)
    params = jax.tree.map(lambda leaf: leaf + 0.1, model.init(jax.random.key(2)))
    measure = jax.jit(lambda clip_norm: clipped(problem, params, rows, clip_norm, order))
    clip_norm = float(np.median(measure(1.0).norms[:8]))
    found = measure(clip_norm)
    expected = by_hand(problem, params, rows, clip_norm, order)
    assert float(found.norms[:8].min()) < clip_norm < float(found.norms[:8].max())  # some clipped, some not
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found.total, expected)


@pytest.mark.parametrize("microbatch", [1, 4, 64])
def test_micro_batches_do_not_change_the_sum(microbatch: int) -> None:
    """A model without a closed form: any memory bound gives the same answer."""
    closed = two_layer(DIM, 4, 3)
    problem = Problem(closed._replace(factors=None), softmax(3), none(), microbatch)
    rows, params = batch(problem), closed.init(jax.random.key(0))
    found = jax.jit(lambda p: clipped(problem, p, rows, 0.5))(params)
    expected = jax.jit(lambda p: clipped(problem._replace(model=closed), p, rows, 0.5))(params)
    np.testing.assert_allclose(found.norms, expected.norms, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found.total, expected.total)


def test_per_record_gradients_see_one_record_each() -> None:
    seen = clip_per_record(
        lambda x, y: x.sum() * y,
        Batch(jnp.ones((3, 2)), jnp.arange(3.0), jnp.ones(3)),
        3.0,
    )
    assert float(seen.total) == pytest.approx(0 + 2 + 3)  # the last is clipped from 4


def test_objective_is_the_mean_over_real_rows_plus_the_penalty() -> None:
    problem = Problem(linear(DIM), logistic(), l2(0.5))
    rows = batch(problem)
    params = jnp.full((DIM, 1), 0.2)
    losses = np.asarray(problem.loss.value(rows.x @ params, rows.y))[:8]
    assert float(objective(problem, params, rows)) == pytest.approx(
        losses.mean() + 0.25 * DIM * 0.04, rel=1e-5
    )
    padded = rows._replace(x=rows.x.at[9].set(jnp.nan))
    assert float(objective(problem, params, padded)) == float(objective(problem, params, rows))


def test_sum_with_huge_clip_norm_is_the_gradient_of_the_objective() -> None:
    problem = Problem(two_layer(DIM, 4, 3), softmax(3), none())
    rows, params = batch(problem), problem.model.init(jax.random.key(3))
    expected = jax.jit(jax.grad(lambda p: 8.0 * objective(problem, p, rows)))(params)
    found = jax.jit(lambda p: clipped_sum(problem, p, rows, 1e6))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), found, expected)


def test_models_start_as_documented() -> None:
    assert not linear(3, 2).init(jax.random.key(0)).any()
    assert linear(3, 2) is linear(3, 2)
    params = two_layer(784, 128, 10).init(jax.random.key(0))
    limit = np.sqrt(6 / (784 + 128))  # Xavier: uniform up to here
    assert 0.99 * limit < float(jnp.abs(params["w1"]).max()) <= limit
    assert two_layer(4, 3, 2).scores(
        two_layer(4, 3, 2).init(jax.random.key(0)), jnp.ones((5, 2, 2))
    ).shape == (5, 2)
    with pytest.raises(InputError, match="activation='sign'"):
        two_layer(4, 3, 2, "sign")


@pytest.mark.parametrize("microbatch", [1, 3, 7, 10, None])
def test_parts_of_a_closed_form_are_the_whole(microbatch: int | None) -> None:
    """Ten records in parts that do and do not divide them; the last part overlaps, and counts nothing twice."""
    problem = Problem(two_layer(4, 3, 2), softmax(2), none(), microbatch)
    params = problem.model.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((10, 4)).astype(np.float32), rng.integers(0, 2, 10).astype(np.int32)
    rows = Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray([1.0] * 8 + [0.0] * 2))
    found = jax.jit(lambda p: clipped(problem, p, rows, 0.3))(params)
    expected = jax.jit(lambda p: clipped(problem._replace(microbatch=10), p, rows, 0.3))(params)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), found, expected)


def test_memory_is_bounded_by_the_parts() -> None:
    """What a compiled closed form holds beside its arguments follows the setting, not the batch."""
    rows = 20_000
    like = jax.ShapeDtypeStruct
    batch = Batch(like((rows, 50), jnp.float32), like((rows,), jnp.int32), like((rows,), jnp.float32))

    def held(microbatch: int) -> int:
        problem = Problem(two_layer(50, 64, 10), softmax(10), none(), microbatch)
        params = jax.eval_shape(problem.model.init, jax.random.key(0))
        lowered = jax.jit(lambda p, b: clipped_sum(problem, p, b, 1.0)).lower(params, batch)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    assert held(100) < 1e6 < 5e6 < held(rows)
