"""From the sum of noisy tables to metrics with 95 % intervals: post-processing of releases, so that it costs nothing.

Noise: its variance is public, and so is its covariance after what is known of tables anyway (they add up to the number
of records, wrong decisions are the sum of the wrong cells) was used to take some of it off, by least squares. Sampling:
the records are taken for a sample of those that the model will meet. A metric is linear near its estimate, so both give
it a variance; an interval is 1.96 standard deviations each way, cut where the metric ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coterie.evaluation import curves
from coterie.evaluation.sheet import EDGES, Sheet

WIDE = 2.05  # standard deviations each way: 1.96 are 95 %, and a little for what is not quite normal
CLEAR = 4.0  # standard deviations of noise above which a count may be divided by
_RARE = 2.0  # records of the largest influence, added to a sample: intervals of what is rare stay honest
_SHARE = (0.0, 1.0)


class Estimate(NamedTuple):
    """A number with its interval; None: the table cannot tell, as nothing it would be divided by is clear of noise."""

    value: float | None
    low: float
    high: float


class Band(NamedTuple):
    """What came of rows with scores between two probabilities."""

    low: float
    high: float
    rate: Estimate  # of the second class


class Estimates(NamedTuple):
    """Everything that a sum of tables tells."""

    metrics: dict[str, Estimate]
    confusion: list[list[Estimate]] | None  # rows by true and by decided class
    calibration: list[Band] | None
    groups: list[dict[str, Estimate]]  # metrics of each group


class TableMoments:
    """A sum of tables with the noise that is in it, in records."""

    def __init__(self, sheet: Sheet, total: np.ndarray, variance: float, rows: int | None) -> None:
        """`variance`: of the noise on each whole number of `total`; `rows`: where their number is public."""
        self.sheet, self.noise = sheet, variance / sheet.units**2
        start = np.cumsum([0, *(math.prod(block.shape) for block in sheet.blocks)])
        self._columns = {
            block.name: np.arange(start[at], start[at + 1]).reshape(block.shape)
            for at, block in enumerate(sheet.blocks)
        }
        self._known, right = _relations(sheet, self._columns, rows)
        self._inverse = np.linalg.pinv((self._known * self.noise) @ self._known.T)
        raw = np.asarray(total, np.float64) / sheet.units
        gain = (self._known * self.noise).T @ self._inverse
        self.values = raw - gain @ (self._known @ raw - right)
        self.rows = float(rows) if rows is not None else float(self.values[self._counted()].sum())

    def columns(self, name: str) -> np.ndarray:
        """Where a block's numbers are."""
        return self._columns[name]

    def noise_of(self, columns: np.ndarray, gradient: np.ndarray) -> float:
        """Variance by noise of what changes with these numbers as the gradient says."""
        at, slopes = columns.ravel(), gradient.ravel()
        spread = self.noise[at] * slopes
        known = self._known[:, at] @ spread
        return max(float(slopes @ spread - known @ self._inverse @ known), 0.0)

    def clear(self, columns: np.ndarray) -> bool:
        """Whether the sum of these counts is far enough above its noise to be divided by."""
        least = CLEAR * math.sqrt(self.noise_of(columns, np.ones(columns.shape))) + 1.0
        return float(self.values[columns].sum()) >= least

    def _counted(self) -> np.ndarray:
        return self._columns["count" if "count" in self._columns else "cells"].ravel()

    def share(
        self, columns: np.ndarray, function: Callable[[np.ndarray], float], *divisors: np.ndarray
    ) -> Estimate:
        """A share that is a function of one-hot counts, with its interval; what it divides by must be `clear`."""
        if not all(map(self.clear, divisors)):
            return _none(_SHARE)
        counts = self.values[columns]
        gradient = _gradient(function, counts, np.sqrt(self.noise[columns]) + 1.0)
        variance = self.noise_of(columns, gradient) + _sampling(counts, gradient)
        return _interval(function(counts), variance, _SHARE)


def estimates(sheet: Sheet, total: np.ndarray, variance: float, rows: int | None) -> Estimates:
    """What the sum of tables over all owners tells; `rows` as in `TableMoments`."""
    moments = TableMoments(sheet, total, variance, rows)
    if sheet.task == "regression":
        return Estimates(_of_quantity(moments), None, None, _groups(moments))
    places = _decided(sheet, moments.columns("cells"))
    metrics = _of_decisions(moments, places) | _of_ranks(moments) | _brier(moments)
    confusion = [[_count(moments, place) for place in row] for row in places]
    return Estimates(metrics, confusion, _calibration(moments), _groups(moments))


