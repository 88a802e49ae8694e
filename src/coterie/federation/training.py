"""The machine that trains, in the shape that the protocol has, for an owner or the one in the middle; and its start."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np

from coterie.federation.after import evaluated, terms_of
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import OwnRecords, RegisterSide, RoundsSide, VisitSide
from coterie.federation.shapes.centring import Centring
from coterie.federation.shapes.hub import Aggregator, HubOwner, Weighted, weights_of
from coterie.federation.shapes.learner import Learner, Visitor
from coterie.federation.shapes.masked_hub import MaskedAggregator, MaskedOwner
from coterie.federation.shapes.masked_tree import KEPT, TreeOwner
from coterie.federation.shapes.member import Member
from coterie.federation.shapes.rounds import RoundsOwner, RoundsTerms
from coterie.federation.shapes.tables import OwnTable
from coterie.federation.shapes.walk import Walker
from coterie.federation.transport.machine import Machine
from coterie.mechanisms.masks import Masks
from coterie.program import Rounds


def of_owner(
    planned: Collaboration,
    at: int,
    records: OwnRecords,
    source: randomness.NoiseSource,
    outlet: Outlet,
    masks: Masks | None,
) -> Machine:
    """An owner's. `masks`: where sums are masked."""
    program, agreement, patience = planned.program, planned.agreement, planned.agreement.patience
    if isinstance(program.functions, Rounds):
        side = RoundsSide(program, at, records, source)
        if masks is not None:
            member = Member(planned.sums, side, outlet, masks, at, kept=1 if planned.hub else KEPT)
            hub = planned.hub is not None
            return MaskedOwner(member, patience) if hub else TreeOwner(member, planned.graph, patience)
        if planned.hub:
            return HubOwner(planned.steps, side, outlet, patience)
        view, names = planned.view(at), agreement.owners
        terms = RoundsTerms(names, view, planned.steps, program.debiased, patience)
        return RoundsOwner(terms, side, outlet)
    visit = VisitSide(program, at, records, source)
    if planned.hub:
        # The owner's own clock: waiting times of a Poisson process, drawn here and told to nobody. Where the learner
        # follows a schedule, owners are always awake.
        clock = partial(random.SystemRandom().expovariate, agreement.clock)
        if isinstance(source, randomness.Injected):
            clock = float
        return Visitor(visit, outlet, clock, patience, planned.steps)
    return Walker(visit, RegisterSide(program), outlet, agreement.owners, at, patience)


def _of_hub(planned: Collaboration, journal: Journal, follow_schedule: bool) -> Machine:
    """The learner's, or the aggregator's. `follow_schedule`: where a learner is to meet owners as simulations do."""
    program, agreement = planned.program, planned.agreement
    if program.learner:
        register, layout = RegisterSide(program), planned.layout
        return Learner(register, journal, agreement.owners, agreement.patience, layout, follow_schedule)
    if program.plan.masked is not None:
        return MaskedAggregator(planned.sums, journal, agreement.patience)
    plan, weights = program.plan, weights_of(program)
    terms = Weighted(agreement.owners, planned.steps, plan.quorum, weights, planned.layout)
    return Aggregator(terms, journal, agreement.patience)


def hub(party: Party, journal: Journal, injected_seed: int | None) -> Callable[[Collaboration], Machine]:
    """What makes the machine of a party without records, with the tables that come after training."""

    def machine(planned: Collaboration) -> Machine:
        own = _of_hub(planned, journal, follow_schedule=injected_seed is not None)
        return evaluated(party, planned, own, {}, journal)

    return machine


class Start:
    """How a party's training begins: at once, or around the centre of all owners' features."""

    def __init__(
        self, party: Party, planned: Collaboration, train: Callable[[Collaboration], Machine]
    ) -> None:
        """`train`: makes the machine that trains, once features are known."""
        self.planned = planned  # with the centre, as soon as there is one
        self._party, self._train = party, train

    def machine(self, own: OwnTable | None, journal: Journal) -> Machine:
        """What the party runs. `own`: what an owner's sums are made with, where sums are wanted."""
        planned, owners = self.planned, self.planned.agreement.owners
        if planned.program.plan.centre is None:
            return self._train(planned)
        terms = terms_of(self._party, planned, "centre")._replace(all_needed=True)
        forgotten = frozenset(owners.index(name) for name in planned.forgotten)
        return Centring(terms, own, journal, self._around, of=planned.steps, without=forgotten)

    def _around(self, sums: dict[int, np.ndarray]) -> Machine:
        self.planned = self.planned.centred(sums)
        return self._train(self.planned)
