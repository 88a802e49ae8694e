"""Data sets of OpenML, downloaded once into a local cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.problems.datasets.own import Bounds
    from coterie.problems.table import Table

Fetch = Callable[..., Any]


def load_openml(
    which: str,
    owner: str | None = None,
    bounds: Bounds | str | Path | None = None,
    cache: str | Path | None = None,
    fetch: Fetch | None = None,
) -> Table:
    """Read `openml:NAME_OR_ID` (with or without the prefix); the target is the data set's default one.

    Columns that are not numbers are one-hot encoded over the categories that the data set's ARFF header
    declares. `cache` is a folder, by default $COTERIE_CACHE or ~/.cache/coterie; `fetch` stands in for
    scikit-learn's function.
    """
    from coterie.problems.datasets.own import _ranges, table_of

    name = which.removeprefix("openml:")
    folder = Path(cache or os.environ.get("COTERIE_CACHE") or Path.home() / ".cache" / "coterie") / "openml"
    bunch = _fetch(name, folder, fetch)
    target = bunch.target
    if target is None or getattr(target, "ndim", 1) != 1:
        raise InputError(f"data='openml:{name}': has no single default target. Download it and use a file.")
    frame = _one_hot(bunch.data, owner).assign(**{str(target.name): target})
    if owner is not None and owner not in frame.columns:
        raise InputError(
            f"owner={owner!r}: no such column in openml:{name}. Columns: {', '.join(bunch.data.columns)}."
        )
    return table_of(frame, f"openml:{name}", str(target.name), owner, None, _ranges(bounds))


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


def _one_hot(frame, owner: str | None):
    """Categories come from the header (a pandas categorical), never from the rows."""
    import pandas as pd

    named = [
        name for name in frame.columns if name != owner and isinstance(frame[name].dtype, pd.CategoricalDtype)
    ]
    return pd.get_dummies(frame, columns=named, dtype=float) if named else frame
