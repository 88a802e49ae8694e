"""The three columns, never mixed: what a paper claims, what we certify, what an attack found.

Each statement carries epsilon together with delta, neighbouring relation, unit of privacy and adversary's
view, and prints them together: an epsilon without these cannot be printed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from coterie._rounding import lower, nearest, upper
from coterie.accounting.events import event_to_json

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class Statement:
    """An ε, with all that it means nothing without."""

    epsilon: float | None
    delta: float
    relation: str
    unit: str
    view: str

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def context(self) -> str:
        """What stands behind an ε wherever it is printed."""
        return f"(δ = {self.delta:.4g}, {self.relation}, unit: {self.unit}, view: {self.view})"

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold: it has no infinity, and null would read as "not computed".

        Of a certificate the event is among them; `recompute` takes them back.
        """
        written: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in written.items():
            if name == "event":
                written[name] = event_to_json(value)
            elif isinstance(value, tuple):
                written[name] = list(value)
            elif isinstance(value, float) and math.isinf(value):
                written[name] = "inf"
        return written


@dataclass(frozen=True, kw_only=True, repr=False)
class Claim(Statement):
    """What a theorem says of these settings; `epsilon` is None where none is stated.

    >>> print(Claim(epsilon=None, delta=1e-5, relation="replace_one", unit="record", view="public transcript",
    ...             source="adad2p_2024, none", note=""))
    claimed: no ε stated (δ = 1e-05, replace_one, unit: record, view: public transcript)
    """

    source: str  # author_year and the theorem's number
    note: str

    def __str__(self) -> str:
        stated = "no ε stated" if self.epsilon is None else f"ε = {nearest(self.epsilon)}"
        return f"claimed: {stated} {self.context}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Statement):
    """An upper bound that the named accountant proves for `event`, with the lower end of its error bar.

    Guarantee: what `event` describes is (epsilon, delta)-private for one `unit` under `relation`, against an
    adversary with this `view`. No accountant could certify less than `epsilon_optimistic` for that event.
    """

    epsilon: float
    accountant: str
    epsilon_optimistic: float
    reason: str  # why epsilon is infinite; empty when it is not
    warnings: tuple[str, ...]
    event: DpEvent  # what was certified: enough for a third party to compute it again
    size: int | None  # the owner's public number of records, where it was given

    def __str__(self) -> str:
        tail = f" because {self.reason}" if self.reason else ""
        return f"certified: ε ≤ {upper(self.epsilon)} {self.context} by {self.accountant}{tail}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Finding(Statement):
    """An empirical lower bound: with this `confidence`, what was attacked has at least this epsilon."""

    epsilon: float
    confidence: float
    games: int  # how many times the attacker guessed

    def __str__(self) -> str:
        effort = f"with confidence {self.confidence:g} from {self.games:,} games"
        return f"audited: ε ≥ {lower(self.epsilon)} {self.context} {effort}"


def publishing(delta: float, sizes: Sequence[int | None]) -> tuple[str, ...]:
    """What to beware of where δ is no smaller than one over a number of records; one sentence, however many owners.

    >>> publishing(0.01, [50, 5000])
    ('delta=0.01 is not below 1/5000: publishing one record in full would satisfy it.',)
    >>> publishing(0.01, [100, 400, 50])[0].partition(":")[0]
    'delta=0.01 is not below 1/n of 2 of 3 owners (n from 100 to 400)'
    """
    found = [size for size in sizes if size is not None and delta >= 1 / size]
    if not found:
        return ()
    least, most = min(found), max(found)
    several = f"1/n of {len(found):,} of {len(sizes):,} owners (n from {least} to {most})"
    limit = f"1/{most}" if least == most else several
    return (f"delta={delta:g} is not below {limit}: publishing one record in full would satisfy it.",)


def warnings_of(certificates: Sequence[Certificate]) -> list[str]:
    """What a run's certificates warn of, each once: one is an owner's, and there may be hundreds."""
    found: list[str] = []
    for delta in sorted({certificate.delta for certificate in certificates}):
        warned = [one.size if one.warnings else None for one in certificates if one.delta == delta]
        found += publishing(delta, warned)
    return found
