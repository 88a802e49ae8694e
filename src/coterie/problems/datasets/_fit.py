"""Rows under a declaration: each cell becomes numbers by what is public alone, and what did not fit is counted.

The counts ("findings") are made of private rows: for the eyes of whoever holds the file, and for nobody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets import pixels
from coterie.problems.datasets._encode import Encoded, encode
from coterie.problems.datasets.cells import flag_numbers, nothing, stand_in
from coterie.problems.datasets.dates import dates_of, day, days_since
from coterie.problems.datasets.declared import Declared
from coterie.problems.datasets.frames import Frame, empty_cell, first_row, numbers, texts
from coterie.problems.fields import (
    MARKED,
    Binned,
    Category,
    Days,
    Feature,
    Field,
    Flag,
    Image,
    Parts,
)
from coterie.problems.names import folded, number_text

_UNLISTED = object()  # what a cell becomes that its list does not hold
SAID = 10  # columns that findings speak of one by one


class Outside(NamedTuple):
    """Rows of a column that its declaration does not hold."""

    column: str
    rows: int
    of: int
    words: str  # what is declared
    then: str  # what becomes of such rows

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.rows:,} of {self.of:,} rows {self.words}; {self.then}"


class FittedColumns(NamedTuple):
    """Columns as numbers, and the rows that did not fit."""

    encoded: Encoded
    outside: tuple[Outside, ...]


def fitted(frame: Frame, fields: Sequence[Feature]) -> FittedColumns:
    """The fields of a frame that has them all."""
    columns, outside = {}, []
    for field in fields:
        column = frame[field.name]
        if isinstance(field, Image):
            return _images(column, field)
        empty = column.isna().to_numpy() if field.missing else np.zeros(len(column), bool)
        if empty.any():
            column = column.astype(object).where(~empty, stand_in(field))
            outside.append(_empty(field, empty))
        values, strange = _values(column, field)
        if empty.any():
            values = values.copy()
            values[empty] = nothing(field)
        columns[field.name] = values
        outside += strange
    return FittedColumns(encode(columns, fields), tuple(misfit for misfit in outside if misfit.rows))


def _images(column: Frame, field: Image) -> FittedColumns:
    """Images, which stand alone; a row is outside with any of its values."""
    images = pixels.stacked(column, field.shape)
    flat = images.reshape(len(images), -1)
    furthest = np.where(flat.min(1) < field.low, flat.min(1), flat.max(1))
    outside = out_of_range(field.name, furthest, field.low, field.high)
    return FittedColumns(encode({field.name: images}, (field,)), (outside,) if outside.rows else ())


def _values(column: Frame, field: Field) -> tuple[np.ndarray, list[Outside]]:
    """A column without empty cells, as `encode` takes it, and the rows that do not fit; a cell counts by itself."""
    if isinstance(field, Days):
        days = days_since(field.origin, _dates(column, field))
        ends = f"{day(field, field.low)}, {day(field, field.high)}"
        return days, [out_of_range(field.name, days, field.low, field.high, ends)]
    if isinstance(field, Parts):
        return _dates(column, field), []
    if isinstance(field, (Category, Flag)):
        listed = field.values if isinstance(field, Category) else (*field.true, *field.false)
        words = texts(column)
        codes = places(words, listed)
        becomes = flag_numbers(field) if isinstance(field, Flag) else np.array([*listed, _UNLISTED], object)
        return becomes[codes], [_unlisted(field.name, listed, words, codes)]
    values = numbers(column)
    low, high = (field.edges[0], field.edges[-1]) if isinstance(field, Binned) else (field.low, field.high)
    return values, [out_of_range(field.name, values, low, high)]


def _dates(column: Frame, field: Days | Parts) -> np.ndarray:
    if column.isna().any():
        raise empty_cell(column)
    return dates_of(field, column.to_numpy())


def _empty(field: Field, empty: np.ndarray) -> Outside:
    then = (
        "they count as none of its values"
        if isinstance(field, (Category, Parts))
        else "they count as its middle"
    )
    more = ", and are marked" if field.missing == MARKED else ""
    return Outside(field.name, int(empty.sum()), len(empty), "are empty", then + more)


def out_of_range(name: str, values: np.ndarray, low: float, high: float, ends: str = "") -> Outside:
    """The rows of a number that are moved to an end of its range; `ends`: the range in words."""
    rows = int(((values < low) | (values > high)).sum())
    return Outside(
        name,
        rows,
        len(values),
        f"lie outside [{ends or f'{low:g}, {high:g}'}]",
        "they count as its nearer end",
    )


def _unlisted(name: str, listed: Sequence[str], words: np.ndarray, codes: np.ndarray) -> Outside:
    near = _near(words[codes < 0], listed)
    spelt = f" ({near:,} of them because of spaces or capitals alone)" if near else ""
    return Outside(
        name,
        int((codes < 0).sum()),
        len(words),
        f"hold none of the listed values{spelt}",
        "they count as none of them",
    )


def _near(words: np.ndarray, vocabulary: Sequence[str]) -> int:
    """How many words that a list does not hold look to a person as if it did."""
    known = {folded(word) for word in vocabulary}
    return sum(rows for word, rows in Counter(words.tolist()).items() if folded(word) in known)


def places(words: np.ndarray, vocabulary: Sequence[str]) -> np.ndarray:
    """The place of each word in a public list, -1 if nowhere; a number fits however it is written.

    >>> places(np.array(["b", "z", "1.0"], object), ("a", "b", "1")).tolist()
    [1, -1, 2]
    """
    import pandas as pd

    exact = {word: at for at, word in enumerate(vocabulary)}
    loose: dict[str, int] = {}
    for at, word in enumerate(vocabulary):
        canonical = number_text(word)
        if canonical is not None:  # two of the list that are the same number: only as they are written
            loose[canonical] = -1 if canonical in loose else at
    codes, different = pd.factorize(words)
    positions = [exact.get(word, loose.get(number_text(word) or "", -1)) for word in different]
    return np.array(positions, np.int32)[codes]


def declared_targets(column: Frame, declared: Declared) -> tuple[np.ndarray, tuple[Outside, ...]]:
    """Which of the declared classes each row is, or its quantity; and the rows outside of the declared range.

    InputError counts the rows that are none of the classes.
    """
    if declared.range is not None:
        values = numbers(column)
        outside = out_of_range(str(column.name), values, *declared.range)
        return values, (outside,) if outside.rows else ()
    words, classes = texts(column), declared.classes
    codes = places(words, classes)
    if (codes < 0).any():
        near = _near(words[codes < 0], classes)
        spelt = f", {near:,} of them because of spaces or capitals alone" if near else ""
        raise InputError(
            f"column {column.name!r}: row {first_row(codes < 0)} is none of the declared classes "
            f"(in all {(codes < 0).sum():,} of {len(words):,} rows{spelt}). Correct or remove such rows."
        )
    return codes, ()


def check_some_fit(outside: Sequence[Outside]) -> None:
    """A column none of whose rows fits says nothing: its declaration is wrong, perhaps its unit."""
    for misfit in outside:
        if misfit.rows == misfit.of:
            raise InputError(
                f"column {misfit.column!r}: all {misfit.of:,} rows {misfit.words}. Check its unit and the columns file."
            )


def findings(outside: Sequence[Outside]) -> tuple[str, ...]:
    """What did not fit, in words; of many columns the first few."""
    sentences = [str(misfit) for misfit in outside[:SAID]]
    if len(outside) > SAID:
        sentences.append(f"{len(outside) - SAID:,} more columns have rows outside what is declared for them")
    return tuple(sentences)
