"""A protocol's own settings as a user writes them, checked against the types that the protocol declares."""

from __future__ import annotations

import math
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from coterie.errors import InputError


def typed(protocol: str, known: type, given: dict[str, Any]) -> dict[str, Any]:
    """`given` with whole numbers made real where `known`, a dataclass, wants real ones; else an error.

    Names that `known` does not have pass: whoever builds the protocol says which there are.
    """
    hints = get_type_hints(known)
    return {
        key: _fit(f"{protocol}.{key}", value, _choices(hints[key])) if key in hints else value
        for key, value in given.items()
    }


def _choices(hint: Any) -> tuple[Any, ...]:
    """The members of a union, else the hint alone."""
    members = get_args(hint) if get_origin(hint) is not Literal else ()
    return members or (hint,)


def _fit(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    truth = isinstance(value, bool)  # which Python counts as a whole number
    for kind in choices:
        if get_origin(kind) is Literal and value in get_args(kind):
            return value
        if get_origin(kind) is tuple and isinstance(value, (list, tuple)):
            return tuple(_fit(name, one, get_args(kind)[:1]) for one in value)
        if kind is float and isinstance(value, (int, float)) and not truth and math.isfinite(value):
            return float(value)
        if kind in (int, str, bool) and isinstance(value, kind) and truth == (kind is bool):
            return value
    wanted = " or ".join(_word(kind) for kind in choices if kind is not NoneType)
    raise InputError(f"{name}={value!r}: must be {wanted}.")


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list of one for each owner"
    return {float: "a finite number", int: "a whole number", str: "text", bool: "true or false"}[kind]
