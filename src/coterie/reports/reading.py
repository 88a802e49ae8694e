"""The files of a run's folder as typed values. They may come from anybody: what is not as expected is named."""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.metrics import METRICS
from coterie.reports.charged import evaluation, selection
from coterie.reports.taking import Taker, as_number

FILES = ("result.json", "trace.csv", "experiment.toml")  # what a report is made from


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What was reached. `oracle` names the values that no owner released."""

    name: str
    joint: float
    local_only: float
    central: float
    constant: float
    constant_says: str
    why: str  # that metric is shown first, where it needs saying
    all: dict[str, tuple[float, float]]  # by name: of the joint model, and of the constant
    confusion: np.ndarray | None  # (classes, classes) rows by true and by predicted class
    unit: str  # of a quantity
    rows: int
    oracle: frozenset[str]
    steps: np.ndarray  # (points,)
    values: np.ndarray  # (points, models)

    @property
    def words(self) -> str:
        """The metric as people call it."""
        return METRICS[self.name].words


@dataclass(frozen=True, kw_only=True)
class Benefit:
    """The metric of what each owner ends with, and of its own model without privacy. `oracle` as for the metric."""

    joint: tuple[float, ...]
    own: tuple[float, ...]
    lower_is_better: bool
    oracle: frozenset[str]

    @property
    def gains(self) -> tuple[bool, ...]:
        """Which owners are better off with what all made together; a model that diverged is never better."""
        sign = -1.0 if self.lower_is_better else 1.0
        return tuple(sign * one > sign * other for one, other in zip(self.joint, self.own))


@dataclass(frozen=True, kw_only=True)
class OverEpsilon:
    """What other budgets would reach: (budgets,) each, the largest owner's ε ascending. Oracle values."""

    epsilon: np.ndarray
    joint: np.ndarray
    local_only: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The three columns and what they are about."""

    unit: str
    delta: float
    budgets: tuple[float, ...]
    claimed: float | None
    claim: dict[str, Any]
    certified: tuple[float, ...]
    certificate: dict[str, Any]  # of the owner with the largest
    audited: float | None
    all_others: float | None  # masked sums, shared noise: the largest ε against all other owners together
    owners_per_person: int  # how many owners may know one person, to whom budgets are promised
    person: float | None  # ε for a person at so many owners, at least two; None: there is one owner
    pair: float | None  # the same at two owners, where `person` is at more
    audit: dict[str, Any]  # its finding, the world it was made in, and what was claimed and certified there
    warnings: tuple[str, ...]
    statement: tuple[str, ...]
    promise: tuple[str, ...]

    @property
    def worst(self) -> float:
        """The largest certified ε."""
        return max(self.certified)

    @property
    def within(self) -> tuple[bool, ...]:
        """Which owners' certificates keep their budgets, up to rounding: of whom these are promised to."""
        person = math.inf if self.person is None else self.person
        spent = self.certified if self.owners_per_person == 1 else (person,) * len(self.budgets)
        return tuple(one <= budget * (1 + 1e-9) for one, budget in zip(spent, self.budgets))


