"""Every row's value, as it is printed: rounded up; and each constant it stands on, perturbed, leaves a band of 2 %."""

import math

import dp_accounting as dp
import pytest

from coterie._rounding import at_most
from coterie.accounting import certify
from coterie.experiments.claims import table

BAND = 0.02
WOR, DQ, ASYNC = "wor_sgd", "deep_q", "async_learner"
PUSH, DUAL, ERM = "push_sum", "dual_averaging", "weighted_erm"
MNIST = {"sigma": 0.05, "records": 3000, "steps": 2200}

GOLDEN = [  # protocol, settings, claimed, certified
    (DUAL, {"epsilon": 0.2}, 0.2, 21.11),
    (DUAL, {"epsilon": 0.4}, 0.4, 228.7),
    (DUAL, {"epsilon": 0.6}, 0.6, 599),
    (DUAL, {"epsilon": 0.8}, 0.8, 1123),
    (DUAL, {"epsilon": 1.0}, 1.0, 1806),
    (DUAL, {"epsilon": 1.0, "sampling": "poisson"}, 1.0, 395.1),
    (WOR, {"classes": 10, "strongly_convex": False}, 1.0, 2.852),
    (WOR, {"classes": 10, "strongly_convex": True}, 1.0, 1.372),
    (WOR, {"classes": 7, "strongly_convex": False}, 1.0, 2.36),
    (WOR, {"classes": 7, "strongly_convex": True}, 1.0, 1.139),
    (WOR, {"classes": 1, "strongly_convex": False}, 1.0, 0.85),
    (WOR, {"classes": 1, "strongly_convex": True}, 1.0, 0.4135),
    (DQ, {"strongly_convex": False}, 1.0, 241.2),
    (PUSH, {"policy": "clipped", "sigma": 0.04, "records": 2500, "steps": 3500}, None, 11_158),
    (PUSH, {"policy": "clipped", **MNIST}, None, 5444),
    (PUSH, {"policy": "clipped", "sampling": "poisson", **MNIST}, None, 1296),
    (ASYNC, {"answers": 1000}, 1.0, 3.163),
    (ASYNC, {"answers": 1000, "epsilon": 0.3}, 0.3, 0.9487),
    (ASYNC, {"answers": 400}, 1.0, 1.265),
    (ASYNC, {"answers": 400, "delta": 1e-6}, 1.0, 0.2424),
    (ASYNC, {"answers": 25}, 1.0, 0.07906),
    (ERM, {"epsilon": 0.25, "parties": 32, "model": "final"}, 0.25, 1.667),
    (ERM, {"epsilon": 0.1, "parties": 32, "model": "final"}, 0.1, 0.6622),
    (ERM, {"epsilon": 0.25, "parties": 32, "model": "own"}, 8.0, 12.61),
    (ERM, {"epsilon": 0.25, "parties": 8, "model": "own"}, 2.0, 2.455),
]  # fmt: skip
# Some of each family are perturbed: enough to see each constant, and the accountant's grid is what costs time.
SHAKEN = [
    one for one in GOLDEN if not {"sampling", "delta"} & set(one[1]) and not (one[0] == DUAL and one[2] < 1)
]
NAMES = [f"{protocol}-{'-'.join(map(str, given.values()))}" for protocol, given, _, _ in GOLDEN]


def row(protocol, given):
    (only,) = table(protocol, given)
    return only


@pytest.mark.parametrize(("protocol", "given", "claimed", "certified"), GOLDEN, ids=NAMES)
def test_published_settings(protocol, given, claimed, certified):
    found = row(protocol, given)
    assert found.claim.epsilon == (None if claimed is None else pytest.approx(claimed, rel=1e-9))
    assert at_most(found.certificate.epsilon) == certified
    assert found.certificate.relation == "replace_one"


@pytest.mark.parametrize("given", [{"policy": "adaptive"}, {"policy": "constant"}])
def test_noise_with_a_private_scale_has_no_finite_certificate(given):
    for found in table("push_sum", given):
        assert found.certificate.epsilon == math.inf
        assert found.reason == found.certificate.reason != ""
        assert found.to_json()["certified"] == "inf"


