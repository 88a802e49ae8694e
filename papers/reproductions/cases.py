"""From a spec's words to records and a task. Features and bounds cost nothing: documented ranges or public rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie.errors import InputError
from coterie.problems import feature_steps, features, penalties
from coterie.problems.datasets import load
from coterie.problems.holdings import to_shards
from coterie.problems.losses import LOSSES
from coterie.problems.models import linear, two_layer
from coterie.problems.partition import Partition, partition
from coterie.problems.problem import Problem, clip_norm
from coterie.problems.reference import central_optimum, objective_value
from coterie.problems.table import Table
from coterie.program import Groups, Holdings, Shards
from coterie.protocols import Task
from coterie.topologies import build as build_topology
from papers.reproductions.spec import Cell, Data

_BUCKETS = (
    8  # rows are padded by at most this part, so that uneven partitions of other seeds share a compilation
)
_QUANTILE = 0.999  # of public gradient norms, where a loss has no bound


class Case(NamedTuple):
    """`x`, `y` and `shards` are private records, the test rows are public."""

    problem: Problem
    sizes: tuple[int, ...]
    shards: Holdings
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    regression: bool
    owner_rows: tuple[np.ndarray, ...]  # of x
    optimum: Callable[[], float]  # oracle: the objective at its non-private minimum over x and y
    bound: float  # on one record's gradient; clipping enforces it
    curvature: float  # of squared loss: twice what public rows show; nan without them


@lru_cache(maxsize=2)
def _mapped(name: str, data_dir: Path | None, words: tuple) -> tuple[Table, np.ndarray, np.ndarray, float]:
    """A table, its rows and test rows after the features, and the features' norm."""
    steps, low, intercept, surface, public, spread, constant, centred = words
    table = load(name, data_dir)
    if centred:
        mean = table.y_test[-public:].mean()
        table = replace(table, y=table.y - mean, y_test=table.y_test - mean)
    declared = None
    if public:
        declared = features.PublicRows(
            table.x_test[-public:], declared_by="the table: its test rows are public"
        )
    options = feature_steps.FeatureOptions(
        low=low, intercept=intercept, surface=surface, public_rows=declared, spread=spread
    )
    mapped = feature_steps.pipeline(steps, table, options)
    x, x_test = (mapped.apply(rows).reshape(len(rows), -1) for rows in (table.x, table.x_test))
    if constant:
        x, x_test = (np.hstack([rows, np.ones((len(rows), 1), np.float32)]) for rows in (x, x_test))
    norm = math.hypot(mapped.norm_bound, 1.0) if constant else mapped.norm_bound
    return table, x, x_test, norm


@lru_cache(maxsize=2)
def case(data: Data, data_dir: Path | None = None) -> Case:
    """Load, map, draw and divide."""
    table, x_test, norm, chosen, x, y = _records(data, data_dir)
    y_test, tested = table.y_test, _tested(len(table.y_test), data.test)
    parts = _partition(data, table, chosen)
    problem = _problem(data, table, x.shape[1])
    bound, curvature = clip_norm(problem, norm), math.nan
    if data.public and table.task == "regression":
        bound, curvature = _from_public(x_test[-data.public :], y_test[-data.public :], data.strength)
    return Case(
        problem=problem,
        sizes=tuple(len(rows) for rows in parts.rows),
        shards=jax.tree.map(jnp.asarray, _padded(to_shards(x, y, parts.rows))),
        x=x,
        y=y,
        x_test=x_test[tested],
        y_test=y_test[tested],
        regression=table.task == "regression",
        owner_rows=parts.rows,
        optimum=partial(_optimum, _same_records(data), data_dir),
        bound=bound if math.isfinite(bound) else 1.0,
        curvature=curvature,
    )


def _records(data: Data, data_dir: Path | None) -> tuple:
    """The table, its mapped test rows and features' norm; which rows are used, and those as features and targets."""
    words = (data.features, data.low, data.intercept, data.surface, data.public)
    words += (data.spread, data.constant, data.centred)
    table, x, x_test, norm = _mapped(data.name, data_dir, words)
    chosen = _rows(data, len(table.y))
    return table, x_test, norm, chosen, x[chosen], table.y[chosen]


def _same_records(data: Data) -> Data:
    """Whoever owns them: partitions of the same records share one optimum."""
    blocks = "blocks" if data.partition == "blocks" else ""
    return replace(data, owners=0, test=None, partition=blocks, deal=data.deal if data.rows else 0)


