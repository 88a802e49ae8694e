"""How good scores are, on the host. A metric on owners' records is an oracle, for the researcher alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from coterie.problems.table import Task

PROBABLE = ("logistic", "softmax", "one_vs_all")  # losses whose scores are log odds
_LEAST = 1e-300  # a share of 0, so that its logarithm is a number
_TWO: tuple[Task, ...] = ("binary",)
_CLASSES: tuple[Task, ...] = ("binary", "multiclass")
_QUANTITY: tuple[Task, ...] = ("regression",)


def probabilities(loss: str, scores: np.ndarray) -> np.ndarray:
    """(rows, classes) of scores (rows, outputs) of a loss in `PROBABLE`.

    Guarantee: finite scores give finite shares that add up to one. Argument: the largest share is divided out in
    logarithms; of several classes that are all but impossible, one by one, the shares themselves would be 0 / 0.
    """
    wide = np.asarray(scores, np.float64)
    two = wide.shape[1] == 1
    wide = np.hstack([-wide, wide]) if two else wide
    if loss != "softmax":
        small = np.exp(-np.abs(wide))  # 1 / (1 + e^-s), without overflow
        if two:
            return np.where(wide >= 0, 1.0, small) / (1.0 + small)
        wide = np.minimum(wide, 0.0) - np.log1p(small)
    weight = np.exp(wide - wide.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


class Decision(NamedTuple):
    """How scores of two classes become a probability and a class. All of it is public."""

    offset: float = 0.0  # log odds that scores lack, as of a loss that takes classes for equally common
    # Probability of the second class above which it is predicted; None: a score above 0.
    threshold: float | None = None
    weights: tuple[float, float] = (1.0, 1.0)  # that the loss gave records of the two classes

    @property
    def cut(self) -> float:
        """The log odds above which the second class is predicted."""
        return 0.0 if self.threshold is None else math.log(self.threshold / (1 - self.threshold))


PLAIN = Decision()


class Predicted(NamedTuple):
    """What scores say of rows."""

    loss: str
    scores: np.ndarray  # (rows, outputs)
    decided: np.ndarray  # (rows,) places of classes, or quantities in the target's own unit


Measure: TypeAlias = Callable[[Predicted, np.ndarray], float]  # against places of classes, or quantities


class Metric(NamedTuple):
    """A number for how good a model is, and what it suits."""

    words: str  # as in "an accuracy of"
    measure: Measure
    tasks: tuple[Task, ...]
    lower_is_better: bool = False
    of_probabilities: bool = False


def _balanced(predicted: Predicted, y: np.ndarray) -> float:
    from sklearn.metrics import balanced_accuracy_score

    return float(balanced_accuracy_score(y, predicted.decided))


def _log_loss(predicted: Predicted, y: np.ndarray) -> float:
    from sklearn.metrics import log_loss

    p = probabilities(predicted.loss, predicted.scores)
    return float(log_loss(y, p, labels=np.arange(p.shape[1])))


def _brier(predicted: Predicted, y: np.ndarray) -> float:
    """The Brier score: with two classes, of the second alone; with more, summed over classes. Both are usual."""
    p = probabilities(predicted.loss, predicted.scores)
    if p.shape[1] == 2:
        return float(np.mean((p[:, 1] - y) ** 2))
    return float(np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1)))


def _r2(predicted: Predicted, y: np.ndarray) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(y, predicted.decided)) if np.ptp(y) > 0 else math.nan


def _each_class(
    measure: Callable[[np.ndarray, np.ndarray], float], predicted: Predicted, y: np.ndarray
) -> float:
    """The measure of the second of two classes; of several the mean over those that rows have, each against all others.

    These are scikit-learn's numbers, in a tenth of its time: forecasts ask for some thousand of them.
    """
    there = np.unique(y)
    if len(there) < 2:
        return math.nan
    columns = [(1, predicted.scores[:, 0])]
    if predicted.scores.shape[1] > 1:
        p = probabilities(predicted.loss, predicted.scores)
        columns = [(label, p[:, label]) for label in there]
    per_class = []
    for label, scores in columns:
        falling = np.argsort(scores)[::-1]
        last = np.append(np.flatnonzero(np.diff(scores[falling])), len(scores) - 1)
        # How many hits, and how many others, have a score or a higher one: for each score, the highest first.
        hits = np.cumsum(y[falling] == label)[last]
        per_class.append(measure(hits, last + 1 - hits))
    return float(np.mean(per_class))


def _auc(hits: np.ndarray, misses: np.ndarray) -> float:
    return float(np.trapezoid(np.append(0, hits), np.append(0, misses)) / (hits[-1] * misses[-1]))


def _average_precision(hits: np.ndarray, misses: np.ndarray) -> float:
    return float(np.sum(np.diff(hits, prepend=0) * hits / (hits + misses)) / hits[-1])


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", lambda predicted, y: float(np.mean(predicted.decided == y)), _CLASSES),
    "balanced_accuracy": Metric("balanced accuracy", _balanced, _CLASSES),
    "auc": Metric("AUC", partial(_each_class, _auc), _CLASSES),
    "average_precision": Metric("average precision", partial(_each_class, _average_precision), _CLASSES),
    "recall": Metric(
        "recall",
        lambda predicted, y: float(np.mean(predicted.decided[y == 1] == 1)) if np.any(y == 1) else math.nan,
        _TWO,
    ),
    "log_loss": Metric("log loss", _log_loss, _CLASSES, lower_is_better=True, of_probabilities=True),
    "brier": Metric("Brier score", _brier, _CLASSES, lower_is_better=True, of_probabilities=True),
    "mse": Metric(
        "mean squared error",
        lambda predicted, y: float(np.mean((predicted.decided - y) ** 2)),
        _QUANTITY,
        lower_is_better=True,
    ),
    "mae": Metric(
        "mean absolute error",
        lambda predicted, y: float(np.mean(np.abs(predicted.decided - y))),
        _QUANTITY,
        lower_is_better=True,
    ),
    "r2": Metric("R²", _r2, _QUANTITY),
}


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Measures scores of one problem; `metric` is the one that is shown first."""

    task: Task
    loss: str
    classes: int  # 0 of a quantity
    bounds: tuple[float, float] | None  # of a quantity, in its own unit
    metric: str
    decision: Decision = PLAIN

    @property
    def plain(self) -> Judge:
        """The judge of scores that are log odds already, as a constant's are: the second class is above one half."""
        return replace(self, decision=PLAIN)

    @property
    def names(self) -> tuple[str, ...]:
        """All metrics that suit the problem."""
        return tuple(
            name
            for name, metric in METRICS.items()
            if self.task in metric.tasks and (not metric.of_probabilities or self.loss in PROBABLE)
        )

    def __call__(self, scores: np.ndarray, y: np.ndarray, name: str | None = None) -> float:
        """The named metric, or the one that is shown first; `y` as in a Table. NaN of a model that diverged."""
        if not len(y) or not np.isfinite(scores).all():
            return math.nan
        with warnings.catch_warnings():  # a class that rows or predictions lack
            warnings.simplefilter("ignore", UserWarning)
            return METRICS[name or self.metric].measure(self._predicted(scores), self.truth(y))

    def all(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(metrics,) in the order of `names`; NaN where rows do not decide one, as AUC on rows of one class."""
        return np.array([self(scores, y, name) for name in self.names])

    def confusion(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(classes, classes) rows by true class, then by predicted one; none of a quantity or a model that diverged."""
        from sklearn.metrics import confusion_matrix

        if self.task == "regression" or not len(y) or not np.isfinite(scores).all():
            return np.zeros((self.classes, self.classes), int)
        return confusion_matrix(
            self.truth(y), self._predicted(scores).decided, labels=np.arange(self.classes)
        )

    def constant(self, y: np.ndarray) -> np.ndarray:
        """(rows, outputs) scores that say of every row the same: the shares of the classes in `y`, or its mean."""
        if self.task == "regression":
            return np.full((len(y), 1), np.mean(np.asarray(y, np.float64)))
        shares = np.bincount(self.truth(y), minlength=self.classes) / max(1, len(y))
        logs = np.log(np.maximum(shares, _LEAST))
        if self.task == "binary":
            row = logs[1:] - logs[:1]
        elif self.loss == "softmax":
            row = logs
        else:
            row = logs - np.log(np.maximum(1 - shares, _LEAST))
        return np.tile(row, (len(y), 1))

    def truth(self, y: np.ndarray) -> np.ndarray:
        """A Table's targets as places of classes, or as quantities in their own unit."""
        y = np.asarray(y)
        if self.task == "regression":
            return y.astype(np.float64) if self.bounds is None else own_unit(y, self.bounds)
        return (y > 0).astype(int) if self.task == "binary" else y.astype(int)

    def _predicted(self, scores: np.ndarray) -> Predicted:
        rows = np.asarray(scores)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if self.task == "regression":
            return Predicted(self.loss, rows, own_unit(rows[:, 0], self.bounds or (-1.0, 1.0)))
        decision = self.decision if self.task == "binary" else PLAIN
        rows = rows + decision.offset
        single = rows.shape[1] == 1
        decided = (rows[:, 0] > decision.cut).astype(int) if single else rows.argmax(1)
        return Predicted(self.loss, rows, decided)


def own_unit(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Values in the target's own unit, from [-1, 1], onto which targets are scaled; in double precision."""
    low, high = bounds
    return low + (np.asarray(values, np.float64) + 1.0) / 2.0 * (high - low)


def beats(name: str, value: float, other: float) -> bool:
    """Whether a value is better than another in the four digits that are shown; what is not finite never is.

    >>> beats("accuracy", 0.96894, 0.96891), beats("mse", 0.1, 0.2), beats("auc", float("nan"), 0.5)
    (False, True, False)
    """
    sign = -1.0 if METRICS[name].lower_is_better else 1.0
    return sign * float(f"{value:.4g}") > sign * float(f"{other:.4g}")
