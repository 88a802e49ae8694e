"""A known data set as the files that real owners would have: for trials of a network on one machine."""

from __future__ import annotations

import csv
from pathlib import Path

from coterie.errors import InputError
from coterie.problems.datasets.schema import Schema
from coterie.problems.partition import Partition
from coterie.problems.table import Table


def schema_of(table: Table) -> Schema:
    """The public description of an encoded table."""
    if table.x.ndim != 2:
        raise InputError(f"data={table.name!r}: holds images; only tables have columns to write.")
    columns = {
        name: (float(low), float(high)) for name, (low, high) in zip(table.columns, table.bounds.tolist())
    }
    return Schema(
        target="target",
        columns=columns,
        classes=table.classes,
        range=None if table.classes else (-1.0, 1.0),
    )


def write(table: Table, parts: Partition, names: tuple[str, ...], folder: Path) -> dict[str, int]:
    """One CSV file for each owner and `columns.toml`, which all of them share. Each owner's number of records."""
    import tomli_w

    schema = schema_of(table)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"out={str(folder)!r}: is not empty. Name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(names, parts.rows):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow((*schema.columns, schema.target))
            for x, y in zip(table.x[rows].tolist(), table.y[rows].tolist()):
                writer.writerow((*(f"{value:.7g}" for value in x), _word(table, y)))
    (folder / "columns.toml").write_text(tomli_w.dumps(schema.to_json()), encoding="utf-8")
    return {name: len(rows) for name, rows in zip(names, parts.rows)}


def _word(table: Table, y: float) -> str:
    if table.task == "regression":
        return f"{y:.7g}"
    return table.classes[int(y > 0) if table.task == "binary" else int(y)]
