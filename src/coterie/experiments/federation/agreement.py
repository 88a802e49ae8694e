"""What the parties of a real run agree on, before any of them opens its data: public, hashed, the same for all.

Every node builds the protocol from it alone, and talks only to peers who show the same hash. It holds no address and
no secret: those are a party's own (`party.py`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coterie import _check
from coterie.engines.federate.machine import Patience
from coterie.engines.federate.trust import checked_name
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment, override
from coterie.problems.datasets import schema as schemas
from coterie.problems.datasets.schema import Schema

FORMAT = 1
HUBS = ("learner", "aggregator")  # names that no owner may have
# What of an experiment is agreed on; its data, engine and partition have no meaning here.
TERMS = (
    "protocol", "features", "bandwidth", "loss", "penalty", "strength", "l1", "radius", "model", "hidden",
    "topology", "gossip_steps", "epsilon", "delta", "calibration", "seed", "settings",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One run. Owners stand in the order that the topology numbers them in."""

    name: str
    experiment: Experiment
    schema: Schema
    sizes: dict[str, int]  # each owner's number of records: public, as replace-one adjacency has it
    patience: Patience = field(default_factory=Patience)
    clock: float = 1.0  # visits a second that each owner's clock makes, where a learner is visited

    def __post_init__(self) -> None:
        checked_name(self.name)
        for owner, size in self.sizes.items():
            checked_name(owner)
            _check.count(f"size of {owner}", size)
            if owner in HUBS:
                raise InputError(
                    f"owner={owner!r}: is what a party of another kind is called. Take another name."
                )
        if not self.sizes:
            raise InputError("owners: none given. Name at least two.")
        _check.positive("wait", self.patience.wait)
        _check.positive("retry", self.patience.retry)
        _check.positive("clock", self.clock)

    @property
    def owners(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self.sizes)

    @property
    def digest(self) -> bytes:
        """What every node compares: the SHA-256 of the agreement."""
        return hashlib.sha256(self.text().encode()).digest()

    @property
    def run(self) -> str:
        """What the run is called in ledgers and on the network: two agreements never share it."""
        return self.digest.hex()[:32]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        terms = {key: value for key, value in asdict(self.experiment).items() if key in TERMS}
        return {
            "format": FORMAT,
            "name": self.name,
            "terms": {key: value for key, value in terms.items() if value is not None},
            "schema": self.schema.to_json(),
            "owners": self.sizes,
            "patience": self.patience._asdict(),
            "clock": self.clock,
        }

    def text(self) -> str:
        """The file's content: one form for one agreement."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Agreement:
    """The agreement in a file; InputError unless it is whole."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"agreement={str(path)!r}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"agreement={str(path)!r}: is not JSON. Ask for the file again.") from error
    return from_json(value, str(path))


def from_json(value: Any, source: str) -> Agreement:
    """The agreement of plain values."""
    keys = {"format", "name", "terms", "schema", "owners", "patience", "clock"}
    if not isinstance(value, dict) or set(value) != keys:
        raise InputError(
            f"{source}: must have exactly the keys {', '.join(sorted(keys))}. Ask for the file again."
        )
    if value["format"] != FORMAT:
        raise InputError(
            f"{source}: format {value['format']!r}, this version reads {FORMAT}. Update coterie."
        )
    terms, sizes, patience = value["terms"], value["owners"], value["patience"]
    if not isinstance(terms, dict) or not set(terms) <= set(TERMS):
        raise InputError(f"{source}: terms must be of {', '.join(TERMS)}.")
    if not isinstance(sizes, dict) or not all(type(size) is int for size in sizes.values()):
        raise InputError(f"{source}: owners must map each name to its number of records.")
    if not isinstance(patience, dict) or set(patience) != set(Patience._fields):
        raise InputError(f"{source}: patience must have wait and retry.")
    return Agreement(
        name=str(value["name"]),
        experiment=override(Experiment(), terms, source),
        schema=schemas.from_json(value["schema"], source),
        sizes=sizes,
        patience=Patience(**{key: _number(source, key, one) for key, one in patience.items()}),
        clock=_number(source, "clock", value["clock"]),
    )


def _number(source: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{source}: {key}={value!r}: must be a number.")
    return float(value)
