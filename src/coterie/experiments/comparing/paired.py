"""Spread over seeds, and differences of two methods that are paired by seed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

SURE = 0.95  # of Student's interval around a mean difference, which decides where it leaves zero out


class Difference(NamedTuple):
    """The mean of paired differences; of one pair neither error nor interval is known (NaN)."""

    mean: float
    error: float  # standard error
    low: float
    high: float
    pairs: int

    @property
    def decided(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold, null where nothing is known."""
        numbers = {key: or_none(getattr(self, key)) for key in ("mean", "error", "low", "high")}
        return numbers | {"pairs": self.pairs}


def difference(apart: np.ndarray) -> Difference:
    """The mean of differences, one for each pair, with its interval.

    >>> apart = difference(np.array([1.0, 2.0, 3.0]))
    >>> round(apart.low, 3), round(apart.high, 3), apart.decided
    (-0.484, 4.484, False)
    """
    from scipy.stats import t as student

    mean, pairs = float(np.mean(apart)), len(apart)
    if pairs < 2:
        return Difference(mean, math.nan, math.nan, math.nan, pairs)
    error = float(np.std(apart, ddof=1)) / math.sqrt(pairs)
    half = error * float(student.ppf((1 + SURE) / 2, pairs - 1))
    return Difference(mean, error, mean - half, mean + half, pairs)


def spread(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation over seeds; of one seed there is no deviation (NaN)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def or_none(value: float) -> float | None:
    """The number, or None where it is not finite: JSON has no NaN."""
    return value if math.isfinite(value) else None
