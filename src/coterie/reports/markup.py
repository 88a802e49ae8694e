"""HTML built from values: whatever is not markup already is escaped, so that no name can become a program."""

from __future__ import annotations

import html
import math
from typing import Any

_VOID = frozenset({"meta", "br", "line", "circle", "path", "rect"})  # elements without an end tag

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Markup(str):
    """Text that is HTML already. Only `tag`, `join` and constants of this package make it."""

    __slots__ = ()


def text(value: object) -> Markup:
    """The value as text, harmless in an element and in a quoted attribute.

    >>> text("<script>")
    '&lt;script&gt;'
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value), quote=True))


def join(parts: Any, between: str = "") -> Markup:
    """Parts after each other, each escaped unless it is markup."""
    return Markup(between.join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element. `class_` is class, `aria_label` is aria-label; an attribute that is None is left out.

    >>> tag("p", "a < b", class_="note", title=None)
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def name(of: str) -> Markup:
    """A name out of somebody's file: kept from turning the text around it, whatever its script."""
    return tag("bdi", of)


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
