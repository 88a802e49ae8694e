"""A person at several owners: certificates against independent computations, and against explicit covariances."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import dp_accounting as dp
import numpy as np
import pytest
import worlds
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from coterie._rounding import upper
from coterie.accounting import certify, exposure
from coterie.accounting.persons import MOST_SETS, check_owners, of_events
from coterie.accounting.plans import certificates_of, person_of, person_told
from coterie.errors import InputError
from coterie.protocols import build
from coterie.relations import RELATIONS

DELTA = 1e-5


def balle_wang(mu: float, epsilon: float) -> float:
    """δ of a Gaussian that two data sets shift by μ standard deviations (Balle & Wang 2018, Theorem 8)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def by_events(events, owners, relation="replace_one", delta=DELTA) -> float:
    return of_events(events, owners, delta, relation, "public transcript", "record").epsilon


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("owners", [1, 2, 3])
def test_gaussian_owners_add_up_their_largest_squares(relation, owners):
    noises = [30.0, 8.0, 12.0, 9.0]
    events = [dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), 3) for z in noises]
    epsilon = by_events(events, owners, relation)
    reach = {"replace_one": 2.0, "add_or_remove_one": 1.0}[relation]
    mu = reach * math.sqrt(3 * sum(1 / z**2 for z in sorted(noises)[:owners]))
    assert balle_wang(mu, epsilon) == pytest.approx(DELTA, rel=1e-6)


@pytest.mark.parametrize(
    "each",
    [
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.5)), 20),
        dp.SelfComposedDpEvent(dp.LaplaceDpEvent(12.0), 20),
    ],
)
@pytest.mark.parametrize("owners", [2, 3])
def test_other_owners_cost_what_the_library_composes(each, owners):
    library = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for _ in range(owners):
        library.compose(each)
    found = by_events([each] * 4, owners, "add_or_remove_one")
    assert found == pytest.approx(library.get_epsilon(DELTA), rel=0.01)
    assert found > certify(each, delta=DELTA, relation="add_or_remove_one").epsilon


def sampled(rate: float, noise: float) -> dp.DpEvent:
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), 5)


def test_of_few_different_owners_every_set_is_tried():
    """Which two are worst does not follow from each one's own ε; no owner is taken twice."""
    events = [sampled(0.5, 3.0), sampled(0.01, 0.8), dp.LaplaceDpEvent(2.0)]
    pairs = [certify(dp.ComposedDpEvent(list(two)), delta=DELTA).epsilon for two in combinations(events, 2)]
    assert by_events(events, 2) == pytest.approx(max(pairs), rel=1e-9)
    twice = max(certify(dp.SelfComposedDpEvent(one, 2), delta=DELTA).epsilon for one in events)
    assert by_events(events, 2) < twice


@pytest.mark.parametrize(
    "make",
    [
        lambda at: sampled(0.1 + 0.01 * at, 3.0 + 0.1 * at),
        lambda at: dp.SelfComposedDpEvent(dp.LaplaceDpEvent(9.0 + at), 3 + at),
        lambda at: dp.SelfComposedDpEvent(
            dp.SampledWithoutReplacementDpEvent(20 + at, 3, dp.GaussianDpEvent(2.0 + at / 9)), 4
        ),
        lambda at: dp.SelfComposedDpEvent(
            dp.TruncatedSubsampledGaussianDpEvent(100 + 9 * at, 0.2, 30, 4 + at / 9), 3
        ),
        lambda at: dp.ComposedDpEvent(
            [dp.GaussianDpEvent(9.0 - at / 9), dp.RandomizedResponseDpEvent(0.9 - at / 90, 2)]
        ),
    ],
)
def test_of_many_different_owners_no_set_costs_more(make):
    events = [make(at) for at in range(10)]
    assert math.comb(len(events) + 1, 2) > MOST_SETS
    found = by_events(events, 2)
    some = [certify(dp.ComposedDpEvent([events[i], events[j]]), delta=DELTA).epsilon
            for i, j in ((0, 1), (0, 9), (8, 9), (4, 5))]  # fmt: skip
    assert max(some) <= found < math.inf


def test_what_is_not_private_stays_so():
    assert by_events([dp.GaussianDpEvent(9.0), dp.NonPrivateDpEvent()], 2) == math.inf


def test_so_many_owners_are_named():
    for wrong, words in ((0, ">= 1"), (5, "at most 4, as many as there are owners"), (1.5, "whole number")):
        with pytest.raises(InputError, match=f"owners_per_person={wrong}: must be.*{words}"):
            check_owners(wrong, 4)


