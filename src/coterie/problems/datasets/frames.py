"""Rows of a CSV, Parquet or NPZ file, and the numbers or texts of a column.

A cell is read by itself: what one row holds never changes how another is read. So columns of texts are read as
texts (`text`), where a reader that guesses would make numbers of them unless one of the rows is none.
"""

from __future__ import annotations

import csv
import zipfile
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.datasets import delimited, pixels
from coterie.problems.names import READERS, folded, number_text, some

Frame: TypeAlias = Any  # a pandas frame or column; pandas is imported only where it is needed
MOST_COLUMNS = 20_000  # more take minutes to read before anything can be said about them
_READ_AS, _FINDINGS = "read_as", "findings"  # of a frame's attributes


def check_file(path: Path) -> str:
    """Its ending, by which it is read; InputError where there is no such file, or no reader."""
    kind = path.suffix.lower()
    if kind not in READERS:
        raise InputError(
            f"data={str(path)!r}: unknown format. Give a file that ends with {', '.join(READERS)}."
        )
    if not path.is_file():
        raise InputError(f"data={str(path)!r}: no such file. Check the path.")
    return kind


def read_frame(path: Path, text: Collection[str] = ()) -> Frame:
    """The rows of a file; the columns named in `text` of a CSV file as they are written there."""
    kind = check_file(path)
    try:
        if kind == ".csv":
            rows = delimited.read(path, text, check_names)
            rows.frame.attrs |= {_READ_AS: rows.read_as, _FINDINGS: rows.findings}
            return rows.frame
        return _npz(path) if kind == ".npz" else _parquet(path)
    except (ValueError, OSError, EOFError, csv.Error, zipfile.BadZipFile) as error:
        # its words are the library's, and may quote a cell
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise InputError(
            f"data={str(path)!r}: cannot be read as {kind[1:]} ({reason}). Is it empty, damaged or of another kind?"
        ) from error


def read_as(frame: Frame) -> str:
    """How the file was read, in words; empty where it says so itself, as Parquet does. Public."""
    return frame.attrs.get(_READ_AS, "")


def seen(frame: Frame) -> tuple[str, ...]:
    """What was seen in a file's lines. Private."""
    return frame.attrs.get(_FINDINGS, ())


def check_names(path: Path | str, names: Sequence[str]) -> None:
    """Columns must be few enough to be read, and each must have a name of its own."""
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"data={str(path)!r}: has {len(names):,} columns, must be at most {MOST_COLUMNS:,}. Leave some out."
        )
    counts = Counter(str(name).strip() for name in names)
    twice = [(name, times) for name, times in counts.items() if times > 1]
    if twice:
        name, times = twice[0]
        what = f"column {name!r} stands {times} times" if name else f"{times} columns have no name"
        raise InputError(f"data={str(path)!r}: {what} in the header. Give every column a name of its own.")


def _npz(path: Path) -> Frame:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return _framed(path, {name: arrays[name] for name in arrays.files})


def _parquet(path: Path) -> Frame:
    """Columns; lists of one length are an array, as in NPZ."""
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        check_names(path, file.schema_arrow.names)
        table = file.read()
    nested = {name: array for name in table.column_names if (array := pixels.nested(table[name])) is not None}
    if not nested:
        return table.to_pandas()
    plain = table.drop_columns(list(nested)).to_pandas()
    return _framed(path, {str(name): plain[name] for name in plain.columns} | nested)


def _framed(path: Path, stored: dict[str, Any]) -> Frame:
    """One-dimensional arrays are columns; a matrix `x` gives columns x0, x1, …; more axes are images, one a row."""
    import pandas as pd

    for name, values in stored.items():
        if not 1 <= values.ndim <= 4:
            raise InputError(
                f"data={str(path)!r}: array {name!r} has {values.ndim} axes; needs 1, 2, or of images 3 or 4."
            )
    widths = {name: values.shape[1] if values.ndim == 2 else None for name, values in stored.items()}
    if sum(width or 1 for width in widths.values()) > MOST_COLUMNS:
        raise InputError(f"data={str(path)!r}: has more than {MOST_COLUMNS:,} columns. Leave some out.")
    names = [
        (f"{name}{at}", name, at) for name, width in widths.items() for at in range(width or 0)
    ] + [(name, name, None) for name, width in widths.items() if width is None]  # fmt: skip
    check_names(path, [column for column, _, _ in names])
    if len({len(values) for values in stored.values()}) != 1:
        raise InputError(f"data={str(path)!r}: arrays differ in length. Give one value a row in each.")
    return pd.DataFrame(
        {
            column: pixels.cells(stored[name]) if at is None else stored[name][:, at]
            for column, name, at in names
        }
    )


def numbers(column: Frame) -> np.ndarray:
    """A column of finite numbers; InputError names the first row that is none."""
    pixels.refuse(column)
    try:
        values = _as_numbers(column)
    except (TypeError, OverflowError):  # cells that are lists, or whole numbers that no double holds
        values = _as_numbers(column.map(lambda cell: cell if _may_be_number(cell) else np.nan))
    bad = ~np.isfinite(values)
    if bad.any():
        if column.isna().to_numpy()[bad][0]:
            raise empty_cell(column)
        raise InputError(
            f"column {column.name!r}: row {first_row(bad)} is not a finite number."
            " List the values of a text in a columns file (coterie data init FILE writes one to fill in), name the"
            " column that says whose a row is (--owner-column), or fill or remove such rows."
        )
    return values


def texts(column: Frame) -> np.ndarray:
    """A column's values as texts, whole numbers without a point; InputError names the first row that is empty."""
    import pandas as pd

    pixels.refuse(column)
    if column.isna().any():
        raise empty_cell(column)
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # of what cannot be compared
        odd = column.map(lambda cell: not isinstance(cell, Hashable))
        raise InputError(
            f"column {column.name!r}: row {first_row(odd)} is no single value. Give one text or number a row."
        ) from None
    words = [str(value) for value in values]
    if column.dtype.kind == "f":
        words = [number_text(word) or word for word in words]
    return np.array(words, object)[codes]


def _as_numbers(column: Frame) -> np.ndarray:
    """NaN where a cell is none."""
    import pandas as pd

    numeric: Frame = pd.to_numeric(column, errors="coerce")
    return numeric.to_numpy(np.float64, na_value=np.nan)


def _may_be_number(cell: Any) -> bool:
    return isinstance(cell, str) or (isinstance(cell, (int, float, np.number)) and _check.finite(cell))


def empty_cell(column: Frame) -> InputError:
    """The error about an empty cell that no columns file allows."""
    return InputError(
        f"column {column.name!r}: row {first_row(column.isna())} is empty. Fill or remove such rows, or say in a "
        "columns file what an empty cell of a feature counts as (missing)."
    )


def first_row(bad) -> int:
    """The first marked row, counted from 1 as a spreadsheet does (without its header)."""
    return int(np.flatnonzero(np.asarray(bad))[0]) + 1


def missing(what: str, name: str, source: str, columns) -> InputError:
    """The error about a column that is not there, with the one that may have been meant."""
    names = [str(column) for column in columns]
    meant = [column for column in names if folded(column) == folded(name)]
    hint = f"Did you mean {meant[0]!r}?" if meant else f"Columns: {some(names)}."
    return InputError(f"{what}={name!r}: no such column in {source}. {hint}")
