"""The generator: the same bits as JAX's, numbers of the right law, independent over owners, rounds and streams."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from coterie.mechanisms import Gaussian, noise, normals

COUNT = 1 << 20
# Correct code fails a two-sided test at this many standard errors less than once in 10^7.
FAR = 5.4


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    return np.asarray(jax.jit(normals.normal, static_argnums=1)(jax.random.key(0), COUNT), np.float64)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 101, 4096])
def test_same_bits_and_numbers_as_jax(count: int) -> None:
    key = jax.random.key(count)
    with jax.threefry_partitionable(False):
        uniform = jax.random.uniform(key, (count,), jnp.float32, -1.0, 1.0)  # by its bits alone
        normal, laplace = (
            draw(key, (count,), jnp.float32) for draw in (jax.random.normal, jax.random.laplace)
        )
    assert np.array_equal(normals._uniform(key, count, np.float32(-1)), uniform)
    np.testing.assert_allclose(normals.normal(key, count), normal, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(normals.laplace(key, count), laplace, rtol=2e-5, atol=1e-6)


def test_quantile_over_its_whole_range() -> None:
    """Against double precision, at the ends of the range, around the seam of the polynomials, and at zero."""
    inner = np.linspace(-0.9999, 0.9999, 20_001)
    ends = 1 - 2.0 ** -np.arange(1, 23.5, 0.5)
    uniform = np.concatenate([inner, ends, -ends, [0.0, float(normals._LEAST)]]).astype(np.float32)
    found = np.asarray(normals._erfinv(jnp.asarray(uniform)), np.float64)
    np.testing.assert_allclose(found, special.erfinv(uniform.astype(np.float64)), rtol=3e-6, atol=1e-9)


def test_moments(drawn: np.ndarray) -> None:
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10395 - 225)):
        error = (np.mean(drawn**power) - mean) / np.sqrt(variance / COUNT)
        assert abs(error) < FAR, power


def test_law(drawn: np.ndarray) -> None:
    """Kolmogorov-Smirnov in the middle; counts beyond 3 and 4 for the tails, where privacy is decided."""
    assert stats.kstest(drawn, "norm").pvalue > 1e-7
    for bound in (3.0, 4.0):
        expected = COUNT * 2 * stats.norm.sf(bound)
        assert abs(np.sum(np.abs(drawn) > bound) - expected) < FAR * np.sqrt(expected) + 2
    laplace = np.asarray(normals.laplace(jax.random.key(1), COUNT), np.float64)
    assert stats.kstest(laplace, "laplace").pvalue > 1e-7


def test_a_wrong_scale_or_a_dropped_tail_is_noticed(drawn: np.ndarray) -> None:
    """The tests above have power: 2 % of scale, or numbers cut off at 3, would fail them."""
    assert stats.kstest(1.02 * drawn, "norm").pvalue < 1e-7
    assert abs(np.mean(np.clip(drawn, -3, 3) ** 4) - 3) / np.sqrt(96 / COUNT) > FAR


def test_owners_rounds_and_streams_are_independent() -> None:
    """No correlation between any two of 3 streams x 8 owners x 8 rounds, in value or in square."""
    size = 4096
    spec = noise.NoiseSpec(Gaussian(), jax.tree.structure(0), ((size,),))
    rows = []
    for stream in (noise.NOISE, noise.SAMPLING, noise.COINS):
        keys = noise.owner_keys(jnp.uint32(7), stream, 8)
        for step in range(1, 9):
            folded = jax.vmap(jax.random.fold_in, (0, None))(keys, step)
            rows.append(jax.vmap(lambda key: noise.unit_noise(spec, key))(folded))
    table = np.concatenate([np.asarray(row, np.float64) for row in rows])
    pairs = np.triu_indices(len(table), 1)
    for values in (table, table**2):
        found = np.corrcoef(values)[pairs] * np.sqrt(size)
        # 18,336 pairs: the largest of as many normals exceeds 7.5 less than once in 10^9; squares have wider tails.
        assert np.abs(found).max() < 7.5
        assert abs(np.std(found) - 1) < 0.05


def test_lags_within_a_draw(drawn: np.ndarray) -> None:
    """Neither neighbours, nor the two words of one hash (half the draw apart), are correlated."""
    for lag in (1, 2, 3, 16, COUNT // 2):
        for values in (drawn, drawn**2 - 1):
            product = values[lag:] * values[:-lag]
            assert abs(product.mean()) < FAR * product.std() / np.sqrt(len(product)), lag


def test_noise_is_a_function_of_key_owner_and_round() -> None:
    """An owner's noise of a round, drawn alone, is what it is among all owners and a block of rounds."""
    spec = noise.NoiseSpec(Gaussian(), jax.tree.structure(0), ((5, 3),))
    keys = noise.owner_keys(jnp.uint32(3), noise.NOISE, 6)

    def one(owner: int, step: int) -> jax.Array:
        return noise.unit_noise(spec, jax.random.fold_in(keys[owner], step))

    block = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (None, 0)))(jnp.arange(6), jnp.arange(1, 5))
    np.testing.assert_allclose(block[2, 4], one(4, 3), rtol=1e-6, atol=1e-7)


def test_words_do_not_depend_on_how_many_are_asked_for() -> None:
    key = jax.random.key(5)
    all_ = np.asarray(normals.words(key, 4097))
    for count in (1, 2, 7, 4096):
        assert np.array_equal(normals.words(key, count), all_[:count])
    assert len(np.unique(all_)) == len(all_)
    ones = np.unpackbits(all_.view(np.uint8)).mean()
    assert abs(ones - 0.5) < FAR * 0.5 / np.sqrt(32 * len(all_))
