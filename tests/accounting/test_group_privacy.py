"""What k records of one person cost: against quadrature on explicit data sets, the library, and what is crude."""

import itertools
import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism as library
from scipy.stats import binom, norm

from coterie.accounting import certify, groups
from coterie.errors import InputError

GAUSSIAN = dp.GaussianDpEvent(2.0)
RELEASES = {
    "full batch": (dp.SelfComposedDpEvent(dp.GaussianDpEvent(20.0), 10), "replace_one"),
    "Laplace": (dp.SelfComposedDpEvent(dp.LaplaceDpEvent(30.0), 5), "replace_one"),
    "answers": (dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.9, 3), 4), "replace_one"),
    "Poisson": (dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, GAUSSIAN), 20), "add_or_remove_one"),
    "Poisson, replaced": (
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, GAUSSIAN), 20),
        "replace_one",
    ),
    "Laplace, sampled": (dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(3.0)), "add_or_remove_one"),
    "fixed size": (
        dp.SelfComposedDpEvent(dp.SampledWithoutReplacementDpEvent(100, 5, GAUSSIAN), 20),
        "replace_one",
    ),
    "capped": (
        dp.SelfComposedDpEvent(dp.TruncatedSubsampledGaussianDpEvent(100, 0.05, 9, 2.0), 20),
        "add_or_remove_one",
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_one_record_is_the_certificate_and_more_cost_more(name):
    event, relation = RELEASES[name]
    alone = certify(event, delta=1e-5, relation=relation)
    assert certify(event, delta=1e-5, relation=relation, group=1) == alone
    found = [alone, *(certify(event, delta=1e-5, relation=relation, group=many) for many in (2, 3))]
    epsilons = [one.epsilon for one in found]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < epsilons[1]
    assert all(one.epsilon_optimistic <= one.epsilon for one in found)
    assert found[1].unit == "2 records of one person"


@pytest.mark.parametrize("name", ["answers", "Poisson, replaced", "fixed size"])
def test_no_group_pays_the_crude_bound(name):
    event, relation = RELEASES[name]
    many, delta, epsilon = 3, 1e-5, 0.0
    for _ in range(5):  # from below to where kε holds at δ (1 + e^ε + … + e^{(k−1)ε})
        share = delta / math.fsum(math.exp(step * epsilon) for step in range(many))
        epsilon = certify(event, delta=share, relation=relation).epsilon
    assert certify(event, delta=delta, relation=relation, group=many).epsilon <= 1.01 * many * epsilon


def test_full_batches_are_exact():
    event, _ = RELEASES["full batch"]
    found = certify(event, delta=1e-5, group=5)
    assert found.epsilon == pytest.approx(dp.get_epsilon_gaussian(20 / (2 * 5 * math.sqrt(10)), 1e-5))
    assert found.accountant == "exact Gaussian"
    assert found.epsilon == found.epsilon_optimistic


@pytest.mark.parametrize("way", ["add", "remove"])
def test_poisson_samples_are_the_librarys_mixture(way):
    many, rate, noise = 4, 0.1, 1.3
    theirs = library.MixtureGaussianPrivacyLoss(
        noise,
        list(range(many + 1)),
        list(binom.pmf(range(many + 1), many, rate)),
        adjacency_type=library.AdjacencyType[way.upper()],
    )
    event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    (ours,) = groups.directions(groups.Grouped(event, many), (way,))
    epsilons = np.array([-0.4, -0.1, 0.0, 0.05, 0.3, 1.0, 4.0])
    np.testing.assert_allclose(ours.delta(epsilons), theirs.get_delta_for_epsilon(epsilons), atol=1e-12)


X = np.linspace(-16.0, 16.0, 8_001)


def released(values, samples, noise):
    """The density of a noisy sum over one of the samples, each with its probability."""
    return sum(chance * norm.pdf(X, values[list(drawn)].sum(), noise) for drawn, chance in samples)


def subsets(size):
    return [drawn for many in range(size + 1) for drawn in itertools.combinations(range(size), many)]


def poisson(size, rate):
    return [(drawn, rate ** len(drawn) * (1 - rate) ** (size - len(drawn))) for drawn in subsets(size)]


def fixed(size, batch):
    return [(drawn, 1 / math.comb(size, batch)) for drawn in itertools.combinations(range(size), batch)]


def capped(size, rate, cap):
    found = []
    for drawn, chance in poisson(size, rate):
        kept = list(itertools.combinations(drawn, min(cap, len(drawn))))
        found += [(one, chance / len(kept)) for one in kept]
    return found


def divergence(p, q, alpha):
    return float(np.trapezoid(np.maximum(p - alpha * q, 0.0), X))


SAMPLED = {
    "Poisson": (lambda n: poisson(n, 0.3), lambda n, z: dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(z))),
    "fixed": (
        lambda n: fixed(n, 2),
        lambda n, z: dp.SampledWithoutReplacementDpEvent(n, 2, dp.GaussianDpEvent(z)),
    ),
    "capped": (lambda n: capped(n, 0.3, 2), lambda n, z: dp.TruncatedSubsampledGaussianDpEvent(n, 0.3, 2, z)),
}
EPSILONS = np.array([-1.0, -0.2, 0.0, 0.1, 0.5, 1.5])


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("seed", range(6))
def test_no_explicit_data_sets_tell_more_than_the_profile_when_records_are_replaced(name, seed):
    rng, size, many, noise = np.random.default_rng(seed), 5, 2 + seed % 2, 1.0
    samples, event = SAMPLED[name]
    profile = groups.directions(groups.Grouped(event(size, noise), many), ("replace",))[0]
    one = rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)], size)
    if seed == 0:  # as far apart as can be
        one = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    other = np.concatenate([-one[:many], one[many:]])
    p, q = (released(values, samples(size), noise) for values in (one, other))
    allowed = profile.delta(EPSILONS)
    for epsilon, most in zip(EPSILONS, allowed):
        for pair in ((p, q), (q, p)):
            assert divergence(*pair, math.exp(epsilon)) <= most + 1e-9


