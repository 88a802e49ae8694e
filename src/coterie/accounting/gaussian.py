"""What one Gaussian release costs, exactly (Balle & Wang 2018), with the standard library alone.

With noise σ over what a record moves, t₁ = εσ − 1/(2σ) and t₂ = εσ + 1/(2σ),

    δ(ε) = Φ(−t₁) − e^ε Φ(−t₂) = φ(t₁) (R(t₁) − R(t₂)),    R(t) = (1 − Φ(t)) / φ(t),

for ε − t₂²/2 = −t₁²/2: what would overflow, or cancel in a far tail, is divided out. dp-accounting has the same curve,
but by SciPy's statistics, for which a node that charges nothing but Gaussians need not make room.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

_FAR = 20.0  # from where on the asymptotic series of R has all digits of a double
_TERMS = 12
_MUCH = 100.0  # noise from where R(t₁) and R(t₂) have too many digits in common to be subtracted
_UNIT = 2.0**-53  # what one operation on doubles rounds, relative
_LOG_ROOT = math.log(2 * math.pi) / 2


def epsilon_of(noise: float, delta: float) -> float:
    """The least ε, rounded up, at which so much noise over what a record moves is (ε, delta)-private.

    >>> round(epsilon_of(1.0, 1e-5), 4)
    4.3772
    """
    if delta == 0 or noise == 0:
        return math.inf
    limit = math.log(delta)
    if log_delta(noise, 0.0) <= limit:
        return 0.0
    most = 1.0
    while math.isfinite(most) and log_delta(noise, most) > limit:
        most *= 4
    return _least(lambda epsilon: log_delta(noise, epsilon) <= limit, 0.0, most)


@lru_cache(maxsize=1024)  # owners by the thousand have a few budgets between them
def noise_for(epsilon: float, delta: float) -> float:
    """The least noise over what a record moves, rounded up, that is (epsilon, delta)-private.

    >>> round(noise_for(1.0, 1e-5), 4)
    3.7306
    """
    if delta == 0:
        return math.inf
    if math.isinf(epsilon):
        return 0.0
    limit = math.log(delta)

    def enough(noise: float) -> bool:
        return log_delta(noise, epsilon) <= limit

    low = high = 1.0
    while low > 0 and enough(low):
        low /= 4
    while not enough(high):
        high *= 4
    return _least(enough, low, high)


def log_delta(noise: float, epsilon: float) -> float:
    """ln δ(ε), rounded up; −∞ where it is below everything that a double holds.

    Guarantee: never below ln δ(ε) of this noise, nor of one that rounding has moved by `4 · _UNIT` of it.
    """
    if math.isinf(noise):
        return -math.inf
    near, far = epsilon * noise - 0.5 / noise, epsilon * noise + 0.5 / noise
    log_density = -near * near / 2 - _LOG_ROOT
    if near > 0 and math.isinf(log_density):
        return log_density
    if noise > _MUCH:
        # R is a mean of e^(−xt) over x > 0, so that −R′ has a positive fourth derivative, and Simpson's rule between
        # near and far says too much: by one part in 360 noise⁴ at most.
        mean = (_fall(near) + 4 * _fall(epsilon * noise) + _fall(far)) / 6
        value = log_density + math.log(mean) - math.log(noise)
    elif near > 0:
        value = log_density + math.log(_mills(near) - _mills(far))
    else:
        value = math.log(math.erfc(near / math.sqrt(2)) / 2 - math.exp(log_density) * _mills(far))
    return value + _slack(noise, near, far, value)


def _slack(noise: float, near: float, far: float, value: float) -> float:
    """What rounding may have taken off ln δ.

    Argument: in units, t₁ and t₂ are off by 8 t₂ each, as noise and its products come rounded; R by 2.5 t² + 24 of it,
    for e^(t²/2) and erfc read a square that is rounded (beyond `_FAR`, by less); ln φ by 2 t² and what its t is off.
    1/R grows at rates from 2/π to 1 (Sampford 1953), so that R(t₁) is at most 1 + (π/2) (t₁ + 1) noise times the
    difference in which that counts, and 1 at most (π/2) (t + 1)² times −R′. Where t₁ < 0, δ is no less than at t₁ = 0.
    """
    right, short = max(near, 0.0), min(max(near, 0.0), _FAR)
    lost = 1.6 * (short + 1) ** 2 if noise > _MUCH else 1 + 1.6 * (right + 1) * noise
    of_mills = 2.5 * short * short + 24 + 16 * far
    return _UNIT * (2 * lost * of_mills + 2 * right * right + 8 * right * far + 4 * abs(value) + 16)


def _mills(t: float) -> float:
    """R(t) for t >= 0: (1 − 1/t² + 1·3/t⁴ − …) / t far out."""
    if t < _FAR:
        return math.sqrt(math.pi / 2) * math.exp(t * t / 2) * math.erfc(t / math.sqrt(2))
    return (1 - _fall(t)) / t


def _fall(t: float) -> float:
    """−R′(t) = 1 − t R(t): 1/t² − 1·3/t⁴ + … far out, where it would cancel."""
    if t < _FAR:
        return 1 - t * _mills(t)
    term, total = -1.0, 0.0
    for k in range(_TERMS):
        term *= -(2 * k + 1) / (t * t)
        total += term
    return total


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least double that is enough, between `low`, which is not, and `high`, which is."""
    while low < (middle := low / 2 + high / 2) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
