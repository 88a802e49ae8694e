"""How good scores are, as papers report it: of rows with targets in a table's coding."""

from __future__ import annotations

import numpy as np


def accuracy(scores: np.ndarray, y: np.ndarray) -> float:
    """Part of rows predicted right: the sign for one score (0 counts as -1), the largest for several.

    >>> accuracy(np.array([[2.0], [-1.0]]), np.array([1.0, 1.0]))
    0.5
    """
    scores = np.asarray(scores)
    if scores.ndim == 2 and scores.shape[1] > 1:
        return float(np.mean(scores.argmax(axis=1) == y))
    return float(np.mean(np.where(scores.ravel() > 0, 1, -1) == y))


def mse(scores: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error of the only score."""
    return float(np.mean(np.square(np.asarray(scores, np.float64).ravel() - y)))
