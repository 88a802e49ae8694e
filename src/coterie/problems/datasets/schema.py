"""A table's public description, agreed on by owners who never see each other's rows, and one owner's rows under it.

    target = "income"
    classes = ["low", "high"]      # or, for a quantity: range = [0, 250000]

    [columns]
    age = [17, 90]                 # a number's public range; values outside are moved to its ends
    sex = ["F", "M"]               # a category's public values; others count as none of them

Nothing here is computed from rows, so it costs no privacy; a row that does not fit is named by its number alone.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets._encode import Category, Encoded, Field, Numeric, codes_of, encode, scale
from coterie.problems.datasets._table import signs
from coterie.problems.datasets.own import Frame, first_row, is_number, numbers, read_frame
from coterie.problems.table import Table, Task


class Rows(NamedTuple):
    """One owner's rows, encoded."""

    x: np.ndarray  # (rows, dim) float32
    y: np.ndarray  # (rows,)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What is public about every owner's table: the target, the columns, and the values they may take."""

    target: str
    columns: Mapping[str, tuple]  # name -> (low, high), or the category's values
    classes: tuple[str, ...] = ()
    range: tuple[float, float] | None = None  # of a target that is a quantity

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("columns: none given. Name each feature with its public range or values.")
        if self.target in self.columns:
            raise InputError(f"target={self.target!r}: is among the columns. A target is no feature.")
        if (self.range is None) == (len(self.classes) == 0):
            raise InputError(
                f"target={self.target!r}: give its classes, or the range of a quantity, not both or none."
            )
        if self.classes and (len(self.classes) < 2 or len(set(self.classes)) < len(self.classes)):
            raise InputError(f"classes={list(self.classes)}: must be two or more different values.")
        if self.range is not None:
            _span("range", self.range)
        for name, values in self.columns.items():
            _field(name, values)

    @property
    def task(self) -> Task:
        """What is to be learnt."""
        return "regression" if self.range else "binary" if len(self.classes) == 2 else "multiclass"

    def to_json(self) -> dict[str, Any]:
        """As plain values, in the columns' order."""
        target = {"range": list(self.range)} if self.range else {"classes": list(self.classes)}
        columns = {name: list(values) for name, values in self.columns.items()}
        return {"target": self.target, **target, "columns": columns}

    def empty(self, name: str) -> Table:
        """A table without rows: all that a protocol is built from."""
        encoded = encode({column: np.empty(0, object) for column in self.columns}, self._fields)
        nothing = np.empty(0, np.int32 if self.task == "multiclass" else np.float32)
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
            classes=self.classes,
            test_is_public=False,
            source="an agreement",
        )

    def read(self, path: Path) -> Rows:
        """An owner's rows from its CSV, Parquet or NPZ file; InputError names the first row that does not fit."""
        frame = read_frame(path)
        for name in (self.target, *self.columns):
            if name not in frame.columns:
                raise InputError(
                    f"data={str(path)!r}: has no column {name!r}, which the agreement names. Add or rename it."
                )
        columns = {field.name: _values(frame[field.name], field) for field in self._fields}
        return Rows(self._encoded(columns).x, self._targets(frame[self.target]))

    @property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(_field(name, values) for name, values in self.columns.items())

    def _encoded(self, columns: Mapping[str, np.ndarray]) -> Encoded:
        return encode(columns, self._fields)

    def _targets(self, column: Frame) -> np.ndarray:
        if self.range is not None:
            return scale(numbers(column), *self.range)
        codes = codes_of(_words(column), self.classes)
        if (codes < 0).any():
            raise InputError(
                f"column {self.target!r}: row {first_row(codes < 0)} is none of the agreed classes. "
                "Correct or remove it."
            )
        return signs(codes == 1) if self.task == "binary" else codes


def from_json(value: Any, source: str) -> Schema:
    """A schema of plain values, as an agreement or a TOML file has them."""
    if not isinstance(value, dict):
        raise InputError(f"{source}: must be a table with target, classes or range, and columns.")
    known = {"target", "classes", "range", "columns"}
    for key in value:
        if key not in known:
            raise InputError(f"{source}: unknown key {key!r}. Known keys: {', '.join(sorted(known))}.")
    target, columns = value.get("target"), value.get("columns")
    if not isinstance(target, str) or not isinstance(columns, dict):
        raise InputError(f'{source}: needs target = "…" and a table [columns].')
    classes, span = value.get("classes", []), value.get("range")
    if not _is_list(classes) or not (span is None or _is_list(span)):
        raise InputError(f"{source}: classes and range must be lists.")
    for name, values in columns.items():
        if not _is_list(values):
            raise InputError(f"{source}: column {name!r} must be [low, high] or a list of values.")
    return Schema(
        target=target,
        columns={name: tuple(values) for name, values in columns.items()},
        classes=tuple(str(one) for one in classes),
        range=None if span is None else _span("range", span),
    )


def read_toml(path: Path) -> Schema:
    """The schema in a TOML file."""
    try:
        return from_json(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise InputError(f"columns={str(path)!r}: cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"columns={str(path)!r}: is not TOML ({error}).") from error


def _field(name: str, values: Sequence[Any]) -> Field:
    if values and all(isinstance(one, str) for one in values):
        if len(set(values)) < len(values):
            raise InputError(f"column {name!r}: a value is listed twice.")
        return Category(name, tuple(values))
    return Numeric(name, *_span(f"column {name!r}", values))


def _span(what: str, values: Sequence[Any]) -> tuple[float, float]:
    fine = len(values) == 2 and all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and math.isfinite(one) for one in values
    )
    if not fine or not values[0] < values[1]:
        raise InputError(
            f"{what}={list(values)!r:.80}: must be two finite numbers, low < high, or a list of texts."
        )
    return float(values[0]), float(values[1])


def _values(column: Frame, field: Field) -> np.ndarray:
    return numbers(column) if isinstance(field, Numeric) else _words(column)


def _words(column: Frame) -> np.ndarray:
    """Values as the schema writes them: 1 and 1.0 are the same class."""
    if column.isna().any():
        raise InputError(
            f"column {column.name!r}: row {first_row(column.isna())} is empty. Fill or remove such rows."
        )
    if is_number(column):
        return np.array([f"{value:g}" for value in column.to_numpy(np.float64)], object)
    return column.astype(str).to_numpy(object)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