@pytest.mark.parametrize("name", ["Poisson", "capped"])
@pytest.mark.parametrize("seed", range(4))
def test_no_explicit_data_sets_tell_more_than_the_profile_when_records_come_or_go(name, seed):
    rng, size, many, noise = np.random.default_rng(seed), 5, 2, 1.0
    samples, event = SAMPLED[name]
    remove, add = groups.directions(groups.Grouped(event(size, noise), many), ("remove", "add"))
    values = rng.choice([-1.0, 1.0], size) if seed else np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    whole, rest = (released(one, samples(len(one)), noise) for one in (values, values[many:]))
    for epsilon, taken, come in zip(EPSILONS, remove.delta(EPSILONS), add.delta(EPSILONS)):
        assert divergence(whole, rest, math.exp(epsilon)) <= taken + 1e-9
        assert divergence(rest, whole, math.exp(epsilon)) <= come + 1e-9


@pytest.mark.parametrize("name", ["Poisson, replaced", "fixed size"])
def test_a_real_pair_of_data_sets_is_below_the_certificate_and_near_it(name):
    event, relation = RELEASES[name]
    found = certify(event, delta=1e-5, relation=relation, group=3)
    assert 0.5 * found.epsilon < found.epsilon_optimistic <= found.epsilon


def test_one_after_the_other_is_exact_for_gaussians():
    def curve(epsilons):
        return norm.cdf(0.25 - epsilons / 0.5) - np.exp(epsilons) * norm.cdf(-0.25 - epsilons / 0.5)

    alone, delta = dp.get_epsilon_gaussian(2.0, 1e-5), 1e-5
    for many in (2, 3, 5):
        exact = dp.get_epsilon_gaussian(2.0 / many, delta)
        found = groups.chained(curve, alone, many, delta)
        assert exact <= found <= 1.02 * exact + 0.01


def test_pure_losses_add_up():
    event = dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(3.0))
    alone = certify(event, delta=0.0, relation="add_or_remove_one").epsilon
    assert certify(event, delta=0.0, relation="add_or_remove_one", group=4).epsilon == pytest.approx(
        4 * alone
    )


def test_a_large_group_of_a_small_owner_is_everybody():
    event = dp.SampledWithoutReplacementDpEvent(6, 4, GAUSSIAN)
    found = [certify(event, delta=1e-5, group=many).epsilon for many in (3, 6, 60)]
    assert found[0] < found[1] == found[2]


@pytest.mark.parametrize("group", [0, -1, 1.5])
def test_a_group_is_a_number_of_records(group):
    with pytest.raises(InputError, match=r"group="):
        certify(GAUSSIAN, delta=1e-5, group=group)
