"""The user's own table: CSV, Parquet or NPZ with a target column and, if there is one, an owner column.

Features must be numbers. Each needs a public range, from `bounds` or because it is already within [-1, 1]:
ranges read off the rows would be a release that nobody charged. Values outside their range are clipped to it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets._encode import Encoded, scale
from coterie.problems.datasets._table import binary, multiclass, random_test_rows, regression

if TYPE_CHECKING:
    from coterie.problems.table import Table

Frame: TypeAlias = Any  # a pandas frame or column; pandas is imported only where it is needed
Bounds = Mapping[str, tuple[float, float]]
_READERS = (".csv", ".parquet", ".npz")
_MOST_CLASSES = 100  # above it a target of whole numbers is taken to be a quantity


def load_file(
    path: str | Path,
    target: str,
    owner: str | None = None,
    features: tuple[str, ...] | None = None,
    bounds: Bounds | str | Path | None = None,
) -> Table:
    """Read a table; `bounds` maps columns to public (low, high), or names a TOML or JSON file that does.

    A target of text, booleans or few whole numbers is a class; give it a range in `bounds` to make it a
    quantity (regression), which needs one. A fifth of the rows, at random with a fixed seed, is held out for
    testing; they are still somebody's records, so metrics on them are marked as an oracle's, for the researcher.
    """
    path = Path(path)
    frame = read_frame(path)
    ranges = _ranges(bounds)
    for what, name in (("target", target), ("owner", owner)):
        if name is not None and name not in frame.columns:
            raise InputError(
                f"{what}={name!r}: no such column in {path.name}. Columns: {_list(frame.columns)}."
            )
    return table_of(frame, path.stem, target, owner, features, ranges)


def table_of(
    frame: Frame,
    name: str,
    target: str,
    owner: str | None,
    features: tuple[str, ...] | None,
    ranges: Bounds,
) -> Table:
    """A `Table` of a data frame whose target and owner columns are known to exist."""
    chosen = features or tuple(str(column) for column in frame.columns if column not in (target, owner))
    missing = [column for column in chosen if column not in frame.columns]
    if missing:
        raise InputError(
            f"features={missing[0]!r}: no such column in {name}. Columns: {_list(frame.columns)}."
        )
    if not chosen or len(frame) < 5:
        raise InputError(
            f"{name}: {len(frame)} rows and {len(chosen)} features; needs at least 5 rows, 1 feature."
        )
    encoded = _features(frame, chosen, ranges)
    test = random_test_rows(len(frame))
    owners = _owners(frame, owner, test) if owner else {}
    return _with_target(name, encoded, frame[target], ranges.get(target), test, owners)


def _with_target(
    name, encoded: Encoded, column: Frame, span, test: np.ndarray, owners: dict[str, Any]
) -> Table:
    if column.isna().any():
        raise InputError(
            f"target={column.name!r}: row {first_row(column.isna())} is empty. Remove such rows."
        )
    if span is not None:
        values = numbers(column)
        return regression(
            name, encoded, values, tuple(span), test, source=name, test_is_public=False, **owners
        )
    labels, codes = np.unique(column.astype(str), return_inverse=True)
    whole = not is_number(column) or bool((column == np.round(column)).all())
    if not whole or len(labels) > _MOST_CLASSES:
        raise InputError(
            f"target={column.name!r}: a quantity needs a public range."
            f" Give bounds = {{{column.name!r}: [low, high]}}."
        )
    if len(labels) < 2:
        raise InputError(f"target={column.name!r}: has one class, {labels[0]!r}; needs at least 2.")
    if is_number(column):  # 2 before 10
        values, codes = np.unique(column.to_numpy(np.float64), return_inverse=True)
        labels = [f"{value:g}" for value in values]
    classes = tuple(str(label) for label in labels)
    if len(classes) == 2:
        return binary(
            name, encoded, codes == 1, test, classes=classes, source=name, test_is_public=False, **owners
        )
    return multiclass(
        name, encoded, codes, test, classes=classes, source=name, test_is_public=False, **owners
    )


def _features(frame: Frame, chosen: tuple[str, ...], ranges: Bounds) -> Encoded:
    x = np.stack([_column(frame[name], ranges.get(name)) for name in chosen], axis=1)
    return Encoded(x, chosen, np.tile(np.array([-1.0, 1.0], np.float32), (len(chosen), 1)))


def _column(column: Frame, span: tuple[float, float] | None) -> np.ndarray:
    """One feature on [-1, 1]. The message names a row but no value: logs travel further than data should."""
    values = numbers(column)
    if span is None and np.abs(values).max() > 1:
        raise InputError(
            f"feature {column.name!r}: row {first_row(np.abs(values) > 1)} is outside [-1, 1]."
            f" Give its public range: bounds = {{{column.name!r}: [low, high]}}."
        )
    return values.astype(np.float32) if span is None else scale(values, *span)


def numbers(column: Frame) -> np.ndarray:
    """A column of finite numbers; InputError names the first row that is none."""
    import pandas as pd

    numeric: Frame = pd.to_numeric(column, errors="coerce")
    values = numeric.to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        kind = "empty" if column.isna().to_numpy()[bad][0] else "not a finite number"
        raise InputError(
            f"column {column.name!r}: row {first_row(bad)} is {kind}."
            " Encode text as numbers, fill or remove such rows."
        )
    return values


def _owners(frame: Frame, owner: str, test: np.ndarray) -> dict[str, Any]:
    column = frame[owner]
    if column.isna().any():
        raise InputError(
            f"owner={owner!r}: row {first_row(column.isna())} is empty. Give every row an owner."
        )
    names, codes = np.unique(column.astype(str), return_inverse=True)
    sizes = np.bincount(codes[~test], minlength=len(names))
    if sizes.min() < 2:
        short = names[int(sizes.argmin())]
        raise InputError(
            f"owner={owner!r}: {short!r} has fewer than 2 records outside the test rows. Merge or remove it."
        )
    return {"owner": codes, "owner_names": tuple(str(name) for name in names)}


def read_frame(path: Path) -> Frame:
    """The rows of a CSV, Parquet or NPZ file."""
    import pandas as pd

    if path.suffix not in _READERS:
        raise InputError(
            f"data={str(path)!r}: unknown format. Give a file that ends with {', '.join(_READERS)}."
        )
    if not path.is_file():
        raise InputError(f"data={str(path)!r}: no such file. Check the path.")
    try:
        if path.suffix == ".csv":
            return pd.read_csv(path)
        return pd.read_parquet(path) if path.suffix == ".parquet" else _npz(path)
    except (ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"data={str(path)!r}: cannot be read as {path.suffix[1:]} ({reason}).") from error


def _npz(path: Path) -> Frame:
    """One-dimensional arrays are columns; a matrix `x` gives columns x0, x1, …"""
    import pandas as pd

    with np.load(path, allow_pickle=False) as arrays:
        stored = {name: arrays[name] for name in arrays.files}
    columns: dict[str, np.ndarray] = {}
    for name, values in stored.items():
        if values.ndim == 1:
            columns[name] = values
        elif values.ndim == 2:
            columns |= {f"{name}{at}": values[:, at] for at in range(values.shape[1])}
        else:
            raise InputError(f"data={str(path)!r}: array {name!r} has {values.ndim} axes; needs 1 or 2.")
    if len({len(values) for values in columns.values()}) != 1:
        raise InputError(f"data={str(path)!r}: arrays differ in length. Give one value a row in each.")
    return pd.DataFrame(columns)


def _ranges(bounds: Bounds | str | Path | None) -> Bounds:
    if bounds is None:
        return {}
    found = bounds if isinstance(bounds, Mapping) else _side_file(Path(bounds))
    for name, span in found.items():
        if len(span) != 2 or not np.isfinite(span).all() or not span[0] < span[1]:
            raise InputError(f"bounds[{name!r}]={list(span)}: must be two finite numbers, low < high.")
    return found


def _side_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(
            f"bounds={str(path)!r}: no such file. Give a TOML or JSON file of column = [low, high]."
        )
    try:
        text = path.read_text()
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise InputError(f"bounds={str(path)!r}: cannot be read ({str(error).splitlines()[0]}).") from error
    if not isinstance(found, dict) or not all(isinstance(span, list) for span in found.values()):
        raise InputError(f"bounds={str(path)!r}: must map each column to [low, high].")
    return found


def is_number(column: Frame) -> bool:
    """Whether a column holds numbers rather than text."""
    return column.dtype.kind in "iuf"


def first_row(bad) -> int:
    """The first marked row, counted from 1 as a spreadsheet does (without its header)."""
    return int(np.flatnonzero(np.asarray(bad))[0]) + 1


def _list(columns) -> str:
    names = [str(name) for name in columns]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
