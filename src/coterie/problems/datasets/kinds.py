"""What a columns file may say of one column, and the field that it means.

    age = [0, 120]                                  # a number's range, or
    age = {range = [0, 120], unit = "years", missing = "middle"}
    ward = ["surgery", "medicine"]                  # a category's values, or
    ward = {values = ["surgery", "medicine"], missing = "marked"}
    smoker = {true = ["ja", "j"], false = ["nein", "n"]}
    admitted = {date = 2020-01-01, range = [2015-01-01, 2025-12-31], written = "DD.MM.YYYY"}
    discharged = {parts = ["month", "weekday"], written = "DD.MM.YYYY"}
    scan = {image = [28, 28], range = [0, 255]}     # arrays of an NPZ or Parquet file

Each kind has one key that tells it from the others, so that a table is of one kind or a contradiction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeAlias

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.datasets.dates import WRITTEN, reader
from coterie.problems.fields import (
    MARKED,
    MOST_PIXELS,
    PARTS,
    Category,
    Days,
    Feature,
    Field,
    Flag,
    Image,
    Numeric,
    Parts,
)

Spec: TypeAlias = tuple | Mapping[str, Any]  # of a column, as plain values
_ID = re.compile(r"(^|.*[^A-Za-z])(id|ids|uuid|guid|mrn|ssn)|.*[a-z](ID|Id)", re.DOTALL)


def is_id(name: str) -> bool:
    """Whether a column is named as those are that say who a row is about.

    >>> [is_id(name) for name in ("id", "patient_id", "PatientID", "Case-Id", "MRN", "paid", "fluid", "id_type")]
    [True, True, True, True, True, False, False, False]
    """
    return bool(_ID.fullmatch(name) or _ID.fullmatch(name.casefold()))


def as_field(name: str, spec: Spec) -> Feature:
    """A column as it is encoded; InputError names what contradicts."""
    what = f"column {name!r}"
    entry = spec if isinstance(spec, Mapping) else _short(spec)
    kind = _kind(what, entry)
    for key in entry:
        if key not in _KEYS[kind]:
            raise InputError(
                f"{what}: {key!r} does not go with {kind!r}. Known there: {', '.join(_KEYS[kind])}."
            )
    if kind in ("range", "date") and is_id(name):
        raise InputError(
            f"{what}: is named like an id, which says who a row is about. Name it in leave_out, or list its values."
        )
    return _MAKE[kind](name, what, entry)


def plain(spec: Any) -> Any:
    """A column's declaration in JSON's terms: lists, texts, numbers. TOML's dates become texts."""
    if isinstance(spec, Mapping):
        return {str(key): plain(part) for key, part in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [plain(part) for part in spec]
    if isinstance(spec, date) and not isinstance(spec, datetime):
        return spec.isoformat()
    return spec.item() if isinstance(spec, np.generic) else spec


def span(what: str, values: Any) -> tuple[float, float]:
    """A public range, checked."""
    fine = (
        is_list(values)
        and len(values) == 2
        and all(
            isinstance(value, (int, float)) and not isinstance(value, bool) and _check.finite(value)
            for value in values
        )
    )
    if not fine or not values[0] < values[1]:
        shown = list(values) if is_list(values) else values
        raise InputError(f"{what}={shown!r:.80}: must be two finite numbers, low < high, or a list of texts.")
    return float(values[0]), float(values[1])


def _short(values: Sequence[Any]) -> Mapping[str, Any]:
    texts = bool(values) and all(isinstance(value, str) for value in values)
    return {"values" if texts else "range": values}


def _kind(what: str, entry: Mapping[str, Any]) -> str:
    """The key that tells what the column is; a date's range is of dates."""
    there = [key for key in ("date", "parts", "true", "values", "image") if key in entry]
    if len(there) > 1:
        raise InputError(f"{what}: {there[0]!r} does not go with {there[1]!r}. Say one of them.")
    if not there and "range" not in entry:
        raise InputError(
            f"{what}: needs range, values, date, parts, image, or true and false. See docs/data.md."
        )
    return there[0] if there else "range"


def _number(name: str, what: str, entry: Mapping[str, Any]) -> Field:
    unit = _text(what, "unit", entry.get("unit", ""))
    low, high = span(what, entry["range"])
    return Numeric(name, low, high, unit=unit, missing=_missing(what, entry, "middle"))


def _category(name: str, what: str, entry: Mapping[str, Any]) -> Field:
    return Category(name, _words(what, "values", entry["values"]), _missing(what, entry, "none"))


def _flag(name: str, what: str, entry: Mapping[str, Any]) -> Field:
    true, false = (_words(what, key, entry.get(key)) for key in ("true", "false"))
    if set(true) & set(false):
        raise InputError(f"{what}: {sorted(set(true) & set(false))[0]!r} is listed as true and as false.")
    return Flag(name, true, false, _missing(what, entry, "middle"))


def _days(name: str, what: str, entry: Mapping[str, Any]) -> Field:
    origin = _day(what, "date", entry["date"])
    ends: Any = entry.get("range")
    if not is_list(ends) or len(ends) != 2:
        raise InputError(
            f'{what}: a date needs range = ["YYYY-MM-DD", "YYYY-MM-DD"], its first and last day.'
        )
    first, last = (_day(what, "range", end) for end in ends)
    if not first < last:
        raise InputError(f"{what}: range = [{first}, {last}] must go from an earlier day to a later one.")
    low, high = (float((end - origin).days) for end in (first, last))
    return Days(name, origin.isoformat(), low, high, _written(what, entry), _missing(what, entry, "middle"))


def _parts(name: str, what: str, entry: Mapping[str, Any]) -> Field:
    parts = _words(what, "parts", entry["parts"])
    for part in parts:
        if part not in PARTS:
            raise InputError(f"{what}: parts: {part!r:.40} must be one of {', '.join(PARTS)}.")
    return Parts(name, parts, _written(what, entry), _missing(what, entry, "none"))


def _image(name: str, what: str, entry: Mapping[str, Any]) -> Image:
    shape: Any = entry["image"]
    fine = (
        is_list(shape)
        and len(shape) in (2, 3)
        and all(type(length) is int and length > 0 for length in shape)
    )
    if not fine or math.prod(shape) > MOST_PIXELS:
        raise InputError(
            f"{what}: image={shape!r:.40} must be [height, width] or [height, width, channels], whole numbers above 0."
        )
    if "range" not in entry:
        raise InputError(f"{what}: images need the public range of their values, range = [low, high].")
    return Image(name, tuple(shape), *span(what, entry["range"]))


_MAKE: Mapping[str, Callable[[str, str, Mapping[str, Any]], Feature]] = {
    "range": _number, "values": _category, "true": _flag, "date": _days, "parts": _parts, "image": _image,
}  # fmt: skip
_KEYS: Mapping[str, tuple[str, ...]] = {
    "range": ("range", "unit", "missing"),
    "values": ("values", "missing"),
    "true": ("true", "false", "missing"),
    "date": ("date", "range", "written", "missing"),
    "parts": ("parts", "written", "missing"),
    "image": ("image", "range"),
}


def _missing(what: str, entry: Mapping[str, Any], word: str) -> str:
    """What an empty cell counts as; `word` for the kind: a list has no middle."""
    given = entry.get("missing", "")
    if "missing" in entry and given not in (word, MARKED):
        raise InputError(f"{what}: missing={given!r:.40} must be {word!r} or {MARKED!r}.")
    return given


def _written(what: str, entry: Mapping[str, Any]) -> str:
    written = _text(what, "written", entry.get("written", WRITTEN))
    reader(what, written)  # which checks it
    return written


def _day(what: str, key: str, value: Any) -> date:
    try:
        return date.fromisoformat(plain(value))
    except (TypeError, ValueError):
        raise InputError(f"{what}: {key}: {value!r:.40} must be a day, YYYY-MM-DD.") from None


def _words(what: str, key: str, values: Any) -> tuple[str, ...]:
    if not is_list(values) or not values or not all(isinstance(value, str) for value in values):
        raise InputError(f"{what}: {key} must be a list of texts.")
    if len(set(values)) < len(values):
        raise InputError(f"{what}: a value is listed twice.")
    return tuple(values)


def _text(what: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what}: {key} must be a text.")
    return value


def is_list(value: Any) -> bool:
    """Whether a value is a list, as files and agreements have them."""
    return isinstance(value, (list, tuple))
