"""Names as people write them: in an order that people expect, and spellings that mean the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

READERS = (".csv", ".parquet", ".npz")  # how names of files of records end

_DIGITS = re.compile(r"([0-9]+)")
_NUMBER = re.compile(r"\s*[+-]?([0-9]{1,300}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*")


def natural(name: str) -> tuple:
    """A key to sort by: numbers by their size, letters whatever their case.

    >>> sorted(["ward 10", "Ward 2", "ward 1", "10", "9"], key=natural)
    ['9', '10', 'ward 1', 'Ward 2', 'ward 10']
    """
    # `split` puts digits at odd places, so that two keys never compare a number with a text.
    parts = enumerate(_DIGITS.split(name.casefold()))
    return tuple(_size(part) if at % 2 else part for at, part in parts), name


def _size(digits: str) -> tuple[int, str]:
    """Orders whole numbers of any length."""
    significant = digits.lstrip("0")
    return len(significant), significant


def number_text(text: str) -> str | None:
    """One way to write a number, so that 1, 01 and 1.0 are the same; None of a text that is none.

    >>> number_text("1.0"), number_text(" 01"), number_text("2.5"), number_text("I"), number_text("inf")
    ('1', '1', '2.5', None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    if set(text.strip()) <= set("0123456789+-"):
        return str(int(text))  # exact, however long
    value = float(text)
    if not math.isfinite(value):
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def folded(name: str) -> str:
    """What is left of a name without what the eye passes over: capitals, spaces, zeros before a number.

    >>> folded("  Ward  B ") == folded("ward b"), folded("01") == folded("1")
    (True, True)
    """
    return number_text(name) or " ".join(name.split()).casefold()


def alike(names: Iterable[str]) -> list[list[str]]:
    """Groups of different names that look the same to a person, in natural order.

    >>> alike(["p", "q", "P", "p "])
    [['P', 'p', 'p ']]
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names), key=natural):
        groups.setdefault(folded(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def some(names: Iterable[str], most: int = 20) -> str:
    """The first few, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    listed = [str(name) for name in names]
    more = len(listed) - most
    between = "; " if any("," in name for name in listed[:most]) else ", "
    return between.join(listed[:most]) + (f" and {more:,} more" if more > 0 else "")
