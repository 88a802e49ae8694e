"""What a forecast means in the metric's own units: how many points of accuracy or AUC privacy costs.

The forecast says where a run ends along each direction of the features: how much of the way to the best linear model is
done, and how far noise scatters it. Put there on some rows, models can be looked at as any others. The rows are
declared public ones with their targets, or made up: as many features as stated, with the spectrum that the forecast
assumes, and classes as hard to tell apart and as common as is assumed or declared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import numpy as np

from coterie.planning.constants import TYPICAL_TARGET, Constants, gap_of, groups_of, loss_at_zero
from coterie.planning.search import End, Forecast
from coterie.problems.metrics import METRICS, Judge
from coterie.problems.problem import Problem
from coterie.problems.reference import central_optimum

TIMES, OFF = 2.0, 0.01  # how far the exchange is off, either way: see docs/planning.md for what was measured
EVEN = 0.5  # share of the rarer of two classes where nobody declared it
_ROWS = 4_000  # made up, or looked at
_MOST = 400  # directions of made-up rows: the others hold next to nothing
_DRAWS = 8  # pairs of opposite directions, so that the slope at the best model cancels
_STEPS = 40  # halvings of an interval
_PATIENCE = 60  # doublings


@dataclass(frozen=True, kw_only=True)
class Lost:
    """How much worse than the best linear model's a metric is expected to be, with the forecast's interval."""

    name: str
    best: float | None  # that model's, on public rows; None: not known, the rows are made up
    lost: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Excess risk to metrics, on some rows."""

    problem: Problem
    judge: Judge
    x: np.ndarray
    y: np.ndarray
    best: np.ndarray
    dimension: int  # of the forecast
    made_up: bool
    rate: float = EVEN  # share of the rarer class of made-up rows

    @property
    def names(self) -> tuple[str, ...]:
        """What is told: accuracy, and AUC of two classes; R² of a quantity."""
        return {0: ("r2",), 2: ("accuracy", "auc")}.get(self.judge.classes, ("accuracy",))

    def level(self, name: str) -> float:
        """The metric of the best linear model."""
        return self._measured(name, self.best[None])

    def lost(self, name: str, end: End) -> float:
        """How much worse than the best linear model a run is that ends there; below zero where it is better."""
        counts = np.diff(groups_of(self.dimension))
        reached, scatter = (np.repeat(by_group, counts)[: len(self.best)] for by_group in end)
        mean = reached[:, None] * (self._basis.T @ self.best)
        moved = self._basis @ (mean + np.sqrt(scatter)[:, None] * self._drawn)
        return self._worse(name, moved)

    def lost_at(self, name: str, excess: float) -> float:
        """The same of a model of which only the excess risk is known, moved in random directions until it has that.

        None is along the rows' leading direction, mostly their mean: there the curvature is largest, so that training
        corrects what moves it, and all scores would move alike.
        """
        return self._worse(name, self._moved(excess))

    def told(self, forecast: Forecast) -> tuple[Lost, ...]:
        """In each metric. Public rows show where the forecast's end is; of made-up ones only its excess risk is taken,
        for what can be learnt lies nowhere in particular there. The interval is widened by `TIMES` and `OFF`."""
        losses = []
        moved = [
            self._moved(risk) for risk in (forecast.predicted, forecast.low, forecast.high)
        ] * self.made_up
        for name in self.names:
            if self.made_up:
                worse = [self._worse(name, models) for models in moved]
            else:
                worse = [self.lost(name, end) for end in forecast.ends]
            best = None if self.made_up else self.level(name)
            low, high = max(0.0, min(worse) / TIMES - OFF), max(0.0, max(worse)) * TIMES + OFF
            losses.append(Lost(name=name, best=best, lost=max(0.0, worse[0]), low=low, high=high))
        return tuple(losses)

    def _moved(self, excess: float) -> np.ndarray:
        """Models around the best one that have that excess risk on average."""
        ways = self._basis[:, 1:] @ self._drawn[:, 1:]
        least = self._loss(self.best[None])
        return self.best + ways * _reaches(lambda scale: self._loss(self.best + scale * ways) - least, excess)

    def _worse(self, name: str, models: np.ndarray) -> float:
        sign = -1.0 if METRICS[name].lower_is_better else 1.0
        return sign * (self.level(name) - self._measured(name, models))

    @cached_property
    def _basis(self) -> np.ndarray:
        """(features, directions), the largest second moment first."""
        return np.linalg.eigh(self.x.T @ self.x)[1][:, ::-1]

    @cached_property
    def _drawn(self) -> np.ndarray:
        """(draws, directions, outputs); each with its opposite, so that what is odd cancels."""
        drawn = np.random.default_rng(0).standard_normal((_DRAWS, *self.best.shape))
        return np.concatenate([drawn, -drawn])

    @cached_property
    def _value(self) -> Callable:
        return jax.jit(self.problem.loss.value)

    def _loss(self, models: np.ndarray) -> float:
        """Mean over models, penalty left out; all at once, as it is asked for some fifty times a forecast."""
        scores = (self.x @ models).reshape(-1, models.shape[2]).astype(np.float32)
        values = self._value(scores, np.tile(self.y, len(models)))
        return float(np.mean(np.asarray(values, np.float64)))

    def _measured(self, name: str, models: np.ndarray) -> float:
        judge = replace(self.judge, metric=name)
        return float(np.mean([judge((self.x @ model).astype(np.float32), self.y) for model in models]))


