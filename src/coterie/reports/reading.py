"""The files of a run's folder as typed values. They may come from anybody: errors name what is not as expected.

Types are those of result.json, key by key: msgspec converts to them.
"""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypedDict

import msgspec
import numpy as np
from msgspec import Struct, field

from coterie import _check
from coterie.errors import InputError
from coterie.problems.metrics import METRICS
from coterie.relations import RELATIONS

FILES = ("result.json", "trace.csv", "experiment.toml")  # what a report is made from


class Number(float):
    """A JSON number, or the text for one that JSON cannot express, such as infinity."""


class Pair(TypedDict):
    """A metric of the joint model, and of the constant."""

    joint: Number
    constant: Number


class Interval(TypedDict):
    """A published number with the ends of its interval, each of which may be missing."""

    value: float | None
    low: float | None
    high: float | None


Band = TypedDict(
    "Band",
    {
        "value": float | None,
        "low": float | None,
        "high": float | None,
        "from": float | None,
        "to": float | None,
    },
)


class WrittenGroups(TypedDict):
    """Metrics of each group of a column."""

    column: str
    metrics: dict[str, dict[str, Interval]]


class WrittenCandidate(TypedDict):
    """A model that owners could have chosen."""

    model: str
    difference: Any


class Selection(TypedDict):
    """Which model owners chose, as `words.choice` takes it."""

    share: float
    epsilon: float | str
    owners: int
    of: int
    choice: str
    candidates: list[WrittenCandidate]
    noise: float
    sums: str


class Evaluation(TypedDict):
    """What owners published, as `words.sentences` takes it."""

    which: str
    share: float
    epsilon: float | str
    owners: int
    of: int
    rows: int | None
    unit: str
    tables: str
    diverged: bool
    metrics: dict[str, Interval]
    confusion: list[list[Interval]] | None
    calibration: list[Band] | None
    groups: WrittenGroups | None


class WrittenMetric(Struct, frozen=True, kw_only=True):
    """The metric reached. `oracle` names the values that no owner released."""

    name: str
    joint: Number
    local_only: Number
    central: Number
    constant: Number
    constant_says: str
    why: str  # why that metric is shown first; empty where it is obvious
    all: dict[str, Pair]
    confusion: tuple[tuple[int, ...], ...] | None  # rows by true and by predicted class
    unit: str  # of a quantity
    rows: int
    oracle: frozenset[str]

    @property
    def words(self) -> str:
        """The metric's name in words."""
        return METRICS[self.name].words


class Benefit(Struct, frozen=True, kw_only=True):
    """The metric of each owner's final model, and of its own model without privacy. `oracle` as for the metric."""

    joint: tuple[Number, ...]
    own: tuple[Number, ...]
    oracle: frozenset[str]


class OverEpsilon(Struct, frozen=True, kw_only=True):
    """The metric at other budgets, by ascending ε of the largest owner. Oracle values."""

    epsilon: tuple[Number, ...]
    joint: tuple[Number, ...]
    local_only: tuple[Number, ...]


class Certified(Struct, frozen=True, kw_only=True):
    """The largest certified ε, and each owner's."""

    max: Number
    per_owner: tuple[Number, ...]


class WrittenPrivacy(Struct, frozen=True, kw_only=True):
    """The claimed, certified and audited ε, and what they are about."""

    relation: str
    unit: str
    view: str
    accountant: str
    reason: str
    delta: Number
    budget: float | tuple[float, ...] = field(name="budget_epsilon")
    claimed: Number | None = field(name="claimed_epsilon")
    claim: dict[str, Any]
    certified: Certified = field(name="certified_epsilon")
    audited: Number | None = field(name="audited_epsilon")
    # Masked sums, shared noise: the largest ε against all other owners together.
    all_others: Number | None = field(name="all_others_epsilon", default=None)
    owners_per_person: int  # how many owners may know one person, to whom budgets are promised
    person: Number | None = field(name="person_epsilon")  # at so many, at least two; None: there is one owner
    pair: Number | None = field(name="pair_epsilon", default=None)  # at two, where `person` is at more
    audit: dict[
        str, Any
    ] = {}  # its finding, the world it was made in, and what was claimed and certified there
    warnings: tuple[str, ...]
    statement: tuple[str, ...]
    promise: tuple[str, ...]

    @property
    def budgets(self) -> tuple[float, ...]:
        """Each owner's budget."""
        return (
            self.budget if isinstance(self.budget, tuple) else (self.budget,) * len(self.certified.per_owner)
        )

    @property
    def within(self) -> tuple[bool, ...]:
        """Which owners' certificates are within their budgets, up to rounding, for the person or unit they protect."""
        person = math.inf if self.person is None else self.person
        spent = self.certified.per_owner if self.owners_per_person == 1 else (person,) * len(self.budgets)
        return tuple(epsilon <= budget * (1 + 1e-9) for epsilon, budget in zip(spent, self.budgets))


class WrittenNetwork(Struct, frozen=True, kw_only=True):
    """The network: links of a topology, or a hub that all owners talk to. `links` is None if too many to draw."""

    topology: str | None
    hub: str | None
    number_of_links: int
    links: tuple[tuple[int, int], ...] | None


class WrittenPartition(Struct, frozen=True, kw_only=True):
    """How rows were divided; `counts` of (owners, classes) are oracle values."""

    how: str
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None


