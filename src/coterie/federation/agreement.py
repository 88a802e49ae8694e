"""What the parties of a real run agree on, before any of them opens its data: public, hashed, the same for all.

Every node builds the protocol from it alone, and talks only to peers who show the same hash. It holds no address and
no secret: those are a party's own (`party.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment, override
from coterie.experiments.settings import fit
from coterie.federation.transport import keeping
from coterie.federation.transport.machine import Patience
from coterie.federation.transport.trust import checked_name
from coterie.mechanisms import masks
from coterie.problems.datasets import schema as schemas
from coterie.problems.datasets.declared import as_feature
from coterie.problems.datasets.schema import Schema
from coterie.problems.partition import LEAST
from coterie.problems.table import Table
from coterie.topologies.graphs import SUFFIXES
from coterie.units import RECORD, Unit, at_owners, counted, several, unit_of

FORMAT = 1
HUBS = ("learner", "aggregator")  # names that no owner may have
# The fields of an experiment that are agreed on; data, engine and partition have no meaning here.
TERMS = (
    "protocol", "features", "bandwidth", "loss", "penalty", "strength", "l1", "radius", "model", "hidden",
    "topology", "gossip_steps", "epsilon", "delta", "evaluate", "hold_out",
    "evaluate_by", "select", "centre", "calibration", "seed", "base_rate",
    "class_weight", "threshold", "settings", "unit", "records_per_unit", "unit_mean", "latest",
    "owners_per_person",
)  # fmt: skip

_ALWAYS: dict[str, Any] = {  # what a file has, and of which types
    "format": int, "name": str, "terms": dict[str, Any], "schema": dict[str, Any], "owners": dict[str, int],
    "patience": dict[str, Any], "clock": float,
}  # fmt: skip
_SOMETIMES: dict[str, Any] = {
    "masks": dict[str, Any], "keys": dict[str, str], "authorities": dict[str, str], "aggregator": bool,
    "edition": int, "protects": str,
}  # fmt: skip
# Values that are not written: agreements that do without what came later keep the hash that they had.
_WITHOUT_SAYING = {
    "masks": None, "keys": {}, "authorities": {}, "aggregator": True, "edition": 1, "protects": "",
}  # fmt: skip
_UNSTATED = {"owners_per_person": 1, "centre": 0.0}  # the same of terms
_Kind = TypeVar("_Kind")


# What a terminal does not show but obeys, or shows elsewhere: who signs would read other terms than there are.
_HIDING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Masking(NamedTuple):
    """The public values from which owners derive their masks, where sums are masked."""

    nonce: str  # 32 random bytes in hex: no two agreements have equal labels
    keys: dict[str, str]  # each owner's public key in hex

    @classmethod
    def new(cls, keys: dict[str, str]) -> Masking:
        """For a new agreement."""
        return cls(secrets.token_bytes(masks.KEY).hex(), keys)

    def publics(self) -> dict[str, bytes]:
        """The keys themselves."""
        return {name: bytes.fromhex(key) for name, key in self.keys.items()}

    def check(self, owners: Sequence[str]) -> None:
        """InputError unless every owner has a key of its own, and each can be one."""
        for name in set(owners) ^ set(self.keys):
            raise InputError(f"mask keys: {name!r} {'has none' if name in owners else 'is not an owner'}.")
        for name, key in self.keys.items():
            if not re.fullmatch("[0-9a-f]{64}", key):
                raise InputError(f"mask key of {name!r}: must be 64 hexadecimal digits. Ask its owner again.")
            masks.check_public(name, bytes.fromhex(key))
        if len(set(self.keys.values())) < len(self.keys):
            raise InputError("mask keys: two owners have the same one. Each makes its own, at home.")
        if not re.fullmatch("[0-9a-f]{64}", self.nonce):
            raise InputError("masks: nonce must be 64 hexadecimal digits. Ask for the file again.")


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One run. Owners stand in the order that the topology numbers them in."""

    name: str
    experiment: Experiment
    schema: Schema
    sizes: dict[str, int]  # each owner's number of units: public, as replace-one adjacency has it
    patience: Patience = field(default_factory=Patience)
    clock: float = 1.0  # visits a second that each owner's clock makes, where a learner is visited
    masks: Masking | None = None  # of masked sums, once owners have told their public keys
    keys: dict[str, str] = field(default_factory=dict)
    # Fingerprints of the keys that parties made at home: each of them signs the agreement (`consent.py`).
    authorities: dict[str, str] = field(default_factory=dict)
    # Fingerprints of the parties' own authorities; none where the founder's one certifies all.
    aggregator: bool = True  # False: masked sums go up and down trees of the topology, between neighbours
    edition: int = 1  # of its network's agreements: one more with every change, so that none comes twice

    def __post_init__(self) -> None:
        checked_name(self.name)
        for owner, size in self.sizes.items():
            checked_name(owner)
            _check.count(f"size of {owner}", size)
            if owner in HUBS:
                raise InputError(
                    f"owner={owner!r}: is what a party of another kind is called. Take another name."
                )
        self._check_terms()
        if self.unit.column in (self.schema.target, *self.schema.columns):
            raise as_feature(str(self.unit.column))
        if self.unit != RECORD:
            self._check_units()
        if not self.sizes:
            raise InputError("owners: none given. Name at least two.")
        _check.positive("wait", self.patience.wait)
        _check.positive("retry", self.patience.retry)
        _check.positive("clock", self.clock)
        _check.count("edition", self.edition)
        if self.masks is not None:
            self.masks.check(self.owners)
        for party, key in self.keys.items():
            if party not in (*self.owners, *HUBS):
                raise InputError(f"key of {party!r}: takes no part in this agreement.")
            if not re.fullmatch("[0-9a-f]{64}", key):
                raise InputError(f"key of {party!r}: must be 64 hexadecimal digits. Ask for the file again.")
        if self.authorities and not set(self.owners) <= set(self.authorities) == set(self.keys):
            raise InputError(
                "authorities: some parties have their own, and others have not, or no key. All of them, or none: "
                "coterie network request FOLDER NAME --own-authority HOST"
            )

    def _check_terms(self) -> None:
        """InputError for options that real owners do not have, or that an agreement cannot hold."""
        for text in _texts_in(self.to_json()):
            if _HIDING.search(text):
                raise InputError(
                    f"agreement: {text!a:.80} has a character that is not shown, such as a line's end. Whoever signs "
                    "could be shown other terms than there are: take another name."
                )
        if Path(self.experiment.topology).suffix.lower() in SUFFIXES:
            raise InputError(
                f"topology={self.experiment.topology!r}: is a file, of which an agreement could hold the name alone: "
                "each party might have another one. Use a topology with a name, such as ring or star."
            )

    def _check_units(self) -> None:
        """An owner that is the unit has size 1; any other has at least `LEAST` units, as its size is public."""
        for owner, size in self.sizes.items():
            if self.unit.kind == "owner" and size != 1:
                raise InputError(f"size of {owner}={size}: with unit='owner' each owner is one unit. Say 1.")
            if self.unit.kind == "column" and size < LEAST:
                raise InputError(
                    f"size of {owner}={size}: must be at least {LEAST} {several(self.unit.words)}."
                )

    @property
    def unit(self) -> Unit:
        """Whom the run protects."""
        experiment = self.experiment
        return unit_of(
            experiment.unit, experiment.records_per_unit, mean=experiment.unit_mean, latest=experiment.latest
        )

    @property
    def protects(self) -> str:
        """The unit in a sentence, for everyone who accepts the agreement; empty where it is a record at one owner."""
        unit, owners = self.unit, self.experiment.owners_per_person
        if unit.kind == "record" and owners == 1:
            return ""
        if unit.kind == "owner" and owners == 1:
            return f"one {unit.words}: all that it brings."
        by = f", by the column {unit.column!r}" if unit.column else ""
        if owners == 1:
            return (
                f"one {unit.words}{by}, at one owner. A {unit.noun} who is known to two owners counts at each of them, "
                "is protected less, and cannot be seen by anybody: no owner sees another's records."
            )
        return (
            f"one {at_owners(unit.words, owners)}{by}: all of it together is kept within the smallest of the budgets. "
            f"Who is known to more than {owners:,} owners is protected less, and cannot be seen by anybody: no owner "
            "sees another's records."
        )

    @property
    def owners(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self.sizes)

    @property
    def table(self) -> Table:
        """All owners' table without any row: what a protocol is built from."""
        return self.schema.empty(self.name)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the agreement, which every node compares."""
        return hashlib.sha256(self.text().encode()).digest()

    @property
    def run(self) -> str:
        """The run's name in ledgers and on the network; no two agreements share one."""
        return self.digest.hex()[:32]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        terms = {key: value for key, value in asdict(self.experiment).items() if key in TERMS}
        rest = {key: getattr(self, key) for key in _WITHOUT_SAYING}
        rest["masks"] = self.masks and self.masks._asdict()
        return {
            "format": FORMAT,
            "name": self.name,
            "terms": {key: value for key, value in terms.items() if _is_stated(key, value)},
            "schema": self.schema.to_json(),
            "owners": self.sizes,
            "patience": self.patience._asdict(),
            "clock": self.clock,
            **{key: part for key, part in rest.items() if part != _WITHOUT_SAYING[key]},
        }

    def text(self) -> str:
        """The file's content: one form for one agreement."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def words(agreement: Agreement) -> str:
    """The terms that a signer agrees to, line by line."""
    from coterie.experiments.prepare import budgets

    experiment = agreement.experiment
    owners = ", ".join(
        f"{name} ({counted(size, agreement.unit.words)}, ε = {budget})"
        for (name, size), budget in zip(
            agreement.sizes.items(), budgets(experiment.epsilon, agreement.owners)
        )
    )
    return "\n".join(
        (
            f"  network    {agreement.name}: {experiment.protocol}, {experiment.topology}",
            f"  owners     {owners}",
            f"  δ          {experiment.delta:g}",
            f"  noise      {_noise_words(experiment)}",
            f"  publishes  {_published_words(experiment)}",
            f"  learns     {agreement.schema.target} from {', '.join(agreement.schema.columns)}",
            *((f"  protects   {agreement.protects}",) if agreement.protects else ()),
        )
    )


def _noise_words(experiment: Experiment) -> str:
    """How noise is calibrated, and the protocol's settings: they decide who sees what and who must be honest."""
    chosen = [f"{name} = {value}" for name, value in sorted(experiment.settings.items())]
    return ", ".join((f"calibration {experiment.calibration}", *chosen))


