"""Who gains by joining, all owners at once, from public numbers alone: their sizes, and what the forecast assumes.

`join` asks the same for one owner and from its records. Here nobody's are read, so that the answer may be told to all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.planning.constants import Constants, gap_of, loss_at_zero, quadratic
from coterie.planning.search import Plan
from coterie.problems.problem import Problem
from coterie.protocols import Task


@dataclass(frozen=True, kw_only=True)
class WhoGains:
    """Owners with fewer records than `below` do better with the joint private model than alone without privacy."""

    below: float  # 0: nobody does, the joint model being no better than knowing nothing
    low: float  # over the forecast's interval
    high: float
    gains: tuple[bool, ...]  # each owner


def by_sizes(task: Task, plan: Plan) -> WhoGains | None:
    """The size at which both models are equally good on new records, and who is below it.

    None where nobody can join, and where an owner is one unit: a unit is not told by how many records it has. Persons
    are counted by what is declared of them, as an owner's own model learns from all of their records.
    """
    if task.owners == 1 or task.unit.kind == "owner":
        return None
    alone = times_records(task.problem, plan.constants)
    records = [size * plan.constants.persons.mean for size in task.sizes]
    sampled = alone / sum(records)

    def below(private: float) -> float:
        joint = private + sampled
        return 0.0 if joint >= plan.nothing else alone / joint

    most = below(plan.best.predicted)
    return WhoGains(
        below=most,
        low=below(plan.best.high),
        high=below(plan.best.low),
        gains=tuple(held < most for held in records),
    )


def times_records(problem: Problem, constants: Constants) -> float:
    """c, where a model of m records without privacy has an excess risk near c/m on new records.

    On the stand-in the optimum of m records scatters by f/(m (λ + μ)²) in a direction where a record's gradient has the
    variance f, so that c = ½ Σ f/(λ + μ). Of a likelihood that fits, f is the curvature λ; of a quantity it is the
    residuals' variance times the features' second moment.
    """
    world = quadratic(problem, constants)
    return 0.5 * float(
        np.sum(
            world.copies * _scatter(problem, constants) * world.curvature / (world.curvature + world.strength)
        )
    )


def _scatter(problem: Problem, constants: Constants) -> float:
    """f over λ. A residual's square is twice what the loss leaves at the optimum; a square bends there as at zero."""
    if problem.loss.classes:
        return 1.0
    return 2 * (1 - gap_of(problem, constants)) * loss_at_zero(problem) / problem.loss.smoothness