def on_rows(problem: Problem, x: np.ndarray, y: np.ndarray, classes: int) -> Exchange:
    """The exchange by rows with their targets: declared public, or the asking owner's own."""
    some = np.sort(np.random.default_rng(0).permutation(len(y))[:_ROWS])
    rows, targets = np.asarray(x, np.float64)[some], np.asarray(y)[some]
    return Exchange(
        problem=problem,
        judge=_judge(problem, classes),
        x=rows,
        y=targets,
        best=central_optimum(problem, rows, targets).astype(np.float64),
        dimension=x.shape[1],
        made_up=False,
    )


def on_made_up(problem: Problem, constants: Constants, classes: int, base_rate: float = EVEN) -> Exchange:
    """The exchange by made-up rows: the assumed spectrum, the first direction constant, all others Gaussian."""
    rng = np.random.default_rng(1)
    spread = np.sqrt(np.asarray(constants.spectrum[:_MOST]))
    x = rng.standard_normal((_ROWS, len(spread))) * spread
    x[:, 0] = spread[0]
    best = rng.standard_normal((len(spread), problem.loss.outputs))
    best[0] = 0.0
    saved = gap_of(problem, constants) * loss_at_zero(problem)
    draw = {1: _quantities, 2: _two}.get(classes, _several)
    best, y = draw(x, best, saved, base_rate, rng)
    return Exchange(
        problem=problem,
        judge=_judge(problem, classes),
        x=x,
        y=y,
        best=best,
        dimension=len(constants.spectrum),
        made_up=True,
        rate=base_rate,
    )


def _two(x: np.ndarray, way: np.ndarray, saved: float, rate: float, rng: np.random.Generator) -> tuple:
    """Two classes, as hard to tell apart as even ones of which the best model saves so much, at the base rate."""
    apart = (x @ way)[:, 0]

    def saving(scale: float) -> float:
        chance = _sigmoid(scale * apart)
        return math.log(2) - float(np.mean(-chance * np.log(chance) - (1 - chance) * np.log1p(-chance)))

    scale = _reaches(saving, saved)
    shift = _reaches(lambda down: 1 - float(np.mean(_sigmoid(scale * apart - down))), 1 - rate)
    best = scale * way
    best[0] = -shift / x[0, 0]
    return best, np.where(rng.random(len(x)) < _sigmoid((x @ best)[:, 0]), 1.0, -1.0)


def _several(x: np.ndarray, way: np.ndarray, saved: float, rate: float, rng: np.random.Generator) -> tuple:
    """Even classes, of which the best model saves so much."""
    del rate

    def chances(scale: float) -> np.ndarray:
        scores = scale * (x @ way)
        weight = np.exp(scores - scores.max(1, keepdims=True))
        return weight / weight.sum(1, keepdims=True)

    def saving(scale: float) -> float:
        likely = chances(scale)
        return math.log(way.shape[1]) + float(
            np.mean(np.sum(likely * np.log(np.maximum(likely, 1e-300)), axis=1))
        )

    scale = _reaches(saving, saved)
    below = rng.random(len(x))[:, None] > np.cumsum(chances(scale), axis=1)
    return scale * way, np.minimum(below.sum(1), way.shape[1] - 1)


def _quantities(x: np.ndarray, way: np.ndarray, saved: float, rate: float, rng: np.random.Generator) -> tuple:
    """Targets of the size that a forecast assumes, of whose squares the best model explains what it saves."""
    del rate
    fit = (x @ way)[:, 0]
    best = way * math.sqrt(2 * saved / float(np.mean(fit**2)))
    rest = math.sqrt(max(TYPICAL_TARGET**2 - 2 * saved, 0.0))
    return best, np.clip((x @ best)[:, 0] + rest * rng.standard_normal(len(x)), -1.0, 1.0)


def _judge(problem: Problem, classes: int) -> Judge:
    task = {1: "regression", 2: "binary"}.get(classes, "multiclass")
    return Judge(
        task=task,  # type: ignore[arg-type]
        loss=problem.loss.name,
        classes=0 if classes == 1 else classes,
        bounds=(-1.0, 1.0) if classes == 1 else None,
        metric="r2" if classes == 1 else "accuracy",
    )


def _reaches(growing: Callable[[float], float], level: float) -> float:
    """The number at which a growing function of a positive number reaches the level, or the largest one tried."""
    low, high = 0.0, 1e-3
    for _ in range(_PATIENCE):
        if growing(high) >= level:
            break
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if growing(middle) < level else (low, middle)
    return high


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    return np.clip(1 / (1 + np.exp(-np.clip(scores, -500, 500))), 1e-15, 1 - 1e-15)