@lru_cache(maxsize=128)
def _optimum(data: Data, data_dir: Path | None) -> float:
    table, *_, x, y = _records(data, data_dir)
    problem = _problem(data, table, x.shape[1])
    return objective_value(problem, central_optimum(problem, x, y), x, y)


def task(cell: Cell, case: Case) -> Task:
    """The collaboration of one cell."""
    owners = len(case.sizes)
    return Task(
        problem=case.problem,
        sizes=case.sizes,
        clip_norm=case.bound if cell.clip_norm is None else cell.clip_norm,
        epsilon=(cell.epsilon,) * owners,
        delta=cell.delta,
        topology=build_topology(cell.topology, owners),
        params=case.problem.model.init(jax.random.key(cell.seed)),
    )


def _rows(data: Data, n: int) -> np.ndarray:
    """Contiguous blocks keep the file's order; everything else is drawn."""
    if data.rows is None or data.rows >= n:
        return np.arange(n)
    if data.partition == "blocks":
        return np.arange(data.rows)
    return np.sort(np.random.default_rng(data.deal).choice(n, data.rows, replace=False))


def _tested(n: int, count: int | None) -> np.ndarray:
    """Drawn: a table's test rows keep the file's order, and the first of them may be of other kinds than the rest."""
    return np.arange(n) if count is None else np.sort(np.random.default_rng(0).permutation(n)[:count])


def _partition(data: Data, table: Table, chosen: np.ndarray) -> Partition:
    kind, _, number = data.partition.partition(":")
    names = tuple(str(owner) for owner in range(data.owners))
    if kind == "blocks":
        return Partition(tuple(np.array_split(np.arange(len(chosen)), data.owners)), names)
    if kind == "drawn":
        return Partition(_drawn(len(chosen), data.owners, int(number), data.deal), names)
    y, owner = table.y[chosen], None if table.owner is None else table.owner[chosen]
    return partition(replace(table, x=y, y=y, owner=owner), data.partition, data.owners, data.deal)


def _drawn(n: int, owners: int, each: int, seed: int) -> tuple[np.ndarray, ...]:
    """Every owner draws from the same rows; disjoint as long as there are rows enough."""
    if each > n:
        raise InputError(f"partition='drawn:{each}': the data has {n} rows. Draw at most those.")
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(n) for _ in range(math.ceil(owners * each / n))])
    return tuple(order[owner * each : (owner + 1) * each] for owner in range(owners))


def _problem(data: Data, table: Table, dim: int) -> Problem:
    loss = LOSSES.find(data.loss)(len(table.classes))
    model = two_layer(dim, data.hidden, loss.outputs) if data.hidden else linear(dim, loss.outputs)
    if data.penalty == "sine":
        return Problem(model, loss, penalties.sine())
    return Problem(model, loss, penalties.l2(data.strength) if data.strength else penalties.none())


def _padded(holdings: Holdings) -> Holdings:
    if isinstance(holdings, Groups):
        return holdings._replace(shards=tuple(_longer(shards) for shards in holdings.shards))
    return _longer(holdings)


def _longer(shards: Shards) -> Shards:
    rows = shards.x.shape[1]
    unit = max(1, 2 ** math.floor(math.log2(rows)) // _BUCKETS)
    more = -rows % unit
    x = np.pad(shards.x, [(0, 0), (0, more)] + [(0, 0)] * (shards.x.ndim - 2))
    return Shards(x, np.pad(shards.y, [(0, 0), (0, more)]), shards.counts)  # type: ignore[arg-type]


def _from_public(x: np.ndarray, y: np.ndarray, strength: float) -> tuple[float, float]:
    """Squared loss: the gradient norm that one public row in a thousand exceeds, at zero or at the public rows'
    optimum; and twice the public rows' curvature, as owners differ from them."""
    x, y = x.astype(float), y.astype(float)
    gram = x.T @ x / len(x)
    best = np.linalg.solve(gram + strength * np.eye(len(gram)), x.T @ y / len(x))
    norms = [np.abs(x @ at - y) * np.linalg.norm(x, axis=1) for at in (np.zeros(len(gram)), best)]
    return max(float(np.quantile(one, _QUANTILE)) for one in norms), 2 * float(np.linalg.eigvalsh(gram)[-1])
