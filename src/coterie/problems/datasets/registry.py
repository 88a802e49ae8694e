"""The data sets by name: loaders, files and where they come from (`known.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module, resources
from itertools import starmap
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.problems.datasets._files import File, data_dir, verified
from coterie.problems.datasets._table import Loaded, tabled
from coterie.problems.table import Table, Task
from coterie.registry import Registry
from coterie.units import RECORD, Unit


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """How to read one data set. `loader` takes the folder of its files and gives a `Table`; where the set is one of
    coterie's own it is "module.function", imported when it is called, and may give rows alone.
    """

    loader: str | Callable[..., Table | Loaded]
    task: Task
    description: str = ""
    licence: str = "none stated"
    origin: str = "a plug-in"
    files: tuple[File, ...] = ()
    owners: str = ""  # the natural owner, when there is one
    units: tuple[str, ...] = ()  # columns that say whom a row is about, where `loader` takes the unit, too
    said: Mapping[str, Any] = field(
        default_factory=dict
    )  # of the rows' `Table`, where `loader` gives rows alone


def load(name: str, data_dir: str | Path | None = None, unit: Unit = RECORD) -> Table:
    """Read a data set by name, its files' checksums verified first.

    >>> table = load("census")
    >>> table.x.shape, len(table.owner_names)
    ((27530, 75), 20)
    """
    entry = DATASETS.find(name)
    if unit.kind == "column" and unit.column not in entry.units:
        has = (
            f"Known there: {', '.join(entry.units)}." if entry.units else "It has none: use record or owner."
        )
        raise InputError(f"unit={str(unit)!r}: {name} has no such column of persons. {has}")
    if unit.latest is not None:
        raise InputError(f"latest={unit.latest!r}: {name} has no dates. Leave it out.")
    return read(name, check(name, data_dir), unit)


def read(name: str, folder: Path | None, unit: Unit = RECORD) -> Table:
    """As `load`, of files that are in the folder, whatever they hold."""
    entry = DATASETS.find(name)
    loader = entry.loader
    if isinstance(loader, str):
        module, function = loader.split(".")
        loader = getattr(import_module(f"{__package__}.{module}"), function)
    rows = loader(folder, unit) if unit.kind == "column" else loader(folder)
    table = tabled(name, rows, **entry.said) if isinstance(rows, Loaded) else rows
    if not isinstance(table, Table):
        raise InputError(f"data={name!r}: its loader gave a {type(table).__name__}, where a Table is due.")
    return table


def check(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Verify every file of a data set; the folder they are in, or None for the embedded set."""
    entry = DATASETS.find(name)
    if not entry.files:
        return None
    folder = _folder(data_dir)
    for file in entry.files:
        verified(file, folder)
    return folder


_folder = data_dir  # the argument of the same name hides the function


def _known() -> dict[str, Dataset]:
    """Coterie's own, as `known.toml` lists them."""
    text = resources.files("coterie.problems.datasets").joinpath("known.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    for row in rows.values():
        row["files"] = tuple(starmap(File, row.get("files", {}).items()))
        row["units"] = tuple(row.get("units", ()))
        said = row.get("said", {}).items()
        row["said"] = {key: tuple(value) if isinstance(value, list) else value for key, value in said}
    return {name: Dataset(**row) for name, row in rows.items()}


def _entry(name: str, thing: Any) -> Dataset:
    if not isinstance(thing, Dataset):
        raise InputError(
            f"data={name!r}: is a {type(thing).__name__}; must be a coterie.problems.datasets.Dataset, with a loader "
            "(folder) that gives a Table, and its task."
        )
    return thing


DATASETS: Registry[Dataset] = Registry("data", "coterie.data", _entry, _known())
