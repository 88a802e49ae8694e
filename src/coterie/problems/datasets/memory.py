"""Rows in memory as a frame, whatever library holds them, so that they take the same path as a file's rows.

An object is known by what it can do, and none of these libraries is imported: pandas frames, whatever has `to_pandas`
(polars, Arrow, Hugging Face `datasets`), mappings of columns, NumPy arrays, SciPy's sparse matrices (`toarray`), and
what gives its rows one by one as pairs (x, y), such as a PyTorch `Dataset`. Arrays come with their targets: (X, y).

A matrix has columns x0, x1, …; images, arrays of three or more axes, are one column x of arrays, as in an NPZ file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets.declared import Columns, declared
from coterie.problems.datasets.frames import MOST_COLUMNS, Frame, check_names
from coterie.problems.datasets.own import table_of
from coterie.problems.datasets.pixels import cells
from coterie.problems.table import Table
from coterie.units import RECORD, Unit

Held: TypeAlias = Any  # rows as any of those libraries holds them, or a pair (X, y)
NAME = "in memory"  # of a data set that has no other
TARGET, OWNER, GROUP, MATRIX = "target", "owner", "group", "x"  # columns that have no name of their own


class Records:
    """Rows in memory, with the columns that say what is to be learnt and whose they are. Private, and shown nowhere."""

    name = NAME

    def __init__(self, data: Held, owners: Any = None, *, groups: Any = None, held_out: bool = True) -> None:
        """`owners`: who holds each row; `groups`: whom it is about, where the unit of privacy is more than a record.

        `held_out`: whether a fifth of the rows is for testing, as of a file.
        """
        self.frame, self.target = _frame_with_target(data)
        self.owner: str | None = None
        self.group: str | None = None
        self.held_out = held_out
        if groups is not None:
            self.group = free(str(getattr(groups, "name", None) or GROUP), self.frame.columns)
            self.frame = self.frame.assign(**{self.group: _one_each("groups", groups, len(self.frame))})
        if owners is not None:
            self.owner = free(OWNER, self.frame.columns)
            self.frame = self.frame.assign(**{self.owner: _one_each("owners", owners, len(self.frame))})

    def __repr__(self) -> str:
        return f"<Records: {len(self.frame.columns)} columns>"

    def table(
        self,
        target: str | None,
        owner_column: str | None,
        columns: Columns | None,
        unit: Unit = RECORD,
    ) -> Table:
        """The table, as `load_file` makes it of a file; the target or the owner may have come with the rows."""
        frame, named = self.frame, self.target
        if self.owner is not None and owner_column is not None:
            raise InputError(f"owner_column={owner_column!r}: owners are given, too. Give one of them.")
        declaration = declared(columns, target)
        if named is not None and declaration.target is not None:  # y has no name of its own, or a better one
            if declaration.target != named and declaration.target in frame.columns:
                raise InputError(
                    f"target={declaration.target!r}: is a column of X, and y is given. Give one of them."
                )
            frame, named = frame.rename(columns={named: declaration.target}), declaration.target
        if named is None and declaration.target is None:
            raise InputError("target=None: name the column that is to be learnt, or give data=(X, y).")
        declaration = declared(columns, declaration.target or named)
        return table_of(
            frame, NAME, declaration, self.owner or owner_column, test_too=self.held_out, unit=unit
        )


def _frame_with_target(data: Held) -> tuple[Frame, str | None]:
    """One frame of all columns, and which of them was given as y."""
    if not isinstance(data, tuple):
        pairs = _pairs(data)
        if pairs is None:
            return as_frame(data), None
        data = pairs
    if len(data) != 2:
        raise InputError(f"data: a tuple of {len(data)}; must be (X, y). Give owners by themselves.")
    x, y = data
    frame, name = as_frame(x), str(getattr(y, "name", None) or TARGET)
    if name in frame.columns:
        raise InputError(
            f"y: is named {name!r}, as a column of X is. A target is no feature: rename one of them."
        )
    return frame.assign(**{name: _one_each("y", y, len(frame))}), name


def as_frame(data: Held) -> Frame:
    """Columns by their names, rows numbered anew; cells are not copied where that can be helped."""
    import pandas as pd

    if hasattr(data, "to_pandas"):
        return _tidy(_named_labels(data, data.to_pandas()))
    if isinstance(data, (pd.DataFrame, Mapping)):
        try:
            return _tidy(pd.DataFrame(data))
        except ValueError as error:
            raise InputError(
                f"data: columns do not make a table ({error}). Give one value a row in each."
            ) from None
    values = _array(data)
    if values.ndim > 2:
        return pd.DataFrame({MATRIX: cells(values)})
    _check_width(values.shape[1])
    return pd.DataFrame(values, columns=[f"{MATRIX}{at}" for at in range(values.shape[1])])


def _array(data: Held) -> np.ndarray:
    if hasattr(data, "toarray"):  # SciPy's sparse; what is learnt from is dense
        _check_width(data.shape[1])
        data = data.toarray()
    values = np.asarray(data) if hasattr(data, "__array__") or isinstance(data, list) else None
    if values is None or values.ndim < 2 or (values.dtype == object and values.ndim > 2):
        shape = "" if values is None else f" of shape {values.shape}"
        raise InputError(
            f"data: a {type(data).__name__}{shape} holds no rows with columns. Give a frame (pandas, polars, Arrow, "
            "Hugging Face), arrays or sparse matrices as (X, y), or a dataset of pairs (x, y)."
        )
    return values


def _tidy(frame: Frame) -> Frame:
    frame = frame.reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    check_names(NAME, list(frame.columns))
    return frame


def _named_labels(data: Held, frame: Frame) -> Frame:
    """Hugging Face keeps class labels as positions in a list of names: here they are the names."""
    features = getattr(data, "features", None)
    for column, kind in features.items() if isinstance(features, Mapping) else ():
        names = getattr(kind, "names", None)
        if names and column in frame.columns:
            words = dict(enumerate(names))
            frame = frame.assign(**{column: frame[column].map(words)})
    return frame


def _pairs(data: Held) -> tuple[np.ndarray, np.ndarray] | None:
    """X and y of what gives pairs row by row; None of what does not."""
    attributes = ("columns", "to_pandas", "toarray", "__array__", "keys")
    if isinstance(data, (list, str)) or any(hasattr(data, name) for name in attributes):
        return None
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        return None
    rows = [data[at] for at in range(len(data))]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise InputError(
                f"data: row {number} is no pair (x, y). Give a dataset of pairs, a frame, or (X, y)."
            )
    xs = [np.asarray(x) for x, _ in rows]
    odd = [number for number, x in enumerate(xs, 1) if x.shape != xs[0].shape]
    if odd:
        raise InputError(
            f"data: row {odd[0]} has another shape than the rows before. Give rows of one shape."
        )
    if not xs:
        raise InputError("data: has no rows. Give at least 5.")
    return np.stack(xs), np.array([np.asarray(y).item() if np.ndim(y) == 0 else y for _, y in rows])


def _one_each(what: str, values: Any, rows: int) -> Any:
    """A value for each row, whatever index it came with."""
    column = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (rows,):
        raise InputError(f"{what}: has shape {column.shape} for {rows} rows. Give one value for each row.")
    return column


def _check_width(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise InputError(f"data: has {columns:,} columns, must be at most {MOST_COLUMNS:,}. Leave some out.")


def free(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name
