"""The budget that an owner allows, and what one run may cost it: from the agreement and the owner's file alone."""

from __future__ import annotations

from typing import NamedTuple

from coterie._rounding import upper
from coterie.accounting import certify
from coterie.errors import InputError
from coterie.federation import party as parties
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.mechanisms import ReleasePlan
from coterie.units import noun_of


class Allowed(NamedTuple):
    """A ledger's budget over all runs, who named it, and what one run may cost by itself."""

    epsilon: float
    delta: float
    source: str
    cost: float
    view: str

    @property
    def words(self) -> str:
        """In one line, for the owner."""
        return (
            f"budget: {self.source} says ε = {self.epsilon:g} at δ = {self.delta:g}, for all runs on these records; "
            f"this run may cost ε = {upper(self.cost)} ({self.view})"
        )


def allowed(party: Party, planned: Collaboration, at: int, plan: ReleasePlan) -> Allowed:
    """The owner's budget or, where it named none, the agreement's. `plan`: what the ledger is charged for.

    InputError where the agreement's delta is no promise to an owner of so few records.
    """
    task = planned.task
    size = task.owners if task.unit.kind == "owner" else task.sizes[at]  # of whom one would be published
    epsilon = task.epsilon[at] if party.epsilon is None else party.epsilon
    delta = task.delta if party.delta is None else party.delta
    if party.delta is None and delta * size >= 1:
        raise InputError(
            f"delta={delta:g}: not below 1/{size}, so that publishing one {noun_of(task.unit.words)} in full would "
            f"satisfy it. Ask for a smaller one, or set delta in {parties.NAME} yourself."
        )
    source = "the agreement" if party.epsilon is None else parties.NAME
    cost = certify(plan.event(at), delta=delta, relation=plan.relation).epsilon
    return Allowed(epsilon, delta, source, cost, plan.view)