@dataclass(frozen=True, kw_only=True)
class Network:
    """Who talks to whom: links of a topology, or a hub that everybody meets. `links` is None if too many to draw."""

    topology: str | None
    hub: str | None
    number_of_links: int
    links: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that a report shows."""

    facts: dict[str, Any]  # protocol, calibration, engine, data, rounds, …: plain values
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    metric: Metric
    benefit: Benefit
    over_epsilon: OverEpsilon | None
    selection: dict[str, Any] | None  # which model owners chose, as `words.choice` takes it
    evaluation: dict[str, Any] | None  # what owners published, as `words.sentences` takes it
    privacy: Privacy
    network: Network
    how: str  # the partition
    classes: tuple[str, ...]
    counts: np.ndarray | None  # (owners, classes), oracle values
    settings: dict[str, Any]
    versions: dict[str, Any]
    data_checksums: dict[str, Any] | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """What pictures call the owners: from 1, or as in their names where these are only numbers."""
        counted = all(name == f"owner {at}" for at, name in enumerate(self.names))
        return tuple(range(len(self.names))) if counted else tuple(range(1, len(self.names) + 1))


def read(files: Mapping[str, bytes]) -> Run:
    """The run that the bytes of `FILES` describe."""
    take = Taker(_json(files["result.json"]))
    names = tuple(take.list_of("owner_names", None, str))
    owners = len(names)
    if not owners:
        raise InputError("result.json: owner_names is empty. Give a folder that this version wrote.")
    counts = take("partition.counts", list, type(None))
    classes = tuple(take.list_of("partition.classes", None, str))
    return Run(
        facts={key: take(key, *kinds) for key, kinds in _FACTS.items()}
        | {"platform": take("provenance.platform", str), "seed": take("provenance.seed", int)},
        names=names,
        sizes=tuple(take.list_of("sizes", owners, int)),
        metric=_metric(take, files["trace.csv"], len(classes)),
        benefit=_benefit(take, owners),
        over_epsilon=_over_epsilon(take),
        selection=selection(take),
        evaluation=evaluation(take, len(classes)),
        privacy=_privacy(take, owners),
        network=_network(take, owners),
        how=take("partition.how", str),
        classes=classes,
        counts=None if counts is None else _table("partition.counts", counts, (owners, len(classes))),
        settings=_toml(files["experiment.toml"]),
        versions=take("provenance.versions", dict),
        data_checksums=take("provenance.data_sha256", dict, type(None)),
    )


_FACTS: dict[str, tuple[type, ...]] = {
    "protocol": (str,),
    "calibration": (str,),
    "engine": (str,),
    "data": (str,),
    "step": (str,),
    "rounds": (int,),
    "gossip_steps": (int,),
    "messages": (int,),
    "seconds": (int, float),
}


def _metric(take: Taker, trace: bytes, classes: int) -> Metric:
    steps, values = _trace(trace)
    names = take("metric.all", dict)
    for name in (take("metric.name", str), *names):
        _check.one_of("result.json: metric.name", name, METRICS)
    confusion = take("metric.confusion", list, type(None))
    return Metric(
        name=take("metric.name", str),
        constant=take.number("metric.constant"),
        constant_says=take("metric.constant_says", str),
        why=take("metric.why", str),
        all={
            name: (take.number(f"metric.all.{name}.joint"), take.number(f"metric.all.{name}.constant"))
            for name in names
        },
        confusion=None if confusion is None else _table("metric.confusion", confusion, (classes, classes)),
        unit=take("metric.unit", str),
        joint=take.number("metric.joint"),
        local_only=take.number("metric.local_only"),
        central=take.number("metric.central"),
        rows=take("metric.rows", int),
        oracle=frozenset(take.list_of("metric.oracle", None, str)),
        steps=steps,
        values=values,
    )


def _benefit(take: Taker, owners: int) -> Benefit:
    joint, own = (
        tuple(
            as_number(f"benefit.{key}", one)
            for one in take.list_of(f"benefit.{key}", owners, int, float, str)
        )
        for key in ("joint", "own")
    )
    return Benefit(
        joint=joint,
        own=own,
        lower_is_better=METRICS[take("metric.name", str)].lower_is_better,
        oracle=frozenset(take.list_of("benefit.oracle", None, str)),
    )


def _over_epsilon(take: Taker) -> OverEpsilon | None:
    if take("over_epsilon", dict, type(None)) is None:
        return None
    columns: dict[str, np.ndarray] = {}
    for key in ("epsilon", "joint", "local_only"):
        path = f"over_epsilon.{key}"
        length = len(columns["epsilon"]) if columns else None
        columns[key] = np.array(
            [as_number(path, value) for value in take.list_of(path, length, int, float, str)]
        )
    epsilon = columns["epsilon"]
    if (
        len(epsilon) < 2
        or not np.all(np.isfinite(epsilon))
        or epsilon[0] <= 0
        or np.any(np.diff(epsilon) <= 0)
    ):
        raise InputError(
            "result.json: over_epsilon.epsilon must be two or more ascending numbers above zero."
        )
    return OverEpsilon(**columns)


_BOUNDS = ("claimed", "audited", "all_others", "person", "pair")


def _privacy(take: Taker, owners: int) -> Privacy:
    budget = take("privacy.budget_epsilon", int, float, list)
    budgets = [budget] * owners if not isinstance(budget, list) else take.list_of(
        "privacy.budget_epsilon", owners, int, float
    )  # fmt: skip
    certified = take.list_of("privacy.certified_epsilon.per_owner", owners, int, float, str)
    bounds = {key: take.bound(f"privacy.{key}_epsilon") for key in _BOUNDS}
    return Privacy(
        unit=take("privacy.unit", str),
        delta=take.number("privacy.delta"),
        budgets=tuple(map(float, budgets)),
        claim=take("privacy.claim", dict),
        certified=tuple(as_number("privacy.certified_epsilon.per_owner", one) for one in certified),
        certificate={
            key: take(f"privacy.{key}", str) for key in ("relation", "unit", "view", "accountant", "reason")
        },
        owners_per_person=take("privacy.owners_per_person", int),
        **bounds,
        audit={} if bounds["audited"] is None else take("privacy.audit", dict),
        warnings=tuple(take.list_of("privacy.warnings", None, str)),
        statement=tuple(take.list_of("privacy.statement", None, str)),
        promise=tuple(take.list_of("privacy.promise", None, str)),
    )


def _network(take: Taker, owners: int) -> Network:
    links = take("network.links", list, type(None))
    table = None if links is None else _table("network.links", links, (len(links), 2))
    if table is not None and table.size and not 0 <= table.min() <= table.max() < owners:
        raise InputError(f"result.json: network.links names an owner outside 0 … {owners - 1}.")
    return Network(
        topology=take("network.topology", str, type(None)),
        hub=take("network.hub", str, type(None)),
        number_of_links=take("network.number_of_links", int),
        links=None if table is None else tuple((int(one), int(other)) for one, other in table),
    )


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError("result.json: is not JSON. Give the folder of a run.") from error


def _toml(content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("experiment.toml: is not TOML. Give the folder of a run.") from error


def _table(path: str, rows: list[Any], shape: tuple[int, int]) -> np.ndarray:
    """Whole numbers of that shape."""
    fits = len(rows) == shape[0] and all(isinstance(row, list) and len(row) == shape[1] for row in rows)
    if not fits or not all(type(cell) is int for row in rows for cell in row):
        raise InputError(f"result.json: {path} must be {shape[0]} rows of {shape[1]} whole numbers.")
    return np.array(rows, int).reshape(shape)


def _trace(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """(points,) steps and (points, models) values: the columns after step, metric and disagreement."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]
        table = np.array([[float(cell) for cell in row] for row in rows])
    except (ValueError, csv.Error) as error:
        raise InputError("trace.csv: is not a table of numbers. Give the folder of a run.") from error
    if table.ndim != 2 or table.shape[1] < 4 or not math.isfinite(table[:, 0].sum()):
        raise InputError("trace.csv: must have a step, the metric, disagreement and a model in every row.")
    return table[:, 0], table[:, 3:]