def largest_form(own, pairs, away, reach, owners) -> float:
    """v' Σ⁻¹ v over all colluders, all sets of honest owners and all signs; a mask is noise far wider than others."""
    everyone, worst = range(len(own)), 0.0
    pairs = np.where(np.isinf(pairs), 1e7, pairs)
    for gone in combinations(everyone, away):
        honest = [one for one in everyone if one not in gone]
        between = pairs[np.ix_(honest, honest)]
        inverse = np.linalg.inv(np.diag(own[honest] + between.sum(axis=1)) - between)
        for known in combinations(range(len(honest)), owners):
            for signs in product((-1, 1), repeat=owners):
                v = np.zeros(len(honest))
                v[list(known)] = np.array(signs) * reach[honest][list(known)]
                worst = max(worst, float(v @ inverse @ v))
    return worst


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("owners", [1, 2, 3])
def test_shared_noise_shows_a_person_as_its_covariance_says(seed, owners):
    """Random graphs of pairs, some of them masks, with uneven noise and reach."""
    rng = np.random.default_rng(seed)
    drawn = np.triu(rng.choice([0.0, 0.5, 3.0, exposure.MASK], (6, 6), p=[0.4, 0.2, 0.2, 0.2]), 1)
    own, pairs, reach = rng.uniform(0.5, 2.0, 6), drawn + drawn.T, rng.uniform(0.2, 1.0, 6)
    found = exposure.together(own, pairs, 1, reach, owners)
    assert found == pytest.approx(largest_form(own, pairs, 1, reach, owners), rel=1e-4)
    alone = reach * np.sqrt(exposure.exposure(own, pairs, 1))
    assert found <= np.sort(alone)[-owners:].sum() ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("variance", [0.0, 2.5, exposure.MASK])
@pytest.mark.parametrize("away", [0, 2])
@pytest.mark.parametrize("owners", [1, 2, 3])
def test_where_everybody_shares_alike_there_is_a_closed_form(variance, away, owners):
    own, pairs = np.full(6, 1.7), exposure.complete(6, variance)
    reach = np.array([0.3, 0.9, 0.5, 0.8, 0.2, 0.7])
    found = exposure.together(own, pairs, away, reach, owners)
    assert found == pytest.approx(largest_form(own, pairs, away, reach, owners), rel=1e-4)


def test_too_many_sets_are_bound_by_the_sum_of_shifts(monkeypatch):
    own, pairs, reach = np.ones(8), exposure.circulant(8, 2, 3.0), np.linspace(0.5, 1.0, 8)
    exact = exposure.together(own, pairs, 1, reach, 2)
    monkeypatch.setattr(exposure, "MOST_SETS", 100)
    bound = exposure.together(own, pairs, 1, reach, 2)
    assert exact < bound <= 4 * exact


UNEVEN = (24, 9, 15, 20, 11)


def plan_of(name, settings, owners_per_person=1, epsilon=1.0, calibration="certified"):
    budgets = (epsilon,) * len(UNEVEN) if isinstance(epsilon, float) else epsilon
    task = worlds.task(UNEVEN, 3, epsilon=budgets, delta=DELTA)
    return build(name, replace(task, owners_per_person=owners_per_person), settings, calibration).plan


def mu_of(epsilon: float) -> float:
    return 1 / dp.get_sigma_gaussian(epsilon, DELTA)


@pytest.mark.parametrize("owners", [2, 3])
def test_a_masked_sum_is_shifted_by_all_at_once(owners):
    """Explicitly: the sum has the noise of those who are there and honest; each owner's record moves it by 2 a C."""
    plan = plan_of("dual_averaging", {"rounds": 4, "view": "masked"})
    masked, z = plan.masked, np.array(plan.noise_multiplier)
    assert masked is not None
    left = len(UNEVEN) - masked.absent - masked.colluding  # even shares: each adds variance one
    shift = 2 * np.sort(1 / z)[-owners:].sum()
    mu = shift * math.sqrt(plan.releases[0] / left)
    assert mu_of(person_of(plan, DELTA, owners).epsilon) == pytest.approx(mu, rel=1e-6)


