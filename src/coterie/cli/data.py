"""`coterie data list | describe | check | export | init`: what there is, who owns what, whether files are right."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import _shared as options
from coterie.cli._common import App, print_json
from coterie.cli._shared import AsJson, DataDir
from coterie.errors import InputError
from coterie.reports.amounts import many

if TYPE_CHECKING:
    from coterie.problems.datasets import Dataset, Source
    from coterie.problems.partition import Partition
    from coterie.problems.table import Table

app = App(help="List, describe and check data sets.", no_args_is_help=True)

ORACLE = (
    "Exact counts of private rows: for the holder of the data or a researcher (oracle), never to be released."
)
FROM_ROWS = (
    "warning: kinds, ranges and lists were read off the rows, and show single records: a release that nobody charges. "
    "The file says so, and so will every run that uses it."
)
_SHADES = "█░▓▒"
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of the groups when there are more than the shades
_SHOWN = 40  # owners in a picture; the JSON has all
_BAR = 32  # characters of the longest bar in the terminal


@app.command("list")
def list_(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Every known data set, and whether its files are here (presence only; `check` compares checksums)."""
    from coterie.problems.datasets import DATASETS

    folder = _folder_or_none(data_dir)
    rows = []
    for name in DATASETS:
        entry = _entry_or_none(name)
        if entry is None:
            continue
        here = all(folder is not None and (folder / file.path).is_file() for file in entry.files)
        rows.append({"name": name, "task": entry.task, "owners": entry.owners or None, "here": here,
                     "description": entry.description, "licence": entry.licence,
                     "origin": entry.origin})  # fmt: skip
    if as_json:
        return print_json({"datasets": rows})
    _print_table(("name", "task", "owners", "here", "description"), rows)


def _entry_or_none(name: str) -> Dataset | None:
    """The data set; None, with a line on standard error, where its plug-in is broken, so that others are listed."""
    from coterie.problems.datasets import DATASETS

    try:
        return DATASETS.find(name)
    except InputError as error:
        print(f"warning: {error}", file=sys.stderr)
        return None


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="A table, such as census.")],
    out: Annotated[Path, typer.Option(help="A new folder for the files.")],
    owners: Annotated[str, typer.Option(help="Names, with commas.")] = "north,south,east",
    partition: Annotated[str | None, typer.Option(help="iid, dirichlet:0.3, random_sizes:50")] = "iid",
    seed: Annotated[int, typer.Option(help="Of the partition.")] = 0,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write one CSV file for each owner, and the public columns.toml: to try `coterie network` with."""
    from coterie.problems import datasets
    from coterie.problems.datasets import export as exporting
    from coterie.problems.partition import partition as divide

    names = tuple(owner.strip() for owner in owners.split(","))
    table = datasets.load(name, data_dir)
    sizes = exporting.write(table, divide(table, partition, len(names), seed), names, out)
    if as_json:
        return print_json({"folder": str(out), "sizes": sizes})
    given = ",".join(str(size) for size in sizes.values())
    print(
        f"{len(sizes)} files and columns.toml in {out}. For network new: --owners {','.join(sizes)} --sizes {given}"
    )


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="A file of your own: CSV, Parquet or NPZ.")],
    out: Annotated[Path, typer.Option(help="Columns file to write.")] = Path("columns.toml"),
    target: Annotated[str | None, typer.Option(help="Column that is to be learnt.")] = None,
    owner_column: Annotated[str | None, typer.Option(help="Column that says whose a row is.")] = None,
    from_rows: Annotated[
        bool,
        typer.Option("--from-rows", help="Read ranges and lists off the rows: a release nobody charges."),
    ] = False,
) -> None:
    """Write the columns file of a table, to be filled in; without --from-rows nothing but its header is looked at."""
    from coterie.model.format import check_new, write
    from coterie.problems.datasets.init import columns_file

    check_new("out", out)
    write(out, columns_file(file, target, owner_column, from_rows).encode())
    if from_rows:
        print(FROM_ROWS, file=sys.stderr)
        print(
            f"written: {out}, from the rows of {file}. Replace what it says by what is known without looking at them."
        )
    else:
        print(f"written: {out}. Fill it in, from what is known without looking at rows.")


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all when none is named.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare checksums. Exit status 2 if a file is missing or different."""
    from coterie import _check
    from coterie.problems import datasets

    wanted = [_check.one_of("data", name, datasets.DATASETS) for name in names or datasets.DATASETS]
    results = []
    for name in wanted:
        try:
            datasets.check(name, data_dir)
            results.append({"name": name, "ok": True, "error": None})
        except InputError as error:
            results.append({"name": name, "ok": False, "error": str(error)})
    bad = [result for result in results if not result["ok"]]
    if as_json:
        print_json({"ok": not bad, "datasets": results})
    else:
        _print_table(("name", "ok", "error"), results)
    if bad:
        raise InputError(f"{len(bad)} of {len(results)} data sets are not usable. First: {bad[0]['error']}")


