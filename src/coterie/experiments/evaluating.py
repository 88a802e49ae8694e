"""What owners of an experiment release beside training, charged: how plans pay for it, and what follows training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from coterie._types import PyTree
from coterie.evaluation import budget, selection
from coterie.evaluation.centre import Sums
from coterie.evaluation.groups import RecordGroups, groups_of
from coterie.evaluation.held import check_division
from coterie.evaluation.selection import Selected
from coterie.evaluation.tables import Judged, simulated_noise, step_of, tallied
from coterie.evaluation.told import Published, published
from coterie.experiments.centring import width_of
from coterie.experiments.prepare import feature_map
from coterie.problems.holdings import listed, records_of
from coterie.program import Program, Rounds
from coterie.protocols import Task, build, persons

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.prepare import Prepared
    from coterie.problems.table import Table
    from coterie.program import Trace


def built(
    experiment: Experiment,
    table: Table,
    task: Task,
    settings: dict[str, Any],
    held: tuple[int, ...] | None = None,
) -> Program:
    """The protocol, with what the centre, selection and evaluation take of the budgets, charged for them.

    `held`: how many units each owner keeps out of training, to evaluate on; None: it evaluates on those it trains on.
    InputError, before any training, where they could tell nothing.
    """
    if not (experiment.centre or experiment.select or experiment.evaluate):
        return build(experiment.protocol, task, settings, experiment.calibration)
    make = partial(_built, experiment, table, settings, held)
    # A person shows in tables, too.
    return persons.held(make, task) if experiment.calibration == "certified" else make(task)


def _built(
    experiment: Experiment, table: Table, settings: dict[str, Any], held: tuple[int, ...] | None, task: Task
) -> Program:
    certified = experiment.calibration == "certified"
    program = build(experiment.protocol, for_training(experiment, task), settings, experiment.calibration)
    if held is not None:
        check_division(program.plan.relation, experiment.hold_out)
    if share := experiment.centre:
        left = for_training(experiment, task, ("evaluate", "select")).epsilon
        sums = Sums(width_of(feature_map(experiment, table), table))
        plan = budget.with_table(program.plan, sums, left, task.delta, share, certified)
        budget.check_centres(plan, share)
        program = program._replace(plan=plan)
    if share := experiment.select:
        left = for_training(experiment, task, ("evaluate",)).epsilon
        sheet = budget.sheet_of(table, task.problem, program.plan.relation, unit=task.unit)
        ballot = selection.ballot_of(program, sheet)
        plan = budget.with_table(program.plan, ballot, left, task.delta, share, certified)
        budget.check_chooses(plan, share)
        program = program._replace(plan=plan)
    if share := experiment.evaluate:
        groups = groups_of(table, experiment.evaluate_by)
        sheet = budget.sheet_of(table, task.problem, program.plan.relation, groups, task.unit)
        plan = budget.with_table(program.plan, sheet, task.epsilon, task.delta, share, certified, held)
        budget.check_tells(plan, sheet, share)
        program = program._replace(plan=plan)
    return program


def for_training(
    experiment: Experiment, task: Task, paid: tuple[str, ...] = ("evaluate", "select", "centre")
) -> Task:
    """The task with what these leave of every budget; published noise is what it is, whatever the budget."""
    share = sum(getattr(experiment, name) for name in paid)
    if not share or experiment.calibration != "certified":
        return task
    return replace(
        task, epsilon=tuple(budget.for_training(epsilon, task.delta, share) for epsilon in task.epsilon)
    )


def first(look: Callable[[PyTree], PyTree]) -> Callable[[PyTree], PyTree]:
    """During training, a look at the first of several candidate models."""
    return lambda several: look(selection.candidate(several, 0, axis=1))


def select(
    experiment: Experiment, prepared: Prepared, program: Program, trace: Trace
) -> tuple[Trace, Selected]:
    """What simulated owners choose after training, and the trace with the chosen models.

    Each sums up losses of its own candidates on its own records; the sum over owners decides for all.
    """
    plan = program.plan
    assert plan.selection is not None
    sheet = budget.sheet_of(prepared.table, prepared.task.problem, plan.relation, unit=prepared.task.unit)
    ballot, step = selection.ballot_of(program, sheet), step_of(program, "selection")
    sums = {}
    for owner in range(prepared.task.owners):
        own = _own(program, trace.model, owner)
        x, y, unit = records_of(prepared.shards, owner)
        exact = ballot.tally(prepared.task.problem, own, x, y, unit, _most(unit))
        sums[owner] = exact + simulated_noise(plan.selection, experiment.seed, owner, step)
    choice = selection.chosen(sum(sums.values(), np.zeros(ballot.width)), plan.selection.variance())
    selected = selection.selected(
        ballot, plan, sums, choice, share=experiment.select, delta=prepared.task.delta
    )
    return trace._replace(model=selection.candidate(trace.model, choice, axis=1)), selected


def _own(program: Program, models: PyTree, owner: int) -> PyTree:
    """An owner's own model; visits shape one for all."""
    at = owner if isinstance(program.functions, Rounds) else 0
    return jax.tree.map(lambda leaf: leaf[at], models)


def _evaluated(prepared: Prepared, groups: RecordGroups | None, owner: int) -> Judged:
    """What an owner's table is made of: private."""
    rows, unit = listed((prepared.held or prepared.trained)[owner])
    x = prepared.table.x[rows]
    codes = None if groups is None else groups.codes(x)
    return Judged(prepared.features.apply(x), prepared.table.y[rows], codes, unit)


def _most(unit: np.ndarray | None) -> int:
    """Records of the largest unit. Real owners take the cap, which may be far above; a simulation need not hide it."""
    return 1 if unit is None else int(np.bincount(unit).max())


def publish(experiment: Experiment, prepared: Prepared, program: Program, trace: Trace) -> Published:
    """What simulated owners publish after training: each one's own model on its own records, one noisy table each.

    Own records are all of its own, or those that it kept out of training.
    """
    plan = program.plan
    assert plan.evaluation is not None
    problem, table = prepared.task.problem, prepared.table
    groups = groups_of(table, experiment.evaluate_by)
    sheet = budget.sheet_of(table, problem, plan.relation, groups, prepared.task.unit)
    step = step_of(program, "evaluation")
    tables = {}
    for owner in range(prepared.task.owners):
        model = _own(program, trace.model, owner)
        judged = _evaluated(prepared, groups, owner)
        exact = tallied(sheet, problem, model, judged, _most(judged.unit))
        tables[owner] = exact + simulated_noise(plan.evaluation, experiment.seed, owner, step)
    finite = all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(trace.model))
    return published(
        sheet,
        plan,
        tables,
        share=experiment.evaluate,
        delta=prepared.task.delta,
        bounds=table.target_bounds,
        diverged=not finite,
        groups=groups,
        held_out=prepared.held is not None,
    )
