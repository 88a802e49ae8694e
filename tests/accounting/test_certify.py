"""What a certificate must never get wrong: relation, composition, refusals, and what it says of itself."""

import json
import math

import dp_accounting as dp
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting import certify, event_from_json, event_to_json, recompute, warnings_of
from coterie.accounting.certifying import bound_of
from coterie.errors import InputError

RELATION = {
    "replace_one": dp.NeighboringRelation.REPLACE_ONE,
    "add_or_remove_one": dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
}
GAUSSIAN = dp.GaussianDpEvent(3.0)
FIXED = dp.SelfComposedDpEvent(dp.SampledWithoutReplacementDpEvent(500, 10, dp.GaussianDpEvent(1.5)), 50)
POISSON = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.5)), 50)
LAPLACE = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(40.0), 30)
CAPPED = dp.SelfComposedDpEvent(dp.TruncatedSubsampledGaussianDpEvent(500, 0.02, 20, 1.5), 50)
RESPONSE = dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.5, 2), 4)
EVERYTHING = dp.ComposedDpEvent([GAUSSIAN, FIXED, POISSON, LAPLACE, CAPPED, RESPONSE, dp.NoOpDpEvent()])


def epsilon(event, delta=1e-5, relation="replace_one"):
    return certify(event, delta=delta, relation=relation).epsilon


@pytest.mark.parametrize("relation", RELATION)
@pytest.mark.parametrize("event", [GAUSSIAN, POISSON, CAPPED, dp.ComposedDpEvent([POISSON, GAUSSIAN])])
def test_agrees_with_the_librarys_accountant(event, relation):
    accountant = PLDAccountant(RELATION[relation], value_discretization_interval=1e-3)
    accountant.compose(event)
    assert epsilon(event, relation=relation) == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)


@pytest.mark.parametrize("event", [LAPLACE, dp.PoissonSampledDpEvent(0.3, dp.LaplaceDpEvent(1.0))])
def test_laplace_agrees_with_the_librarys_accountant(event):
    accountant = PLDAccountant(RELATION["add_or_remove_one"])
    accountant.compose(event)
    found = epsilon(event, relation="add_or_remove_one")
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)


def test_replacing_is_adding_at_half_the_noise():
    halved = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(20.0), 30)
    assert epsilon(LAPLACE) == pytest.approx(epsilon(halved, relation="add_or_remove_one"))
    assert epsilon(GAUSSIAN) == pytest.approx(epsilon(dp.GaussianDpEvent(1.5), relation="add_or_remove_one"))


@pytest.mark.parametrize("noise", [1.0, 4.0, 20.0])
def test_rdp_agrees_on_a_gaussian_once_its_missing_relation_is_supplied(noise):
    # RdpAccountant reads a multiplier as σ/sensitivity whatever the relation; replace-one halves it by hand.
    accountant = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp.GaussianDpEvent(noise / 2))
    exact = epsilon(dp.GaussianDpEvent(noise))
    assert exact <= accountant.get_epsilon(1e-5) <= 1.15 * exact


def test_gaussians_combine_exactly():
    parts = dp.ComposedDpEvent([dp.SelfComposedDpEvent(dp.GaussianDpEvent(6.0), 2), dp.GaussianDpEvent(3.0)])
    assert epsilon(parts) == pytest.approx(epsilon(dp.GaussianDpEvent(1 / math.sqrt(1 / 18 + 1 / 9))))
    assert certify(parts, delta=1e-5).accountant == "exact Gaussian"


def test_pure_composition_where_it_is_smaller():
    event = dp.LaplaceDpEvent(4.0)
    found = certify(event, delta=1e-13)
    assert found.epsilon <= 0.5
    assert found.epsilon == pytest.approx(0.5, rel=1e-6)
    tiny = certify(event, delta=1e-20)
    assert (tiny.accountant, tiny.epsilon, tiny.reason) == ("pure composition", 0.5, "")


def test_sampling_everything_is_no_sampling():
    for whole in (
        dp.PoissonSampledDpEvent(1.0, GAUSSIAN),
        dp.SampledWithoutReplacementDpEvent(7, 7, GAUSSIAN),
    ):
        assert certify(whole, delta=1e-5).epsilon == epsilon(GAUSSIAN)
    nearly = dp.SampledWithoutReplacementDpEvent(100_000, 99_999, GAUSSIAN)
    assert epsilon(nearly) == pytest.approx(epsilon(GAUSSIAN), rel=0.01)


