"""What a forecast assumes of a problem, from public bounds or declared public rows; never from private records.

Three numbers stand for what nobody may look at: how the features' second moment decays (`spectrum`), how much of the
loss at zero the optimum saves (`gap`), and how much of the curvature at zero is left near the optimum (`bend`). The
optimum is taken as equally long in every direction, up to the penalty's pull. The defaults were chosen on the
embedded census data, which is public; `scenarios` varies each of them, and the forecast's interval is what that does.
Several classes: what stays uncertain at the optimum is taken as the same in nats as for the census data's two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.planning.dynamics import Quadratic
from coterie.planning.persons import EVERYBODY_ONE, Persons
from coterie.planning.public import problem_for
from coterie.problems.problem import Problem
from coterie.problems.reference import central_optimum, objective_value

FIRST, DECAY = 0.6, 1.0  # the first direction's share of the second moment; the others fall like 1/j
GAP, BEND = 0.45, 0.6  # for two classes, and regressions
MOST_SAVED = 0.95
GROUPS = 48  # directions of nearly equal curvature are counted together
TYPICAL_TARGET = 0.5  # of a regression, scaled onto [-1, 1]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Public assumptions about a problem with features of norm at most one."""

    spectrum: tuple[float, ...]  # eigenvalues of the features' second moment, descending
    from_rows: bool = False  # whether the spectrum was measured on declared public rows
    optimum: tuple[float, ...] = ()  # its mean square along each of these directions; (): equally long
    gap: float | None = None  # share of the loss at zero; None: assumed
    bend: float = BEND
    persons: Persons = EVERYBODY_ONE  # declared: how many records those have who are protected whole


def assumed(dimension: int, decay: float = DECAY) -> Constants:
    """Constants for features of which only the dimension and the norm, one, are known.

    >>> round(sum(assumed(100).spectrum), 6)
    1.0
    """
    tail = np.arange(1.0, _check.count("dimension", dimension)) ** -decay
    rest = (1 - FIRST) * tail / tail.sum() if dimension > 1 else tail
    return Constants(spectrum=(FIRST if dimension > 1 else 1.0, *map(float, rest)))


def from_public_rows(rows: np.ndarray, targets: np.ndarray | None = None, classes: int = 2) -> Constants:
    """The spectrum of rows that are declared public, as the model sees them: (rows, dimension), scaled and projected.

    With their targets, also how much of the loss at zero can be saved, and in which directions: by the
    optimum on these rows.

    Guarantee: none is needed, and none given: the rows are public. Owners' records must not be passed.
    """
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or min(rows.shape) < 1 or not np.all(np.isfinite(rows)):
        raise InputError(
            f"public rows of shape {rows.shape}: must be a table of finite numbers, one row a record."
        )
    values, directions = np.linalg.eigh(rows.T @ rows / len(rows))
    spectrum = tuple(map(float, np.maximum(values[::-1], 0.0)))
    if targets is None:
        return Constants(spectrum=spectrum, from_rows=True)
    problem = problem_for(rows.shape[1], classes)
    best = central_optimum(problem, rows, targets)
    least, nothing = (objective_value(problem, at, rows, targets) for at in (best, np.zeros_like(best)))
    along = np.mean(np.square(directions[:, ::-1].T @ best.astype(float)), axis=1)
    return Constants(
        spectrum=spectrum,
        from_rows=True,
        optimum=tuple(map(float, along)),
        gap=float(np.clip(1 - least / nothing, 1 - MOST_SAVED, MOST_SAVED)),
    )


def checked_rows(source: str, rows: np.ndarray, dimension: int) -> np.ndarray:
    """Public rows as a forecast takes them, of norm at most one; otherwise the first thing that is wrong."""
    if rows.ndim != 2 or rows.shape[1] != dimension:
        columns = rows.shape[1] if rows.ndim == 2 else 0
        raise InputError(f"public_rows={source!r}: {columns} features, dimension={dimension}: must be equal.")
    norms = np.linalg.norm(rows.astype(float), axis=1)
    if not len(rows) or not np.all(np.isfinite(norms)):
        raise InputError(f"public_rows={source!r}: must hold finite numbers, one row a record.")
    if norms.max() > 1 + 1e-4:
        raise InputError(
            f"public_rows={source!r}: a row has norm {norms.max():.4g}; must be at most 1, as `coterie run` "
            "projects rows. Scale them."
        )
    return rows


