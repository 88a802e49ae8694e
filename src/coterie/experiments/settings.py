"""Values as a user writes them, in a file, an option or Python, converted by msgspec to the types that are declared.

A type may have a bound, with words for it: `Annotated[float, Meta(gt=0, description="be > 0 and finite")]`.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, ValidationError, convert

from coterie import _check
from coterie.errors import InputError

_LONGEST = 80  # characters of a wrong value that an error repeats
_WORDS = {float: "a finite number", int: "a whole number", str: "text", bool: "true or false"}

Positive: TypeAlias = Annotated[float, Meta(gt=0, description="be > 0 and finite")]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0, description="be >= 0 and finite")]
Probability: TypeAlias = Annotated[float, Meta(gt=0, lt=1, description="lie strictly between 0 and 1")]
Count: TypeAlias = Annotated[int, Meta(ge=1, description="be a whole number >= 1")]
_Plain: TypeAlias = bool | int | float | str
Free: TypeAlias = Annotated[
    _Plain | list[_Plain | list[_Plain]],
    Meta(description="be a number, text, true or false, or a list of these"),
]  # what a file can hold of a protocol's own settings


def typed(protocol: str, given: dict[str, Any], known: type | None = None) -> dict[str, Any]:
    """`given` with whole numbers made real where the protocol's settings, or `known`, want real ones; else an error.

    Names that these do not have pass: whoever builds the protocol says which there are.
    """
    if known is None:
        from coterie.protocols import PROTOCOLS

        known = PROTOCOLS.find(protocol).settings
    hints = get_type_hints(known, include_extras=True)
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
    >>> fit("delta", 1, Probability)
    Traceback (most recent call last):
    coterie.errors.InputError: delta=1.0: must lie strictly between 0 and 1.
    """
    plain = _plain(name, value)
    try:
        return convert(plain, hint)
    except (ValidationError, AttributeError):  # the second where msgspec takes an array for a mapping
        _refuse(name, value, plain, hint)


def _plain(name: str, value: Any) -> Any:
    """Numbers of any library as Python's; what no file can hold is an error already."""
    if isinstance(value, (list, tuple)):
        return [_plain(name, part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(f"{name}.{key}", part) for key, part in value.items()}
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{name}={value!a}: is not text in UTF-8. Rename it.") from None
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return int(value)
    if not math.isfinite(value):
        raise InputError(f"{name}={value}: must be a finite number.")
    return float(value)


def _refuse(name: str, value: Any, plain: Any, hint: Any) -> NoReturn:
    """Name the innermost part that does not fit, and what it must be."""
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in choices:
        _refuse_part(name, plain, kind)
    wanted = " or ".join(_word(kind) for kind in choices if kind is not NoneType)
    hints = (_check.meant(value, get_args(kind)) for kind in choices if get_origin(kind) is Literal)
    raise InputError(f"{name}={_shown(value)}: must be {wanted}.{''.join(hints)}")


def _refuse_part(name: str, plain: Any, kind: Any) -> None:
    """An error where the value is of that kind, and one of its parts or its bound is wrong."""
    if get_origin(kind) is Annotated:
        base, meta = get_args(kind)[:2]
        if base not in _WORDS:
            raise InputError(f"{name}={_shown(plain)}: must {meta.description}.")
        converted = fit(name, plain, base) if base is float and type(plain) is int else plain
        if type(converted) is base:
            raise InputError(f"{name}={_shown(converted)}: must {meta.description}.")
    elif get_origin(kind) is tuple and isinstance(plain, list):
        for part in plain:
            fit(name, part, get_args(kind)[0])
    elif get_origin(kind) is dict and isinstance(plain, dict) and all(isinstance(key, str) for key in plain):
        for key, part in plain.items():
            fit(f"{name}.{key}", part, get_args(kind)[1])


def _shown(value: Any) -> str:
    """A value in one line, however long its own form is."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _word(kind: Any) -> str:
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list of one for each owner"
    if get_origin(kind) is dict:
        return "a table of one for each owner's name" if get_args(kind)[1] is Positive else "a table"
    return _WORDS[kind]
