"""What one record adds to its owner's table of scores: all in whole numbers, so that no rounding can betray it.

Two classes: which band its score lies in, by class (bands × classes); whether the decision is wrong; its Brier score.
Several classes: its class by the decided one; wrong; Brier score; and for each class the band of that class's score,
by whether the record is of it. A quantity: error, absolute and squared error, in halves of the target's range and
clipped at 1; the target and its square, for R². The Brier score is left out where scores are no log odds.
By groups, where they are asked for: its class by the decided one, in the cells of its group; or its errors, in the
columns of its group, and that it is one.

Where a unit of privacy has several records, it adds the mean of what they would add: a person counts once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from coterie.problems.metrics import PROBABLE, probabilities
from coterie.problems.table import Task

UNIT = 1024  # what one record is counted as, so that parts of it are whole numbers too
# Bands of a score, in log odds (against chance, where there are several classes): symmetric, so that one edge decides.
EDGES = np.array([-4.0, -2.5, -1.6, -0.9, -0.4, 0.0, 0.4, 0.9, 1.6, 2.5, 4.0])
BANDS = len(EDGES) + 1
_TINY = 1e-12
_BY_GROUP = {"group count": UNIT, "group error": UNIT // 2, "group absolute": UNIT, "group squared": UNIT}
_ROUNDED = 0.51  # by how much a number is rounded at most: a half, and more than floating point adds


class Block(NamedTuple):
    """Columns of a table that belong together."""

    name: str
    shape: tuple[int, ...]
    unit: int  # what a whole record is counted as here


@dataclass(frozen=True)
class Sheet:
    """One form of table. Everything here is public.

    Guarantee: between two neighbours the tables differ by at most 2 `reach` in 2-norm where a record is replaced, and
    by at most `reach` where one is added: Gaussian noise of z `reach` costs `GaussianDpEvent(z)` either way.
    """

    table = "evaluation"  # which of a plan's tables it is, and what views call it
    words = "tables of scores"

    task: Task
    loss: str
    classes: int  # 0 of a quantity
    sizes_public: bool  # or else a record more or less makes a neighbour, and nobody knows how many there are
    groups: int = 0  # of records that are evaluated by themselves, too
    of_units: bool = False  # of several records each: then all that is said of a record here holds for a unit

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The columns, in order."""
        if self.task == "regression":
            halves, wholes = ("error", "target"), ("absolute", "squared", "target²")
            count = () if self.sizes_public else (Block("count", (1,), UNIT),)
            return (
                *(Block(name, (1,), UNIT // 2) for name in halves),
                *(Block(name, (1,), UNIT) for name in wholes),
                *count,
                *(Block(name, (self.groups,), unit) for name, unit in _BY_GROUP.items() if self.groups),
            )
        cells = Block("cells", (BANDS, 2) if self.task == "binary" else (self.classes, self.classes), UNIT)
        brier = (Block("brier", (1,), UNIT // 2),) if self.loss in PROBABLE else ()
        ranked = ()
        if self.task == "multiclass":  # √classes smaller: a record stands in as many of these cells
            ranked = (Block("ranked", (self.classes, BANDS, 2), int(UNIT / math.sqrt(self.classes))),)
        grouped = ()
        if self.groups:
            grouped = (Block("groups", (self.groups, self.classes, self.classes), UNIT),)
        return (cells, Block("wrong", (1,), UNIT), *brier, *ranked, *grouped)

    @cached_property
    def units(self) -> np.ndarray:
        """(width,) what one record is counted as in each column."""
        return np.concatenate([np.full(math.prod(block.shape), float(block.unit)) for block in self.blocks])

    @property
    def width(self) -> int:
        """How many numbers a table has."""
        return len(self.units)

    @cached_property
    def reach(self) -> float:
        """Half of how far a replaced record moves the table; the whole of it where one is added.

        Replaced, classes: one cell of each one-hot group goes down and one up, 2 unit² a group; wrong and Brier score
        lie within [0, 1] and move by at most their unit. Added: half as much of each group, the others the same.
        Replaced, a quantity: with weights (½, 1, 1), errors a and b in [−1, 1] are ¼(a−b)² + (|a|−|b|)² + (a²−b²)²
        apart, at most 9/4, met at a = 1, b = 0; the target with (½, 1) ¼(a−b)² + (a²−b²)², at most 1.2862, met at
        a = 1, b = −0.146. Added: as far as from zeros, at most 9/4 and 5/4, and 1 for the count.
        By groups: a record is in one of them, so their cells are one more one-hot group; of a quantity it puts count,
        error, absolute and squared error, at most 1 + 9/4 with these weights, into one group's columns, and a replaced
        record takes as much out of another's. However many groups there are, it is the same.

        A unit: means of what records add lie in the convex hull of it, where no two points are further apart, and none
        further from zero, than at its corners, which records are.

        Means of units, and errors and targets, lie between whole numbers: each number is rounded by at most a half, of
        either neighbour. What records of classes add is whole, or rounded within ends that are.
        """
        rounded = self.of_units or self.task == "regression"
        return self._exact_reach + (_ROUNDED * math.sqrt(self.width) if rounded else 0.0)

    @property
    def _exact_reach(self) -> float:
        if self.task == "regression":
            own = 13 / 4 if self.groups else 0.0
            replaced, added = 9 / 4 + 1.2862 + 2 * own, 9 / 4 + 5 / 4 + 1 + own
            return UNIT * (math.sqrt(replaced) / 2 if self.sizes_public else math.sqrt(added))
        groups = {"cells": 1, "ranked": self.classes, "groups": 1}
        squares = sum(
            block.unit**2 * groups[block.name] * (2 if self.sizes_public else 1)
            if block.name in groups
            else block.unit**2
            for block in self.blocks
        )
        return math.sqrt(squares) / (2 if self.sizes_public else 1)

    def tally(
        self,
        scores: np.ndarray,
        y: np.ndarray,
        codes: np.ndarray | None = None,
        unit: np.ndarray | None = None,
    ) -> np.ndarray:
        """(width,) int64: the sum over records of what each adds. Reads records: leaves only with noise, charged.

        `codes`: (rows,) each record's group, where there are groups. `unit`: which unit each record is of, where they
        are counted by units.

        A score that is no number counts as wrong, as wrong as can be: it neither stops the table nor shows in it more
        than another record.
        """
        parts = self._parts(scores, y)
        if self.groups:
            assert codes is not None
            parts |= self._grouped(parts, codes)
        added = self._added if unit is None else partial(_by_unit, unit=unit)
        return np.concatenate([added(block, parts[block.name]) for block in self.blocks])

    def lost(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(rows,) what each record costs, within [0, 1]: squared error, Brier score, or whether it is wrong.

        Reads records. Only an honest mean or probability is best at the first two; scores that are no log odds leave
        the last.
        """
        name = "squared" if self.task == "regression" else "brier" if self.loss in PROBABLE else "wrong"
        return self._parts(scores, y)[name][:, 0]

    def _parts(self, scores: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        """What each record adds to each block."""
        scores = np.asarray(scores, np.float64).reshape(len(y), -1)
        lost = np.logical_not(np.all(np.isfinite(scores), axis=1))
        scores = np.where(lost[:, None], 0.0, scores)
        if self.task == "regression":
            parts = _quantity(scores[:, 0], np.asarray(y, np.float64), lost)
        elif self.task == "binary":
            parts = self._binary(scores[:, 0], np.asarray(y) > 0, lost)
        else:
            parts = self._several(scores, np.asarray(y).astype(int), lost)
        return parts | {"count": np.ones((len(y), 1))}

    def _grouped(self, parts: dict[str, np.ndarray], codes: np.ndarray) -> dict[str, np.ndarray]:
        """What a record adds to the blocks of groups: what it adds elsewhere, in the place of its group."""
        if self.task == "regression":
            own = np.arange(self.groups) == codes[:, None]
            return {name: own * parts[name.removeprefix("group ")] for name in _BY_GROUP}
        cells = parts["cells"]
        if self.task == "binary":  # of bands, the upper half decides for the second class
            cells = 2 * (cells % 2) + (cells // 2 >= BANDS // 2)
        return {"groups": codes[:, None] * self.classes**2 + cells}

    def _added(self, block: Block, part: np.ndarray) -> np.ndarray:
        """One block's sum: counts of cells, (rows, groups) of whole numbers; or values, each rounded to the unit."""
        if part.dtype.kind == "i":
            cells = math.prod(block.shape)
            return block.unit * np.bincount(part.ravel(), minlength=cells).astype(np.int64)
        return np.rint(block.unit * part).astype(np.int64).sum(axis=0)

    def _binary(self, score: np.ndarray, is_second: np.ndarray, lost: np.ndarray) -> dict[str, np.ndarray]:
        score = np.where(lost, np.where(is_second, -_TINY, _TINY), score)
        brier = np.where(lost, 1.0, (probabilities("logistic", score[:, None])[:, 1] - is_second) ** 2)
        return {
            "cells": (2 * band(score) + is_second)[:, None],
            "wrong": ((score > 0) != is_second)[:, None].astype(float),
            "brier": brier[:, None],
        }

    def _several(self, scores: np.ndarray, y: np.ndarray, lost: np.ndarray) -> dict[str, np.ndarray]:
        fallback = (y + 1) % self.classes  # the decision that a row without a score counts as
        p = probabilities(self.loss, scores)
        p = np.where(lost[:, None], np.eye(self.classes)[fallback], p)
        decided = np.where(lost, fallback, scores.argmax(axis=1))
        is_own = np.arange(self.classes) == y[:, None]
        place = 2 * (BANDS * np.arange(self.classes) + band(against_chance(p))) + is_own
        return {
            "cells": (self.classes * y + decided)[:, None],
            "wrong": (decided != y)[:, None].astype(float),
            "brier": np.sum((p - is_own) ** 2, axis=1, keepdims=True) / 2,
            "ranked": place,
        }


def _by_unit(block: Block, part: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """One block's sum of the units' means, each rounded to whole numbers by itself: no unit shows in another's."""
    records = np.bincount(unit)
    columns, places = math.prod(block.shape), part
    values = np.broadcast_to(1.0 / records[unit, None], part.shape)
    if part.dtype.kind != "i":
        places, values = np.zeros(part.shape, int) + np.arange(columns), part * values
    sums = np.bincount(
        (unit[:, None] * columns + places).ravel(), values.ravel(), minlength=len(records) * columns
    )
    return np.rint(block.unit * sums.reshape(len(records), columns)).astype(np.int64).sum(axis=0)


def shortened(vectors: np.ndarray, longest: float, unit: np.ndarray | None) -> np.ndarray:
    """(rows, width) no longer than `longest` each; of units the means, (units, width): no longer than their longest.

    `unit`: which unit each row is of, in ascending order, where a unit may have several.
    """
    with np.errstate(over="ignore"):  # endless rows become zero
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
    short = vectors * np.minimum(1.0, longest * (1 - 1e-12) / np.maximum(length, 1e-300))
    if unit is None:
        return short
    own = unit - unit[0]
    sums = np.zeros((int(own[-1]) + 1, vectors.shape[1]))
    np.add.at(sums, own, short)
    return sums / np.maximum(np.bincount(own), 1)[:, None] * (1 - 1e-12)  # less than sums round by


def band(score: np.ndarray) -> np.ndarray:
    """Which band a score lies in; an edge belongs to the lower one, as a score of 0 decides for the first class."""
    return np.searchsorted(EDGES, score, side="left")


def against_chance(p: np.ndarray) -> np.ndarray:
    """Log odds of each of several classes, 0 where it is as likely as every other."""
    sure = np.clip(p, 1e-9, 1 - 1e-9)
    return np.log(sure / (1 - sure)) + math.log(p.shape[1] - 1)


def _quantity(score: np.ndarray, y: np.ndarray, lost: np.ndarray) -> dict[str, np.ndarray]:
    """Scores and targets are in halves of the target's range already, targets within [−1, 1]."""
    error = np.where(lost, 1.0, np.clip(score - y, -1.0, 1.0))
    y = np.clip(y, -1.0, 1.0)
    columns = {"error": error, "absolute": np.abs(error), "squared": error**2, "target": y, "target²": y**2}
    return {name: value[:, None] for name, value in columns.items()}
