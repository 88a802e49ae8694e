"""A columns file to be filled in: what a file's header says, and no cell of its rows.

The kind of a column is a fact about rows, too: a guess of it from cells would be a release. So it is guessed from the
name, or left open. `from_rows` reads kinds, ranges and lists off the rows after all; the file then says so
(`from_rows = true`), and so does every run that uses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets import delimited, pixels
from coterie.problems.datasets.dates import reader
from coterie.problems.datasets.delimited import with_point
from coterie.problems.datasets.frames import Frame, check_names, missing, read_frame
from coterie.problems.datasets.kinds import is_id
from coterie.problems.names import natural, number_text

MOST_VALUES = 50  # different texts of a category; more are no list that anybody wants
_DATES = ("YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY")
_DATE_NAME = re.compile(r"(^|_|\W)(date|datum|day|born|birth|dob|admitted|discharged)(_|\W|$)|(date|datum)$")
_FLAG_NAME = re.compile(r"(is|has)_")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")  # no name has these: a file of another kind, called CSV
_FORMS = {
    "number": 'range = [LOW, HIGH], unit = "", missing = "middle"',
    "category": 'values = [VALUE, VALUE], missing = "none"',
    "yes or no": "true = [WORD], false = [WORD]",
    "date": 'date = DAY, range = [FIRST, LAST], written = "DD.MM.YYYY"',
}
_OPEN = """\
# What is public about {file}: to be filled in by people who know it without looking at rows.
# For each feature, take the # away from the line of its kind and fill in the words in capitals; delete the others.
# `missing` says that cells may be empty. Columns without a line are not used. docs/data.md has every form.
"""
_FROM_ROWS = """\
# MADE FROM THE ROWS of {file}: kinds, ranges and lists below show single records. Whoever sees this file, or a model
# that was trained with it, sees them: a release that nobody charges. Runs that use the file say so. Replace what is
# below by what is known without looking at rows; when nothing of it is left, take from_rows out.
from_rows = true
"""


def columns_file(path: Path, target: str | None, owner: str | None, from_rows: bool) -> str:
    """The text of a columns file for the file at `path`."""
    names, shapes = header_of(path)
    frame = read_frame(path, names) if from_rows else None
    for what, name in (("target", target), ("owner", owner)):
        if name is not None and name not in names:
            raise missing(what, name, path.name, names)
    if target is not None and target == owner:
        raise InputError(f"owner={owner!r}: is also the target. Name another column.")
    ids = [name for name in names if is_id(name) and name not in (target, owner)]
    features = [name for name in names if name not in (target, owner, *ids)]
    lines = [(_FROM_ROWS if from_rows else _OPEN).format(file=path.name)]
    lines += _target(target, None if frame is None or target is None else frame[target])
    if ids:
        lines += [f"leave_out = {_list(ids)}  # named like ids: no features", ""]
    lines += ["[columns]"]
    for name in features:
        if name in shapes:
            lines += [_image(name, shapes[name], None if frame is None else frame[name]), ""]
        else:
            lines += [*(_open(name) if frame is None else _read_off(frame[name])), ""]
    return "\n".join(lines).rstrip() + "\n"


def header_of(path: Path) -> tuple[list[str], dict[str, tuple[int, ...]]]:
    """The names of a file's columns, and the shapes of its images; of a CSV file nothing but its header is read."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        frame = read_frame(path)
        shapes = {str(name): pixels.shape_of(frame[name]) for name in frame.columns}
        return list(shapes), {name: shape for name, shape in shapes.items() if shape is not None}
    names = delimited.header(path, delimited.beginning(path)).columns
    if not names or any(_CONTROL.search(name) for name in names):
        raise InputError(
            f"data={str(path)!r}: has no header of column names. Give a CSV file that begins with one."
        )
    check_names(path, names)
    return names, {}


_WHOM = ("# privacy_unit = NAME  # where somebody has several rows: the column that says whose they are", "")


def _target(target: str | None, column: Frame | None) -> list[str]:
    named = f"target = {json.dumps(target, ensure_ascii=False)}" if target is not None else "# target = NAME"
    lines = [f"{named}  # what is to be learnt"]
    cells = [] if column is None else _cells(column)
    if not cells:
        return [
            *lines,
            "# classes = [VALUE, VALUE]",
            "# range = [LOW, HIGH]  # instead of classes, for a quantity",
            *_WHOM,
        ]
    values = _different(cells)
    if len(values) <= MOST_VALUES and not _has_fractions(values):
        return [*lines, f"classes = {_list(values)}", *_WHOM]
    return [*lines, f"range = {_span(cells)}" if _are_numbers(cells) else "# range = [LOW, HIGH]", *_WHOM]


def _open(name: str) -> list[str]:
    """Every kind that a column may be, the likeliest by its name first."""
    first = (
        "date" if _DATE_NAME.search(name.casefold()) else "yes or no" if _FLAG_NAME.match(name) else "number"
    )
    kinds = sorted(_FORMS, key=lambda kind: kind != first)
    return [f"# {_key(name)} = {{{_FORMS[kind]}}}  # a {kind}" for kind in kinds]


def _image(name: str, shape: tuple[int, ...], column: Frame | None) -> str:
    """A column of images, whose shape is in its file's header; the range of values only with `--from-rows`."""
    if column is None:
        return f"# {_key(name)} = {{image = {list(shape)}, range = [LOW, HIGH]}}  # images"
    values = pixels.stacked(column, shape)
    span = _span([repr(float(end)) for end in (values.min(), values.max())])
    return f"{_key(name)} = {{image = {list(shape)}, range = {span}}}  # images"


def _read_off(column: Frame) -> list[str]:
    """The line of a column, read off its rows."""
    name, cells = str(column.name), _cells(column)
    form = _kind_of(cells)
    if form is None:
        return [f"# {_key(name)}: no kind fits its rows", *_open(name)]
    kind, words = form
    if len(cells) < len(column):
        words += f', missing = "{"none" if kind == "category" else "middle"}"'
    return [f"{_key(name)} = {{{words}}}  # a {kind}"]


def _kind_of(cells: Sequence[str]) -> tuple[str, str] | None:
    values = _different(cells)
    if len(values) < 2:
        return None
    if _are_numbers(cells):
        return "number", f"range = {_span(cells)}"
    fitting = [(written, days) for written in _DATES if (days := _days(values, written))]
    if len(fitting) == 1:
        written, days = fitting[0]
        first, last = min(days), max(days)
        return "date", f'date = {first}, range = [{first}, {last}], written = "{written}"'
    if not fitting and len(values) <= MOST_VALUES:
        return "category", f"values = {_list(values)}"
    return None


def _cells(column: Frame) -> list[str]:
    """The cells that are not empty, as texts."""
    return [str(cell) for cell in column[~column.isna()].tolist()]


def _different(cells: Iterable[str]) -> list[str]:
    return sorted(set(cells), key=natural)


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(number_text(with_point(cell)) is not None for cell in cells)


def _has_fractions(values: Sequence[str]) -> bool:
    return _are_numbers(values) and not all(float(with_point(value)).is_integer() for value in values)


def _span(cells: Sequence[str]) -> str:
    numbers = np.array([float(with_point(cell)) for cell in cells])
    return f"[{number_text(repr(float(numbers.min())))}, {number_text(repr(float(numbers.max())))}]"


def _days(values: Sequence[str], written: str) -> list[Any]:
    """The dates, if all are written so; else none."""
    read = reader("date", written)
    days = [read(value) for value in values]
    return [] if None in days else days


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _list(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
