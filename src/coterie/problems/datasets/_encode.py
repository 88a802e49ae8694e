"""Columns to numbers, from public knowledge alone.

Every range and every list of categories is a constant of a loader, from the data set's documentation where
there is one, else set by hand for these public files (each loader says which). Nothing is fitted to rows, so
encoding costs no privacy: a value outside its range is clipped to it, an unknown category becomes all zeros,
a missing number the middle of its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np


class Numeric(NamedTuple):
    """A number with a public range, mapped onto [-1, 1]; `log` for amounts with a long tail."""

    name: str
    low: float
    high: float
    log: bool = False


class Binned(NamedTuple):
    """A number cut at public edges into one-hot bins [e0, e1), [e1, e2), …; the outer bins catch the rest."""

    name: str
    edges: tuple[float, ...]


class Category(NamedTuple):
    """One of a public list of values, one-hot."""

    name: str
    values: tuple[str, ...]


Field: TypeAlias = Numeric | Binned | Category


class Encoded(NamedTuple):
    """x: (rows, dim) float32 within `bounds`: (dim, 2)."""

    x: np.ndarray
    columns: tuple[str, ...]
    bounds: np.ndarray


def scale(values: np.ndarray, low: float, high: float, log: bool = False) -> np.ndarray:
    """Clip to [low, high] and map onto [-1, 1]; a missing value becomes 0.

    >>> scale(np.array([0.0, 50.0, 400.0, np.nan]), 0, 100).tolist()
    [-1.0, 0.0, 1.0, 0.0]
    """
    inside = np.clip(np.asarray(values, np.float64), low, high) - low
    share = np.log1p(inside) / np.log1p(high - low) if log else inside / (high - low)
    return np.nan_to_num(2.0 * share - 1.0, nan=0.0).astype(np.float32)


def encode(columns: Mapping[str, np.ndarray], fields: Sequence[Field]) -> Encoded:
    """Encode the named columns, field by field.

    >>> columns = {"age": np.array([17, 90]), "sex": np.array(["F", "?"])}
    >>> out = encode(columns, (Numeric("age", 0, 90), Category("sex", ("F", "M"))))
    >>> out.columns
    ('age', 'sex=F', 'sex=M')
    >>> out.x[1].tolist()
    [1.0, 0.0, 0.0]
    """
    names = tuple(name for field in fields for name in _names(field))
    rows = len(columns[fields[0].name])
    x = np.zeros((rows, len(names)), np.float32)
    bounds = np.tile(np.array([0.0, 1.0], np.float32), (len(names), 1))
    at = 0
    for field in fields:
        width = len(_names(field))
        if isinstance(field, Numeric):
            x[:, at] = scale(columns[field.name], *field[1:])
            bounds[at, 0] = -1.0
        else:
            codes = _codes(columns[field.name], field)
            known = codes >= 0
            x[np.flatnonzero(known), at + codes[known]] = 1.0
        at += width
    return Encoded(x, names, bounds)


def codes_of(values: np.ndarray, vocabulary: Sequence[str]) -> np.ndarray:
    """Position of each value in a public list; -1 when it is not there.

    >>> codes_of(np.array(["b", "z", "a"]), ("a", "b")).tolist()
    [1, -1, 0]
    """
    import pandas as pd

    return np.asarray(pd.Index(vocabulary).get_indexer(pd.Index(np.asarray(values, object))), np.int32)


def _names(field: Field) -> tuple[str, ...]:
    if isinstance(field, Numeric):
        return (field.name,)
    if isinstance(field, Category):
        return tuple(f"{field.name}={value}" for value in field.values)
    spans = zip(field.edges, field.edges[1:])
    return tuple(f"{field.name} {low:g} to {high:g}" for low, high in spans)


def _codes(values: np.ndarray, field: Binned | Category) -> np.ndarray:
    if isinstance(field, Category):
        return codes_of(values, field.values)
    return np.digitize(np.asarray(values, np.float64), field.edges[1:-1])
