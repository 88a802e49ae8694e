"""Columns and their public ranges, from `bounds`; what these leave open is read off the rows, and said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets.memory import as_frame
from coterie.problems.names import some


class Ranges(NamedTuple):
    """Rows as a frame, and what a columns file would say of them."""

    frame: Any
    columns: dict[str, Any]
    read_off: tuple[str, ...]  # what was read off the rows, in words


def columns_of(x: Any, bounds: Any) -> Ranges:
    """`bounds`: (low, high) of all columns, a pair for each, or by name whatever a columns file may say of a column."""
    frame = as_frame(x)
    declared = _declared([str(name) for name in frame.columns], bounds)
    open_ = [name for name in frame.columns if name not in declared]
    read = {name: span_of(_numbers(frame[name])) for name in open_}
    words = (f"the ranges of {some(open_, 3)} (bounds)",) if open_ else ()
    return Ranges(frame, {name: declared.get(name, read.get(name)) for name in frame.columns}, words)


def _declared(names: list[str], bounds: Any) -> dict[str, Any]:
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        for name in bounds:
            if name not in names:
                raise InputError(f"bounds: X has no column {name!r}. Columns: {some(names)}.")
        return dict(bounds)
    try:
        pairs = np.broadcast_to(np.asarray(bounds, np.float64), (len(names), 2))
    except (TypeError, ValueError):
        raise InputError(
            f"bounds: must be (low, high) for all columns, a pair for each of {len(names)}, or a dictionary by name."
        ) from None
    return dict(zip(names, pairs.tolist()))


def span_of(values: np.ndarray) -> tuple[float, float]:
    """The range from the lowest value to the highest; where all are equal, a range around them."""
    low, high = float(values.min()), float(values.max())
    wide = max(1.0, abs(low)) if low == high else 0.0
    return low - wide, high + wide


def _numbers(column: Any) -> np.ndarray:
    if column.dtype.kind not in "iufb":
        raise InputError(
            f"bounds: {column.name!r} holds no numbers. List its public values: {{{column.name!r}: […]}}."
        )
    return column.to_numpy(np.float64)
