"""Bounds are rounded to the safe side when they are printed: an upper bound up, a lower bound down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

DIGITS = 4  # significant ones, everywhere; from a thousand to 10⁹ whole numbers
_HUGE = 9  # places before the point from where whole numbers would be finer than the slack
_SLACK = 1e-9  # relative: what rounding in doubles may add to a bound, and what every comparison with a budget forgives


def at_most(value: float) -> float:
    """The least number of four digits that is not below the bound.

    >>> [at_most(value) for value in (1805.404, 21.1098, 0.84992, 1.0, math.inf)]
    [1806.0, 21.11, 0.85, 1.0, inf]
    """
    return _rounded(value * (1 - _SLACK), ROUND_CEILING)


def at_least(value: float) -> float:
    """The largest number of four digits that is not above the bound.

    >>> [at_least(value) for value in (3.94567, 0.99999, 1.0, 0.0)]
    [3.945, 0.9999, 1.0, 0.0]
    """
    return _rounded(value * (1 + _SLACK), ROUND_FLOOR)


def upper(value: float) -> str:
    """An upper bound as people read it: `at_most`, thousands apart.

    >>> [upper(value) for value in (1805.404, 1.0, 5e-13, 6.00012e18, math.inf)]
    ['1,806', '1', '5e-13', '6.001e+18', '∞']
    """
    return nearest(at_most(value))


def lower(value: float) -> str:
    """A lower bound as people read it: `at_least`, thousands apart."""
    return nearest(at_least(value))


def left(budget: float, spent: float) -> str:
    """What is left of a budget: a lower bound, and nothing where it is less than the budget's own digits show.

    >>> left(1.0, 0.75), left(1.0, 1 - 2.4e-7), left(1.0, 1.2)
    ('0.25', '0', '0')
    """
    rest = budget - spent
    return lower(rest) if rest >= budget * 10**-DIGITS else "0"


def budget_range(budgets: Sequence[float]) -> str:
    """Budgets of owners as people read them.

    >>> budget_range([1.0, 1.0]), budget_range([4.0, 0.5, 1.0])
    ('ε = 1', 'ε = 0.5 to 4')
    """
    low, high = min(budgets), max(budgets)
    return f"ε = {low:g}" if low == high else f"ε = {low:g} to {high:g}"


def nearest(value: float) -> str:
    """A number that bounds nothing, as people read it."""
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if 1000 <= value < 10**_HUGE else f"{value:.{DIGITS}g}"


def _rounded(value: float, way: str) -> float:
    if not math.isfinite(value) or value == 0:
        return value
    exact = Decimal(repr(value))
    last = exact.adjusted() - DIGITS + 1
    unit = Decimal(1).scaleb(min(last, 0) if exact.adjusted() < _HUGE else last)
    return float(exact.quantize(unit, rounding=way))
