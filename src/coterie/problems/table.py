"""A data set in memory, with what is public about it kept apart from what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

Task: TypeAlias = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a data set.

    Public by declaration: names, `bounds`, `classes`, and the test rows. `bounds` are the ranges of the
    columns as they are in `x`, written down as constants, never computed from the rows. Private: `x`, `y`,
    `owner`.

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
    owner: np.ndarray | None = None  # (rows,) natural owner of each row, as integer codes; -1: none
    owner_names: tuple[str, ...] = ()
    test_is_public: bool = True  # False: test rows are owners' records, so a metric on them is an oracle's
    source: str = ""
    note: str = ""