class Provenance(Struct, frozen=True, kw_only=True):
    """The versions and the platform of the run."""

    versions: dict[str, Any]
    platform: str
    seed: int
    data_sha256: dict[str, Any] | None


class Run(Struct, frozen=True, kw_only=True):
    """Everything that a report shows."""

    protocol: str
    calibration: str
    engine: str
    data: str
    step: str
    rounds: int
    gossip_steps: int
    messages: int
    seconds: float
    names: tuple[str, ...] = field(name="owner_names")
    sizes: tuple[int, ...]
    metric: WrittenMetric
    benefit: Benefit
    over_epsilon: OverEpsilon | None
    selection: Selection | None = None
    evaluation: Evaluation | None = None
    privacy: WrittenPrivacy
    network: WrittenNetwork
    partition: WrittenPartition
    provenance: Provenance
    steps: np.ndarray = np.zeros(0)  # (points,) of trace.csv, like the next
    values: np.ndarray = np.zeros((0, 0))  # (points, models) the metric of each
    settings: dict[str, Any] = {}  # of experiment.toml
    # Owners' numbers in pictures: from 1, or their names where these are numbers.
    numbers: tuple[int, ...] = ()
    # Whether no owner tells its number of records: then they are oracle values.
    sizes_are_private: bool = False
    # (points,) the joint model's metric: the mean over models, by public sizes where every owner has one.
    joint: np.ndarray = np.zeros(0)
    # (owners,) above zero where joining beats the owner's own model; never where the joint one diverged.
    gain: np.ndarray = np.zeros(0)


def read(files: Mapping[str, bytes]) -> Run:
    """The run that the bytes of `FILES` describe."""
    try:
        run = msgspec.convert(json.loads(files["result.json"]), Run, dec_hook=_number)
    except msgspec.ValidationError as error:
        complaint, _, at = str(error).partition(" - at ")
        path = at.strip("`").removeprefix("$.")
        raise InputError(
            f"result.json: {path}{': ' * bool(path)}{complaint}. Give a folder that this version wrote."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError("result.json: is not JSON. Give the folder of a run.") from error
    for name in (run.metric.name, *run.metric.all):
        _check.one_of("result.json: metric.name", name, METRICS)
    for path, fits in _fitting(run).items():
        if not fits:
            raise InputError(
                f"result.json: {path} does not fit the rest of it. Give a folder that this version wrote."
            )
    try:
        settings = tomllib.loads(files["experiment.toml"].decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("experiment.toml: is not TOML. Give the folder of a run.") from error
    relation = RELATIONS.get(run.privacy.relation)
    private = relation is not None and not relation.sizes_are_public
    steps, values = _trace(files["trace.csv"])
    weights = None if private or values.shape[1] != len(run.sizes) else run.sizes
    joint = np.average(np.where(np.isfinite(values), values, np.nan), axis=1, weights=weights)
    first = 0 if all(name == f"owner {at}" for at, name in enumerate(run.names)) else 1
    numbers = tuple(range(first, first + len(run.names)))
    sign = -1.0 if METRICS[run.metric.name].lower_is_better else 1.0
    with np.errstate(invalid="ignore"):
        gain = sign * (np.array(run.benefit.joint, float) - np.array(run.benefit.own, float))
    derived = {"numbers": numbers, "sizes_are_private": private, "joint": joint, "gain": gain}
    return msgspec.structs.replace(run, steps=steps, values=values, settings=settings, **derived)


def _number(kind: type, value: Any) -> Number:
    """The hook of msgspec for types that it does not know."""
    if kind is not Number or not (value in ("inf", "-inf", "nan") or type(value) in (int, float)):
        raise ValueError(f"{str(value)[:40]!r} is not a number")
    return Number(value)


def _fitting(run: Run) -> dict[str, bool]:
    """By path, whether parts fit each other in ways that types cannot express."""
    owners, classes, swept = len(run.names), len(run.partition.classes), run.over_epsilon
    per_owner = {
        "sizes": run.sizes,
        "benefit.joint": run.benefit.joint,
        "benefit.own": run.benefit.own,
        "privacy.certified_epsilon.per_owner": run.privacy.certified.per_owner,
        "privacy.budget_epsilon": run.privacy.budgets,
    }
    tables = {
        "partition.counts": (run.partition.counts, owners),
        "metric.confusion": (run.metric.confusion, classes),
        "evaluation.confusion": (run.evaluation and run.evaluation["confusion"], classes),
    }
    return {
        "owner_names": owners > 0,
        **{path: len(values) == owners for path, values in per_owner.items()},
        **{
            path: rows is None or (len(rows) == height and all(len(row) == classes for row in rows))
            for path, (rows, height) in tables.items()
        },
        "privacy.certified_epsilon.max": run.privacy.certified.max
        == max(run.privacy.certified.per_owner, default=0),
        "privacy.audit": run.privacy.audited is None or bool(run.privacy.audit),
        "network.links": all(0 <= end < owners for link in run.network.links or () for end in link),
        "over_epsilon": swept is None or len(swept.joint) == len(swept.local_only) == len(swept.epsilon) > 1,
        "over_epsilon.epsilon": swept is None
        or all(0 < low < high < math.inf for low, high in pairwise(swept.epsilon)),
    }


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