def checked_targets(name: str, targets: np.ndarray, classes: int) -> np.ndarray:
    """Targets of public rows as losses take them: ±1 (0 and 1 are taken too), 0 … K−1, or numbers in [−1, 1]."""
    if classes == 1 and np.all(np.abs(targets) <= 1):
        return targets.astype(np.float32)
    whole = np.round(targets)
    if classes == 2 and set(np.unique(targets).tolist()) in ({0.0, 1.0}, {-1.0, 1.0}):
        return np.where(targets > 0, 1.0, -1.0).astype(np.float32)
    if classes > 2 and np.array_equal(whole, targets) and targets.min() >= 0 and targets.max() < classes:
        return whole.astype(np.int32)
    wanted = {1: "numbers within [-1, 1]", 2: "both 0 and 1, or both -1 and 1"}.get(
        classes, f"0 to {classes - 1}"
    )
    raise InputError(f"public_target={name!r}: with classes={classes} it must hold {wanted}.")


def scenarios(problem: Problem, constants: Constants) -> tuple[Constants, ...]:
    """The constants, then what they might be instead: each varied on its own."""
    gap, bend = gap_of(problem, constants), constants.bend
    varied = [constants]
    varied += [replace(constants, gap=tried) for tried in (gap * 0.6, min(gap * 2.0, MOST_SAVED))]
    varied += [replace(constants, bend=tried) for tried in (bend * 0.6, min(bend / 0.6, 1.0))]
    if not constants.from_rows:
        dimension = len(constants.spectrum)
        varied += [
            replace(constants, spectrum=assumed(dimension, decay).spectrum)
            for decay in (DECAY - 0.3, DECAY + 0.3)
        ]
    return tuple(varied)


def gap_of(problem: Problem, constants: Constants) -> float:
    """The share of the loss at zero that the optimum saves: given, or all but what two classes leave."""
    if constants.gap is not None:
        return constants.gap
    loss = problem.loss
    if not loss.classes:
        return GAP
    return 1 - (1 - GAP) * loss.models * math.log(2) / loss_at_zero(problem)


def quadratic(problem: Problem, constants: Constants) -> Quadratic:
    """The stand-in for a linear model's mean loss and penalty.

    Curvature in the scores at zero: softmax over K classes bends by 1/K in K − 1 directions; logistic and squared
    losses have their largest there. Optimum: as on public rows, or of one length in all directions, shortened by the
    penalty as λ/(λ + μ); either way so long that the gap is the stated one.
    """
    loss, strength = problem.loss, max(problem.penalty.strong_convexity, 0.0)
    if not (problem.model.is_linear and np.isfinite(loss.smoothness)):
        raise InputError(
            f"model={problem.model.name!r}, loss={loss.name!r}: forecasts are for linear models and smooth losses."
        )
    bend = loss.smoothness if loss.bend is None else loss.bend
    outputs = loss.outputs if loss.directions is None else loss.directions
    curvature = constants.bend * bend * np.asarray(constants.spectrum)
    square = (
        np.asarray(constants.optimum)
        if constants.optimum
        else (curvature / np.maximum(curvature + strength, 1e-30)) ** 2
    )
    groups = groups_of(len(curvature))
    unscaled = Quadratic(
        _means(curvature, groups), np.diff(groups) * float(outputs), np.sqrt(_means(square, groups)), strength
    )
    factor = gap_of(problem, constants) * loss_at_zero(problem) / max(unscaled.gap, 1e-30)
    return unscaled._replace(optimum=unscaled.optimum * np.sqrt(factor))


def loss_at_zero(problem: Problem) -> float:
    """What a model that knows nothing loses on a record: ln 2 for two classes, ln K for K, ⅛ for a regression."""
    several = problem.loss.outputs > 1
    target = jnp.zeros(1, jnp.int32) if several else jnp.ones(1, jnp.float32)
    if not problem.loss.classes:
        target = target * jnp.float32(TYPICAL_TARGET)
    return float(problem.loss.value(jnp.zeros((1, problem.loss.outputs), jnp.float32), target)[0])


def groups_of(directions: int) -> np.ndarray:
    """The places where groups of neighbouring directions begin, and the end; the leading ones stay alone."""
    if directions <= GROUPS:
        return np.arange(directions + 1)
    return np.unique(np.geomspace(1, directions + 1, GROUPS + 1).astype(int)) - 1


def _means(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, groups[:-1]) / np.diff(groups)
