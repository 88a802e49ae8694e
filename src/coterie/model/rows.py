"""New rows as people have them, checked and encoded as the training's rows were.

A message names a row and a column, never a value: rows that are predicted on are somebody's records too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from coterie.errors import InputError
from coterie.model.description import Description
from coterie.problems.datasets import encode
from coterie.problems.datasets.cells import flag_numbers, nothing, stand_in
from coterie.problems.datasets.dates import dates_of, day, days_since
from coterie.problems.fields import Binned, Category, Days, Field, Flag, Numeric, Parts, Plain

Rows: TypeAlias = Any  # a mapping of columns, a frame, or an array in the columns' order; images: an array
_LISTED = 12  # names that a message lists


class OutOfRange(UserWarning):
    """Values outside the declared range of their column were moved to its end, as in training."""


def encoded(description: Description, rows: Rows) -> tuple[np.ndarray, list[str]]:
    """Rows as input of the model's features, and a sentence for each column with values out of range."""
    if description.shape:
        return _images(description, rows), []
    columns = {}
    notes = []
    for field, cells in zip(description.fields, _columns(description.names, rows)):
        empty = np.zeros(len(cells), bool)
        if field.missing:
            empty = np.array([_missing(cell) for cell in cells.tolist()])
            cells = np.where(empty, np.array(stand_in(field), object), cells.astype(object))
        values, outside = _values(field, cells)
        if outside:
            notes.append(
                f"column {field.name!r}: {outside:,} of {len(values):,} values lie outside [{_range(field)}] and "
                "count as its nearest end, as in training."
            )
        if empty.any():
            values = values.copy()
            values[empty] = nothing(field)
        columns[field.name] = values
    return encode(columns, description.fields).x, notes


def _values(field: Field, cells: np.ndarray) -> tuple[np.ndarray, int]:
    """A column as input of `encode`, and how many of its values were out of range."""
    if isinstance(field, Category):
        places = _places(field.name, cells, field.values, "its values")
        return np.array(field.values, object)[places], 0
    if isinstance(field, Flag):
        places = _places(field.name, cells, (*field.true, *field.false), "its values")
        return flag_numbers(field)[places], 0
    if isinstance(field, Parts):
        return _dates(field, cells), 0
    if isinstance(field, Days):
        days = days_since(field.origin, _dates(field, cells))
        return days, int(((days < field.low) | (days > field.high)).sum())
    return _checked_numbers(field, cells)


def _dates(field: Days | Parts, cells: np.ndarray) -> np.ndarray:
    for row, value in enumerate(cells.tolist(), 1):
        if _missing(value):
            raise InputError(f"column {field.name!r}: row {row} is empty. Fill in or remove such rows.")
    return dates_of(field, cells)


def _range(field: Field) -> str:
    if isinstance(field, Days):
        return f"{day(field, field.low)}, {day(field, field.high)}"
    low, high = _ends(field) if isinstance(field, (Numeric, Plain, Binned)) else (0, 1)
    return f"{low:g}, {high:g}"


def labels(description: Description, y: Any) -> np.ndarray:
    """Positions of class names in the model's list; InputError names the first row that is none of them."""
    return _places("y", np.asarray(y, object).ravel(), description.classes, "the model's classes")


def quantities(name: str, values: Any) -> np.ndarray:
    """Finite numbers; InputError names the first row that is none."""
    given = np.asarray(values)
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([_number(cell) for cell in given.tolist()])
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        kind = "empty" if _missing(given[row]) else "not a finite number"
        raise InputError(f"column {name!r}: row {row + 1} is {kind}. Fill in or remove such rows.")
    return numbers


def _columns(names: Sequence[str], rows: Rows) -> list[np.ndarray]:
    for way in ("to_pandas", "toarray"):  # other frames, Hugging Face's sets; SciPy's sparse matrices
        rows = getattr(rows, way)() if hasattr(rows, way) else rows
    if isinstance(rows, Mapping) or hasattr(rows, "columns"):
        known = {str(name): name for name in (rows if isinstance(rows, Mapping) else rows.columns)}
        missing = [name for name in names if name not in known]
        if missing:
            raise InputError(
                f"rows: no column {_few(missing)}. The model needs {_few(names)}; other columns are not looked at."
            )
        columns = [_flat(name, rows[known[name]]) for name in names]
    else:
        table = np.asarray(rows)
        if table.ndim != 2 or table.shape[1] != len(names):
            raise InputError(
                f"rows of shape {table.shape}: must be (rows, {len(names)}), in the order {_few(names)}."
            )
        columns = list(table.T)
    if len({len(column) for column in columns}) > 1:
        raise InputError("rows: columns differ in length. Give one value a row in each.")
    if not len(columns[0]):
        raise InputError("rows: none given. Give at least one.")
    return columns


def _flat(name: str, column: Any) -> np.ndarray:
    values = np.asarray(column)
    if values.ndim != 1:
        raise InputError(f"column {name!r}: has shape {values.shape}. Give one value a row.")
    return values


def _checked_numbers(field: Numeric | Plain | Binned, values: np.ndarray) -> tuple[np.ndarray, int]:
    numbers, (low, high) = quantities(field.name, values), _ends(field)
    outside = (numbers < low) | (numbers >= high if isinstance(field, Binned) else numbers > high)
    return numbers, int(outside.sum())


def _places(name: str, values: np.ndarray, known: Sequence[str], what: str) -> np.ndarray:
    """Each value's position in a declared list, by its text or as the same number (1, 1.0 and 01)."""
    exact = {word: at for at, word in enumerate(known)}
    loose = {_canonical(word): at for word, at in exact.items()}
    places = []
    for row, value in enumerate(values.tolist(), 1):
        if _missing(value):
            raise InputError(f"column {name!r}: row {row} is empty. Fill in or remove such rows.")
        place = exact.get(str(value), loose.get(_canonical(value)))
        if place is None:
            raise InputError(f"column {name!r}: row {row} is none of {what}: {_few(known)}. Correct it.")
        places.append(place)
    return np.array(places, int)


def _canonical(value: Any) -> str:
    number = np.nan if isinstance(value, bool) else _number(value)
    return f"number {number!r}" if np.isfinite(number) else str(value)


def _images(description: Description, rows: Rows) -> np.ndarray:
    """Images; values out of range are refused, as they are mostly bytes, 0 to 255, in place of 0 to 1."""
    images = np.asarray(rows)
    if images.shape[1:] != description.shape or not len(images) or images.dtype.kind not in "fiub":
        shape = ", ".join(map(str, description.shape))
        raise InputError(
            f"rows of shape {images.shape}: must be an array of images, (rows, {shape}), at least one."
        )
    low, high = description.pixels or (-np.inf, np.inf)
    fine = ((images >= low) & (images <= high)).reshape(len(images), -1).all(axis=1)  # not true of NaN
    if not fine.all():
        row = int(np.flatnonzero(~fine)[0]) + 1
        remedy = "Scale bytes by 1/255." if (low, high) == (0, 1) else "Move such values to its nearer end."
        raise InputError(f"rows: image {row} has a value outside [{low:g}, {high:g}], or none. {remedy}")
    return images.astype(np.float32)


def _ends(field: Numeric | Plain | Binned) -> tuple[float, float]:
    return (field.edges[0], field.edges[-1]) if isinstance(field, Binned) else (field.low, field.high)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' missing value."""
    return value is None or (isinstance(value, float) and value != value) or str(value) in ("<NA>", "NaT", "")


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_LISTED]))
    return shown + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
