"""Columns to numbers, from public knowledge alone.

Every range and every list of categories is a constant of a loader, from the data set's documentation where
there is one, else set by hand for these public files (each loader says which). Nothing is fitted to rows, so
encoding costs no privacy: a value outside its range is clipped to it, an unknown category becomes all zeros,
a missing number the middle of its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.problems.datasets.dates import part_codes
from coterie.problems.fields import (
    MARKED,
    PARTS,
    Binned,
    Category,
    Days,
    Feature,
    Field,
    Flag,
    Image,
    Numeric,
    Parts,
    Plain,
)


class Encoded(NamedTuple):
    """x: (rows, dim) float32 within `bounds`: (dim, 2). Images: (rows, height, …), and bounds (1, 2)."""

    x: np.ndarray
    columns: tuple[str, ...]
    bounds: np.ndarray
    fields: tuple[Feature, ...]  # what the columns were before: a trained model encodes new rows the same way


def scale(values: np.ndarray, low: float, high: float, log: bool = False) -> np.ndarray:
    """Clip to [low, high] and map onto [-1, 1]; a missing value becomes 0.

    >>> scale(np.array([0.0, 50.0, 400.0, np.nan]), 0, 100).tolist()
    [-1.0, 0.0, 1.0, 0.0]
    """
    inside = np.clip(np.asarray(values, np.float64), low, high) - low
    share = np.log1p(inside) / np.log1p(high - low) if log else inside / (high - low)
    return np.nan_to_num(2.0 * share - 1.0, nan=0.0).astype(np.float32)


def encode(columns: Any, fields: Sequence[Feature]) -> Encoded:
    """Encode the named columns of a frame or a mapping, field by field: numbers, dates in days (`Days`) or as dates
    (`Parts`), texts.

    A cell that is missing is NaN, NaT or None there; what a list does not hold is anything else.

    >>> columns = {"age": np.array([17, 90]), "sex": np.array(["F", "?"])}
    >>> out = encode(columns, (Numeric("age", 0, 90), Category("sex", ("F", "M"))))
    >>> out.columns
    ('age', 'sex=F', 'sex=M')
    >>> out.x[1].tolist()
    [1.0, 0.0, 0.0]
    """
    if isinstance(fields[0], Image):
        return _images(columns[fields[0].name], fields[0])
    fields = [field for field in fields if not isinstance(field, Image)]  # which stand alone
    by_field = [_names(field) for field in fields]
    names = tuple(name for field_names in by_field for name in field_names)
    rows = len(columns[fields[0].name])
    x = np.zeros((rows, len(names)), np.float32)
    bounds = np.tile(np.array([0.0, 1.0], np.float32), (len(names), 1))
    at = 0
    for field, field_names in zip(fields, by_field):
        values, width = np.asarray(columns[field.name]), len(field_names)
        if isinstance(field, (Numeric, Days)):
            x[:, at] = scale(values, field.low, field.high, isinstance(field, Numeric) and field.log)
            bounds[at, 0] = -1.0
        elif isinstance(field, Flag):
            x[:, at] = np.nan_to_num(np.asarray(values, np.float32), nan=0.5)
        elif isinstance(field, Plain):
            x[:, at] = np.clip(np.asarray(values, np.float32), field.low, field.high)
            bounds[at] = field.low, field.high
        else:
            for start, codes in _codes(values, field):
                known = codes >= 0
                x[np.flatnonzero(known), at + start + codes[known]] = 1.0
        if field.missing == MARKED:
            x[:, at + width - 1] = _is_missing(values)
        at += width
    return Encoded(x, names, bounds, tuple(fields))


def _images(values: np.ndarray, field: Image) -> Encoded:
    """Images as they are; an agreement's table without rows has the declared shape, too."""
    x = values if len(values) else np.zeros((0, *field.shape), np.float32)
    return Encoded(x, (field.name,), np.array([[field.low, field.high]], np.float32), (field,))


def encoded_names(fields: Sequence[Field]) -> tuple[str, ...]:
    """The columns that `encode` makes of fields.

    >>> encoded_names((Numeric("age", 0, 90), Category("sex", ("F", "M"))))
    ('age', 'sex=F', 'sex=M')
    """
    return tuple(name for field in fields for name in _names(field))


def codes_of(values: np.ndarray, vocabulary: Sequence[str]) -> np.ndarray:
    """Position of each value in a public list, such as of categories or owners; -1 when it is not there.

    >>> codes_of(np.array(["b", "z", "a"]), ("a", "b")).tolist()
    [1, -1, 0]
    """
    if not len(values):  # an agreement's table has no rows: a node need not load pandas for it
        return np.zeros(0, np.int32)
    import pandas as pd

    return np.asarray(pd.Index(vocabulary).get_indexer(pd.Index(np.asarray(values, object))), np.int32)


def _names(field: Field) -> tuple[str, ...]:
    marked = (f"{field.name} is missing",) if field.missing == MARKED else ()
    if isinstance(field, Category):
        return *(f"{field.name}={value}" for value in field.values), *marked
    if isinstance(field, Parts):
        return *(f"{field.name} {part}={value}" for part in field.parts for value in PARTS[part]), *marked
    if isinstance(field, Binned):
        spans = zip(field.edges, field.edges[1:])
        return tuple(f"{field.name} {low:g} to {high:g}" for low, high in spans)
    return field.name, *marked


def _codes(values: np.ndarray, field: Binned | Category | Parts) -> list[tuple[int, np.ndarray]]:
    """For each list of the field, its first column and the place of each row's value in the list, -1 if none."""
    if isinstance(field, Category):
        return [(0, codes_of(values, field.values))]
    if isinstance(field, Binned):
        return [(0, np.digitize(np.asarray(values, np.float64), field.edges[1:-1]))]
    widths = [len(PARTS[part]) for part in field.parts]
    dates = np.asarray(values, "datetime64[D]")
    return [(sum(widths[:at]), part_codes(part, dates)) for at, part in enumerate(field.parts)]


def _is_missing(values: np.ndarray) -> np.ndarray:
    if not len(values):
        return np.zeros(0, bool)
    import pandas as pd

    return np.asarray(pd.isna(values))