@app.command()
def describe(
    name: Annotated[
        str, typer.Argument(help="A data set's name, see `coterie data list`, or a file of your own.")
    ],
    target: options.Target = None,
    owner_column: options.OwnerColumn = None,
    columns: options.Columns = None,
    owners: Annotated[int | None, typer.Option(help="Number of owners.")] = None,
    partition: Annotated[
        str | None, typer.Option(help="column, iid, dirichlet:0.3, two_groups:4 or random_sizes:50.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="column:NAME: how many records the persons named there have.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the partition.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a picture of who owns what (PNG).")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Rows, columns, classes, and a picture of who owns what."""
    from coterie.cli._data_units import checked, distribution
    from coterie.problems.datasets import Source

    source = Source(name, target, owner_column, columns, checked(unit))
    table = source.table(data_dir)
    parts = _parts(source, table, partition, owners, seed)
    facts = summary(table, parts) | {"units": distribution(table, parts, source.privacy_unit)}
    if out is not None:
        _save(table, facts, out)
    if as_json:
        return print_json(facts)
    _show(facts, table)


def _parts(source: Source, table: Table, how: str | None, owners: int | None, seed: int) -> Partition:
    """The requested partition; else by natural owner, however small, or all rows in one part."""
    from coterie.problems.partition import by_column, iid

    if how is not None or owners is not None:
        return source.divided(table, how, owners, seed)
    if table.owner is None:
        return iid(len(table.y), 1, seed)
    return by_column(table.owner, table.owner_names, least=1)


def summary(table: Table, parts: Partition) -> dict[str, Any]:
    """What `describe` shows, as plain values. Oracle: `owners` holds exact counts of private rows."""
    groups = group_names(table)
    counts = group_counts(table, parts, len(groups))
    return {
        "name": table.name,
        "task": table.task,
        "source": table.source,
        "note": table.note,
        "rows": len(table.y),
        "test_rows": len(table.y_test),
        "test_is_public": table.test_is_public,
        "shape": list(table.x.shape[1:]),
        "columns": list(table.columns),
        "target_bounds": None if table.target_bounds is None else list(table.target_bounds),
        "groups": list(groups),
        "classes_declared": table.classes_declared,
        "columns_declared": table.columns_declared,
        "read_as": table.read_as,
        "partition": parts.how,
        "left_out": list(table.left_out),
        "unused": list(table.unused),
        "findings": list(table.findings),
        "warning": ORACLE,
        "owners": [
            {"name": owner, "rows": len(rows), "counts": [int(count) for count in line]}
            for owner, rows, line in zip(parts.names, parts.rows, counts)
        ],
    }


def group_names(table: Table) -> tuple[str, ...]:
    """The classes; for a quantity, the quarters of its public range."""
    if table.task != "regression":
        return table.classes
    low, high = table.target_bounds or (-1.0, 1.0)
    edges = [low + (high - low) * quarter / 4 for quarter in range(5)]
    return tuple(f"{start:g} to {end:g}" for start, end in pairwise(edges))


def group_counts(table: Table, parts: Partition, groups: int):
    """(owners, groups) number of rows."""
    import numpy as np

    if table.task == "regression":
        codes = np.digitize(table.y, (-0.5, 0.0, 0.5))
    else:
        codes = (table.y > 0).astype(int) if table.task == "binary" else table.y
    return np.stack([np.bincount(codes[rows], minlength=groups) for rows in parts.rows])


def _save(table: Table, facts: dict[str, Any], out: Path) -> None:
    """Stacked bars, an owner a line, largest on top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from coterie.errors import InputError

    if out.suffix != ".png":
        raise InputError(f"out={str(out)!r}: must end with .png.")
    owners = _largest(facts)[::-1]
    figure = Figure(figsize=(8, max(2.5, 1.3 + 0.24 * len(owners))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    place, left = range(len(owners)), [0] * len(owners)
    for at, group in enumerate(facts["groups"]):
        width = [owner["counts"][at] for owner in owners]
        axes.barh(place, width, left=left, height=0.8, label=group, color=_colour(at, len(facts["groups"])))
        left = [start + more for start, more in zip(left, width)]
    axes.set_yticks(place, [owner["name"] for owner in owners], fontsize=8)
    axes.set(xlabel="private records", ylim=(-0.6, len(owners) - 0.4))
    axes.set_title(f"Who owns what: {table.name}, {_how_many(facts)} (oracle)", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    try:
        figure.savefig(out, dpi=130)
    except OSError as error:
        raise InputError(f"out={str(out)!r}: cannot be written ({error.strerror}).") from error


def _largest(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(facts["owners"], key=lambda owner: -owner["rows"])[:_SHOWN]


def _how_many(facts: dict[str, Any]) -> str:
    owners = len(facts["owners"])
    return many(owners, "owner") if owners <= _SHOWN else f"the {_SHOWN} largest of {owners} owners"


def _colour(at: int, groups: int) -> Any:
    """Two classes get colours that colour-blind people can tell apart; more get evenly spaced ones of viridis."""
    from matplotlib import colormaps

    return ("#9ecae1", "#d95f0e")[at] if groups == 2 else colormaps["viridis"](at / max(1, groups - 1))


def _show(facts: dict[str, Any], table: Table) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column
    from rich.table import Table as Grid

    from coterie.cli._data_units import lines
    from coterie.cli._words import about_file

    console = Console()
    held = "public test rows" if facts["test_is_public"] else "held-out rows"
    kind = f"{facts['task']}, {facts['rows']:,} private rows, {facts['test_rows']:,} {held}"
    console.print(
        f"[bold]{escape(facts['name'])}[/]: {kind}, {' x '.join(map(str, facts['shape']))} features"
    )
    for key in ("source", "note"):
        if facts[key]:
            console.print(f"{key}: {facts[key]}", markup=False)
    for line in about_file(table, table.findings, warn=True):
        console.print(line, markup=False, highlight=False)
    console.print(f"[yellow]{facts['warning']}[/]")
    marks = _marks(len(facts["groups"]))
    grid = Grid("owner", Column("rows", justify="right"), box=None, pad_edge=False)
    grid.add_column(",  ".join(f"{mark} {group}" for mark, group in zip(marks, facts["groups"])))
    largest = max(owner["rows"] for owner in facts["owners"])
    for owner in _largest(facts):
        grid.add_row(escape(owner["name"]), f"{owner['rows']:,}", _bar(owner["counts"], marks, largest))
    console.print(grid)
    console.print(f"{_how_many(facts)}, partition {facts['partition']}")
    if facts["units"] is not None:
        console.print(f"[yellow]{facts['units']['warning']}[/]")
        for line in lines(facts["units"]):
            console.print(line, markup=False, highlight=False)


def _marks(groups: int) -> str:
    return _SHADES if groups <= len(_SHADES) else _LETTERS * (1 + groups // len(_LETTERS))


def _bar(counts: list[int], marks: str, largest: int) -> str:
    """A bar of the owner's length, one mark a group."""
    ends = [round(sum(counts[: at + 1]) * _BAR / largest) for at in range(len(counts))]
    return "".join(mark * (end - start) for mark, start, end in zip(marks, [0, *ends], ends))


def _print_table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False)
    for column in columns:
        grid.add_column(column, overflow="fold", no_wrap=column == "name")
    words = {True: "yes", False: "no", None: ""}
    for row in rows:
        cells = (row[column] for column in columns)
        grid.add_row(*(escape(cell) if isinstance(cell, str) else words[cell] for cell in cells))
    Console().print(grid)


def _folder_or_none(given: Path | None) -> Path | None:
    import os

    chosen = given or os.environ.get("COTERIE_DATA")
    return Path(chosen) if chosen else None
