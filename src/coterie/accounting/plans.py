"""What a release plan costs each owner: certificates of whole runs, and the charge of each message."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie._rounding import upper
from coterie.accounting.atoms import flatten
from coterie.accounting.certifying import certify
from coterie.accounting.exposure import together
from coterie.accounting.persons import check_owners, no_better, of_events
from coterie.accounting.statements import Certificate
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, OnePass, Passes, Poisson, ReleasePlan
from coterie.units import at_owners, told_owners

if TYPE_CHECKING:
    from dp_accounting import DpEvent


ALL_OTHERS = "all other owners together, and whoever adds up"
_AGAINST = "ε against it: "  # in a view that trusts whoever adds up


class Charges(NamedTuple):
    """How the cost of an owner's run is spread over its messages."""

    upfront: DpEvent | None  # charged before the first message, with no message
    each: DpEvent  # charged with each message
    tables: tuple[DpEvent, ...]  # charged with each table, before the first message or after the last
    parts: int  # 0: messages compose one after the other; else message `turn` reads part turn % parts alone


def certificates_of(plan: ReleasePlan, delta: float) -> tuple[Certificate, ...]:
    """One certificate for each owner, for the plan's relation and view.

    Guarantee: each bounds what the engine executes for that owner, because plan and engine share the sampler,
    the noise scale and the number of releases. Owners for whom all of these are equal share one certificate.
    """
    alike = list(
        zip(
            plan.sizes,
            plan.releases,
            plan.charged or plan.noise_multiplier,
            # by its text, which has all numbers of an event: composed events cannot be hashed
            map(repr, plan.extra or (None,) * len(plan.sizes)),
            zip(*(table.noise_multiplier for table in plan.tables.values()))
            if plan.tables
            else ((),) * len(plan.sizes),
        )
    )
    certificates = {}
    for owner, who in enumerate(alike):
        if who not in certificates:
            certificate = certify(
                plan.event(owner),
                delta=delta,
                relation=plan.relation,
                view=plan.view,
                size=plan.sizes[owner],
                unit=plan.unit.words,
            )
            certificates[who] = replace(certificate, reason=plan.flaw) if plan.flaw else certificate
    return tuple(certificates[who] for who in alike)


def against_all_others(plan: ReleasePlan, delta: float) -> tuple[Certificate, ...]:
    """One certificate for each owner against all other owners together, who take their own noise off every sum.

    Guarantee: each bounds what is left, the owner's own noise; whoever adds up may be among them.
    """
    return certificates_of(replace(plan, charged=None, view=ALL_OTHERS), delta)


def against_it(plan: ReleasePlan, delta: float) -> str:
    """The largest ε against whoever adds the messages up and sees each of them, as a view has it in brackets."""
    return f"{_AGAINST}{upper(worst_against(plan, delta).epsilon)}"


def worst_against(plan: ReleasePlan, delta: float) -> Certificate:
    """The largest certificate against all other owners together, and so against whoever adds the messages up."""
    return max(against_all_others(plan, delta), key=lambda certificate: certificate.epsilon)


def named_against(view: str) -> str | None:
    """The ε that a view has in brackets, as it is written there; None where it has none.

    >>> named_against("final model; aggregator trusted (ε against it: 3.21); and the evaluation")
    '3.21'
    """
    _, there, after = view.partition(_AGAINST)
    return after.partition(")")[0] if there else None


def with_more(plan: ReleasePlan, grown: ReleasePlan, more: str, delta: float) -> str:
    """The view of a plan that has grown by `more`; an ε in it against whoever adds up is then the grown plan's."""
    if plan.view == "public transcript":
        return plan.view
    seen = plan.view
    if _AGAINST in seen:
        seen = seen.replace(against_it(plan, delta), against_it(grown, delta))
    return f"{seen}; and {more}"


