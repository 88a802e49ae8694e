"""Values as a user writes them, in a file, an option or Python, checked against the types that a dataclass declares."""

from __future__ import annotations

import math
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from coterie import _check
from coterie.errors import InputError

_LONGEST = 80  # characters of a wrong value that an error repeats


def typed(protocol: str, known: type, given: dict[str, Any]) -> dict[str, Any]:
    """`given` with whole numbers made real where `known`, a dataclass, wants real ones; else an error.

    Names that `known` does not have pass: whoever builds the protocol says which there are.
    """
    hints = get_type_hints(known)
    return {
        key: fit(f"{protocol}.{key}", value, hints[key]) if key in hints else value
        for key, value in given.items()
    }


def fit(name: str, value: Any, hint: Any) -> Any:
    """`value` as plain Python of the hinted type (a NumPy number becomes a number); else one line that names it.

    >>> fit("epsilon", [1, 2], tuple[float, ...])
    (1.0, 2.0)
    >>> fit("owners", "four", int | None)
    Traceback (most recent call last):
    coterie.errors.InputError: owners='four': must be a whole number.
    """
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in choices:
        if _suits(value, kind):
            return _plain(name, value, kind)
    wanted = " or ".join(_word(kind) for kind in choices if kind is not NoneType)
    hints = (_check.meant(value, get_args(kind)) for kind in choices if get_origin(kind) is Literal)
    raise InputError(f"{name}={_shown(value)}: must be {wanted}.{''.join(hints)}")


def _suits(value: Any, kind: Any) -> bool:
    """Whether the value is of that kind, whatever its parts are."""
    if kind is NoneType:
        return value is None
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, (list, tuple)) and len(value) > 0
    if get_origin(kind) is dict:
        named = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        return named and (len(value) > 0 or get_args(kind)[1] is Any)
    if isinstance(value, bool):  # which Python counts as a whole number
        return kind is bool
    if kind is float:
        return isinstance(value, Real) and math.isfinite(value)
    return isinstance(value, Integral if kind is int else kind)


def _plain(name: str, value: Any, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        return tuple(fit(name, part, get_args(kind)[0]) for part in value)
    if get_origin(kind) is dict:
        inner = get_args(kind)[1]
        return {
            key: part if inner is Any else fit(f"{name}.{key}", part, inner) for key, part in value.items()
        }
    if kind is str or get_origin(kind) is Literal:
        return _text(name, value)
    return value if kind is NoneType else kind(value)


def _text(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name}={value!a}: is not text in UTF-8. Rename it.") from None
    return value


def free(name: str, value: Any) -> Any:
    """A value that a file can hold: a number, text, true or false, or a list of these, in plain Python."""
    if isinstance(value, (list, tuple)):
        return [free(name, part) for part in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, str):
        return _text(name, value)
    raise InputError(f"{name}={_shown(value)}: must be a number, text, true or false, or a list of these.")


def _shown(value: Any) -> str:
    """In one line, however long its own form is."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list of one for each owner"
    if get_origin(kind) is dict:
        return "a table" if get_args(kind)[1] is Any else "a table of one for each owner's name"
    return {float: "a finite number", int: "a whole number", str: "text", bool: "true or false"}[kind]
