"""Certificates of a release plan: what each owner's whole run costs."""

from __future__ import annotations

from dataclasses import replace

from coterie.accounting.certify import certify
from coterie.accounting.statements import Certificate
from coterie.mechanisms import ReleasePlan


def certificates_of(plan: ReleasePlan, delta: float) -> tuple[Certificate, ...]:
    """One certificate for each owner, for the plan's relation and view.

    Guarantee: each bounds what the engine executes for that owner, because plan and engine share the sampler,
    the noise scale and the number of releases.
    """
    found = []
    for owner, size in enumerate(plan.sizes):
        one = certify(plan.event(owner), delta=delta, relation=plan.relation, view=plan.view, size=size)
        found.append(replace(one, reason=plan.flaw) if plan.flaw else one)
    return tuple(found)
