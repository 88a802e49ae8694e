"""What a line of the claims table is made of, and how it is certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie import _check
from coterie.accounting import Certificate, Claim, certify

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Below every accountant's resolution, so that what certifies is the sum of the largest losses: pure privacy.
PURE = 1e-300


@dataclass(frozen=True, kw_only=True)
class Case:
    """A theorem at given settings beside what the published algorithm really releases. Cheap to build."""

    epsilon: float | None  # claimed; None where the theorem states none
    claimed_view: str
    claimed_delta: float
    source: str  # authors, year, theorem
    note: str = ""  # where the theorem does not apply
    event: DpEvent
    delta: float  # of the certificate; 0 for pure privacy
    view: str = "public transcript"
    size: int | None = None  # an owner's public number of records, where the setting names one
    flaw: str = ""  # why no finite guarantee holds, if none does
    reason: str  # one line: why claimed and certified differ


class Family(NamedTuple):
    """One guarantee of one paper: what may be set, what was published, and how to judge it."""

    paper: str
    protocol: str
    settings: type  # frozen dataclass of public numbers
    published: tuple[Any, ...]
    judge: Callable[[Any], Case]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table: two statements, never mixed, and why they differ."""

    paper: str
    protocol: str
    setting: dict[str, float | int | str | bool]
    claim: Claim
    certificate: Certificate
    reason: str

    @property
    def delta(self) -> float:
        """The certificate's δ; a sum of largest losses holds without any."""
        return 0.0 if self.certificate.delta == PURE else self.certificate.delta

    @property
    def broken(self) -> bool:
        """Whether more is certified than the theorem claims; a claim without a number cannot be."""
        claimed = self.claim.epsilon
        return claimed is not None and self.certificate.epsilon > claimed * (1 + 1e-6)

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold; infinity is the text "inf", no claim is null."""
        return {
            "paper": self.paper,
            "protocol": self.protocol,
            "setting": self.setting,
            "claimed": self.claim.to_json()["epsilon"],
            "certified": self.certificate.to_json()["epsilon"],
            "delta": self.delta,
            "relation": self.certificate.relation,
            "view": self.certificate.view,
            "accountant": self.certificate.accountant,
            "reason": self.reason,
            "source": self.claim.source,
            "note": self.claim.note,
            "warnings": list(self.certificate.warnings),
        }


def row_of(family: Family, settings: Any) -> Row:
    """Judge and certify.

    Guarantee: the certificate is the accountant's for the case's event under replace-one adjacency; nothing of the
    claim enters it.
    """
    case = family.judge(settings)
    found = certify(case.event, delta=case.delta or PURE, view=case.view, size=case.size)
    return Row(
        paper=family.paper,
        protocol=family.protocol,
        setting=asdict(settings),
        claim=Claim(
            epsilon=case.epsilon,
            delta=case.claimed_delta,
            relation="replace_one",
            unit="record",
            view=case.claimed_view,
            source=case.source,
            note=case.note,
        ),
        certificate=replace(found, reason=case.flaw) if case.flaw else found,
        reason=case.reason,
    )


def one_record_a_step(noise_multiplier: float, records: int, steps: int, sampling: str) -> DpEvent:
    """One of an owner's records in each step: exactly one, or one on average (Poisson).

    Sensitivity: noise is relative to the bound C on one record's gradient. Replacing the record moves a step that
    draws it by up to 2C, and no other step; certifying under replace-one charges that 2C.
    """
    import dp_accounting as dp

    _check.count("records", records)
    _check.count("steps", steps)
    release = dp.GaussianDpEvent(_check.positive("noise", noise_multiplier))
    if sampling == "poisson":
        return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(1 / records, release), steps)
    return dp.SelfComposedDpEvent(dp.SampledWithoutReplacementDpEvent(records, 1, release), steps)


def classical(delta: float) -> float:
    """√(2 ln(1.25/δ)): the textbook's noise over sensitivity at ε = 1.

    >>> round(classical(1 / 60_000**2), 2)
    6.67
    """
    return math.sqrt(2 * math.log(1.25 / delta))
