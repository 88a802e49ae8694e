"""A table's public description, agreed on by owners who never see each other's rows, and one owner's rows under it.

It is a columns file (`declared.py`) that leaves nothing open. Nothing in it is computed from rows, so it costs no
privacy; a row that does not fit is named by its number alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets import declared, persons
from coterie.problems.datasets._encode import encode
from coterie.problems.datasets._fit import declared_targets, findings, fitted
from coterie.problems.datasets._table import coded, task_of
from coterie.problems.datasets.declared import Declared
from coterie.problems.datasets.frames import read_as, read_frame, seen
from coterie.problems.datasets.kinds import plain
from coterie.problems.table import Table, Task
from coterie.problems.whose import Whose
from coterie.units import RECORD, Unit


class Rows(NamedTuple):
    """One owner's rows, encoded. All of it is private."""

    x: np.ndarray  # (rows, dim) float32
    y: np.ndarray  # (rows,)
    findings: tuple[str, ...] = ()  # rows that do not fit their columns' declaration, for the owner's eyes
    read_as: str = ""  # how the file was read, in words
    whose: Whose | None = None  # whom each row is about, where the unit of privacy is more than a record


@dataclass(frozen=True, kw_only=True)
class Schema(Declared):
    """What is public about every owner's table: the target, the columns, and the values they may take."""

    target: str = field()  # which a columns file may leave open

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("columns: none given. Name each feature with its public range or values.")
        if (self.range is None) == (len(self.classes) == 0):
            raise InputError(
                f"target={self.target!r}: give its classes, or the range of a quantity, not both or none."
            )
        super().__post_init__()

    @property
    def task(self) -> Task:
        """What is to be learnt."""
        return task_of(self.classes)

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the columns' order."""
        target: dict[str, Any] = {"classes": list(self.classes)}
        if self.range:
            target = {"range": list(self.range)} | ({"unit": self.unit} if self.unit else {})
        columns = {name: plain(spec) for name, spec in self.columns.items()}
        return {"target": self.target, **target, "columns": columns}

    def empty(self, name: str) -> Table:
        """A table without rows: all that a protocol is built from."""
        encoded = encode({column: np.empty(0, object) for column in self.columns}, self.fields)
        nothing = coded(np.empty(0), self.classes, self.range)
        return Table(
            name=name,
            task=self.task,
            x=encoded.x,
            y=nothing,
            x_test=encoded.x,
            y_test=nothing,
            columns=encoded.columns,
            bounds=encoded.bounds,
            target_bounds=self.range,
            target_unit=self.unit,
            classes=self.classes,
            target=self.target,
            fields=encoded.fields,
            test_is_public=False,
            source="an agreement",
        )

    def read(self, path: Path, unit: Unit = RECORD) -> Rows:
        """An owner's rows from its CSV, Parquet or NPZ file; InputError names the first row that does not fit."""
        text = (*self.texts, *([] if self.range else [self.target]), *persons.texts_of(unit, self))
        frame = read_frame(path, text)
        for name in (self.target, *self.columns):
            if name not in frame.columns:
                raise InputError(
                    f"data={str(path)!r}: has no column {name!r}, which the agreement names. Add or rename it."
                )
        features = fitted(frame, self.fields)
        y, outside = declared_targets(frame[self.target], self)
        whose, about = persons.read(frame, unit, self, str(path), alone=True)
        sentences = (*seen(frame), *about, *findings((*features.outside, *outside)))
        y = coded(y, self.classes, self.range)
        return Rows(features.encoded.x, y, sentences, read_as(frame), whose)


def from_json(value: Any, source: str) -> Schema:
    """A schema of plain values, as an agreement or a TOML file has them."""
    return _whole(declared.from_json(value, source), source)


def read_toml(path: Path) -> Schema:
    """The schema in a columns file."""
    return _whole(declared.read_toml(path), str(path))


def _whole(declaration: Declared, source: str) -> Schema:
    if declaration.target is None:
        raise InputError(f'{source}: needs target = "…", so that every owner learns the same.')
    if declaration.from_rows:
        raise InputError(
            f"{source}: was made from rows (from_rows), and every party would see it. State ranges and lists that are "
            "known without looking at rows, then take from_rows out."
        )
    return Schema(
        target=declaration.target,
        columns=declaration.columns,
        classes=declaration.classes,
        range=declaration.range,
        unit=declaration.unit,
    )
