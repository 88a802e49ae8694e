"""A data set in memory, with what is public about it kept apart from what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from coterie.problems.fields import Feature
from coterie.problems.whose import Whose

Task: TypeAlias = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a data set.

    Public by declaration: names, `bounds`, `classes`, and the test rows. `bounds` are the ranges of the
    columns as they are in `x`, written down as constants, never computed from the rows. Private: `x`, `y`,
    `owner`, `whose`, `findings`; and `classes` where nobody declared them.

    Targets: binary -1.0 / +1.0 (float32); multiclass 0 … classes-1 (int32); regression (float32) scaled onto
    [-1, 1], where `target_bounds` are the two ends in the target's own unit.
    """

    name: str
    task: Task
    x: np.ndarray  # (rows, dim) float32, or (rows, height, width[, channels]) for images
    y: np.ndarray  # (rows,)
    x_test: np.ndarray  # declared public unless `test_is_public` says otherwise
    y_test: np.ndarray
    columns: tuple[str, ...]
    bounds: np.ndarray  # (dim, 2) public lowest and highest value of each column; (1, 2) for images
    target_bounds: tuple[float, float] | None = None  # regression only, public
    classes: tuple[str, ...] = ()
    classes_declared: bool = True  # False: read off the rows, so that one record can show in the list
    columns_declared: bool = True  # False: ranges and lists were read off the rows
    target: str = "target"  # what is learnt, as its owners call it
    target_unit: str = ""  # of a regression's target, in words
    fields: tuple[Feature, ...] = ()  # the columns before they were encoded; a known image has none
    owner: np.ndarray | None = None  # (rows,) natural owner of each row, as integer codes; -1: none
    owner_names: tuple[str, ...] = ()
    whose: Whose | None = None  # whom each row is about, where a unit of privacy is more than a record
    test_is_public: bool = True  # False: they are owners' records, so a metric on them is an oracle value
    source: str = ""
    note: str = ""
    read_as: str = ""  # how a user's file was read: its separator, decimal sign and encoding, in words
    left_out: tuple[str, ...] = ()  # columns of a user's file that it was told to leave out
    unused: tuple[str, ...] = ()  # columns of a user's file that are neither declared nor used
    findings: tuple[str, ...] = ()  # what was seen in the rows, with counts: oracle values

    def __repr__(self) -> str:
        """No row, and not how many there are, which may be a secret."""
        width = f"{len(self.columns)} columns" if self.x.ndim == 2 else f"images {self.x.shape[1:]}"
        return f"<Table {self.name}: {width}, {self.task} {self.target!r}>"