def half_width(sheet: Sheet, variance: float, rows: int, likely: float) -> float:
    """Forecast of accuracy's half interval, or of the mean absolute error's, in halves of the range.

    `likely`: what it is expected to be; absolute errors scatter about as much as they are. The noise's part is exact,
    for it does not depend on any record.
    """
    moments = TableMoments(sheet, np.zeros(sheet.width), variance, rows)
    if sheet.task == "regression":
        noise, spread = moments.noise_of(moments.columns("absolute"), np.ones(1)), likely**2
    else:
        noise, spread = moments.noise_of(moments.columns("wrong"), np.ones(1)), likely * (1 - likely)
    return WIDE * math.sqrt(noise + rows * spread) / rows


def _relations(
    sheet: Sheet, columns: dict[str, np.ndarray], rows: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Linear facts about every table without noise: (facts, width) weights, and what they add up to."""
    facts, right = [np.zeros(sheet.width)], [0.0]

    def fact(plus: np.ndarray, minus: np.ndarray, total: float = 0.0) -> None:
        weights = np.zeros(sheet.width)
        weights[plus.ravel()], weights[minus.ravel()] = 1.0, -1.0
        facts.append(weights)
        right.append(total)

    nothing = np.zeros(0, int)
    if sheet.task == "regression":
        for name in ("error", "absolute", "squared") if sheet.groups else ():
            fact(columns[f"group {name}"], columns[name])
        if sheet.groups:
            fact(columns["group count"], columns.get("count", nothing), float(rows or 0))
        return np.stack(facts), np.array(right)
    cells = columns["cells"]
    if rows is not None:
        fact(cells, nothing, float(rows))
    fact(_wrong_cells(sheet, cells), columns["wrong"])
    for label in range(sheet.classes) if sheet.task == "multiclass" else ():
        fact(columns["ranked"][label, :, 1], cells[label])
        fact(columns["ranked"][label, :, 0], np.delete(cells, label, axis=0))
    for true, decided in np.ndindex(sheet.classes, sheet.classes) if sheet.groups else ():
        fact(columns["groups"][:, true, decided], _decided(sheet, cells)[true, decided])
    return np.stack(facts), np.array(right)


def _decided(sheet: Sheet, cells: np.ndarray) -> np.ndarray:
    """(true, decided, …) which cells are counted there."""
    if sheet.task == "multiclass":
        return cells[:, :, None]
    half = cells.shape[0] // 2
    return np.stack([np.stack([cells[:half, decision], cells[half:, decision]]) for decision in (0, 1)])


def _wrong_cells(sheet: Sheet, cells: np.ndarray) -> np.ndarray:
    if sheet.task == "binary":
        half = cells.shape[0] // 2
        return np.concatenate([cells[:half, 1], cells[half:, 0]])
    return cells[~np.eye(len(cells), dtype=bool)]


def _gradient(function: Callable[[np.ndarray], float], at: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The gradient by central differences over about the noise's size, where the function has to be linear."""
    slopes = np.zeros(at.size)
    for place in range(at.size):
        move = np.zeros(at.size)
        move[place] = step.flat[place]
        move = move.reshape(at.shape)
        slopes[place] = (function(at + move) - function(at - move)) / (2 * step.flat[place])
    return slopes.reshape(at.shape)


def _sampling(counts: np.ndarray, gradient: np.ndarray) -> float:
    """Variance of a function of one-hot counts, were the records drawn anew: of the multinomial distribution."""
    there = np.maximum(counts, 0.0)
    rows = max(float(there.sum()), 1.0)
    centred = gradient - float((there * gradient).sum()) / rows
    return float((there * centred**2).sum() + _RARE * (centred**2).max())


def _interval(value: float, variance: float, within: tuple[float, float], spare: float = 0.0) -> Estimate:
    half = WIDE * math.sqrt(variance) + spare
    low, high = within
    cut = min(max(value, low), high)
    return Estimate(cut, min(max(value - half, low), high), max(min(value + half, high), low))


# Classes.


def _of_decisions(moments: TableMoments, places: np.ndarray) -> dict[str, Estimate]:
    """Accuracy, balanced accuracy and, of two classes, recall. `places`: (true, decided, …) which cells count there."""

    def accuracy(counts: np.ndarray) -> float:
        return float(np.trace(counts.sum(axis=2)) / counts.sum())

    def recalls(counts: np.ndarray) -> np.ndarray:
        table = counts.sum(axis=2)
        return np.diagonal(table) / np.where(table.sum(axis=1) == 0, np.nan, table.sum(axis=1))

    metrics = {
        "accuracy": moments.share(places, accuracy, places),
        "balanced_accuracy": moments.share(places, lambda counts: float(recalls(counts).mean()), *places),
    }
    if len(places) == 2:
        metrics["recall"] = moments.share(places, lambda counts: float(recalls(counts)[1]), places[1])
    return metrics


def _of_ranks(moments: TableMoments) -> dict[str, Estimate]:
    """AUC and average precision of the second class; of several classes the mean, each against all others."""
    tables = moments.columns("cells")[None]
    if moments.sheet.task == "multiclass":
        tables = moments.columns("ranked")
    if not all(moments.clear(table[:, side]) for table in tables for side in (0, 1)):
        return {name: _none(_SHARE) for name in _AREAS}
    return {name: _mean_area(moments, tables, name) for name in _AREAS}


def _mean_area(moments: TableMoments, tables: np.ndarray, name: str) -> Estimate:
    """Noise is added up as it is; sampling as if all classes erred together, for how they do is not in the table."""
    area, hides, least = _AREAS[name]
    cells = moments.values[tables]
    gradients = np.stack(
        [
            _gradient(
                lambda given: curves.refined(area, given),
                np.maximum(counts, least),
                np.sqrt(moments.noise[columns]) + 1.0,
            )
            for columns, counts in zip(tables, cells)
        ]
    )
    noise = moments.noise_of(tables, gradients / len(tables))
    sampling = float(np.mean([math.sqrt(_sampling(*pair)) for pair in zip(cells, gradients)])) ** 2
    value = float(np.mean([curves.refined(area, cell) for cell in cells]))
    spare = hides * float(np.mean([abs(curves.hidden(area, cell)) for cell in cells]))
    return _interval(value, noise + sampling, _SHARE, spare)


# By name: the area, how much of what bands may hide its interval allows for, and the least that a count is taken for
# where slopes are measured: precision bends where noise made counts negative, and hides most in the band at the top.
_AREAS: dict[str, tuple[curves.Area, float, float]] = {
    "auc": (curves.auc, 1.0, -math.inf),
    "average_precision": (curves.average_precision, 2.0, 1.0),
}


def _brier(moments: TableMoments) -> dict[str, Estimate]:
    """The mean of squared differences. How they scatter is bounded: by their mean, and by their bands."""
    if all(block.name != "brier" for block in moments.sheet.blocks):
        return {}
    scale = 1.0 if moments.sheet.task == "binary" else 2.0
    within = (0.0, scale)
    place, rows = moments.columns("brier"), moments.rows
    if rows < 1:
        return {"brier": _none(within)}
    mean = float(moments.values[place][0]) / rows
    inside = min(max(mean, 0.0), 1.0)
    scatter = rows * inside * (1 - inside) + _RARE
    noise = moments.noise_of(place, np.ones(1))
    if moments.sheet.sizes_public is False:
        noise += mean**2 * moments.noise_of(moments.columns("cells"), np.ones(moments.columns("cells").shape))
    return {"brier": _interval(scale * mean, (scale / rows) ** 2 * (noise + scatter), within)}


def _count(moments: TableMoments, place: np.ndarray) -> Estimate:
    value = float(moments.values[place].sum())
    part = min(max(value / max(moments.rows, 1.0), 0.0), 1.0)
    variance = moments.noise_of(place, np.ones(place.shape)) + moments.rows * part * (1 - part) + _RARE
    return _interval(value, variance, (0.0, math.inf))


def _calibration(moments: TableMoments) -> list[Band] | None:
    """The rate of the second class in each two bands, where scores are log odds."""
    if moments.sheet.task != "binary" or all(block.name != "brier" for block in moments.sheet.blocks):
        return None
    ends = [0.0, *(1 / (1 + np.exp(-EDGES[1::2]))), 1.0]
    pairs = moments.columns("cells").reshape(-1, 2, 2)
    bands = []
    for at, pair in enumerate(pairs):
        rate = moments.share(pair, lambda counts: float(counts[:, 1].sum() / counts.sum()), pair)
        bands.append(Band(float(ends[at]), float(ends[at + 1]), rate))
    return bands


# Groups.


def _groups(moments: TableMoments) -> list[dict[str, Estimate]]:
    """Metrics of each group by itself. How many records are in it is not known but for the table."""
    sheet = moments.sheet
    if sheet.task == "regression":
        return [_quantity_of(moments, at) for at in range(sheet.groups)]
    return [_decisions_of(moments, moments.columns("groups")[at][:, :, None]) for at in range(sheet.groups)]


def _decisions_of(moments: TableMoments, places: np.ndarray) -> dict[str, Estimate]:
    metrics = {"records": _count(moments, places), **_of_decisions(moments, places)}
    if len(places) == 2:
        metrics["false_positive_rate"] = moments.share(
            places, lambda counts: float(counts[0, 1].sum() / counts[0].sum()), places[0]
        )
    return metrics


def _quantity_of(moments: TableMoments, at: int) -> dict[str, Estimate]:
    """Means over a number of records that is noisy itself: both enter the noise's variance."""
    count = moments.columns("group count")[[at]]
    metrics, records = {"records": _count(moments, count)}, float(moments.values[count][0])
    for name in ("squared", "absolute", "error"):
        within = _ENDS[_NAMES[name]]
        metrics[_NAMES[name]] = _none(within)
        if moments.clear(count):
            both = np.concatenate([moments.columns(f"group {name}")[[at]], count])
            mean = float(moments.values[both[0]]) / records
            noise = moments.noise_of(both, np.array([1.0, -mean]))
            square = min(max(float(moments.values[moments.columns("group squared")[at]]) / records, 0.0), 1.0)
            scatter = square * (1 - square) if name == "squared" else max(square - mean**2, 0.0)
            metrics[_NAMES[name]] = _interval(mean, (noise + records * scatter + _RARE) / records**2, within)
    return metrics


# A quantity, in halves of its range.


def _of_quantity(moments: TableMoments) -> dict[str, Estimate]:
    """Mean squared, absolute and plain error, and R². What scatters with fourth powers is bounded by second ones."""
    rows = moments.rows
    columns = np.concatenate(
        [moments.columns(name) for name in ("error", "absolute", "squared", "target", "target²")]
    )
    if rows < 1:
        return {name: _none(within) for name, within in _ENDS.items()}
    error, absolute, squared, target, target2 = moments.values[columns] / rows
    square = min(max(float(squared), 0.0), 1.0)
    counted = 0.0 if moments.sheet.sizes_public else moments.noise_of(moments.columns("count"), np.ones(1))

    def mean(name: str, value: float, scatter: float) -> Estimate:
        noise = moments.noise_of(moments.columns(name), np.ones(1)) + value**2 * counted
        return _interval(value, (noise + rows * max(scatter, 0.0) + _RARE) / rows**2, _ENDS[_NAMES[name]])

    metrics = {
        "mse": mean("squared", float(squared), square * (1 - square)),
        "mae": mean("absolute", float(absolute), square - float(absolute) ** 2),
        "mean_error": mean("error", float(error), square - float(error) ** 2),
    }
    return metrics | {"r2": _r2(moments, columns, rows, (square, float(target), float(target2)))}


def _r2(
    moments: TableMoments, columns: np.ndarray, rows: float, means: tuple[float, float, float]
) -> Estimate:
    square, target, target2 = means
    spread = target2 - target**2
    gradient = np.array([0.0, 0.0, 0.0, -2 * target, 1.0]) / rows
    if spread * rows < CLEAR * math.sqrt(moments.noise_of(columns, rows * gradient)) + 1.0:
        return _none(_ENDS["r2"])
    left = square / spread
    slope = -(np.array([0.0, 0.0, 1.0, 0.0, 0.0]) / rows - left * gradient) / spread
    # |squared error − left × squared distance from the mean|: each at most its largest value times its mean
    far = (1 + min(abs(target), 1.0)) ** 2
    scatter = (math.sqrt(square * (1 - square)) + left * math.sqrt(spread * far)) ** 2 / spread**2 / rows
    return _interval(1 - left, moments.noise_of(columns, slope) + scatter, _ENDS["r2"])


_NAMES = {"squared": "mse", "absolute": "mae", "error": "mean_error"}
_ENDS = {"mse": (0.0, 1.0), "mae": (0.0, 1.0), "mean_error": (-1.0, 1.0), "r2": (-math.inf, 1.0)}


def _none(within: tuple[float, float]) -> Estimate:
    return Estimate(None, *within)