def test_nothing_costs_nothing():
    for event in (
        dp.NoOpDpEvent(),
        dp.ComposedDpEvent([]),
        dp.SelfComposedDpEvent(FIXED, 0),
        dp.PoissonSampledDpEvent(0.0, GAUSSIAN),
        dp.RandomizedResponseDpEvent(1.0, 4),
    ):
        assert epsilon(event) == 0


@pytest.mark.parametrize(
    "event",
    [
        dp.NonPrivateDpEvent(),
        dp.GaussianDpEvent(0.0),
        dp.RandomizedResponseDpEvent(0.0, 2),
        dp.ComposedDpEvent([GAUSSIAN, dp.SampledWithoutReplacementDpEvent(9, 1, dp.NonPrivateDpEvent())]),
    ],
)
def test_what_is_not_private_is_infinite_with_the_reason(event):
    found = certify(event, delta=1e-5)
    assert found.epsilon == math.inf
    assert "not private" in found.reason
    assert found.to_json()["epsilon"] == "inf"


def test_delta_below_floating_point_is_infinite_with_the_reason():
    found = certify(FIXED, delta=1e-15)
    assert found.epsilon == math.inf
    assert "resolution" in found.reason


@pytest.mark.parametrize(
    ("event", "relation", "named"),
    [
        (dp.UnsupportedDpEvent(), "replace_one", "UnsupportedDpEvent"),
        (dp.ZCDpEvent(0.1), "replace_one", "ZCDpEvent"),
        (dp.PoissonSampledDpEvent(0.1, POISSON), "replace_one", "SelfComposedDpEvent"),
        (dp.SampledWithoutReplacementDpEvent(9, 3, dp.LaplaceDpEvent(1.0)), "replace_one", "LaplaceDpEvent"),
        (dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)), "replace_one", "add_or_remove_one"),
        (FIXED, "add_or_remove_one", "replace_one"),
        (RESPONSE, "add_or_remove_one", "replace_one"),
        (dp.GaussianDpEvent(-1.0), "replace_one", "noise_multiplier=-1.0"),
        (dp.GaussianDpEvent(math.nan), "replace_one", "noise_multiplier=nan"),
        (dp.PoissonSampledDpEvent(1.5, GAUSSIAN), "replace_one", "1.5"),
        (dp.SampledWithoutReplacementDpEvent(3, 9, GAUSSIAN), "replace_one", "3.0"),
        (dp.SelfComposedDpEvent(GAUSSIAN, -1), "replace_one", "count=-1"),
        (GAUSSIAN, "replace_two", "replace_two"),
    ],
)
def test_refuses_and_names_what_it_cannot_certify(event, relation, named):
    with pytest.raises(InputError, match=named.replace(".", r"\.")) as caught:
        certify(event, delta=1e-5, relation=relation)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_refuses_delta_outside_the_unit_interval(delta):
    with pytest.raises(InputError, match="delta="):
        certify(GAUSSIAN, delta=delta)


def test_without_delta_laplace_costs_the_sum_of_its_largest_losses_exactly():
    """It was refused."""
    found = certify(dp.SelfComposedDpEvent(dp.LaplaceDpEvent(5.0), 10), delta=0.0)
    assert (found.epsilon, found.epsilon_optimistic, found.accountant) == (4.0, 4.0, "pure composition")
    sampled = dp.PoissonSampledDpEvent(0.5, dp.LaplaceDpEvent(1.0))
    expected = math.log(1 + (math.e - 1) / 2)
    assert certify(sampled, delta=0.0, relation="add_or_remove_one").epsilon == pytest.approx(expected)
    with pytest.raises(InputError, match="delta=0: no epsilon bounds Gaussian noise"):
        certify(dp.ComposedDpEvent([GAUSSIAN, dp.LaplaceDpEvent(5.0)]), delta=0.0)


def test_a_pure_sum_without_a_grid_claims_no_lower_end():
    """At δ > 0 the sum of largest losses is no lower bound; it was called one where no grid was computed."""
    hardly_any = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1e-6), 25)
    assert certify(hardly_any, delta=1e-5).epsilon_optimistic == 0


def test_more_releases_than_a_grid_holds_are_infinite_with_a_reason():
    """They were an error of the memory."""
    sampled = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1e9))
    found = certify(dp.SelfComposedDpEvent(sampled, 10**9), delta=1e-5)
    assert (found.epsilon, found.epsilon_optimistic) == (math.inf, 0.0)
    assert found.reason == "no grid here is long enough for 1,000,000,000 releases"


