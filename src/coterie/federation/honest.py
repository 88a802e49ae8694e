"""What an owner is charged for and allows, and whose honesty that relies on: a trusted aggregator's, or known owners'.

For masked sums, known owners are those whose keys it compared with them, not with the founder, who could invent owners.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from coterie._rounding import upper
from coterie.accounting import certify
from coterie.errors import BudgetError, InputError, LedgerError
from coterie.federation import party as parties
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.mechanisms import ReleasePlan
from coterie.mechanisms.masks import Masks, fingerprint, read_key
from coterie.units import noun_of


def charged_plan(party: Party, planned: Collaboration) -> ReleasePlan:
    """What the owner's ledger is charged for: its messages or, where it trusts the aggregator, the sums alone.

    Guarantee: an agreement cannot make an owner rely on others' noise. Whoever founds a network could otherwise be
    the aggregator, and all the other owners too, whose shares of the noise are then none. Nor is an aggregator trusted
    alone that a router's keeper reads along with.
    """
    plan = planned.program.plan
    if plan.masked is not None:
        enough = len(known_honest(party, planned)) >= needed(planned)
        return (
            plan if enough else replace(plan, charged=None, quorum=0, masked=None, view="public transcript")
        )
    if plan.quorum == 0 or (party.trusts_aggregator and not _is_overheard(party, planned)):
        return plan
    return replace(plan, charged=None, quorum=0, view="public transcript")


def _is_overheard(party: Party, planned: Collaboration) -> bool:
    """Whether a router reads what the owner sends its hub: frames are sealed where both made their keys at home."""
    return party.router is not None and not {party.name, planned.hub} <= set(planned.agreement.keys)


def needed(planned: Collaboration) -> int:
    """How many others must be honest: all but the colluders. With fewer, a roll could leave out the honest ones."""
    masked = planned.program.plan.masked
    assert masked is not None
    return planned.task.owners - masked.colluding - 1


def known_honest(party: Party, planned: Collaboration) -> list[str]:
    """Owners that this one knows to be honest; InputError where a key is not the one they told it."""
    has_keys(planned)
    assert planned.agreement.masks is not None
    publics = planned.agreement.masks.publics()
    for name, expected in party.honest.items():
        if name not in publics or name == party.name:
            raise InputError(
                f"honest: {name!r} is no other owner of this agreement. Take it out of {parties.NAME}."
            )
        if fingerprint(publics[name]) != expected:
            raise InputError(
                f"honest: the agreement's key of {name!r} is {fingerprint(publics[name])}, {parties.NAME} says "
                f"{expected!r}. Nothing leaves. Ask {name} which is right; if it is yours, the agreement is a forgery."
            )
    return list(party.honest)


def unaffordable(party: Party, planned: Collaboration, epsilon: float) -> BudgetError:
    """The error of an owner that relies on its own noise alone and cannot afford a run, with its remedies."""
    if planned.program.plan.masked is not None:
        return BudgetError(
            f"epsilon={epsilon:g}: this run costs more unless {needed(planned)} other owners are honest, and "
            f"{parties.NAME} knows {len(party.honest)}. Compare key fingerprints with them, not with the founder, and "
            'write honest = {NAME = "FINGERPRINT", …}.'
        )
    if party.trusts_aggregator:
        return BudgetError(
            f"epsilon={epsilon:g}: this run costs more against whoever keeps the router, which sees messages with less "
            "noise than the aggregator publishes. Make keys at home, the aggregator too, so that frames are sealed: "
            "coterie network request FOLDER NAME; or agree on view=untrusted."
        )
    return BudgetError(
        f"epsilon={epsilon:g}: this run costs more against the aggregator, who sees messages with less noise than "
        f"it publishes. Set trusts_aggregator = true in {parties.NAME} if you trust it, or agree on view=untrusted."
    )


def has_keys(planned: Collaboration) -> None:
    """InputError where sums are masked but the agreement has no owners' keys yet."""
    if planned.program.plan.masked is not None and planned.agreement.masks is None:
        raise InputError(
            "view='masked': the agreement has no mask keys yet. Each owner makes one (coterie node FOLDER --mask-key), "
            "and whoever founded the network enters them (coterie network keys)."
        )


def refuse_one_witness(party: Party, planned: Collaboration, ledger: str) -> None:
    """LedgerError where a run would go on from a copy of a ledger on the word of one peer, or under masks of any.

    Guarantee: no single peer can have an owner release anew what it released before, by hiding what it holds.
    """
    peers, masked = planned.peers(party.name), planned.program.plan.masked is not None
    if len(peers) > 1 and not masked:
        return
    who = "peers, whom masked sums trust with nothing," if masked else ", ".join(peers)
    raise LedgerError(
        f"ledger={ledger!r}: was restored from a copy, and only {who} could tell what this run released since. "
        "Nothing may leave. Write the run off: coterie ledger write-off FOLDER"
    )


def own_masks(party: Party, planned: Collaboration) -> Masks:
    """What the owner's messages are masked with; InputError where its key is not the agreement's."""
    agreement = planned.agreement
    assert agreement.masks is not None
    return Masks(party.name, read_key(party.mask_key), agreement.masks.publics(), planned.bound)


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
