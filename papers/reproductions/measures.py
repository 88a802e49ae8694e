"""What a view shows of a run: a curve over its looks, in the unit that papers print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Measure(NamedTuple):
    """A curve over the looks of one run's result, and how it is written."""

    label: str
    of: Callable[[dict[str, Any]], np.ndarray]
    form: str  # of a mean and of a spread
    higher: bool = False  # whether higher is better


def _floats(result: dict[str, Any], name: str) -> np.ndarray:
    return np.array([float(value) for value in result[name]])


def _benefit(result: dict[str, Any]) -> np.ndarray:
    """How many owners' own non-private models fit everyone's records worse than the joint model."""
    return np.sum(np.array(result["alone"]) > _floats(result, "objective")[:, None], axis=1).astype(float)


MEASURES: dict[str, Measure] = {
    "accuracy": Measure("accuracy, %", lambda result: 100 * _floats(result, "metric"), ".2f", higher=True),
    "mse": Measure("mean squared error", lambda result: _floats(result, "metric"), ".4g"),
    "gap": Measure("F(θ) − F(θ*)", lambda result: _floats(result, "objective") - result["optimum"], ".3g"),
    "psi": Measure(
        "F(θ)/F(θ*) − 1", lambda result: _floats(result, "objective") / result["optimum"] - 1, ".3g"
    ),
    "benefit": Measure("owners better off than alone without privacy", _benefit, ".1f", higher=True),
    "clock": Measure("owner that answers", lambda result: 1.0 + np.array(result["visitors"]), ".0f"),
    "loss": Measure("training loss", lambda result: _floats(result, "objective"), ".3f"),
    "slope": Measure("‖∇F‖ of the mean model", lambda result: _floats(result, "slope"), ".3f"),
}
