"""Amounts as pages and terminals write them."""

from __future__ import annotations

import math

from coterie._rounding import at_most

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Four significant digits; thousands apart; powers of ten raised; ∞ in its sign.

    >>> [number(one) for one in (1.0, 0.74197, 1806.4, float("inf"), 1e-05, 2.8e-10)]
    ['1', '0.742', '1,806', '∞', '10⁻⁵', '2.8·10⁻¹⁰']
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    digits, _, power = f"{value:.4g}".partition("e")
    raised = f"10{str(int(power)).translate(_RAISED)}" if power else ""
    return digits if not power else raised if digits == "1" else f"{digits}·{raised}"


def bound(epsilon: float) -> str:
    """A certified ε, rounded up.

    >>> bound(1.57512), bound(math.inf)
    ('ε ≤ 1.576', 'no finite ε')
    """
    return f"ε ≤ {number(at_most(epsilon))}" if math.isfinite(epsilon) else "no finite ε"


def percent(part: float) -> str:
    """A share as CSS writes it, short.

    >>> percent(0.123456)
    '12.35%'
    """
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%"


def many(count: int, what: str) -> str:
    """A count with its noun.

    >>> many(1, "owner"), many(1500, "owner"), many(2, "class")
    ('1 owner', '1,500 owners', '2 classes')
    """
    return f"{count:,} {what}{('es' if what.endswith('s') else 's') * (count != 1)}"