def test_warns_when_delta_allows_publishing_a_record():
    assert certify(GAUSSIAN, delta=1e-3, size=1000).warnings
    assert not certify(GAUSSIAN, delta=9e-4, size=1000).warnings
    assert not certify(GAUSSIAN, delta=0.5).warnings


def test_what_many_owners_certificates_warn_of_is_one_sentence():
    """A line for each size of an owner filled the terminal."""
    found = warnings_of([certify(GAUSSIAN, delta=1e-3, size=size) for size in (*range(1000, 1400), 999)])
    assert found == [
        "delta=0.001 is not below 1/n of 400 of 401 owners (n from 1000 to 1399): "
        "publishing one record in full would satisfy it."
    ]
    assert warnings_of([certify(GAUSSIAN, delta=1e-3, size=50)]) == []


def test_equal_events_are_computed_once():
    bound_of.cache_clear()
    for _ in range(20):
        certify(dp.SelfComposedDpEvent(FIXED, 2), delta=1e-5)
    assert (bound_of.cache_info().misses, bound_of.cache_info().hits) == (1, 19)


def test_round_trip_and_recomputation_through_text():
    found = certify(EVERYTHING, delta=1e-5, view="trusted aggregator", size=500)
    assert event_from_json(json.loads(json.dumps(event_to_json(EVERYTHING)))) == EVERYTHING
    again = recompute(json.loads(json.dumps(found.to_json())))
    assert again == found
    parts = (GAUSSIAN, FIXED, POISSON, LAPLACE, CAPPED, RESPONSE)
    assert max(map(epsilon, parts)) < again.epsilon < sum(map(epsilon, parts))


def test_losses_around_the_smallest_float_stay_finite():
    # e^−loss underflows at 745, where the library's own search for epsilon returns infinity.
    for noise in (0.48, 0.5, 0.52):
        whole = epsilon(dp.SelfComposedDpEvent(dp.GaussianDpEvent(noise), 132), 0.01)
        event = dp.SelfComposedDpEvent(
            dp.SampledWithoutReplacementDpEvent(4, 3, dp.GaussianDpEvent(noise)), 132
        )
        assert 0.4 * whole < epsilon(event, 0.01) < whole


def test_recomputation_trusts_no_number_of_the_original():
    forged = certify(GAUSSIAN, delta=1e-5).to_json() | {"epsilon": 0.1}
    assert recompute(forged).epsilon == epsilon(GAUSSIAN)
    with pytest.raises(InputError, match="event"):
        recompute({key: value for key, value in forged.items() if key != "event"})


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        {"type": "os.system"},
        {"type": "UnsupportedDpEvent"},
        {"type": ["GaussianDpEvent"]},
        {"type": "GaussianDpEvent"},
        {"type": "GaussianDpEvent", "noise_multiplier": "1"},
        {"type": "GaussianDpEvent", "noise_multiplier": math.nan},
        {"type": "GaussianDpEvent", "noise_multiplier": 10**400},
        {"type": "GaussianDpEvent", "noise_multiplier": True},
        {"type": "GaussianDpEvent", "noise_multiplier": 1.0, "extra": 1},
        {"type": "ComposedDpEvent", "events": 3},
        {"type": "SelfComposedDpEvent", "event": 3, "count": 1},
    ],
)
def test_refuses_json_that_is_no_event(obj):
    with pytest.raises(InputError):
        event_from_json(obj)


def test_refuses_json_nested_to_exhaust_the_stack():
    obj = {"type": "NoOpDpEvent"}
    for _ in range(5000):
        obj = {"type": "SelfComposedDpEvent", "event": obj, "count": 1}
    with pytest.raises(InputError, match="nested"):
        event_from_json(obj)


def test_refuses_to_write_an_unknown_event():
    with pytest.raises(InputError, match="ZCDpEvent"):
        event_to_json(dp.ComposedDpEvent([dp.ZCDpEvent(0.1)]))


noises = st.floats(0.3, 20)
rates = st.floats(0.001, 0.9)
counts = st.integers(1, 200)
deltas = st.floats(1e-8, 0.1)


def sampled(kind, rate, noise, count):
    inner = dp.GaussianDpEvent(noise)
    if kind == "poisson":
        return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, inner), count)
    return dp.SelfComposedDpEvent(
        dp.SampledWithoutReplacementDpEvent(1000, max(1, int(1000 * rate)), inner), count
    )


