"""The profiles that dp-accounting lacks, against quadrature and against the library's related ones."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.pld import privacy_loss_mechanism as losses
from scipy.stats import norm

from coterie.accounting import profiles


def quadrature(alpha, rate, mu, swap):
    """∫ (p − α q)₊ on a fine grid."""
    x = np.linspace(-12, mu + 12, 400_001)
    q = norm.pdf(x)
    mix = (1 - rate) * q + rate * norm.pdf(x - mu)
    p, q = (q, mix) if swap else (mix, q)
    return np.trapezoid(np.maximum(p - alpha * q, 0), x)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.7, 2.0, 10.0])
def test_glued_profile_is_the_right_pair_on_each_side_of_one(rate, noise):
    epsilons = np.array([-2.0, -0.5, -0.01, 0.0, 0.01, 0.5, 2.0])
    expected = [quadrature(math.exp(e), rate, 2 / noise, swap=e < 0) for e in epsilons]
    np.testing.assert_allclose(profiles.fixed_size(noise, rate).delta(epsilons), expected, atol=1e-7)


@pytest.mark.parametrize(("noise", "rate"), [(0.09, 1 / 20_000), (0.04, 1 / 2500), (1e-3, 0.5)])
def test_glued_profile_stays_finite_and_falls_where_exponentials_overflow(noise, rate):
    profile = profiles.fixed_size(noise, rate)
    deltas = profile.delta(np.linspace(profile.lower, profile.upper, 10_001))
    assert np.all(np.isfinite(deltas))
    assert np.all(np.diff(deltas) <= 1e-12)
    assert deltas[-1] < 1e-20
    assert deltas[-1] >= 0


def single_direction(noise, rate, way, steps, delta, step):
    kind = losses.AdjacencyType[way]
    loss = losses.GaussianPrivacyLoss(noise, sensitivity=2, sampling_prob=rate, adjacency_type=kind)
    bounds = loss.connect_dots_bounds()
    pair = profiles.Profile(
        bounds.epsilon_lower, bounds.epsilon_upper, loss.get_delta_for_epsilon, lambda e: (e, e)
    )
    return profiles.above(pair, step).self_compose(steps).get_epsilon_for_delta(delta)


def test_neither_direction_alone_bounds_the_glued_profile():
    noise, rate, steps, delta, step = 2.0, 0.01, 2000, 0.01, 2e-3
    glued = profiles.above(profiles.fixed_size(noise, rate), step).self_compose(steps)
    both = [single_direction(noise, rate, way, steps, delta, step) for way in ("REMOVE", "ADD")]
    epsilon = glued.get_epsilon_for_delta(delta)
    assert 0.5 < epsilon < 3
    assert epsilon > 1.05 * max(both)


@pytest.mark.parametrize("way", ["remove", "add", "replace"])
def test_replace_outcomes_and_library_profiles_agree(way):
    epsilons = np.array([-3.0, -0.3, -1e-4, 0.0, 1e-4, 0.3, 3.0])
    loss = losses.GaussianPrivacyLoss(
        0.8, sampling_prob=0.05, adjacency_type=losses.AdjacencyType[way.upper()]
    )
    ours = profiles.gaussian(0.8, way, 0.05)
    np.testing.assert_allclose(ours.delta(epsilons), loss.get_delta_for_epsilon(epsilons), atol=1e-14)
    upper, lower = ours.tails(epsilons)
    np.testing.assert_allclose(upper - np.exp(epsilons) * lower, ours.delta(epsilons), atol=1e-12)


@pytest.mark.parametrize("way", ["remove", "replace"])
def test_truncated_profile_is_the_librarys(way):
    relation = {"remove": library.NeighborRel.ADD_OR_REMOVE_ONE, "replace": library.NeighborRel.REPLACE_ONE}
    theirs = library.from_truncated_subsampled_gaussian_mechanism(
        300, 0.02, 9, 1.0, value_discretization_interval=1e-3, neighboring_relation=relation[way]
    ).self_compose(20)
    ours = profiles.above(profiles.truncated(1.0, way, 0.02, 9, 300), 1e-3).self_compose(20)
    assert ours.get_epsilon_for_delta(1e-4) == pytest.approx(theirs.get_epsilon_for_delta(1e-4), rel=1e-3)


@pytest.mark.parametrize("buckets", [2, 5])
def test_randomized_response_is_exact_on_one_answer(buckets):
    profile = profiles.randomized_response(0.1, buckets)
    truth, other = 0.9 + 0.1 / buckets, 0.1 / buckets
    assert profile.delta(np.array([0.0]))[0] == pytest.approx(truth - other)
    assert profile.delta(np.array([profile.upper]))[0] == pytest.approx(0, abs=1e-15)
    upper, lower = profile.tails(np.array([-50.0, 0.5]))
    np.testing.assert_allclose(upper, [1, truth])
    np.testing.assert_allclose(lower, [1, other])


@pytest.mark.parametrize("steps", [1, 30, 1000])
def test_both_ends_enclose_the_exact_gaussian(steps):
    from dp_accounting import get_epsilon_gaussian

    noise = 2.5 * math.sqrt(steps)
    profile = profiles.gaussian(noise, "replace")
    step = (profile.upper - profile.lower) / 16_000
    exact = get_epsilon_gaussian(1.25, 1e-6)
    over = profiles.above(profile, step).self_compose(steps).get_epsilon_for_delta(1e-6)
    under, origin = profiles.below(profile, step)
    lower = under.self_compose(steps).get_epsilon_for_delta(1e-6) + steps * origin
    assert lower <= exact <= over
    assert over == pytest.approx(exact, rel=1e-3)
    assert lower == pytest.approx(exact, rel=0.02)
