"""One record's influence on a clipped sum, on explicit neighbours: within what is declared, and attained."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.mechanisms.clipping import Order, Outer, clip_outer, clip_per_record, upright
from coterie.mechanisms.sampling import Draw, FixedSize, FullBatch, OnePass, Poisson, Sampler
from coterie.problems.losses import Loss, hinge, huber, logistic, one_vs_all, softmax, squared, weighted
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clip_norm, clipped_sum
from coterie.program import Batch
from coterie.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE

LOSSES = [logistic(), hinge(), squared(), huber(0.5), softmax(3), one_vs_all(3)]
WEIGHTED = weighted(logistic(), 0.03, 1.0)
SAMPLERS = [FullBatch(), FixedSize(1), FixedSize(8), Poisson(0.4, 24), Poisson(0.4, 5), OnePass(8)]
ROWS, DIM = 24, 5
CLIP = 0.3
ROUNDING = 1 + 1e-5

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
each_and_weighted = pytest.mark.parametrize(
    "loss", [*LOSSES, WEIGHTED], ids=[*(loss.name for loss in LOSSES), "weighted"]
)
each_order = pytest.mark.parametrize("order", [1, 2])


@partial(jax.jit, static_argnames="order")
def clip_linear(x, slopes, mask, clip_norm, order: Order = 2):
    """The clipped sum of x_i slope_iᵀ: x (rows, dim), slopes (rows, outputs) -> (dim, outputs)."""
    return upright(clip_outer(Outer(x, slopes), mask, clip_norm, order)).total


def length(tree: object, order: Order) -> float:
    flat = np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])
    return float(np.linalg.norm(flat, order))


def difference(a: object, b: object, order: Order) -> float:
    return length(
        jax.tree.map(lambda x, y: np.asarray(x, np.float64) - np.asarray(y, np.float64), a, b), order
    )


def data(loss: Loss, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(ROWS, DIM)) * rng.choice([0.1, 1.0, 30.0], (ROWS, 1))).astype(np.float32)
    if loss.outputs > 1:
        return x, rng.integers(0, loss.outputs, ROWS).astype(np.int32)
    if loss.name in ("logistic", "hinge"):
        return x, rng.choice([-1.0, 1.0], ROWS).astype(np.float32)
    return x, rng.normal(size=ROWS).astype(np.float32)


def replaced(x: np.ndarray, at: int, row: np.ndarray | float) -> np.ndarray:
    other = x.copy()
    other[at] = row
    return other


@partial(jax.jit, static_argnums=0)
def _draw(sampler: Sampler, seed: int) -> Draw | None:
    return sampler.draw(jax.random.key(seed), ROWS, jnp.int32(ROWS), jnp.int32(0))


@lru_cache
def drawn(sampler: Sampler, seed: int) -> np.ndarray:
    """(rows,) how often each record is in the release that this key gives."""
    draw = _draw(sampler, seed)
    if draw is None:
        return np.ones(ROWS, np.float32)
    times = np.zeros(ROWS, np.float32)
    np.add.at(times, np.asarray(draw.positions), np.asarray(draw.mask))
    return times


@each_order
@each_and_weighted
def test_replacing_a_record_changes_the_sum_by_no_more_than_declared(loss: Loss, order: Order) -> None:
    """Same key, one drawn record replaced: also by huge, tiny, NaN and infinite ones."""
    problem = Problem(linear(DIM, loss.outputs), loss, none())
    params = jax.random.normal(jax.random.key(1), (DIM, loss.outputs))
    x, y = data(loss)
    release = jax.jit(
        jax.vmap(lambda x, mask: clipped_sum(problem, params, Batch(x, y, mask), CLIP, order), (0, None))
    )
    for sampler in SAMPLERS:
        for seed in range(2):
            times = drawn(sampler, seed)
            assert times.max() == 1  # the sensitivity argument needs a record to be in a release at most once
            at = int(times.argmax())
            others = (-x[at], x[at] * 1e30, x[at] * 1e-30, np.nan, np.inf, 3e38)
            before, *after = np.asarray(
                release(np.stack([x, *(replaced(x, at, row) for row in others)]), times)
            )
            changes = [difference(before, one, order) for one in after]
            assert 0 < max(changes) <= REPLACE_ONE.reach * CLIP * ROUNDING


@each_order
@each_and_weighted
def test_the_declared_change_is_attained(loss: Loss, order: Order) -> None:
    """A large record turned round moves the sum by twice the clip norm."""
    problem = Problem(linear(DIM, loss.outputs), loss, none())
    params = jnp.zeros((DIM, loss.outputs))
    y = jnp.zeros(1, jnp.int32) if loss.outputs > 1 else jnp.ones(1)
    x = jnp.full((1, DIM), 50.0)
    release = jax.jit(lambda x: clipped_sum(problem, params, Batch(x, y, jnp.ones(1)), CLIP, order))
    sums = [release(row) for row in (x, -x)]
    change = difference(*sums, order)
    assert 0.99 * REPLACE_ONE.reach * CLIP <= change <= REPLACE_ONE.reach * CLIP * ROUNDING
    assert 0.99 * ADD_OR_REMOVE_ONE.reach * CLIP <= length(sums[0], order) <= CLIP * ROUNDING


@pytest.mark.parametrize("model", [linear(DIM), two_layer(DIM, 4)], ids=lambda model: model.name)
def test_a_record_of_the_other_class_is_a_neighbour_too(model: Model) -> None:
    """Its weight goes from one end to the other, and the sum moves by no more; closed forms hold."""
    problem = Problem(model, WEIGHTED, none())
    params = model.init(jax.random.key(0))
    x, y = data(WEIGHTED)
    by_hand = Problem(model._replace(factors=None), WEIGHTED, none())
    release, plain = (
        jax.jit(lambda y, at, one=one: clipped_sum(one, at, Batch(x, y, jnp.ones(ROWS)), CLIP))
        for one in (problem, by_hand)
    )
    for scale in (0.1, 3.0):
        at = jax.tree.map(lambda leaf, scale=scale: leaf + scale, params)
        changes = [
            difference(release(y, at), release(replaced(y, row, -y[row]), at), 2) for row in range(ROWS)
        ]
        assert 0 < max(changes) <= REPLACE_ONE.reach * CLIP * ROUNDING
        assert difference(release(y, at), plain(y, at), 2) <= 1e-5


@each_order
def test_networks_keep_the_bound(order: Order) -> None:
    problem = Problem(two_layer(DIM, 4, 3), softmax(3), none())
    params = problem.model.init(jax.random.key(0))
    x, y = data(softmax(3))
    release = jax.jit(lambda x: clipped_sum(problem, params, Batch(x, y, jnp.ones(ROWS)), CLIP, order))
    for row in (-x[0], x[0] * 1e30, x[0] * 1e-30, np.nan, np.inf):
        assert (
            difference(release(x), release(replaced(x, 0, row)), order) <= REPLACE_ONE.reach * CLIP * ROUNDING
        )


@each_order
def test_hidden_underflow_does_not_break_the_bound(order: Order) -> None:
    """Features whose squares vanish in float32, with a slope that makes the gradient large all the same."""
    x, slopes, mask = jnp.full((1, 2000), 1e-20), jnp.full((1, 1), 1e19), jnp.ones(1)
    unclipped = np.asarray(x, np.float64).T @ np.asarray(slopes, np.float64)
    assert length(unclipped, order) > 4  # far above the clip norm
    assert length(clip_linear(x, slopes, mask, CLIP, order), order) <= CLIP * ROUNDING

    rows = Batch(x, slopes[:, 0], mask)
    release = jax.jit(lambda batch: clip_per_record(lambda x, y: x * y, batch, CLIP, order=order).total)
    per_record = release(rows)
    assert length(per_record, order) <= CLIP * ROUNDING


@each_order
def test_rows_with_no_number_contribute_zero_and_padding_is_never_read(order: Order) -> None:
    x, slopes = jnp.ones((4, 3)), jnp.ones((4, 2))
    x = x.at[1].set(jnp.nan).at[2].set(jnp.inf)
    slopes = slopes.at[3].set(jnp.nan)
    alone = clip_linear(x[:1], slopes[:1], jnp.ones(1), CLIP, order)
    np.testing.assert_array_equal(clip_linear(x, slopes, jnp.ones(4), CLIP, order), alone)
    np.testing.assert_array_equal(clip_linear(x, slopes, jnp.array([1.0, 0, 0, 0]), CLIP, order), alone)


@each_order
def test_records_with_no_number_contribute_zero_without_a_closed_form(order: Order) -> None:
    x = jnp.ones((4, 3)).at[1].set(jnp.nan).at[2].set(jnp.inf).at[3].set(3e38)
    rows = Batch(x, jnp.full(4, 2.0), jnp.ones(4))
    release = jax.jit(lambda batch: clip_per_record(lambda x, y: x * y, batch, CLIP, order=order).total)
    total = release(rows)
    assert length(total, order) == pytest.approx(CLIP, rel=1e-5)  # the first record's part alone


@each_order
@pytest.mark.parametrize("dim", [3, 2000])
def test_every_clipped_record_is_within_float_rounding_of_the_clip_norm(order: Order, dim: int) -> None:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(20, dim)) * 10.0 ** rng.uniform(-3, 8, (20, 1)), jnp.float32)
    slopes = jnp.asarray(rng.normal(size=(20, 3)) * 100, jnp.float32)
    each = jax.jit(jax.vmap(lambda x, s: clip_linear(x[None], s[None], jnp.ones(1), CLIP, order)))(x, slopes)
    for one, row, slope in zip(np.asarray(each), x, slopes, strict=True):
        whole = length(np.outer(row, slope), order)
        assert length(one, order) == pytest.approx(min(whole, CLIP), rel=1e-5)


def test_short_gradients_are_not_touched_and_the_clip_norm_may_be_traced() -> None:
    x, slopes = jnp.array([[0.1, 0.2], [0.0, 0.1]]), jnp.array([[0.5], [-1.0]])
    total = clip_linear(x, slopes, jnp.ones(2), jnp.float32(10.0))
    np.testing.assert_allclose(total, x.T @ slopes, rtol=1e-6)


@each_and_weighted
def test_bounded_features_make_clipping_idle(loss: Loss) -> None:
    """The gradient bound is safe for unit features, and no smaller one would be; without one, the clip norm is 1."""
    problem = Problem(linear(DIM, loss.outputs), loss, none())
    bound = clip_norm(problem, 1.0)
    assert clip_norm(Problem(two_layer(DIM, 2), loss, none()), 2.0) == 1.0
    if not np.isfinite(loss.lipschitz):
        assert bound == 1.0
        return
    x, y = data(loss)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    signs = np.float32([[1.0]] if loss.outputs == 1 else [[1.0, -1.0, -1.0]])
    params = -60.0 * np.sign(x[0])[:, None] * signs
    slopes = np.asarray(jax.jit(loss.slope)(x @ params, y))
    norms = np.linalg.norm(slopes, axis=1) * np.linalg.norm(x, axis=1)
    assert norms.max() <= bound * ROUNDING
    release = jax.jit(partial(clipped_sum, problem))
    total = release(params, Batch(x, y, np.ones(ROWS, np.float32)), bound * ROUNDING)
    np.testing.assert_allclose(total, x.T @ slopes, rtol=1e-4, atol=1e-5)
