"""Checks of arguments: each raises one line that names the argument, its value and the bound."""

import math
from collections.abc import Iterable
from typing import SupportsFloat

from coterie.errors import InputError

MOST = 10**12  # of anything that is counted: more of it nobody has, and products still fit into 64 bits


def finite(value: SupportsFloat) -> bool:
    """Whether a number is one that a double holds: a file's whole numbers may have any length.

    >>> finite(1.5), finite(math.inf), finite(10**400)
    (True, False, False)
    """
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def positive(name: str, value: float) -> float:
    """Return `value` if it is a finite number above zero.

    >>> positive("clip_norm", 2.0)
    2.0
    >>> positive("clip_norm", -1.0)
    Traceback (most recent call last):
    coterie.errors.InputError: clip_norm=-1.0: must be > 0 and finite.
    """
    if not (finite(value) and value > 0):
        raise InputError(f"{name}={value}: must be > 0 and finite.")
    return value


def not_negative(name: str, value: float) -> float:
    """Return `value` if it is a finite number of at least zero."""
    if not (finite(value) and value >= 0):
        raise InputError(f"{name}={value}: must be >= 0 and finite.")
    return value


def probability(name: str, value: float) -> float:
    """Return `value` if it lies strictly between zero and one.

    >>> probability("delta", 1.5)
    Traceback (most recent call last):
    coterie.errors.InputError: delta=1.5: must lie strictly between 0 and 1.
    """
    if not 0 < value < 1:
        raise InputError(f"{name}={value}: must lie strictly between 0 and 1.")
    return value


def below_one(name: str, value: float) -> float:
    """Return `value` if it is at least zero and below one."""
    if not 0 <= value < 1:
        raise InputError(f"{name}={value}: must be >= 0 and < 1.")
    return value


def count(name: str, value: int, least: int = 1, most: int = MOST) -> int:
    """Return `value` if it is a whole number of at least `least`, and none that arrays of numbers cannot hold.

    >>> count("records", 10**20)
    Traceback (most recent call last):
    coterie.errors.InputError: records=100000000000000000000: must be <= 1,000,000,000,000.
    """
    if not value >= least or (value <= most and value != int(value)):
        raise InputError(f"{name}={value}: must be a whole number >= {least}.")
    if value > most:
        raise InputError(f"{name}={value}: must be <= {most:,}.")
    return int(value)


def one_of(name: str, value: str, known: Iterable[str]) -> str:
    """Return `value` if it is one of the `known` names."""
    names = sorted(known)
    if value not in names:
        raise InputError(
            f"{name}={value!r}: unknown. Choose one of: {', '.join(names)}.{meant(value, names)}"
        )
    return value


def meant(value: object, known: Iterable[str]) -> str:
    """A question to end an error with, where a known name is close to what was written; else nothing.

    >>> meant("dual_averging", ["dual_averaging", "push_sum"])
    " Did you mean 'dual_averaging'?"
    """
    from difflib import get_close_matches

    by_small = {name.lower(): name for name in known}
    close = get_close_matches(str(value).lower(), by_small, n=1)
    return f" Did you mean {by_small[close[0]]!r}?" if close else ""
