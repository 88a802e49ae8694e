"""From an experiment's words to the values that a protocol and an engine take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.problems import datasets, features, penalties
from coterie.problems.features import FeatureMap
from coterie.problems.holdings import to_shards
from coterie.problems.losses import loss_for
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.partition import Partition, partition
from coterie.problems.penalties import Penalty
from coterie.problems.problem import Problem, gradient_bound
from coterie.problems.table import Table
from coterie.program import Holdings
from coterie.protocols import Task
from coterie.topologies import build as build_topology

LOSSES = {"binary": "logistic", "multiclass": "softmax", "regression": "huber"}
FILES = (".csv", ".parquet", ".npz")
MODELS = ("linear", "two_layer")
MOST_SEED = 2**32 - 2  # keys take 32 bits, and the baseline runs with the next seed


class Prepared(NamedTuple):
    """An experiment's values. `shards` are the private records; the test rows are declared public."""

    table: Table
    partition: Partition
    task: Task
    shards: Holdings
    x_test: np.ndarray
    y_test: np.ndarray


def prepare(experiment: Experiment, data_dir: Path | None = None) -> Prepared:
    """Load, transform, partition and check; every problem with the input is reported here, before any work."""
    _check.one_of("model", experiment.model, MODELS)
    if not 0 <= experiment.seed <= MOST_SEED:
        raise InputError(f"seed={experiment.seed}: must lie between 0 and {MOST_SEED}.")
    table = _load(experiment, data_dir)
    parts = partition(table, experiment.partition, experiment.owners, experiment.seed)
    owners = len(parts.rows)
    topology = build_topology(experiment.topology, owners, experiment.seed)
    mapped = feature_map(experiment, table)
    x, x_test = mapped.apply(table.x), mapped.apply(table.x_test)
    problem = problem_of(experiment, table, x.shape[1])
    task = Task(
        problem=problem,
        sizes=tuple(len(rows) for rows in parts.rows),
        clip_norm=clip_norm(problem, mapped),
        epsilon=budgets(experiment.epsilon, parts.names),
        delta=experiment.delta,
        topology=topology,
        params=problem.model.init(jax.random.key(experiment.seed)),
    )
    return Prepared(table, parts, task, to_shards(x, table.y, parts), x_test, table.y_test)


def _load(experiment: Experiment, data_dir: Path | None) -> Table:
    data, bounds = experiment.data, experiment.bounds
    if data in datasets.DATASETS:
        return datasets.load(data, data_dir)
    if data.startswith("openml:"):
        return datasets.load_openml(data, experiment.owner_column, bounds)
    if Path(data).suffix.lower() in FILES:
        if experiment.target is None:
            raise InputError(f"target=None: name the column of {data} that is to be learnt (--target).")
        return datasets.load_file(data, experiment.target, experiment.owner_column, bounds=bounds)
    known = ", ".join(sorted(datasets.DATASETS))
    raise InputError(
        f"data={data!r}: unknown. Name a CSV, Parquet or NPZ file, 'openml:NAME', or one of: {known}."
    )


def feature_map(experiment: Experiment, table: Table) -> FeatureMap:
    """The experiment's map of records to features, made of what is public about the table."""
    declared = None
    if experiment.public_rows is not None:
        _check.one_of("public_rows", experiment.public_rows, ("test",))
        if not table.test_is_public:
            raise InputError(
                f"public_rows='test': the test rows of {table.name} are owners' records, not public."
            )
        declared = features.PublicRows(table.x_test, declared_by="the experiment")
    bandwidth = _check.positive("bandwidth", experiment.bandwidth)
    options = features.FeatureOptions(bandwidth=bandwidth, public_rows=declared)
    default = "gradients,ball" if table.x.ndim > 2 else "ball"
    return features.pipeline(experiment.features or default, table, options)


def problem_of(experiment: Experiment, table: Table, dim: int) -> Problem:
    """Model, loss and penalty of the experiment, for records of `dim` features."""
    loss = loss_for(experiment.loss or LOSSES[table.task], len(table.classes))
    penalty = _penalty(experiment)
    model: Model = linear(dim, loss.outputs)
    if experiment.model == "two_layer":
        model = two_layer(dim, _check.count("hidden", experiment.hidden), loss.outputs)
    parts = experiment.microbatch
    return Problem(model, loss, penalty, None if parts is None else _check.count("microbatch", parts))


def _penalty(experiment: Experiment) -> Penalty:
    strength = _check.not_negative("strength", experiment.strength)
    choices: dict[str, Callable[[], Penalty]] = {
        "none": penalties.none,
        "l2": lambda: penalties.l2(strength),
        "elastic_net": lambda: penalties.elastic_net(_check.not_negative("l1", experiment.l1), strength),
        "ball": lambda: penalties.ball(_check.positive("radius", experiment.radius), strength),
        "box": lambda: penalties.box(_check.positive("radius", experiment.radius), strength),
        "sine": penalties.sine,
    }
    return choices[_check.one_of("penalty", experiment.penalty, choices)]()


def clip_norm(problem: Problem, mapped: FeatureMap) -> float:
    """What a record's gradient is clipped to: its bound where features have one, else 1."""
    bound = gradient_bound(problem, mapped.norm_bound)
    return bound if np.isfinite(bound) else 1.0


def budgets(epsilon: tuple[float, ...] | dict[str, float], names: tuple[str, ...]) -> tuple[float, ...]:
    """Each owner's budget. By name nobody can get another's; a name too many or too few is an error."""
    if isinstance(epsilon, dict):
        for name in set(names) ^ set(epsilon):
            problem = "has no budget" if name in names else "is not an owner"
            raise InputError(f"epsilon: {name!r} {problem}. Owners: {_few(names)}; give each of them one.")
        return tuple(epsilon[name] for name in names)
    if len(epsilon) == 1:
        return epsilon * len(names)
    if len(epsilon) != len(names):
        raise InputError(
            f"epsilon: {len(epsilon)} budgets for {len(names)} owners. Give one for all, or one each."
        )
    return epsilon


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