def test_against_all_others_a_person_has_the_own_noise_of_its_owners():
    """Explicitly: all but two owners collude, who take their noise and masks off the sum."""
    plan = plan_of("dual_averaging", {"rounds": 4, "view": "masked"})
    z = np.array(plan.noise_multiplier)
    form = exposure.together(np.ones(5), exposure.complete(5), 3, 2 / z, 2)
    alone = person_of(replace(plan, charged=None), DELTA, 2)
    bound = 4 * np.sort(1 / z**2)[-2:].sum()
    assert form <= bound * (1 + 1e-9)  # equal where their records weigh the same
    assert mu_of(alone.epsilon) == pytest.approx(math.sqrt(plan.releases[0] * bound), rel=1e-6)


@pytest.mark.parametrize(
    "settings", [{"rounds": 4, "view": "shared"}, {"rounds": 4, "view": "shared", "degree": 2}]
)
def test_shared_noise_in_a_plan_is_its_covariance(settings):
    plan = plan_of("dual_averaging", settings)
    shared, reach = plan.shared, 2 / np.array(plan.noise_multiplier)
    assert shared is not None
    form = largest_form(np.ones(5), shared.variances(5), shared.colluding, reach, 2)
    mu = math.sqrt(plan.releases[0] * form)
    assert mu_of(person_of(plan, DELTA, 2).epsilon) == pytest.approx(mu, rel=1e-6)
    worst = max(one.epsilon for one in certificates_of(plan, DELTA))
    independent = dp.get_epsilon_gaussian(1 / (math.sqrt(2) * mu_of(worst)), DELTA)
    assert person_of(plan, DELTA, 2).epsilon > independent  # what others' noise hid of both is hidden once


def test_a_trusted_sum_is_shifted_by_all_at_once():
    plan = plan_of("weighted_erm", {"view": "aggregator", "steps": 3})
    assert plan.charged is not None
    mu = 2 * sum(1 / z for z in sorted(plan.charged)[:2]) * math.sqrt(3)
    assert mu_of(person_of(plan, DELTA, 2).epsilon) == pytest.approx(mu, rel=1e-6)


def test_sampled_masked_sums_cost_no_less_than_a_person_in_two_samples():
    """The mixture over who draws the person, by Monte Carlo's exact counterpart: one release in one dimension."""
    plan = replace(plan_of("dual_averaging", {"rounds": 1, "rate": 0.3, "view": "masked"}), releases=(1,) * 5)
    assert plan.charged is not None
    one, other = sorted(plan.charged)[:2]
    grid, found = np.linspace(-60, 60, 400_001), person_of(plan, DELTA, 2).epsilon
    rates = {0.0: 0.49, 1 / one: 0.21, 1 / other: 0.21, 1 / one + 1 / other: 0.09}
    p, q = (sum(w * norm.pdf(grid, side * at) for at, w in rates.items()) for side in (1, -1))
    delta = np.maximum(p - math.exp(found) * q, 0).sum() * (grid[1] - grid[0])
    assert delta <= DELTA


def test_a_person_at_one_owner_is_that_owners_unit():
    plan = plan_of("dual_averaging", {"rounds": 4}, epsilon=(0.5, 1.0, 2.0, 0.7, 1.5))
    worst = max(certificates_of(plan, DELTA), key=lambda one: one.epsilon)
    found = person_of(plan, DELTA, 1)
    assert (found.epsilon, found.unit, found.accountant) == (worst.epsilon, worst.unit, worst.accountant)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_page_has_what_a_budget_means_at_several_owners(epsilon):
    page = (Path(__file__).parents[2] / "docs" / "persons.md").read_text("utf-8")
    alone = dp.GaussianDpEvent(2 * dp.get_sigma_gaussian(epsilon, DELTA))
    own = [by_events([alone] * 3, owners) for owners in (2, 3)]
    masked = [by_events([dp.GaussianDpEvent(alone.noise_multiplier / owners)], 1) for owners in (2, 3)]
    assert f"| ε = {epsilon:g} | {' | '.join(map(upper, own + masked))} |" in page
    quiet = dp.get_epsilon_gaussian(math.sqrt(2) * dp.get_sigma_gaussian(1.0, DELTA), DELTA)
    assert f"ε ≤ {upper(quiet)}: noise is √2 times" in page


def test_reports_speak_of_two_owners_unless_more_are_promised():
    plan = plan_of("dual_averaging", {"rounds": 4})
    assert person_told(plan, DELTA, 1) == person_of(plan, DELTA, 2)
    assert person_told(plan, DELTA, 3) == person_of(plan, DELTA, 3)
    assert person_of(plan, DELTA, 2).unit == "record at each of up to 2 owners"
