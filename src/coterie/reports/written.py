"""What a run's result.json holds, key by key: a run is written by these types, and read by them.

`oracle` lists the values beside it that no owner released; all others are public, or follow from what was released.
"""

from __future__ import annotations

import json
import math
from functools import cached_property
from typing import Any, TypedDict

from msgspec import UNSET, Struct, UnsetType, field, to_builtins

from coterie.problems.metrics import METRICS
from coterie.relations import RELATIONS


class Number(float):
    """A JSON number, or the text for one that JSON cannot express, such as infinity."""


def plain(written: Struct) -> dict[str, Any]:
    """Plain values that JSON can hold."""
    return json.loads(json.dumps(to_builtins(written, enc_hook=_number_or_text), allow_nan=False))


def _number_or_text(value: Any) -> float | str:
    """The hook of msgspec for kinds of numbers and of text."""
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, float | str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is neither")


def number(kind: type, value: Any) -> Number:
    """msgspec's hook for `Number`, where such values are converted to one of these types."""
    if kind is not Number or not (value in ("inf", "-inf", "nan") or type(value) in (int, float)):
        raise ValueError(f"{str(value)[:40]!r} is not a number")
    return Number(value)


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
    """What was reached, by the metric that is shown first and by all others."""

    name: str
    why: str  # why that metric is shown first; empty where it is obvious
    joint: Number
    local_only: Number
    central: Number
    constant: Number
    constant_says: str
    beats_constant: bool
    verdict: str
    all: dict[str, Pair]
    confusion: tuple[tuple[int, ...], ...] | None  # rows by true and by predicted class
    rows: int
    unit: str  # of a quantity
    threshold: float | None = None
    class_weights: tuple[float, ...] = ()
    oracle: tuple[str, ...]

    @property
    def words(self) -> str:
        """The metric's name in words."""
        return METRICS[self.name].words


class Certified(Struct, frozen=True, kw_only=True):
    """The largest certified ε, and each owner's."""

    max: Number
    per_owner: tuple[Number, ...]


class WrittenPrivacy(Struct, frozen=True, kw_only=True):
    """The claimed, certified and audited ε, and what they are about."""

    relation: str
    unit: str
    view: str
    delta: Number
    budget: float | tuple[float, ...] = field(name="budget_epsilon")  # one number: everybody's
    claimed: Number | None = field(name="claimed_epsilon")
    claim: dict[str, Any]
    certified: Certified = field(name="certified_epsilon")
    audited: Number | None = field(name="audited_epsilon", default=None)
    # Masked sums, shared noise: the largest ε against all other owners together.
    all_others: Number | None = field(name="all_others_epsilon", default=None)
    owners_per_person: int  # how many owners may know one person, to whom budgets are promised
    person: Number | None = field(name="person_epsilon")  # at so many, at least two; None: there is one owner
    pair: Number | None = field(name="pair_epsilon", default=None)  # at two, where `person` is at more
    certificates: tuple[dict[str, Any], ...] = ()
    accountant: str
    reason: str
    warnings: tuple[str, ...]
    facts: dict[str, Any] = {}
    statement: tuple[str, ...]
    promise: tuple[str, ...]
    oracle: tuple[str, ...] | UnsetType = UNSET
    # Its finding, the world it was made in, and what was claimed and certified there.
    audit: dict[str, Any] | UnsetType = UNSET

    @property
    def budgets(self) -> tuple[float, ...]:
        """Each owner's budget."""
        if isinstance(self.budget, tuple):
            return self.budget
        return (self.budget,) * len(self.certified.per_owner)

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
    """How rows were dealt; `counts` of (owners, classes): no owner releases them."""

    how: str
    classes: tuple[str, ...]
    classes_declared: bool = True
    counts: tuple[tuple[int, ...], ...] | None
    oracle: tuple[str, ...] = ("counts",)


class Findings(Struct, frozen=True, kw_only=True):
    """What loading saw in the rows, with counts."""

    about_rows: tuple[str, ...] = ()
    oracle: tuple[str, ...] = ("about_rows",)


class Benefit(Struct, frozen=True, kw_only=True):
    """Who gains by joining: the metric of what each owner ends with, and of its own model without privacy."""

    joint: tuple[Number, ...]
    own: tuple[Number, ...]
    oracle: tuple[str, ...]


class OverEpsilon(Struct, frozen=True, kw_only=True):
    """What other budgets would reach, by ascending ε of the largest owner. Nobody spent these budgets."""

    epsilon: tuple[Number, ...]
    joint: tuple[Number, ...]
    local_only: tuple[Number, ...]
    oracle: tuple[str, ...] = ("joint", "local_only")


class Provenance(Struct, frozen=True, kw_only=True):
    """The versions and the platform of the run. Checksums are of public files alone."""

    versions: dict[str, Any]
    platform: str
    seed: int
    data_sha256: dict[str, Any] | None


class Run(Struct, frozen=True, kw_only=True, dict=True):
    """What a run found."""

    protocol: str
    engine: str
    calibration: str
    data: str
    owners: int
    names: tuple[str, ...] = field(name="owner_names")
    rounds: int
    gossip_steps: int
    messages: int
    seconds: float
    metric: WrittenMetric
    centre: dict[str, Any] | None = None
    selection: Selection | None = None
    evaluation: Evaluation | None = None
    privacy: WrittenPrivacy
    step: str
    sizes: tuple[int, ...]
    oracle: tuple[str, ...] = ()
    network: WrittenNetwork
    partition: WrittenPartition
    findings: Findings = Findings()
    benefit: Benefit
    over_epsilon: OverEpsilon | None
    provenance: Provenance
    out: str | None = None

    @cached_property
    def sizes_are_private(self) -> bool:
        """Whether no owner tells its number of records: then they are oracle values."""
        relation = RELATIONS.get(self.privacy.relation)
        return relation is not None and not relation.sizes_are_public
