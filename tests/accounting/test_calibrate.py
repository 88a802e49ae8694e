"""The smallest noise: never over budget, hardly under it, and refusals in one line."""

import math

import dp_accounting as dp
import pytest

from coterie.accounting import calibrate, certify
from coterie.errors import BudgetError, InputError


def full(noise):
    return dp.SelfComposedDpEvent(dp.GaussianDpEvent(noise), 100)


def poisson(noise):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(noise)), 300)


def fixed(noise):
    return dp.SelfComposedDpEvent(dp.SampledWithoutReplacementDpEvent(500, 5, dp.GaussianDpEvent(noise)), 40)


def laplace(noise):
    return dp.SelfComposedDpEvent(dp.LaplaceDpEvent(noise), 25)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (30.0, 1e-3)])
def test_plain_gaussian_is_exact(epsilon, delta, relation):
    noise = calibrate(full, epsilon=epsilon, delta=delta, relation=relation)
    assert certify(full(noise), delta=delta, relation=relation).epsilon <= epsilon
    assert certify(full(noise * (1 - 1e-6)), delta=delta, relation=relation).epsilon > epsilon


@pytest.mark.parametrize(
    ("make", "epsilon", "delta"),
    [(poisson, 1.0, 0.01), (fixed, 1.0, 1e-5), (fixed, 50.0, 1e-5), (laplace, 1.0, 1e-6)],
)
def test_never_over_budget_and_hardly_under_it(make, epsilon, delta):
    noise = calibrate(make, epsilon=epsilon, delta=delta)
    assert certify(make(noise), delta=delta).epsilon <= epsilon
    assert certify(make(noise * 0.98), delta=delta).epsilon > epsilon


def test_a_published_plan():
    # Expected batch 200 of 20,000, 300 steps: noise std 0.0039 on the averaged gradient for (1, 0.01).
    assert calibrate(poisson, epsilon=1.0, delta=0.01) / 200 == pytest.approx(0.0039, rel=0.02)


def test_a_fixed_part_is_part_of_the_cost():
    def with_choices(noise):
        return dp.ComposedDpEvent([full(noise), dp.RandomizedResponseDpEvent(0.9, 2)])

    noise = calibrate(with_choices, epsilon=1.0, delta=1e-5)
    assert certify(with_choices(noise), delta=1e-5).epsilon <= 1
    assert noise > calibrate(full, epsilon=1.0, delta=1e-5)


def test_out_of_reach_is_a_budget_error():
    def never(noise):
        return dp.ComposedDpEvent([full(noise), dp.NonPrivateDpEvent()])

    with pytest.raises(BudgetError, match=r"epsilon=1\.0"):
        calibrate(never, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_refuses_a_budget_that_is_none(epsilon):
    with pytest.raises(InputError, match=r"epsilon=.*must be > 0 and finite\."):
        calibrate(full, epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize(("name", "value"), [("delta", 0.0), ("tolerance", 0.0), ("relation", "other")])
def test_refuses_other_bad_arguments(name, value):
    with pytest.raises(InputError, match=name):
        calibrate(full, **({"epsilon": 1.0, "delta": 1e-5} | {name: value}))


@pytest.mark.parametrize("epsilon", [1e9, 1e-12])
def test_extreme_budgets_are_met_without_a_warning(epsilon):
    """Warnings are errors here; a user would see the library's on the terminal."""
    noise = calibrate(full, epsilon=epsilon, delta=1e-5)
    assert 0 < certify(full(noise), delta=1e-5).epsilon <= epsilon


@pytest.mark.parametrize("make", [poisson, fixed])
def test_hardly_any_noise_on_a_sample_is_infinite_with_a_reason(make):
    found = certify(make(1e-5), delta=1e-5)
    assert (found.epsilon, found.epsilon_optimistic) == (math.inf, 0.0)
    assert "no grid here resolves" in found.reason


def test_hardly_any_laplace_noise_is_its_pure_sum():
    assert certify(laplace(1e-6), delta=1e-5).epsilon == pytest.approx(25 * 2e6)
