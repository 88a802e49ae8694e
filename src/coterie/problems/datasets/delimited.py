"""A CSV file as people's programs write it: with commas, semicolons or tabs, decimal points or commas, old encodings.

What one record holds never changes how another is read:

* The separator is the one that the header, which is public, has outside quotes. Every row must have as many cells.
* The decimal sign follows from the separator. Between commas it is the point. Between semicolons or tabs a number may
  have either sign, cell by cell, but one of them and once: 1,5 and 1.5 are the same, and 1.234,5 is no number. So no
  sign is ever taken to divide thousands.
* Every line is UTF-8, or else Windows-1252 (which is Latin-1 with a few more signs), by itself: one line that is no
  UTF-8 does not make the others' letters different ones.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from coterie.errors import InputError
from coterie.problems.names import number_text

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MOST_HEADER = 2_000_000  # characters of the line of names
_OTHER = "cp1252"  # of a line that is no UTF-8
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_QUOTED = re.compile(r'"[^"]*"')
_COMMA = re.compile(r"\s*[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?\s*")


class Text(NamedTuple):
    """A file's characters."""

    content: str
    marked: bool  # with a byte-order mark
    other_lines: int  # that were no UTF-8: private, as each is a record's
    lines: int


class Delimited(NamedTuple):
    """A file's rows, how they were read, and what was seen in them."""

    frame: Any
    read_as: str  # public: follows from the header
    findings: tuple[str, ...]  # private: for the eyes of whoever holds the file


def read(path: Path, text: Collection[str], check_names: Any) -> Delimited:
    """The rows; columns named in `text` as they are written, others as numbers where they are.

    `check_names(path, names)` refuses a header.
    """
    import pandas as pd

    file = decoded(path)
    names = header(path, file.content)
    check_names(path, names.columns)
    _check_width(path, file.content, names)
    as_text: Any = {name: str for name in names.columns if names.separator != "," or name in text}
    frame = pd.read_csv(
        io.StringIO(file.content),
        sep=names.separator,
        dtype=as_text,
        index_col=False,
        low_memory=False,
    )
    if names.separator != ",":
        for name in frame.columns:
            if name not in text:
                frame[name] = _with_points(frame[name])
    sign = "point" if names.separator == "," else "comma or point"
    encoding = "UTF-8 with a byte-order mark" if file.marked else "UTF-8"
    words = f"CSV with {SEPARATORS[names.separator]} between cells, decimal {sign}, {encoding}"
    return Delimited(frame, words, _about_lines(file))


class Header(NamedTuple):
    """The names of columns, and what separates them."""

    columns: list[str]
    separator: str


def header(path: Path, content: str) -> Header:
    """What the first line that is not empty says."""
    lines = list(_first_lines(io.StringIO(content, newline=""), path))
    separator = _separator(path, "".join(lines))
    row = next((row for row in csv.reader(lines, delimiter=separator) if row), [])
    return Header(row, separator)


def beginning(path: Path) -> str:
    """The characters that a file's header is among. What comes after it may be cut anywhere, and is not to be used."""
    return _decoded(path, 4 * MOST_HEADER, "replace").content


def decoded(path: Path) -> Text:
    """The characters of a file; InputError names the first line that is written in neither encoding."""
    return _decoded(path, -1, "strict")


def _decoded(path: Path, most: int, otherwise: str) -> Text:
    """So many bytes; `otherwise`: what to do where a line is in neither encoding."""
    with path.open("rb") as file:
        data = file.read(most)
    if data.startswith(_WIDE):
        raise InputError(f"data={str(path)!r}: is written in UTF-16. Save it as CSV in UTF-8.")
    marked = data.startswith(codecs.BOM_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    try:
        return Text(data.decode("utf-8"), marked, 0, lines)
    except UnicodeDecodeError:
        parts, other_lines = [], 0
        for number, line in enumerate(data.split(b"\n"), 1):
            try:
                part, is_other = _line(line, otherwise)
            except UnicodeDecodeError:
                raise InputError(
                    f"data={str(path)!r}: line {number} is neither UTF-8 nor Windows-1252 (Latin-1). "
                    "Save the file as CSV in UTF-8."
                ) from None
            parts.append(part)
            other_lines += is_other
        return Text("\n".join(parts), marked, other_lines, lines)


def _line(line: bytes, otherwise: str) -> tuple[str, bool]:
    """The line's characters, and whether it is no UTF-8."""
    try:
        return line.decode("utf-8"), False
    except UnicodeDecodeError:
        return line.decode(_OTHER, otherwise), True


def _about_lines(text: Text) -> tuple[str, ...]:
    if not text.other_lines:
        return ()
    return (
        f"{text.other_lines:,} of {text.lines:,} lines are no UTF-8, and were read as Windows-1252 (Latin-1)",
    )


def _first_lines(file: TextIO, path: Path) -> Iterator[str]:
    """The header's lines: a name in quotes may go over several. Longer than `MOST_HEADER` it is none."""
    left, quotes = MOST_HEADER, 0
    while line := file.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise InputError(
                f"data={str(path)!r}: its header is longer than {MOST_HEADER:,} characters. "
                "Leave columns out, give them shorter names, or close a quote."
            )
        yield line
        quotes += line.count('"')
        if line.strip() and quotes % 2 == 0:
            return


def _separator(path: Path, line: str) -> str:
    there = [sign for sign in SEPARATORS if sign in _QUOTED.sub("", line)]
    if len(there) > 1:
        several = " and ".join(SEPARATORS[sign] for sign in there)
        raise InputError(
            f"data={str(path)!r}: its header has {several}. Separate names by one of them, and put a name that has "
            "another in quotes."
        )
    return there[0] if there else ","


def _check_width(path: Path, content: str, names: Header) -> None:
    """A row that is separated otherwise would be one cell and empty ones, which a columns file may allow."""
    rows = (row for row in csv.reader(io.StringIO(content, newline=""), delimiter=names.separator) if row)
    wanted = len(next(rows, []))
    for number, row in enumerate(rows, 1):
        if len(row) != wanted:
            cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
            raise InputError(
                f"data={str(path)!r}: row {number} has {cells}, and the header {wanted} name{'s' * (wanted != 1)}. "
                f"Name every column, and separate all cells by {SEPARATORS[names.separator]}."
            )


def _with_points(column: Any) -> Any:
    """Numbers with either sign as numbers; a column that has other cells keeps them as texts."""
    import pandas as pd

    codes, words = pd.factorize(column)
    fixed = [with_point(word) for word in words.tolist()]
    are_numbers = all(number_text(word) is not None for word in fixed)
    values: Any = [float(word) for word in fixed] if are_numbers else fixed
    # the last: an empty cell, -1
    every = pd.Series([*values, np.nan], dtype=float if are_numbers else object)
    return pd.Series(every.to_numpy()[codes], index=column.index, name=column.name)


def with_point(cell: str) -> str:
    """A number with a decimal comma as one with a point; anything else as it is.

    >>> [with_point(cell) for cell in ("1,5", "1.5", "1.234,5", "a,b")]
    ['1.5', '1.5', '1.234,5', 'a,b']
    """
    return cell.replace(",", ".") if _COMMA.fullmatch(cell) else cell
