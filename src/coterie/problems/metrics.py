"""How good scores are, on the host. A metric on owners' records is an oracle, for the researcher alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.losses import Loss
from coterie.problems.table import Task

Metric: TypeAlias = Callable[[np.ndarray, np.ndarray], float]  # scores (rows, outputs), y (rows,)


def accuracy(scores: np.ndarray, y: np.ndarray) -> float:
    """Part of rows predicted right: the sign for one score (0 counts as -1), the largest for several.

    >>> accuracy(np.array([[2.0], [-1.0]]), np.array([1.0, 1.0]))
    0.5
    """
    scores = _as_rows(scores)
    predicted = np.where(scores[:, 0] > 0, 1, -1) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float(np.mean(predicted == np.asarray(y)))


def auc(scores: np.ndarray, y: np.ndarray) -> float:
    """Probability that a random +1 row scores above a random -1 row; ties count half.

    >>> auc(np.array([[0.1], [0.4], [0.4]]), np.array([-1.0, 1.0, -1.0]))
    0.75
    """
    positive = np.asarray(y) > 0
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        raise InputError(f"y has {positives} positive and {negatives} negative rows: auc needs both classes.")
    _, place, counts = np.unique(_as_rows(scores)[:, 0], return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[place]  # the mean rank of equal scores
    return float((rank[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def mse(scores: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error of the first score."""
    return float(np.mean(np.square(_as_rows(scores)[:, 0].astype(np.float64) - np.asarray(y))))


def mean_loss(loss: Loss) -> Metric:
    """The mean of that loss, as a metric."""

    def measure(scores: np.ndarray, y: np.ndarray) -> float:
        return float(jnp.mean(loss.value(jnp.asarray(_as_rows(scores)), jnp.asarray(y))))

    return measure


METRICS: dict[str, Metric] = {"accuracy": accuracy, "auc": auc, "mse": mse}


def metric_for(task: Task) -> Metric:
    """Accuracy for classification, mean squared error for regression.

    >>> metric_for("regression").__name__
    'mse'
    """
    _check.one_of("task", task, ("binary", "multiclass", "regression"))
    return mse if task == "regression" else accuracy


def _as_rows(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores)
    return scores[:, None] if scores.ndim == 1 else scores
