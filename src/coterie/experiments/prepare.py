"""From an experiment's words to the values that a protocol and an engine take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.evaluation.centre import Centred
from coterie.evaluation.held import divided, simulated
from coterie.experiments import centring
from coterie.experiments.decisions import decision_of
from coterie.experiments.experiment import Experiment
from coterie.experiments.judging import judge_of
from coterie.problems import feature_steps, features
from coterie.problems.datasets import Source
from coterie.problems.features import FeatureMap
from coterie.problems.holdings import Own, chosen, to_shards
from coterie.problems.losses import DEFAULTS, LOSSES, suiting, weighted
from coterie.problems.metrics import Judge
from coterie.problems.models import MODELS
from coterie.problems.partition import Partition
from coterie.problems.penalties import PENALTIES
from coterie.problems.problem import Problem, clip_norm
from coterie.problems.table import Table
from coterie.problems.whose import units_of
from coterie.program import Holdings, Program
from coterie.protocols import Task
from coterie.reports.amounts import many
from coterie.topologies import build as build_topology
from coterie.units import RECORD, Unit


class Prepared(NamedTuple):
    """An experiment's values. `shards` are the private records; the test rows are declared public."""

    table: Table
    partition: Partition
    task: Task
    shards: Holdings
    x_test: np.ndarray
    y_test: np.ndarray
    features: FeatureMap
    judge: Judge
    # Of each owner, its rows, or where units are several records the rows of each of its units.
    trained: Sequence[Own] = ()
    held: Sequence[Own] | None = None  # kept out of training to evaluate on

    @property
    def tested(self) -> int:
        """How many are tested on: public rows; else units, for how many records they have is private."""
        if self.table.test_is_public or self.task.unit == RECORD:
            return len(self.y_test)
        return len(self.task.sizes) if self.table.whose is None else self.table.whose.tested

    @property
    def test_rows(self) -> str:
        """What a metric is taken on, in words."""
        if self.table.test_is_public:
            return "public test rows"
        return "held-out rows (oracle)" if self.task.unit == RECORD else "held-out units (oracle)"

    def __repr__(self) -> str:
        return f"<Prepared {self.table!r}, {len(self.partition.rows)} owners, features {self.features.name}>"


def prepare(experiment: Experiment, data_dir: Path | None = None) -> Prepared:
    """Load, transform, partition and check; every problem with the input is reported here, before any work."""
    source = Source(**{name: getattr(experiment, name) for name in Source._fields})
    table, unit = source.table(data_dir), source.privacy_unit
    parts = source.divided(table, experiment.partition, experiment.owners, experiment.seed)
    own: Sequence[Own] = parts.rows
    if unit != RECORD:
        own = [units_of(rows, table.whose, unit, (experiment.seed, at)) for at, rows in enumerate(own)]
    trained, held = _divided(own, experiment, unit) if experiment.hold_out else (own, None)
    mapped = feature_map(experiment, table, centred=True)
    x, x_test = mapped.apply(table.x), mapped.apply(table.x_test)
    problem = problem_of(experiment, table, x.shape[1])
    judge = judge_of(experiment, table, problem.loss.name)
    sizes = tuple(map(len, trained))
    task = task_of(experiment, problem, mapped.norm_bound, parts.names, sizes, unit)
    shards = to_shards(x, table.y, trained)
    parts = parts._replace(rows=tuple(rows if unit == RECORD else np.concatenate(rows) for rows in trained))
    return Prepared(table, parts, task, shards, x_test, table.y_test, mapped, judge, trained, held)


def centred(experiment: Experiment, prepared: Prepared, program: Program) -> tuple[Prepared, Centred]:
    """The same, with features moved to the centre that owners release for them."""
    table, plain = prepared.table, feature_map(experiment, prepared.table)
    mapped, charged = centring.release(experiment, table, prepared.trained, program, plain)
    shards = to_shards(mapped.apply(table.x), table.y, prepared.trained)
    return prepared._replace(features=mapped, x_test=mapped.apply(table.x_test), shards=shards), charged


