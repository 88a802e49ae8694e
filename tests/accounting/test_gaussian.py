"""The exact curve of one Gaussian release, against many digits and against dp-accounting's."""

import dp_accounting as dp
import mpmath
import numpy as np
import pytest

from coterie.accounting.gaussian import epsilon_of, log_delta, noise_for

NOISES = (1e-3, 0.1, 0.5, 1.0, 3.7, 40.0, 1e3)
DELTAS = (1e-12, 1e-9, 1e-5, 1e-2, 0.3)


def exact(noise, epsilon):
    """ln δ with sixty digits, by the definition."""
    with mpmath.workdps(60):
        return mpmath.log(_curve(mpmath.mpf(noise), mpmath.mpf(epsilon)))


def _curve(noise, epsilon):
    half, shift = 1 / (2 * noise), epsilon * noise
    return mpmath.ncdf(half - shift) - mpmath.exp(epsilon) * mpmath.ncdf(-half - shift)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_where_the_curve_meets_delta(noise, delta):
    epsilon = epsilon_of(noise, delta)
    with np.errstate(divide="ignore"):  # the library takes the logarithm of zero where it means "none"
        assert epsilon == pytest.approx(dp.get_epsilon_gaussian(noise, delta), rel=1e-9, abs=1e-12)
    if epsilon:
        assert float(exact(noise, epsilon) - mpmath.log(delta)) == pytest.approx(0, abs=1e-10)
        assert noise_for(epsilon, delta) == pytest.approx(noise, rel=1e-9)
    else:
        assert exact(noise, 0) <= mpmath.log(delta)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("delta", DELTAS)
def test_rounding_is_upwards(noise, delta):
    """What is returned costs no more than delta by the same curve, and the double below it does."""
    epsilon = epsilon_of(noise, delta)
    assert log_delta(noise, epsilon) <= np.log(delta)
    assert not epsilon or log_delta(noise, np.nextafter(epsilon, 0)) > np.log(delta)


def test_the_curve_in_far_tails():
    for noise, epsilon in ((0.05, 1000.0), (1.0, 30.0), (40.0, 2.0), (1e3, 0.04), (0.3, 0.0)):
        assert log_delta(noise, epsilon) == pytest.approx(float(exact(noise, epsilon)), rel=1e-9)


@pytest.mark.parametrize(
    "noise", [1e-3, 0.05, 0.7, 1.0, 4.0, 30.0, 99.0, 101.0, 700.0, 7e3, 1.1e4, 1e6, 1e12, 1e200]
)
@pytest.mark.parametrize("shift", [0.0, 1e-3, 0.9, 5.0, 11.0, 17.0, 19.0, 19.999, 20.001, 25.0, 36.0, 300.0])
def test_no_noise_is_ever_said_to_cost_less_than_it_does(noise, shift):
    """Where both terms of the curve have digits in common, their difference is noise of the arithmetic, or 0: what
    that may have taken off is added, and hardly anything more."""
    epsilon = shift / noise
    with mpmath.workdps(500):
        truth = mpmath.log(_curve(mpmath.mpf(noise), mpmath.mpf(epsilon)))
        above = float(mpmath.mpf(log_delta(noise, epsilon)) - truth)
    assert 0 <= above < 3e-9 * max(1, abs(float(truth)))


@pytest.mark.parametrize("noise", [1e-3, 0.5, 5.0, 80.0, 7e3])
@pytest.mark.parametrize("shift", [0.0, 0.9, 5.0, 17.0])
def test_noise_may_come_rounded(noise, shift):
    """An accountant adds up 1/z² and takes the root: what comes of that may be off by a few last digits."""
    epsilon = shift / noise
    with mpmath.workdps(100):
        less = mpmath.mpf(noise) * (1 - mpmath.mpf(2) ** -51)
        assert log_delta(noise, epsilon) >= mpmath.log(_curve(less, mpmath.mpf(epsilon)))


def test_the_ends():
    assert epsilon_of(0.0, 1e-5) == epsilon_of(1e-300, 1e-5) == epsilon_of(1.0, 0.0) == np.inf
    assert epsilon_of(np.inf, 1e-5) == epsilon_of(1e9, 1e-5) == 0.0
    assert log_delta(1e200, 1.0) == log_delta(1e3, 1e200) == -np.inf
    assert noise_for(1.0, 0.0) == np.inf
    assert noise_for(np.inf, 1e-5) == 0.0
