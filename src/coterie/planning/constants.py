"""What a forecast assumes of a problem, from public bounds or declared public rows; never from private records.

Three numbers stand for what nobody may look at: how the features' second moment decays (`spectrum`), how much of the
loss at zero the optimum saves (`gap`), and how much of the curvature at zero is left near the optimum (`bend`). The
optimum is taken as equally long in every direction, up to the penalty's pull. The defaults were chosen on the
embedded census data, which is public; `scenarios` varies each of them, and the forecast's interval is what that does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.planning.dynamics import Quadratic
from coterie.problems.problem import Problem

FIRST, DECAY = 0.6, 1.0  # the first direction's share of the second moment; the others fall like 1/j
GAP, BEND = 0.45, 0.6
GROUPS = 48  # directions of nearly equal curvature are counted together
_TYPICAL_TARGET = 0.5  # of a regression, scaled onto [-1, 1]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Public assumptions about a problem with features of norm at most one."""

    spectrum: tuple[float, ...]  # eigenvalues of the features' second moment, descending
    from_rows: bool = False  # whether the spectrum was measured on declared public rows
    gap: float = GAP
    bend: float = BEND


def assumed(dimension: int, decay: float = DECAY) -> Constants:
    """For features of which only the dimension and the norm, one, are known.

    >>> round(sum(assumed(100).spectrum), 6)
    1.0
    """
    tail = np.arange(1.0, _check.count("dimension", dimension)) ** -decay
    rest = (1 - FIRST) * tail / tail.sum() if dimension > 1 else tail
    return Constants(spectrum=(FIRST if dimension > 1 else 1.0, *map(float, rest)))


def from_public_rows(rows: np.ndarray) -> Constants:
    """The spectrum of rows that are declared public, as the model sees them: (rows, dimension), scaled and projected.

    Guarantee: none is needed, and none given: the rows are public. Owners' records must not be passed.
    """
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or min(rows.shape) < 1 or not np.all(np.isfinite(rows)):
        raise InputError(
            f"public rows of shape {rows.shape}: must be a table of finite numbers, one row a record."
        )
    values = np.linalg.eigvalsh(rows.T @ rows / len(rows))[::-1]
    return Constants(spectrum=tuple(map(float, np.maximum(values, 0.0))), from_rows=True)


def scenarios(constants: Constants) -> tuple[Constants, ...]:
    """The constants, then what they might be instead: each varied on its own."""
    found = [constants]
    found += [replace(constants, gap=gap) for gap in (constants.gap * 0.6, min(constants.gap * 2.0, 0.95))]
    found += [
        replace(constants, bend=bend) for bend in (constants.bend * 0.6, min(constants.bend / 0.6, 1.0))
    ]
    if not constants.from_rows:
        dimension = len(constants.spectrum)
        found += [
            replace(constants, spectrum=assumed(dimension, decay).spectrum)
            for decay in (DECAY - 0.3, DECAY + 0.3)
        ]
    return tuple(found)


def quadratic(problem: Problem, constants: Constants) -> Quadratic:
    """The stand-in for a linear model's mean loss and penalty.

    Curvature in the scores at zero: softmax over K classes bends by 1/K in K − 1 directions; logistic and squared
    losses have their largest there. Optimum: of one length in all directions, shortened by the penalty as λ/(λ + μ).
    """
    loss, strength = problem.loss, max(problem.penalty.strong_convexity, 0.0)
    if not (problem.model.is_linear and np.isfinite(loss.smoothness)):
        raise InputError(
            f"model={problem.model.name!r}, loss={loss.name!r}: forecasts are for linear models and smooth losses."
        )
    several = loss.name == "softmax"
    bend, outputs = (1 / loss.outputs, loss.outputs - 1) if several else (loss.smoothness, loss.outputs)
    curvature, count = _grouped(constants.bend * bend * np.asarray(constants.spectrum), outputs)
    optimum = curvature / np.maximum(curvature + strength, 1e-30)
    one = Quadratic(curvature, count, optimum, strength)
    return one._replace(
        optimum=optimum * np.sqrt(constants.gap * loss_at_zero(problem) / max(one.gap, 1e-30))
    )


def loss_at_zero(problem: Problem) -> float:
    """What a model that knows nothing loses on a record: ln 2 for two classes, ln K for K, ⅛ for a regression."""
    several = problem.loss.outputs > 1
    target = jnp.zeros(1, jnp.int32) if several else jnp.ones(1, jnp.float32)
    if problem.loss.name in ("squared", "huber"):
        target = target * jnp.float32(_TYPICAL_TARGET)
    return float(problem.loss.value(jnp.zeros((1, problem.loss.outputs), jnp.float32), target)[0])


def _grouped(values: np.ndarray, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of neighbouring eigenvalues and how many coordinates each stands for; the leading ones stay alone."""
    if len(values) <= GROUPS:
        return values, np.full(len(values), float(outputs))
    edges = np.unique(np.geomspace(1, len(values) + 1, GROUPS + 1).astype(int)) - 1
    starts, ends = edges[:-1], edges[1:]
    means = np.array([values[start:end].mean() for start, end in zip(starts, ends)])
    return means, (ends - starts) * float(outputs)
