"""Data sets of OpenML, downloaded once into a local cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import InputError
from coterie.units import RECORD, Unit

if TYPE_CHECKING:
    from coterie.problems.datasets.declared import Columns, Declared
    from coterie.problems.table import Table

Fetch = Callable[..., Any]
_SHARE = (-1.0, 1.0)  # where a column of zeros and ones is as it is


def load_openml(
    which: str,
    owner: str | None = None,
    columns: Columns | None = None,
    cache: str | Path | None = None,
    fetch: Fetch | None = None,
    unit: Unit = RECORD,
) -> Table:
    """Read `openml:NAME_OR_ID` (with or without the prefix); the target is the data set's default one.

    Columns that are not numbers are one-hot encoded over the categories that the data set's ARFF header
    declares, unless `columns`, a columns file or its content, lists their values; so are classes. `cache` is a folder,
    by default $COTERIE_CACHE or ~/.cache/coterie; `fetch` stands in for scikit-learn's function.
    """
    from coterie.problems.datasets.declared import declared
    from coterie.problems.datasets.own import table_of

    name = which.removeprefix("openml:")
    folder = Path(cache or os.environ.get("COTERIE_CACHE") or Path.home() / ".cache" / "coterie") / "openml"
    bunch = _fetch(name, folder, fetch)
    target = bunch.target
    if target is None or getattr(target, "ndim", 1) != 1:
        raise InputError(f"data='openml:{name}': has no single default target. Download it and use a file.")
    declaration = _with_header(declared(columns, str(target.name)), target)
    frame = _one_hot(bunch.data, (owner, unit.column, unit.latest, *declaration.columns))
    encoded = tuple(str(column) for column in frame.columns if column not in bunch.data.columns)
    if declaration.columns:  # which then names all features
        declaration = replace(declaration, columns={**declaration.columns, **dict.fromkeys(encoded, _SHARE)})
    frame = frame.assign(**{str(target.name): target})
    return table_of(frame, f"openml:{name}", declaration, owner, unit=unit)


def _with_header(declaration: Declared, target) -> Declared:
    """Classes from the header (a pandas categorical), where nothing else is declared."""
    import pandas as pd

    if declaration.classes or declaration.range or not isinstance(target.dtype, pd.CategoricalDtype):
        return declaration
    return replace(declaration, classes=tuple(str(category) for category in target.dtype.categories))


def _fetch(name: str, folder: Path, fetch: Fetch | None):
    if fetch is None:
        from sklearn.datasets import fetch_openml as fetch
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"data_id": int(name)} if name.isdigit() else {"name": name}
    try:
        return fetch(**wanted, data_home=str(folder), as_frame=True, parser="auto")
    except (OSError, ValueError) as error:  # URLError is an OSError; ValueError: no such data set
        reason = str(error).splitlines()[0]
        raise InputError(
            f"data='openml:{name}': not in the cache {str(folder)!r} and cannot be downloaded ({reason})."
            " Check the name and the network, or use a local file."
        ) from error


def _one_hot(frame, left: Collection[str | None]):
    """Categories come from the header (a pandas categorical), never from the rows."""
    import pandas as pd

    named = [
        name
        for name in frame.columns
        if name not in left and isinstance(frame[name].dtype, pd.CategoricalDtype)
    ]
    return pd.get_dummies(frame, columns=named, dtype=float) if named else frame
