"""The smallest noise that a budget allows: "set ε, not σ"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie import _check
from coterie.accounting.atoms import flatten
from coterie.accounting.certifying import STANDS_STILL, bound_of, certify
from coterie.accounting.gaussian import noise_for
from coterie.errors import BudgetError
from coterie.relations import REPLACE_ONE, named

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_LEAST, _MOST = 1e-6, 1e6  # noise multipliers tried
_GROW = 4.0  # factor between two tries while bracketing
_COARSE = 0.05  # how still a grid must stand at first, and how near the first search comes
_FAR = 20.0  # |ln(epsilon / target)| beyond which a value only says "too much" or "too little"


def calibrate(
    make_event: Callable[[float], DpEvent],
    *,
    epsilon: float,
    delta: float,
    relation: str = REPLACE_ONE,
    tolerance: float = 1e-3,
) -> float:
    """The smallest noise multiplier, within `tolerance`, for which the event costs at most `epsilon`.

    Guarantee: `certify(make_event(result), delta=delta, relation=relation).epsilon <= epsilon`; BudgetError
    where no noise achieves it.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> round(calibrate(lambda z: SelfComposedDpEvent(GaussianDpEvent(z), 100), epsilon=1.0, delta=1e-5), 2)
    74.61
    """
    _check.positive("epsilon", epsilon)
    _check.below_one("delta", delta)
    relation = named(relation)
    _check.positive("tolerance", tolerance)

    def excess(log_multiplier: float, stands_still: float) -> float:
        flat = flatten(make_event(math.exp(log_multiplier)))
        spent = bound_of(flat, delta, relation, stands_still).epsilon
        return min(max(math.log(spent / epsilon), -_FAR), _FAR) if spent > 0 else -_FAR

    single, double = flatten(make_event(1.0)), flatten(make_event(2.0))
    plain = (
        delta > 0
        and single.precision > 0
        and not (single.parts or double.parts or single.reason or double.reason)
    )
    if plain and math.isclose(single.precision, 4 * double.precision, rel_tol=1e-12):
        # The closed form: the event is nothing but Gaussians that all scale with the multiplier.
        guess, growth = noise_for(epsilon, delta) * relation.reach * math.sqrt(single.precision), 1e-12
    else:
        guess, growth = _search(excess, epsilon, tolerance), tolerance / 2
    # A root is met up to rounding only: step up until the certificate itself agrees.
    while certify(make_event(guess), delta=delta, relation=relation).epsilon > epsilon:
        guess, growth = guess * (1 + growth), growth * 2
    return guess


def _search(excess: Callable[[float, float], float], epsilon: float, tolerance: float) -> float:
    """A root of `excess` in the multiplier's logarithm: on coarse grids first, then close by on fine ones."""
    from scipy.optimize import brentq

    low, high = _bracket(lambda x: excess(x, _COARSE), epsilon, 0.0, math.log(_GROW))
    if low == high:
        return math.exp(low)
    near = float(brentq(lambda x: excess(x, _COARSE), low, high, xtol=_COARSE))  # pyright: ignore
    low, high = _bracket(lambda x: excess(x, STANDS_STILL), epsilon, near, _COARSE)
    return math.exp(float(brentq(lambda x: excess(x, STANDS_STILL), low, high, xtol=tolerance / 2)))  # pyright: ignore


def _bracket(
    excess: Callable[[float], float], epsilon: float, start: float, stride: float
) -> tuple[float, float]:
    """Neighbouring points, the lower over budget and the higher within it; equal where all are within."""
    too_much = excess(start) > 0
    here = start
    while math.log(_LEAST) < here < math.log(_MOST):
        there = here + stride if too_much else here - stride
        if (excess(there) > 0) != too_much:
            return min(here, there), max(here, there)
        here = there
    if too_much:
        raise BudgetError(
            f"epsilon={epsilon}: out of reach, even noise of {_MOST:g} times the clip norm costs more. "
            "Allow a larger epsilon or fewer releases."
        )
    return here, here