kinds = st.sampled_from(["poisson", "fixed"])
GRID = 1.006  # two values may stand still at different grids, half a per cent each


@settings(max_examples=8, deadline=None, derandomize=True)
@given(kinds, rates, noises, counts, deltas, st.floats(1.05, 3))
def test_more_noise_fewer_releases_and_larger_delta_cost_less(kind, rate, noise, count, delta, factor):
    cost = epsilon(sampled(kind, rate, noise, count), delta)
    assert epsilon(sampled(kind, rate, noise * factor, count), delta) <= cost * GRID
    assert epsilon(sampled(kind, rate, noise, max(1, int(count / factor))), delta) <= cost * GRID
    assert epsilon(sampled(kind, rate, noise, count), delta * factor) <= cost * GRID


@settings(max_examples=8, deadline=None, derandomize=True)
@given(rates, noises, counts, deltas)
def test_replacing_costs_at_least_adding_and_at_most_no_sampling(rate, noise, count, delta):
    event = sampled("poisson", rate, noise, count)
    whole = dp.SelfComposedDpEvent(dp.GaussianDpEvent(noise), count)
    cost = epsilon(event, delta)
    assert epsilon(event, delta, "add_or_remove_one") <= cost * GRID
    assert cost <= epsilon(whole, delta) * GRID


@settings(max_examples=8, deadline=None, derandomize=True)
@given(kinds, rates, noises, counts, deltas)
def test_optimistic_end_is_below_and_composition_subadditive(kind, rate, noise, count, delta):
    event = sampled(kind, rate, noise, count)
    one = certify(event, delta=delta)
    assert 0 <= one.epsilon_optimistic <= one.epsilon
    twice = epsilon(dp.SelfComposedDpEvent(event, 2), 2 * delta)
    assert twice <= 2 * one.epsilon * GRID + 1e-9


def _rare(rate, count):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(1.0)), count)


def _rare_laplace(noise, rate=0.5):
    return dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(noise))


@pytest.mark.parametrize(
    ("event", "least", "most"),
    [
        # what these tell is √count · rate · √(e − 1) together, as a Gaussian of that mean (central limit theorem)
        (_rare(1e-9, 10**8), 1.3e-5, math.inf),
        (_rare(1e-12, 10**9), 0.0, math.inf),
        (_rare(1e-300, 1), 0.0, 0.0),
        (_rare_laplace(1e-5), 1e5 - 1, 1e5),
        (_rare_laplace(1 / 699), 698, 699),
        (dp.GaussianDpEvent(1e-200), math.inf, math.inf),
        (dp.GaussianDpEvent(1e200), 0.0, 0.0),
        (dp.ComposedDpEvent([dp.GaussianDpEvent(1e-200), POISSON]), math.inf, math.inf),
        *(
            (dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, noise(z)), 10), 0.0, 1e-6)
            for noise in (dp.GaussianDpEvent, dp.LaplaceDpEvent)
            for z in (1e20, 1e100, 1e160, 1e300)
        ),
        (dp.TruncatedSubsampledGaussianDpEvent(100, 0.1, 5, 1e300), 0.0, 1e-6),
        (dp.ComposedDpEvent([dp.GaussianDpEvent(1e100), dp.LaplaceDpEvent(1.0)]), 0.999, 1.0),
    ],
)
def test_what_numbers_cannot_hold_is_bounded_or_endless(event, least, most):
    """Not one of these may take gigabytes, or end in the library's own words."""
    found = certify(event, delta=1e-6, relation="add_or_remove_one")
    assert least <= found.epsilon <= most
    assert 0 <= found.epsilon_optimistic <= found.epsilon


@pytest.mark.parametrize("beside", [[], [dp.LaplaceDpEvent(1.0)]], ids=["alone", "beside"])
def test_gaussian_noise_however_wide_has_no_bound_without_delta(beside):
    with pytest.raises(InputError, match="no epsilon bounds Gaussian noise without it"):
        certify(dp.ComposedDpEvent([dp.GaussianDpEvent(1e300), *beside]), delta=0.0)


def test_a_group_may_lose_more_than_the_library_can_count():
    """Of ten records that each lose 100, four are drawn together with a chance of 2 in a million."""
    found = certify(_rare_laplace(0.01, 0.01), delta=1e-6, relation="add_or_remove_one", group=10)
    assert 390 < found.epsilon <= 500
