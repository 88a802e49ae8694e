"""What a release plan costs each owner: certificates of whole runs, and the charge of each message."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from coterie.accounting.certify import certify
from coterie.accounting.statements import Certificate
from coterie.errors import InputError
from coterie.mechanisms import OnePass, Passes, ReleasePlan

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class Charges(NamedTuple):
    """How the cost of an owner's run is spread over its messages."""

    upfront: DpEvent | None  # charged before the first message, with no message
    each: DpEvent  # charged with each message
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
        )
    )
    found = {}
    for owner, who in enumerate(alike):
        if who not in found:
            size = plan.sizes[owner]
            one = certify(plan.event(owner), delta=delta, relation=plan.relation, view=plan.view, size=size)
            found[who] = replace(one, reason=plan.flaw) if plan.flaw else one
    return tuple(found[who] for who in alike)


def charges_of(plan: ReleasePlan, owner: int, messages: int) -> Charges:
    """What a ledger is charged for each of an owner's `messages`.

    Guarantee: `upfront`, and `each` composed over all messages (in parallel over the parts of one pass, which are
    disjoint and fixed by position), cost what `plan.event(owner)` says.
    """
    upfront = None if plan.extra is None else plan.extra[owner]
    bare = replace(plan, extra=None)
    if messages == 1:  # whatever was done at home leaves with the one message
        return Charges(upfront, bare.event(owner), 0)
    if messages != plan.releases[owner]:
        raise InputError(
            f"messages={messages}: must be 1 or the plan's {plan.releases[owner]} releases of owner {owner}."
        )
    one = replace(bare, releases=tuple(min(most, 1) for most in plan.releases)).event(owner)
    parts = 0
    if isinstance(plan.sampler, OnePass | Passes):
        parts = -(-plan.sizes[owner] // plan.sampler.batch)
    return Charges(upfront, one, parts)
