"""Whether the guess of a model's length suits two-layer networks, whose scores feel noise more than linear ones do.

Certified `push_sum`, its step as chosen from the radius (`protocols/task.radius_for`), as it was chosen when networks
had the radius of linear models with as many parameters, and multiples of the first: an eighth to eight times. Prints
the metric of each, and what both rules lose to the best multiple in hindsight.

    COTERIE_DATA=… python -m papers.scale_networks                                   the choosing sets
    COTERIE_DATA=… python -m papers.scale_networks adult credit_card_balanced        others
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.protocols import Task, build
from papers.scale import OWNERS, SMALL, Case, delta_of, measured

CHOOSING = ("census", "bank")
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
EPSILON, SEEDS, HIDDEN, ROUNDS = (0.5, 1.0, 4.0), 2, 32, 400


class Row(NamedTuple):
    """One set and budget."""

    name: str
    epsilon: float
    metric: str
    step: float  # as chosen
    before: float  # with a linear model's radius
    by_factor: np.ndarray

    def __str__(self) -> str:
        now, best = float(self.by_factor[FACTORS.index(1.0)]), float(self.by_factor.max())
        each = " ".join(f"{100 * value:.1f}" for value in self.by_factor)
        return (
            f"| {self.name} | {self.epsilon:g} | {self.metric} | {self.step:.2g} | {each} | "
            f"{100 * (best - self.before):+.2f} | {100 * (best - now):+.2f} |"
        )


def loaded(name: str) -> Prepared:
    """Ten owners with equal shares, and a network."""
    return prepare(
        Experiment(
            data=name,
            owners=OWNERS,
            partition="iid",
            epsilon=(1.0,),
            delta=delta_of(name),
            model="two_layer",
            hidden=HIDDEN,
            protocol="push_sum",
            settings={"rounds": ROUNDS},
        ),
        None,
    )


def step_of(task: Task) -> float:
    """As `push_sum` chooses it."""
    return float(np.asarray(build("push_sum", task, {"rounds": ROUNDS}, "certified").numbers.step)[0])


def as_linear(task: Task) -> Task:
    """The same with the radius of a linear model."""
    return replace(task, problem=task.problem._replace(model=task.problem.model._replace(reach=1.0)))


def rows_of(name: str) -> Iterator[Row]:
    """A row for each budget."""
    ready = loaded(name)
    seeds = SEEDS if sum(ready.task.sizes) > SMALL else 5 * SEEDS
    for epsilon in EPSILON:
        task = replace(ready.task, epsilon=(epsilon,) * ready.task.owners)
        step = step_of(task)
        steps = [step_of(as_linear(task)), *(step * factor for factor in FACTORS)]
        cases: list[Case] = [("push_sum", {"rounds": ROUNDS, "step": one}) for one in steps]
        before, *found = measured(ready, task, cases, seeds).mean(axis=1)
        yield Row(name, epsilon, ready.judge.metric, step, float(before), np.array(found))


if __name__ == "__main__":
    print(
        f"| set | ε | metric | step | by step × {', '.join(f'{factor:g}' for factor in FACTORS)} | lost before | lost |"
    )
    print("|---|---|---|---|---|---|---|")
    for data in sys.argv[1:] or CHOOSING:
        for row in rows_of(data):
            print(row, flush=True)
