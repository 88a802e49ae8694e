"""A constant predictor, and whether a model beats it, in words."""

from __future__ import annotations

import math

import numpy as np

from coterie.problems.metrics import METRICS, Judge, beats, own_unit
from coterie.problems.table import Table
from coterie.reports.amounts import number


def says(judge: Judge, table: Table, scores: np.ndarray) -> str:
    """The prediction of these constant scores, in words that suit the metric."""
    if not len(scores):
        return "a constant"
    if judge.task == "regression":
        mean = float(own_unit(scores[0], judge.bounds or (-1.0, 1.0))[0])
        return f"always saying the mean, {number(mean)}{' ' * bool(table.target_unit)}{table.target_unit}"
    if judge.metric in ("auc", "average_precision"):
        return "the same score for every row"
    if METRICS[judge.metric].of_probabilities:
        return "the classes' shares as every row's probabilities"
    place = int(scores[0, 0] > 0) if judge.task == "binary" else int(scores[0].argmax())
    classes = table.classes or ("-1", "+1")
    return f"always saying {classes[place]!r}"


def verdict(name: str, joint: float, constant: float, what: str) -> str:
    """A sentence if a model is no better than a constant; empty if it is."""
    if beats(name, joint, constant):
        return ""
    if not math.isfinite(joint):
        return (
            f"Worse than a constant: the model diverged, and {what} gives {an(name)} of {number(constant)}."
        )
    how = "No better" if float(f"{joint:.4g}") == float(f"{constant:.4g}") else "Worse"
    return f"{how} than a constant: {what} gives {an(name)} of {number(constant)}, the joint model {number(joint)}."


def an(name: str) -> str:
    """The metric's words with their article."""
    words = METRICS[name].words
    return f"{'an' if words[0] in 'aeiouAR' else 'a'} {words}"


def with_unit(name: str, unit: str) -> str:
    """The metric's words, with the unit where it is measured in one."""
    words = METRICS[name].words
    if not unit or name not in ("mse", "mae"):
        return words
    return f"{words} (in {unit}{', squared' * (name == 'mse')})"
