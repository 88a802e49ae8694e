"""AUC and average precision of scores of which only the bands are known.

Within a band, pairs count half (AUC) and classes are mixed evenly (average precision): that is off by a part which
shrinks with the bands' width squared. The same from bands twice as wide is off by four times as much, so that a third
of the difference is what is missing (Richardson 1911): it is added, and the interval is wider by as much.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Area = Callable[[np.ndarray], float]

_POINTS = (np.arange(8) + 0.5) / 8  # within a band


def auc(cells: np.ndarray) -> float:
    """The area under the curve of (bands, 2) counts of the two classes, the lowest scores first."""
    negatives, positives = cells.T
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / (positives.sum() * negatives.sum()))


def average_precision(cells: np.ndarray) -> float:
    """The average precision of (bands, 2) counts; noise may have made some negative, so precision is cut to [0, 1]."""
    own, everyone = cells[::-1, 1], cells[::-1].sum(axis=1)
    own_before, before = np.cumsum(own) - own, np.cumsum(everyone) - everyone
    hits = own_before[:, None] + own[:, None] * _POINTS
    taken = before[:, None] + everyone[:, None] * _POINTS
    precision = np.clip(hits / np.maximum(taken, 1.0), 0.0, 1.0).mean(axis=1)
    return float(own @ precision / own.sum())


def wider(cells: np.ndarray) -> np.ndarray:
    """The counts in bands of two."""
    return cells.reshape(-1, 2, 2).sum(axis=1)


def refined(area: Area, cells: np.ndarray) -> float:
    """The area, with what bands hide of it."""
    return area(cells) + hidden(area, cells)


def hidden(area: Area, cells: np.ndarray) -> float:
    """An estimate of what bands hide."""
    return (area(cells) - area(wider(cells))) / 3
