"""The lower end of a certificate's error bar is a true lower bound: against exact values of a few compositions."""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism as losses
from scipy.special import ndtr
from scipy.stats import norm

from coterie.accounting import certify, profiles

CLOSE = 1e-9  # what the quadrature below may be wrong by


class Pair(NamedTuple):
    """Two distributions of a real number: their densities on a grid, and the profile of one release."""

    x: np.ndarray
    p: np.ndarray
    q: np.ndarray
    delta: Callable[[np.ndarray], np.ndarray]


def sampled_gaussian(rate: float, mu: float) -> Pair:
    """(1 − rate) N(0, 1) + rate N(μ, 1) against N(0, 1)."""
    x = np.linspace(-12, mu + 12, 3001)

    def delta(epsilon: np.ndarray) -> np.ndarray:
        odds = np.maximum(np.exp(epsilon) - (1 - rate), 0) / rate
        with np.errstate(divide="ignore"):
            cut = np.log(odds) / mu + mu / 2
        return (1 - rate) * ndtr(-cut) + rate * ndtr(mu - cut) - np.exp(epsilon) * ndtr(-cut)

    return Pair(x, (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - mu), norm.pdf(x), delta)


def laplace(distance: float) -> Pair:
    """Laplace noise of scale 1 around 0 against `distance`."""
    x = np.linspace(-30, 30 + distance, 60_001)

    def delta(epsilon: np.ndarray) -> np.ndarray:
        inside = 1 - np.exp((np.clip(epsilon, -distance, distance) - distance) / 2)
        return np.where(epsilon < -distance, -np.expm1(epsilon), inside)

    return Pair(x, np.exp(-np.abs(x)) / 2, np.exp(-np.abs(x - distance)) / 2, delta)


def exact(pair: Pair, times: int, epsilon: float) -> float:
    """δ at ε of 1, 2 or 3 releases: the mean, over the others' losses, of what the last one adds."""
    if times == 1:
        return float(pair.delta(np.array([epsilon]))[0])
    loss = np.log(pair.p / pair.q)
    if times == 2:
        return float(np.trapezoid(pair.p * pair.delta(epsilon - loss), pair.x))
    inner = [np.trapezoid(pair.p * pair.delta(epsilon - loss - one), pair.x) for one in loss[::4]]
    return float(np.trapezoid(pair.p[::4] * np.array(inner), pair.x[::4]))


FIXED = [(7, 1, 3.459), (7, 1, 0.8), (3, 2, 2.0), (40, 4, 1.0), (500, 5, 0.6), (2, 1, 5.0)]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(("size", "batch", "noise"), FIXED)
def test_fixed_size_samples(size, batch, noise, times):
    event = dp.SampledWithoutReplacementDpEvent(size, batch, dp.GaussianDpEvent(noise))
    pair = sampled_gaussian(batch / size, 2 / noise)
    for delta in (0.05, 1e-3):
        low = certify(dp.SelfComposedDpEvent(event, times), delta=delta).epsilon_optimistic
        assert low == 0 or exact(pair, times, low) >= delta - CLOSE


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(("rate", "noise"), [(0.5, 2.0), (0.02, 0.5), (0.9, 1.0), (1e-3, 0.3)])
def test_poisson_samples(rate, noise, times):
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), times)
    found = certify(event, delta=1e-3, relation="add_or_remove_one")
    low = found.epsilon_optimistic
    assert low == 0 or exact(sampled_gaussian(rate, 1 / noise), times, low) >= 1e-3 - CLOSE
    assert low >= 0.5 * found.epsilon  # it says something


@pytest.mark.parametrize("delta", [0.01, 1e-4, 1e-14])
@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_laplace_noise_also_where_delta_is_below_the_grids_resolution(noise, delta):
    """At δ = 1e-14 the certificate is the sum of the largest losses, which the truth is below."""
    found = certify(dp.SelfComposedDpEvent(dp.LaplaceDpEvent(noise), 2), delta=delta)
    truth = exact(laplace(2 / noise), 2, found.epsilon_optimistic)
    assert truth >= delta - (CLOSE if delta > 1e-9 else 0)
    assert 0.8 * found.epsilon <= found.epsilon_optimistic <= found.epsilon


@pytest.mark.parametrize(("noise", "buckets"), [(0.5, 2), (0.1, 2), (0.3, 4)])
def test_randomised_response(noise, buckets):
    other = noise / buckets
    p = np.array([1 - noise + other, other, (buckets - 2) * other])
    q = p[[1, 0, 2]]
    paths = list(itertools.product(range(3), repeat=4))
    with_, without = (np.array([math.prod(side[list(path)]) for path in paths]) for side in (p, q))
    event = dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(noise, buckets), 4)
    low = certify(event, delta=0.01).epsilon_optimistic
    assert np.maximum(with_ - np.exp(low) * without, 0).sum() >= 0.01 - CLOSE


def test_a_record_in_every_seventh_sample():
    """Hundred releases of one record of seven: above the exact value of the pair from ever finer grids, 2.069."""
    event = dp.SampledWithoutReplacementDpEvent(7, 1, dp.GaussianDpEvent(3.459))
    found = certify(dp.SelfComposedDpEvent(event, 100), delta=0.01)
    loss = losses.GaussianPrivacyLoss(
        3.459, sensitivity=2, sampling_prob=1 / 7, adjacency_type=losses.AdjacencyType.REMOVE
    )
    ends = loss.connect_dots_bounds()
    pair = profiles.Profile(
        ends.epsilon_lower, ends.epsilon_upper, loss.get_delta_for_epsilon, lambda e: (e, e)
    )
    above = profiles.above(pair, 1e-3).self_compose(100).get_epsilon_for_delta(0.01)
    assert above == pytest.approx(2.069, abs=0.002)
    assert 0.95 * above <= found.epsilon_optimistic <= above


@pytest.mark.parametrize("rate", [0.01, 1 / 7, 0.9])
def test_tails_of_a_fixed_size_sample_are_those_of_the_pair(rate):
    """Down to its least loss, ln(1 − rate), where half of all outcomes may lie."""
    least = math.log1p(-rate)
    epsilons = np.array([2 * least, least, 0.999 * least, 0.7 * least, 0.51 * least, 0.2 * least, 0.0, 1.0])
    upper, lower = profiles.fixed_size(1.5, rate).tails(epsilons)
    pair = sampled_gaussian(rate, 2 / 1.5)
    inside = np.log(pair.p / pair.q)[None] >= epsilons[:, None]
    np.testing.assert_allclose(upper, np.trapezoid(pair.p * inside, pair.x), atol=0.006)
    np.testing.assert_allclose(lower, np.trapezoid(pair.q * inside, pair.x), atol=0.006)
    np.testing.assert_allclose(upper - np.exp(epsilons) * lower, pair.delta(epsilons), atol=1e-12)