def _published_words(experiment: Experiment) -> str:
    """What the budgets pay for beside training."""
    parts = []
    if experiment.centre:
        parts.append(
            f"{experiment.centre:g} of each budget pays for the mean of all features, taken off before training"
        )
    if experiment.select:
        parts.append(f"{experiment.select:g} of each budget pays for a choice among models")
    if experiment.evaluate:
        held_out = (
            f", on {experiment.hold_out:g} of its rows that each owner keeps out"
            if experiment.hold_out
            else ""
        )
        groups = f", by {experiment.evaluate_by}" if experiment.evaluate_by else ""
        parts.append(f"{experiment.evaluate:g} of each budget pays for published metrics{held_out}{groups}")
    return "; ".join(("the model", *parts)) if parts else "the model; no metric"


def read(path: Path) -> Agreement:
    """The agreement in a file; InputError unless it is whole."""
    value = keeping.read_json(path, Any, "is not JSON. Ask for the file again.", "agreement")
    return from_json(value, str(path))


def from_json(value: Any, source: str) -> Agreement:
    """The agreement of plain values."""
    if not isinstance(value, dict) or not _ALWAYS.keys() <= value.keys() <= (_ALWAYS | _SOMETIMES).keys():
        raise InputError(
            f"{source}: must have exactly the keys {', '.join(sorted(_ALWAYS))}. Ask for the file again."
        )
    if value["format"] != FORMAT:
        raise InputError(
            f"{source}: format {value['format']!r}, this version reads {FORMAT}. Update coterie."
        )
    said = {key: fit(f"{source}: {key}", part, (_ALWAYS | _SOMETIMES)[key]) for key, part in value.items()}
    if not set(said["terms"]) <= set(TERMS):
        raise InputError(f"{source}: terms must be of {', '.join(TERMS)}.")
    agreement = Agreement(
        name=said["name"],
        experiment=override(Experiment(), said["terms"], source),
        schema=schemas.from_json(said["schema"], source),
        sizes=said["owners"],
        patience=_fields(f"{source}: patience", said["patience"], Patience),
        clock=said["clock"],
        masks=_fields(f"{source}: masks", said["masks"], Masking) if "masks" in said else None,
        **{key: said[key] for key in ("keys", "authorities", "aggregator", "edition") if key in said},
    )
    if said.get("protects", "") != agreement.protects:
        raise InputError(f"{source}: protects says something else than the terms do. Ask for the file again.")
    return agreement


def _fields(name: str, value: dict[str, Any], kind: type[_Kind]) -> _Kind:
    """A named tuple of plain values that stand by its fields' names."""
    hints = get_type_hints(kind)
    if set(value) != set(hints):
        raise InputError(f"{name} must have {' and '.join(hints)}. Ask for the file again.")
    return kind(**{field: fit(f"{name}.{field}", value[field], hint) for field, hint in hints.items()})


def settled(unit: Unit) -> dict[str, Any]:
    """The terms of a unit, none of them left open."""
    if unit.kind == "record":
        return {"unit": None, "records_per_unit": None, "unit_mean": False, "latest": None}
    return {
        "unit": str(unit),
        "records_per_unit": unit.records,
        "unit_mean": unit.mean,
        "latest": unit.latest,
    }


def _texts_in(value: Any) -> Iterator[str]:
    """All texts of plain values, names among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts_in([*value, *value.values()])
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts_in(one)


def _is_stated(key: str, value: Any) -> bool:
    """Whether a term is written down."""
    return value is not None and (key not in _UNSTATED or value != _UNSTATED[key])