def charges_of(plan: ReleasePlan, owner: int, messages: int) -> Charges:
    """What a ledger is charged for each of an owner's `messages`.

    Guarantee: `upfront`, `tables`, and `each` composed over all messages (in parallel over the parts of one pass, which
    are disjoint and fixed by position), cost what `plan.event(owner)` says.
    """
    upfront = None if plan.extra is None else plan.extra[owner]
    tables = tuple(table.event(owner) for table in plan.tables.values())
    bare = replace(plan, extra=None, centre=None, selection=None, evaluation=None)
    if messages == 1:  # whatever was done at home leaves with the one message
        return Charges(upfront, bare.event(owner), tables, 0)
    if messages != plan.releases[owner]:
        raise InputError(
            f"messages={messages}: must be 1 or the plan's {plan.releases[owner]} releases of owner {owner}."
        )
    per_message = replace(bare, releases=tuple(min(most, 1) for most in plan.releases)).event(owner)
    parts = 0
    if isinstance(plan.sampler, OnePass | Passes):
        parts = -(-plan.sizes[owner] // plan.sampler.batch)
    return Charges(upfront, per_message, tables, parts)


def person_told(plan: ReleasePlan, delta: float, owners_per_person: int) -> Certificate | None:
    """The certificate that every report states of a person at `told_owners` owners; None where there is one owner."""
    return person_of(plan, delta, told_owners(owners_per_person)) if len(plan.sizes) > 1 else None


def pair_told(plan: ReleasePlan, delta: float, owners_per_person: int) -> Certificate | None:
    """The certificate that every report states beside it, of a person at two owners; None where that is the same."""
    return person_of(plan, delta, 2) if owners_per_person > 2 else None


def person_of(plan: ReleasePlan, delta: float, owners: int) -> Certificate:
    """The certificate for a person whom up to so many owners know, for the plan's relation and view.

    Guarantee: it bounds what the engine executes for units of any so many owners that change at once, one at each. An
    owner who colludes knows its own records of a person anyway: it is about those at owners who do not.
    """
    check_owners(owners, len(plan.sizes))
    own = [plan.event(owner) for owner in range(len(plan.sizes))]
    private = not any(flatten(event).reason for event in own)
    events, members = (own, owners) if plan.own_noise or not private else ([_jointly(plan, owners)], 1)
    certificate = of_events(events, members, delta, plan.relation, view=plan.view, unit=plan.unit.words)
    return replace(
        certificate, unit=at_owners(plan.unit.words, owners), reason=plan.flaw or certificate.reason
    )


def _jointly(plan: ReleasePlan, owners: int) -> DpEvent:
    """The event of a person where noise protects several owners at once: the largest shift, and the worst of the rest.

    Argument: what the sums show is one Gaussian that the person shifts by at most μ_S (`persons`); tables and
    what else an owner releases have noise of their own, and any set of owners releases no more than the worst of each.
    """
    import dp_accounting as dp

    noise = _noise_at(plan, owners)
    everyone = range(len(plan.sizes))
    more = [[table.event(owner) for owner in everyone] for table in plan.tables.values()]
    more += [list(plan.extra)] if plan.extra else []
    worst = [no_better(events, owners, plan.relation) for events in more]
    return dp.ComposedDpEvent([_sampled(plan, noise, owners), *worst])


def _noise_at(plan: ReleasePlan, owners: int) -> float:
    """Noise over what a person at the worst so many owners, who do not collude, shifts: 1/μ, in units of clip_norm."""
    everyone = len(plan.sizes)
    owners = min(owners, everyone - (plan.colluding or 0))
    if plan.shared is not None:
        reach = [1 / own for own in plan.noise_multiplier]
        shown = together(
            np.ones(everyone), plan.shared.variances(everyone), plan.shared.colluding, reach, owners
        )
        return 1 / math.sqrt(shown)
    assert plan.charged is not None
    return 1 / math.fsum(1 / charged for charged in sorted(plan.charged)[:owners])


def _sampled(plan: ReleasePlan, noise: float, owners: int) -> DpEvent:
    """The event of all releases of a run, of all records or of Poisson samples.

    Argument: with p the chance that any of the owners draws its unit, both data sets' releases are (1 − p) A + p B with
    the same A, and B a mixture over who did, with weights that both share. Joint convexity takes the mixture out, and
    whoever did shifts by no more than all: one record's pair at rate p. A cap halves the noise (`persons`).
    """
    import dp_accounting as dp

    release, times = plan.noise.event(noise), max(plan.releases)
    match plan.sampler:
        case FullBatch():
            return dp.SelfComposedDpEvent(release, times)
        case Poisson(rate=rate, cap=cap) if plan.relation.sizes_are_public:
            halved = release if cap >= max(plan.sizes) else plan.noise.event(noise / 2)
            return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(1 - (1 - rate) ** owners, halved), times)
    return dp.NonPrivateDpEvent()
