"""Gradients that are sums over many places: norms never too short, sums as formed, however the terms cancel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.mechanisms import places
from coterie.mechanisms.clipping import Clipped, Order, Outer, clip_outer
from coterie.mechanisms.places import Places
from coterie.relations import REPLACE_ONE

CLIP = 0.3
SHAPE = (6, 9, 40, 12)  # rows, places, fan in, fan out
each_type = pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])


def plain(dtype: jnp.dtype, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Places:
    rng = np.random.default_rng(seed)
    rows, pixels, fan_in, fan_out = shape
    inputs = np.maximum(rng.normal(size=(rows, pixels, fan_in)), 0) * np.logspace(-4, 2, rows)[:, None, None]
    return Places(*(jnp.asarray(one, dtype) for one in (inputs, rng.normal(size=(rows, pixels, fan_out)))))


def cancelling(dtype: jnp.dtype, size: float, rest: float, rows: int = 64) -> Places:
    """Places in threes whose slopes, small whole numbers, add up to nothing but for `rest` of some: G is short."""
    rng = np.random.default_rng(3)
    inputs = np.repeat(rng.normal(size=(rows, 8, 40)), 3, axis=1)
    first, second = rng.integers(-7, 8, (2, rows, 8, 12))
    slopes = np.stack([first, second, -first - second], axis=2).reshape(rows, 24, 12).astype(np.float64)
    slopes[:, 0] *= 1 + rest
    return Places(jnp.asarray(size * inputs, dtype), jnp.asarray(size * slopes, dtype))


def gradients(leaf: Places) -> np.ndarray:
    """In float64, of the very numbers."""
    return np.einsum("rti,rto->rio", *(np.asarray(one.astype(jnp.float32), np.float64) for one in leaf))


def lengths(tree: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(np.asarray(tree, np.float64)).sum(axis=(1, 2)))


clip = jax.jit(lambda leaf, mask: clip_outer(leaf, mask, CLIP))
alone = jax.jit(
    jax.vmap(lambda *leaf: clip_outer(Places(*(one[None] for one in leaf)), jnp.ones(1), CLIP).total)
)


@each_type
def test_the_sum_is_that_of_formed_gradients(dtype: jnp.dtype) -> None:
    leaf, mask = plain(dtype), jnp.asarray([1.0, 1, 1, 1, 1, 0])
    found, formed = clip(leaf, mask), gradients(leaf)
    factors = np.asarray(mask) * np.minimum(1, CLIP / lengths(formed))
    assert 0 < (factors[:5] == 1).sum() < 5  # some clipped, some not
    np.testing.assert_allclose(found.norms, lengths(formed), rtol=5e-4)
    expected = np.einsum("r,rio->io", factors, formed)
    np.testing.assert_allclose(found.total, expected, atol=5e-4 * np.abs(expected).max())


@each_type
@pytest.mark.parametrize("rest", [1.0, 0.5, 2.0**-7, 0.0])
@pytest.mark.parametrize("size", [2.0**-40, 1.0, 2.0**20])
def test_no_record_adds_more_than_the_clip_norm_however_its_places_cancel(
    dtype: jnp.dtype, rest: float, size: float
) -> None:
    leaf = cancelling(dtype, size, rest)
    assert (np.asarray(clip(leaf, jnp.ones(64)).norms) >= lengths(gradients(leaf))).all()
    assert lengths(alone(*leaf)).max() <= CLIP * (1 + 1e-6)


@each_type
def test_rounded_slopes_are_paid_for(dtype: jnp.dtype) -> None:
    """One number a gradient: there is nothing else that could round."""
    rng = np.random.default_rng(0)
    leaf = Places(*(jnp.asarray(rng.uniform(1, 9, (500, 1, 1)), dtype) for _ in range(2)))
    assert 0.999 * CLIP < lengths(alone(*leaf)).max() <= np.float32(CLIP)


def test_the_bare_identity_would_be_taken_apart() -> None:
    """What the raised norm is for: without it the square is below zero for some, and long gradients go unclipped."""
    leaf = cancelling(jnp.float32, 1e4, 2.0**-12)
    left, right = (np.einsum("rti,rui->rtu", one, one, dtype=np.float32) for one in map(np.asarray, leaf))
    square = (left * right).reshape(64, -1).sum(axis=1, dtype=np.float32)
    true = lengths(gradients(leaf))
    assert (true / np.sqrt(np.maximum(square, 1e-30))).max() > 1.5
    assert (np.asarray(clip(leaf, jnp.ones(64)).norms) >= true).all()
    assert lengths(alone(*leaf)).max() <= CLIP


@each_type
def test_replacing_a_record_moves_the_sum_by_no_more_than_declared(dtype: jnp.dtype) -> None:
    leaf, mask = plain(dtype), jnp.ones(SHAPE[0])
    before = np.asarray(clip(leaf, mask).total, np.float64)
    others = [Places(leaf.inputs, -leaf.slopes), cancelling(dtype, 1e5, 0.25, SHAPE[0])]
    changes = []
    for scale in (1e30, 1e-30, np.nan, np.inf):
        others.append(Places(leaf.inputs, leaf.slopes * jnp.asarray(scale, dtype)))
    for other in others:
        inputs, slopes = (one[:, : SHAPE[1]] for one in other)
        replaced = Places(leaf.inputs.at[0].set(inputs[0]), leaf.slopes.at[0].set(slopes[0]))
        changes.append(float(np.linalg.norm(before - np.asarray(clip(replaced, mask).total, np.float64))))
    assert 0.9 * CLIP < max(changes) <= REPLACE_ONE.reach * CLIP * (1 + 1e-5)
    assert not np.isnan(changes).any()


@each_type
def test_squares_that_vanish_or_overflow_do_not_break_the_bound(dtype: jnp.dtype) -> None:
    """Tiny inputs with huge slopes, and the other way round: no square of the tiny ones is a float32 number."""
    for inputs, slopes in ((1e-21, 1e18), (1e18, 1e-21), (1e-25, 1e25), (1e25, 1e-25)):
        leaf = Places(jnp.full((1, 400, 50), inputs, dtype), jnp.full((1, 400, 30), slopes, dtype))
        assert lengths(gradients(leaf))[0] > 40 * CLIP
        assert lengths(np.asarray(clip(leaf, jnp.ones(1)).total)[None])[0] <= CLIP * (1 + 1e-5)


@each_type
def test_rows_with_no_number_contribute_zero(dtype: jnp.dtype) -> None:
    leaf = plain(dtype)
    slopes = leaf.slopes.at[1, 2, 3].set(jnp.nan).at[2].set(jnp.inf)
    inputs = leaf.inputs.at[3].set(float(jnp.finfo(dtype).max))  # what `finite` makes of NaN and infinity
    found = clip(Places(inputs, slopes), jnp.ones(SHAPE[0]))
    kept = jnp.asarray([1.0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(found.total, clip(leaf, kept).total)


@each_type
@pytest.mark.parametrize(("order", "careful"), [(1, False), (1, True), (2, True)])
def test_gradients_are_formed_where_they_must_be(dtype: jnp.dtype, order: Order, careful: bool) -> None:
    """For the 1-norm and for careful sums: the same as if they had been given."""
    leaf = plain(dtype)
    leaf = leaf._replace(inputs=leaf.inputs.reshape(*SHAPE[:2], 5, 8))  # the fan in has any shape

    def total(one: Places | Outer) -> Clipped:
        return clip_outer(one, jnp.ones(SHAPE[0]), CLIP, order, careful=careful)

    found, given = (total(one) for one in (leaf, Outer(None, places.formed(leaf))))
    assert found.total.shape == (5, 8, SHAPE[3])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, given)
    parts = places.formed(leaf).reshape(SHAPE[0], -1)
    np.testing.assert_allclose(found.norms, np.linalg.norm(parts, order, axis=1), rtol=1e-5)


def test_the_norm_is_of_the_rounded_slopes_even_where_a_compiler_could_skip_rounding() -> None:
    """Slopes computed in float32 and cast: XLA may drop a cast that is undone, and then norm and sum would differ."""
    inputs, wide = plain(jnp.bfloat16).inputs, jax.random.normal(jax.random.key(0), (*SHAPE[:2], SHAPE[3]))

    def total(wide: jax.Array, cast: bool) -> Clipped:
        slopes = (jnp.sin(wide) * 3.0).astype(jnp.bfloat16) if cast else wide
        return clip_outer(Places(inputs, slopes), jnp.ones(SHAPE[0]), CLIP)

    rounded = jax.jit(lambda wide: (jnp.sin(wide) * 3.0).astype(jnp.bfloat16))(wide)
    found, given = jax.jit(lambda w: total(w, True))(wide), jax.jit(lambda w: total(w, False))(rounded)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), found, given)
