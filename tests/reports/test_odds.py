"""What (ε, δ) says about a suspicion: no mechanism that keeps it does worse, and the worst ones do as badly."""

import math
from itertools import chain, combinations
from statistics import NormalDist

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.accounting import certify
from coterie.reports.odds import in_hundred, of_replacing, one_in, right_accusations, suspicion

PHI = NormalDist().cdf
PRIORS = (0.001, 0.1, 0.5, 0.9)
priors = st.floats(1e-6, 1 - 1e-6)
epsilons = st.floats(0, 50)
deltas = st.floats(0, 1)


def exceptions(prior: float, epsilon: float, alarm: float, false_alarm: float) -> float:
    """Of those of whom the suspicion is true, the share of right accusations beyond what `suspicion` allows."""
    right, wrong = prior * alarm, (1 - prior) * false_alarm
    share = suspicion(prior, epsilon)
    return (right - share / (1 - share) * wrong) / prior


def assert_kept(prior, epsilon, delta, alarm, false_alarm):
    assert exceptions(prior, epsilon, alarm, false_alarm) <= delta + 1e-12
    right, wrong = prior * alarm, (1 - prior) * false_alarm
    if right + wrong:
        bound = right_accusations(prior, epsilon, delta, right + wrong)
        assert right / (right + wrong) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.5, 0.0), (1.0, 1e-5), (4.0, 0.03)])
def test_randomised_response_attains_it_and_no_event_exceeds_it(prior, epsilon, delta):
    """With probability δ the truth is published, else it is told apart by e^ε: no (ε, δ)-private pair tells more."""
    tells, lies = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    outcomes = [
        (delta, 0.0),
        (0.0, delta),
        (tells, lies),
        (lies, tells),
    ]  # probabilities if guilty, if innocent
    events = chain.from_iterable(combinations(outcomes, size) for size in range(5))
    worst = 0.0
    for event in events:
        alarm, false_alarm = (min(1.0, sum(one[at] for one in event)) for at in (0, 1))
        assert_kept(prior, epsilon, delta, alarm, false_alarm)
        worst = max(worst, exceptions(prior, epsilon, alarm, false_alarm))
    assert worst == pytest.approx(delta, abs=1e-12)
    accused = prior * (delta + tells) + (1 - prior) * lies
    assert prior * (delta + tells) / accused == pytest.approx(
        right_accusations(prior, epsilon, delta, accused)
    )


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("multiplier", "delta"), [(0.5, 1e-2), (1.0, 1e-3), (4.0, 1e-5)])
def test_a_gaussian_at_its_certificate_attains_it(prior, multiplier, delta):
    """Accusing beyond any threshold; the best one, where likelihoods differ by e^ε, leaves just δ of exceptions."""
    epsilon = certify(dp.GaussianDpEvent(multiplier), delta=delta, relation="add_or_remove_one").epsilon
    apart = 1 / multiplier
    best = epsilon / apart + apart / 2
    for threshold in (*np.linspace(-8, 8, 161), best):
        assert_kept(prior, epsilon, delta, PHI(apart - threshold), PHI(-threshold))
    assert exceptions(prior, epsilon, PHI(apart - best), PHI(-best)) == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_record_put_in_anothers_place_costs_two_changes(prior):
    """Laplace noise around -1, 0 (no record) and 1: the ends are e^(2 ε) apart, and no more."""
    epsilon = 0.7
    twice, nothing = of_replacing(epsilon, 0.0, "add_or_remove_one")
    for threshold in np.linspace(1, 5, 9):
        alarm, false_alarm = (math.exp(-epsilon * (threshold - mean)) / 2 for mean in (1, -1))
        assert_kept(prior, twice, nothing, alarm, false_alarm)
        assert exceptions(prior, twice, alarm, false_alarm) == pytest.approx(0, abs=1e-12)
        assert exceptions(prior, epsilon, alarm, false_alarm) > 0.001


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_two_changes_of_a_gaussian_are_within_what_is_said_of_them(delta):
    epsilon = certify(dp.GaussianDpEvent(1.0), delta=delta, relation="add_or_remove_one").epsilon
    twice, more = of_replacing(epsilon, delta, "add_or_remove_one")
    assert of_replacing(epsilon, delta, "replace_one") == (epsilon, delta)
    for threshold in np.linspace(-8, 8, 161):
        assert_kept(0.1, twice, more, PHI(1 - threshold), PHI(-1 - threshold))


@given(priors, priors, epsilons, epsilons)
def test_a_suspicion_grows_with_itself_and_with_epsilon(prior, other, epsilon, more):
    assert prior * (1 - 1e-9) <= suspicion(prior, epsilon) <= suspicion(prior, epsilon + more) <= 1
    assert suspicion(min(prior, other), epsilon) <= suspicion(max(prior, other), epsilon)


@given(priors, priors, epsilons, epsilons, deltas, deltas, st.floats(1e-6, 1))
def test_right_accusations_grow_with_suspicion_epsilon_and_delta(
    prior, other, epsilon, more, delta, large, accused
):
    low, high = sorted((delta, large))
    before = right_accusations(min(prior, other), epsilon, low, accused)
    after = right_accusations(max(prior, other), epsilon + more, high, accused)
    assert 0 <= before <= after * (1 + 1e-9)
    assert after <= 1


@given(epsilons, deltas)
def test_replacing_never_costs_less_than_removing(epsilon, delta):
    twice, more = of_replacing(epsilon, delta, "add_or_remove_one")
    assert twice >= epsilon
    assert delta <= more <= 1


def test_an_infinite_epsilon_makes_certain():
    assert suspicion(0.001, math.inf) == 1.0
    assert suspicion(0.1, -1e9) == pytest.approx(0.1)  # a file may say anything
    assert one_in(5e-324) == "1 in 1,000,000,000,000,000"
    assert of_replacing(math.inf, 1e-5, "add_or_remove_one") == (math.inf, 1.0)
    assert of_replacing(1000.0, 0.0, "add_or_remove_one") == (2000.0, 0.0)


@given(st.floats(1e-12, 1))
def test_a_share_is_never_said_to_be_smaller_than_it_is(share):
    one, of = (float(part.replace(",", "")) for part in one_in(share).split(" in "))
    assert share * (1 - 2e-9) <= one / of <= share * 1.12 + 0.01
    assert int(in_hundred(share).split()[0]) >= 100 * share * (1 - 1e-8)
