"""Points of accuracy and AUC that `plan` tells by public rows, against what the recommended runs lose.

    python -m papers.test_plan_metrics     prints the table of docs/planning.md

The test is the quick version: one set, one budget.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coterie import topologies
from coterie.engines.sweep import Lane, sweep
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import prepare
from coterie.planning.constants import from_public_rows
from coterie.planning.metric import Lost, on_rows
from coterie.planning.search import plan
from coterie.problems.reference import central_optimum
from coterie.protocols import build
from papers.test_plans import OWNERS, some

SETS = {
    "census": 2000,
    "adult": 2000,
    "bank": 2000,
    "breast_cancer": 60,
    "covtype": 2000,
}  # records of an owner
BUDGETS, SEEDS = (0.3, 3.0), range(3)


class Judged(NamedTuple):
    """One metric of one plan."""

    told: Lost
    lost: float  # measured on the public test rows, against the optimum of all records


def judged(data: str, rows: int, epsilon: float) -> list[Judged]:
    folder = os.environ.get("COTERIE_DATA")
    assert folder, "set COTERIE_DATA to the folder that holds the data sets (docs/data.md)"
    asked = Experiment(data=data, owners=OWNERS, partition="iid", topology="complete", epsilon=(epsilon,))
    found = prepare(asked, Path(folder))
    assert found.table.test_is_public
    shards, x, y = some(found, range(OWNERS), rows)
    task = replace(found.task, sizes=tuple(min(size, rows) for size in found.task.sizes))
    public, labels = np.asarray(found.x_test), np.asarray(found.y_test)
    best = plan(task, 200, from_public_rows(public, labels)).best
    program = build(best.protocol, task, best.settings, "certified")
    mixer = topologies.mixer(task.topology, 1)
    if program.aggregate is not None:
        mixer = topologies.aggregate(program.aggregate)
    steps = program.schedule if isinstance(program.schedule, int) else len(np.asarray(program.schedule))
    lanes = [Lane(program, mixer, seed) for seed in SEEDS]
    models = sweep(lanes, shards, every=steps, probe=np.asarray)[1][-1].mean(1)

    def measured(name: str, model: np.ndarray) -> float:
        return float(found.judge.all(public @ model, labels)[found.judge.names.index(name)])

    optimum = central_optimum(task.problem, x, y)
    exchange = on_rows(task.problem, public, labels, 2)
    return [
        Judged(
            one, measured(one.name, optimum) - float(np.mean([measured(one.name, model) for model in models]))
        )
        for one in exchange.told(best)
    ]


def test_a_run_loses_about_what_was_told():
    for one in judged("adult", 1000, 1.0):
        assert one.told.low <= one.lost <= one.told.high


def main() -> None:
    for data, rows in SETS.items():
        for epsilon in BUDGETS:
            for told, lost in judged(data, rows, epsilon):
                inside = "" if told.low <= lost <= told.high else "  outside"
                print(
                    f"{data:15} ε = {epsilon:<4g} {told.name:9} told {100 * told.lost:5.2f} ({100 * told.low:.2f} to "
                    f"{100 * told.high:.2f})  measured {100 * lost:5.2f}{inside}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
