"""What a line of the claims table is made of, and how it is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.accounting import Certificate, Claim, certify
from coterie.relations import REPLACE_ONE, UNIT

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from coterie.mechanisms import ReleasePlan
    from coterie.program import Program


@dataclass(frozen=True, kw_only=True)
class Case:
    """A theorem at given settings beside what the published algorithm really releases. Cheap to build."""

    claim: Claim
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
            "delta": self.certificate.delta,
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
    certificate = certify(case.event, delta=case.delta, view=case.view, size=case.size)
    return Row(
        paper=family.paper,
        protocol=family.protocol,
        setting=asdict(settings),
        claim=case.claim,
        certificate=replace(certificate, reason=case.flaw) if case.flaw else certificate,
        reason=case.reason,
    )


def claimed(
    epsilon: float, delta: float, source: str, note: str = "", view: str = "public transcript"
) -> Claim:
    """What a theorem (authors, year, number) says; `note`: where it does not apply."""
    return Claim(
        epsilon=epsilon, delta=delta, relation=REPLACE_ONE, unit=UNIT, view=view, source=source, note=note
    )


class Modelled(NamedTuple):
    """What a published algorithm is run on; records have norm one."""

    features: int = 1
    classes: int = 1  # above 1: one-vs-all models
    strength: float = 0.0  # λ


def published(
    protocol: str,
    sizes: tuple[int, ...],
    options: dict[str, Any],
    problem: Modelled,
    budget: tuple[float, float],
) -> Program:
    """The protocol as published, for owners of these sizes and the stated (ε, δ): its plan says what is released."""
    import jax.numpy as jnp

    from coterie.problems import losses, models, penalties
    from coterie.problems.problem import Problem
    from coterie.protocols import Task, build
    from coterie.topologies import build as build_topology

    loss = losses.logistic() if problem.classes == 1 else losses.one_vs_all(problem.classes)
    penalty = penalties.l2(problem.strength) if problem.strength else penalties.none()
    task = Task(
        problem=Problem(models.linear(problem.features, loss.outputs), loss, penalty),
        sizes=sizes,
        clip_norm=loss.lipschitz,
        epsilon=(budget[0],) * len(sizes),
        delta=budget[1],
        topology=build_topology("complete", len(sizes)),
        params=jnp.zeros((problem.features, loss.outputs)),
    )
    return build(protocol, task, options, "paper")


def sampled(plan: ReleasePlan, sampling: str) -> DpEvent:
    """What the first owner is charged: a record in each step as planned, or one on average (Poisson)."""
    from coterie.mechanisms import Poisson

    if sampling == "poisson":
        plan = replace(plan, sampler=Poisson(1 / plan.sizes[0], plan.sizes[0]))
    return plan.event(0)