def test_published_table_holds_all_papers():
    found = {(one.paper, one.protocol) for one in table()}
    assert found == {
        ("jin_2020", WOR), ("jin_2020", DQ), ("farokhi_2020", ASYNC),
        ("adad2p_2023", PUSH), ("liu_2022", DUAL), ("kang_2021", ERM),
    }  # fmt: skip


def perturbed(event, noise=1.0, rate=1.0):
    """The same event with other noise, or another sampling rate where there is one."""
    match event:
        case dp.ComposedDpEvent(events):
            return dp.ComposedDpEvent([perturbed(one, noise, rate) for one in events])
        case dp.SelfComposedDpEvent(inner, count):
            return dp.SelfComposedDpEvent(perturbed(inner, noise, rate), count)
        case dp.PoissonSampledDpEvent(p, inner):
            return dp.PoissonSampledDpEvent(p * rate, perturbed(inner, noise, rate))
        case dp.SampledWithoutReplacementDpEvent(size, batch, inner):
            return dp.SampledWithoutReplacementDpEvent(
                round(size / rate), batch, perturbed(inner, noise, rate)
            )
        case dp.GaussianDpEvent(z):
            return dp.GaussianDpEvent(z * noise)
        case dp.LaplaceDpEvent(z):
            return dp.LaplaceDpEvent(z * noise)
        case dp.RandomizedResponseDpEvent(p, buckets):
            return dp.RandomizedResponseDpEvent(min(p * noise, 1.0), buckets)
    raise AssertionError(event)


# σ × 0.9; and 2C replaced by C, which reads every noise as twice what it is.
@pytest.mark.parametrize("noise", [0.9, 2.0])
@pytest.mark.parametrize(("protocol", "given", "claimed", "certified"), SHAKEN)
def test_other_noise_or_sensitivity_leaves_the_band(protocol, given, claimed, certified, noise):
    del claimed
    one = row(protocol, given).certificate
    other = certify(perturbed(one.event, noise=noise), delta=one.delta)
    assert other.epsilon != pytest.approx(certified, rel=BAND)


@pytest.mark.parametrize(
    ("protocol", "given", "certified"),
    [(protocol, given, certified) for protocol, given, _, certified in SHAKEN if protocol in (DUAL, PUSH)],
)
def test_twice_the_sampling_rate_leaves_the_band(protocol, given, certified):
    one = row(protocol, given).certificate
    other = certify(perturbed(one.event, rate=2.0), delta=one.delta)
    assert other.epsilon != pytest.approx(certified, rel=BAND)


def test_one_party_is_the_server_that_the_constant_was_made_for():
    for found in table(ERM, {"parties": 1}):
        assert found.certificate.epsilon == pytest.approx(found.claim.epsilon, rel=1e-6)
        assert not found.broken


def test_uneven_parties_lose_less_of_the_sum_and_more_of_the_smallest():
    even, uneven = (
        {one.setting["model"]: one for one in table(ERM, {"epsilon": 0.25, "parties": 32, "unevenness": u})}
        for u in (1.0, 9.0)
    )
    assert uneven["final"].certificate.epsilon > even["final"].claim.epsilon
    assert uneven["final"].certificate.epsilon < even["final"].certificate.epsilon
    assert uneven["own"].claim.epsilon == pytest.approx(0.25 * 16 * 10)
    assert uneven["own"].certificate.epsilon > even["own"].certificate.epsilon


def test_ten_agents_cost_ten_times_as_much_and_no_exploration_costs_everything():
    ten = row(DQ, {"models": 10, "strongly_convex": False})
    assert ten.certificate.epsilon == pytest.approx(
        10 * row(DQ, {"strongly_convex": False}).certificate.epsilon
    )
    assert row(DQ, {"least": 0.0, "strongly_convex": False}).certificate.epsilon == math.inf


def test_pure_rows_say_so():
    found = row(ASYNC, {"answers": 1000})
    assert found.certificate.delta == found.to_json()["delta"] == found.claim.delta == 0
    assert found.certificate.accountant == "pure composition"