def task_of(
    experiment: Experiment,
    problem: Problem,
    norm_bound: float,
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    unit: Unit,
) -> Task:
    """What the protocol is built for: all of it public. `norm_bound`: of features."""
    # `jax.random.key(seed)`, of seeds as experiments have them, without a program that would be compiled for it.
    words = jax.device_put(np.array([0, experiment.seed], np.uint32))
    key = jax.random.wrap_key_data(words, impl="threefry2x32")
    return Task(
        problem=problem,
        sizes=sizes,
        clip_norm=clip_norm(problem, norm_bound),
        epsilon=budgets(experiment.epsilon, names),
        delta=experiment.delta,
        topology=build_topology(experiment.topology, len(names), experiment.seed, names=names),
        params=problem.model.init(key),
        unit=unit,
        owners_per_person=experiment.owners_per_person,
    )


def _divided(own: Sequence[Own], experiment: Experiment, unit: Unit) -> tuple[Sequence[Own], Sequence[Own]]:
    """What every owner trains on, and what it keeps out, units whole."""
    drawn = [
        divided(len(rows), experiment.hold_out, simulated(experiment.seed, owner), unit.words)
        for owner, rows in enumerate(own)
    ]
    return (
        [chosen(rows, division.trained) for rows, division in zip(own, drawn)],
        [chosen(rows, division.held) for rows, division in zip(own, drawn)],
    )


def feature_map(experiment: Experiment, table: Table, centred: bool = False) -> FeatureMap:
    """The experiment's map of records to features, made of what is public about the table.

    `centred`: where owners are to tell their centre, with its step, which is around zero until they have.
    """
    declared = None
    if experiment.public_rows is not None:
        if not table.test_is_public:
            raise InputError(
                f"public_rows='test': the test rows of {table.name} are owners' records, not public."
            )
        declared = features.PublicRows(table.x_test, declared_by="the experiment")
    options = feature_steps.FeatureOptions(bandwidth=experiment.bandwidth, public_rows=declared)
    if table.task == "regression":  # a steady intercept, as a quantity's mean may lie anywhere in its range
        options = replace(options, intercept=features.EVEN, steady=True)
    if table.x.ndim == 2:
        mapped = feature_steps.pipeline(experiment.features or "ball", table, options)
    else:
        mapped = _of_images(experiment.features or "gradients,ball", table, options)
    return centring.not_yet(mapped, table, experiment.centre) if centred and experiment.centre else mapped


def _of_images(names: str, table: Table, options: feature_steps.FeatureOptions) -> FeatureMap:
    """Values go from their declared range to [0, 1] first, as those of known data sets are: one's own may be bytes."""
    unit = np.array([[0.0, 1.0]])
    if np.array_equal(table.bounds, unit):
        return feature_steps.pipeline(names, table, options)
    first = features.scale_by_bounds(table.bounds, low=0.0)
    return features.compose(first, feature_steps.pipeline(names, replace(table, bounds=unit), options))


def problem_of(experiment: Experiment, table: Table, dim: int) -> Problem:
    """Model, loss and penalty of the experiment, for records of `dim` features."""
    loss = LOSSES.find(experiment.loss or DEFAULTS[table.task])(len(table.classes))
    if table.task not in loss.tasks:
        raise InputError(
            f"loss={loss.name!r}: {table.target!r} is a {table.task} target, of which its scores say nothing. "
            f"Choose one of: {', '.join(suiting(table.task))}."
        )
    weights = decision_of(experiment, table, loss.name).weights
    if weights != (1.0, 1.0):
        loss = weighted(loss, *weights)
    penalty = PENALTIES[_check.one_of("penalty", experiment.penalty, PENALTIES)](
        experiment.strength, experiment.l1, experiment.radius
    )
    sizes = {"dim": dim, "outputs": loss.outputs}
    if experiment.model == "two_layer":
        sizes["hidden"] = experiment.hidden
    return Problem(MODELS.find(experiment.model)(**sizes), loss, penalty, experiment.microbatch)


def budgets(epsilon: tuple[float, ...] | dict[str, float], names: tuple[str, ...]) -> tuple[float, ...]:
    """Each owner's budget. By name nobody can get another's; a name too many or too few is an error."""
    if isinstance(epsilon, dict):
        for name in sorted(set(names) ^ set(epsilon)):
            problem = "has no budget" if name in names else "is not an owner"
            raise InputError(f"epsilon: {name!r} {problem}. Owners: {_few(names)}; give each of them one.")
        return tuple(epsilon[name] for name in names)
    if len(epsilon) == 1:
        return epsilon * len(names)
    if len(epsilon) != len(names):
        raise InputError(
            f"epsilon: {len(epsilon)} budgets for {many(len(names), 'owner')}. Give one for all, or one each."
        )
    return epsilon


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
