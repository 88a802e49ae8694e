"""The machine that trains, in the shape that the protocol has, for an owner or for the one in the middle."""

from __future__ import annotations

import random
import secrets
from functools import partial

import numpy as np

from coterie.federation.collaboration import Collaboration
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import OwnRecords, RegisterSide, RoundsSide, VisitSide
from coterie.federation.shapes.masked import MaskedOwner
from coterie.federation.shapes.masked_hub import MaskedAggregator
from coterie.federation.shapes.masked_tree import KEPT, TreeOwner
from coterie.federation.shapes.member import Member
from coterie.federation.transport.machine import Machine
from coterie.mechanisms.masks import PROCESS, Masks
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
    program, agreement = planned.program, planned.agreement
    if isinstance(program.functions, Rounds):
        side = RoundsSide(program, at, records, source)
        if masks is not None:
            return _masked(planned, at, side, outlet, masks)
        if planned.hub:
            from coterie.federation.shapes.hub import HubOwner

            return HubOwner(int(program.schedule), side, outlet, agreement.patience)
        from coterie.federation.shapes.rounds import RoundsOwner, Setting

        setting = Setting(
            names=agreement.owners,
            view=planned.view(at),
            rounds=int(program.schedule),
            debiased=program.debiased,
            patience=agreement.patience,
        )
        return RoundsOwner(setting, side, outlet)
    visit = VisitSide(program, at, records, source)
    if planned.hub:
        from coterie.federation.shapes.learner import Visitor

        # The owner's own clock: waiting times of a Poisson process, drawn here and told to nobody. Where the learner
        # follows a schedule, owners are always awake.
        clock = partial(random.SystemRandom().expovariate, agreement.clock)
        if isinstance(source, randomness.Injected):
            clock = float
        return Visitor(visit, outlet, clock, agreement.patience, len(np.asarray(program.schedule)))
    from coterie.federation.shapes.walk import Walker

    return Walker(visit, RegisterSide(program), outlet, agreement.owners, at, agreement.patience)


def _masked(planned: Collaboration, at: int, side: RoundsSide, outlet: Outlet, masks: Masks) -> Machine:
    process, patience = secrets.token_bytes(PROCESS), planned.agreement.patience
    kept = 1 if planned.hub else KEPT
    member = Member(planned.sums, side, outlet, masks, owner=at, process=process, kept=kept)
    if planned.hub:
        return MaskedOwner(member, patience)
    return TreeOwner(member, planned.graph, patience)


def of_hub(planned: Collaboration, journal: Journal, follow_schedule: bool) -> Machine:
    """The learner's, or the aggregator's. `follow_schedule`: where a learner is to meet owners as simulations do."""
    program, agreement = planned.program, planned.agreement
    if program.learner:
        from coterie.federation.shapes.learner import Learner

        return Learner(
            RegisterSide(program),
            journal,
            agreement.owners,
            agreement.patience,
            planned.layout,
            follow_schedule=follow_schedule,
        )
    if program.plan.masked is not None:
        return MaskedAggregator(planned.sums, journal, agreement.patience)
    from coterie.federation.shapes.hub import Aggregator, weights_of

    return Aggregator(
        names=agreement.owners,
        weights=weights_of(program),
        quorum=program.plan.quorum,
        rounds=int(program.schedule),
        layout=planned.layout,
        journal=journal,
        patience=agreement.patience,
    )
