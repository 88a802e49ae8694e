"""A linear model's weights by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.model.predictor import TrainedModel
from coterie.problems.datasets import encoded_names
from coterie.problems.features import Step
from coterie.problems.fields import Numeric


class Weight(NamedTuple):
    """One weight: its column, and the class it speaks for or against (none for a quantity)."""

    column: str
    value: float
    of: str  # a class; empty for a quantity

    @property
    def effect(self) -> str:
        """The column's effect, in words."""
        if not self.of:
            return "raises it" if self.value > 0 else "lowers it"
        return f"{'for' if self.value > 0 else 'against'} {self.of!r}"


def largest(model: TrainedModel, count: int) -> list[Weight]:
    """The largest weights; none where they belong to no column, as with a hidden layer or random features."""
    names = _names(model)
    if names is None:
        return []
    description = model.description
    classes = description.classes[1:] if description.task == "binary" else description.classes or ("",)
    weights = model.params["weights"]
    order = np.argsort(-np.abs(weights), axis=None, kind="stable")[:count]
    places = (divmod(int(at), weights.shape[1]) for at in order)
    return [Weight(names[row], float(weights[row, column]), classes[column]) for row, column in places]


def in_own_units(model: TrainedModel) -> tuple[np.ndarray, np.ndarray] | None:
    """(outputs, encoded columns) and (outputs,): weights of numbers in their own unit, of others as they are encoded.

    A row is scaled to length 1 before it is weighed, which divides all of its scores by one positive number: these
    weights decide between classes as the model does. Of a quantity they hold for rows up to that length; columns of
    longer rows weigh less, but for the intercept. None where weights belong to no column, or where the model decides
    at another score than 0, which so divided is no one score of rows any more.
    """
    description = model.description
    if description.decision.cut != description.decision.offset:
        return None
    if [step.name for step in model.steps] != ["ball"] or _names(model) is None:
        return None
    constant, steady = (model.steps[0].settings.get(key) for key in ("intercept", "steady"))
    if constant is None or any(getattr(field, "log", False) for field in description.fields):
        return None
    weights = np.asarray(model.params["weights"], np.float64).T
    coef, intercept = weights[:, :-1].copy(), weights[:, -1] * constant
    if steady:
        coef *= math.sqrt(1 - constant**2)
    at = 0
    for field in description.fields:
        if isinstance(field, Numeric):  # encoded as 2 (x - low) / (high - low) - 1
            intercept = intercept - coef[:, at] * (field.high + field.low) / (field.high - field.low)
            coef[:, at] *= 2 / (field.high - field.low)
        at += len(encoded_names([field]))
    if description.range is not None:  # scores -1 and 1 are the ends of the range
        low, high = description.range
        coef, intercept = coef * (high - low) / 2, intercept * (high - low) / 2 + (high + low) / 2
    return coef, intercept


def _names(model: TrainedModel) -> Sequence[str] | None:
    description = model.description
    if description.kind != "linear" or not description.fields:
        return None
    names: Sequence[str] | None = encoded_names(description.fields)
    for step in model.steps:
        names = names and _after(names, step)
    return names


def _after(names: Sequence[str], step: Step) -> Sequence[str] | None:
    if step.name == "scale":
        return names
    if step.name == "ball":
        return names if step.settings["intercept"] is None else (*names, "(intercept)")
    if step.name == "piecewise":
        straight, bounds, knots = step.arrays["binary"], step.arrays["bounds"], step.settings["knots"]
        hats = [
            f"{name} near {place:.4g}"
            for name, passes, (low, high) in zip(names, straight, bounds)
            if not passes
            for place in np.linspace(low, high, knots)
        ]
        return [*(name for name, passes in zip(names, straight) if passes), *hats]
    return None
