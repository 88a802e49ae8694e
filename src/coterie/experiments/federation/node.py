"""One party's whole run: check everything, join, train, and write down what came of it.

Guarantee: an owner's records are read here, by this installed program, and nothing made of them leaves but through
`release.Outlet`, which charges the owner's ledger first. Files stay in the party's own folder.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._types import PyTree
from coterie.accounting import certify
from coterie.accounting.ledger import Ledger, data_hash
from coterie.engines.federate import randomness, trust
from coterie.engines.federate.drive import Driver, Terms, Transport
from coterie.engines.federate.journal import Journal
from coterie.engines.federate.machine import Machine
from coterie.engines.federate.release import Outlet
from coterie.engines.federate.side import Records, RegisterSide, RoundsSide, VisitSide
from coterie.engines.federate.wire import OVERHEAD
from coterie.errors import BudgetError, InputError
from coterie.experiments.federation import agreement as agreements
from coterie.experiments.federation import party as parties
from coterie.experiments.federation.collaboration import Collaboration, collaboration
from coterie.experiments.federation.party import Party
from coterie.mechanisms import ReleasePlan
from coterie.problems.datasets.schema import Rows
from coterie.program import Rounds

if TYPE_CHECKING:
    from coterie.accounting import Certificate

Log = Callable[[str], None]
LINGER = 60.0  # seconds that a finished party waits for those who are behind


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a party has when its part is over."""

    party: Party
    collaboration: Collaboration
    finished: bool  # False: it was stopped, and goes on where it is when it is started again
    model: PyTree | None
    spent: Certificate | None  # by the owner's ledger; None for a party without records
    charged: int  # releases of this run that are in the ledger
    status: Mapping[str, Any]  # the last snapshot
    records: Records | None


def run(
    party: Party,
    data: Path | None,
    *,
    log: Log,
    stop: Callable[[], bool],
    injected_seed: int | None = None,
    linger: float = LINGER,
    watch: Callable[[Callable[[str, str], None]], AbstractContextManager[None]] | None = None,
) -> Outcome:
    """Take part until the run is over, or until told to stop.

    `watch`, such as `door.watched`, counts what is turned away before the party hears of it.

    `injected_seed` takes the simulator's noise in place of the owner's own: for comparison in tests alone, for who
    knows the seed can take the noise off again.
    """
    planned = collaboration(agreements.read(party.agreement))
    if party.name not in planned.parties:
        raise InputError(
            f"name={party.name!r}: the agreement does not know this party. Parties: {', '.join(planned.parties)}."
        )
    identity = trust.identity(party.folder, party.name)
    with ExitStack() as held:
        journal = held.enter_context(Journal.open(party.journal))
        if party.name == planned.hub:
            if data is not None:
                raise InputError(f"data={str(data)!r}: the {planned.hub} has no records. Leave --data out.")
            machine, owner = _hub(planned, journal, follow_schedule=injected_seed is not None), None
        else:
            if data is None:
                raise InputError("data=None: name the file with this owner's records (--data FILE).")
            owner = _owner(party, planned, data, journal, injected_seed, held, log)
            machine = owner.machine
        driver = Driver(
            machine,
            _transport(party, planned, identity),
            Terms(planned.agreement.digest, longest(planned), linger),
            log=log,
            status=party.status,
            public=owner.public if owner else dict,
            stop=stop,
        )
        log(f"{party.name} joins run {planned.agreement.run[:8]} of {planned.agreement.name!r}")
        with watch(driver.refuse) if watch else nullcontext():
            finished = driver.run()
        return Outcome(
            party=party,
            collaboration=planned,
            finished=finished,
            model=machine.model() if finished else None,
            spent=owner.outlet.spent() if owner else None,
            charged=owner.outlet.turns() if owner else 0,
            status=driver.snapshot("finished" if finished else "stopped"),
            records=owner.records if owner else None,
        )


@dataclass
class _Owner:
    machine: Machine
    outlet: Outlet
    records: Records
    budget: float
    _spent: float = 0.0
    _certified: int = -1  # releases that `_spent` is for
    _again: float = (
        0.0  # when the next certificate may be computed: some take seconds, and training goes first
    )

    def public(self) -> dict[str, Any]:
        """For the status file: releases charged, and what everything charged on these records costs together."""
        now, releases = time.monotonic(), self.outlet.turns()
        if releases != self._certified and now >= self._again:
            self._spent, self._certified = self.outlet.spent().epsilon, releases
            self._again = now + 50 * (time.monotonic() - now)
        return {"releases": releases, "epsilon_spent": self._spent, "epsilon_budget": self.budget}


def _owner(
    party: Party,
    planned: Collaboration,
    data: Path,
    journal: Journal,
    injected_seed: int | None,
    held: ExitStack,
    log: Log,
) -> _Owner:
    program, at = planned.program, planned.agreement.owners.index(party.name)
    rows = _records(party, planned, data)
    ledger = held.enter_context(_ledger(party, planned, at, data, log))
    epsilon = ledger.terms.epsilon
    plan = charged_plan(party, planned)
    outlet = Outlet(ledger, planned.agreement.run, plan, at, planned.messages(at))
    if not outlet.affordable and plan is not program.plan:
        raise BudgetError(
            f"epsilon={epsilon:g}: this run costs more against the aggregator, who sees messages with less noise than "
            f"it publishes. Set trusts_aggregator = true in {parties.NAME} if you trust it, or agree on view=untrusted."
        )
    if not outlet.affordable:
        log(
            f"budget: ε = {ledger.spent().epsilon:.4g} of {epsilon:g} is spent on these records; this run needs more "
            "than is left. The owner releases what it can, then only passes on what others released."
        )
    records = Records(planned.features.apply(rows.x), rows.y)
    source = (
        randomness.source(party.generator, program.plan, at)
        if injected_seed is None
        else randomness.injected(program.plan, injected_seed, at)
    )
    if injected_seed is not None:
        log("TEST NOISE: whoever knows the seed can take it off again. Never use it on records that matter.")
    return _Owner(_machine(planned, at, records, source, outlet, journal), outlet, records, epsilon)


def _ledger(party: Party, planned: Collaboration, at: int, data: Path, log: Log) -> Ledger:
    """The owner's ledger, with the owner's budget or, where it named none, the agreement's: said aloud before any use.

    InputError where the agreement's delta is no promise to an owner of so few records.
    """
    task, size = planned.task, planned.task.sizes[at]
    epsilon = task.epsilon[at] if party.epsilon is None else party.epsilon
    delta = task.delta if party.delta is None else party.delta
    if party.delta is None and delta * size >= 1:
        raise InputError(
            f"delta={delta:g}: not below 1/{size}, so that publishing one of your records in full would satisfy it. "
            f"Ask for a smaller one, or set delta in {parties.NAME} yourself."
        )
    if not party.ledger.exists():
        log(
            f"new ledger {party.ledger}: counts as if these records had never taken part in anything. If they have, "
            f'stop, and name the ledger they have in {parties.NAME}: ledger = "FILE".'
        )
    plan = charged_plan(party, planned)
    cost = certify(plan.event(at), delta=delta, relation=plan.relation).epsilon
    who = "the agreement" if party.epsilon is None else parties.NAME
    log(
        f"budget: {who} says ε = {epsilon:g} at δ = {delta:g}, for all runs on these records; "
        f"this run may cost ε = {cost:.4g} ({plan.view})"
    )
    return Ledger.open(
        party.ledger, data_hash=identity_of(data), epsilon=epsilon, delta=delta, relation=plan.relation
    )


def charged_plan(party: Party, planned: Collaboration) -> ReleasePlan:
    """What the owner's ledger is charged for: what leaves the owner, or the sums alone where it trusts who adds up.

    Guarantee: an agreement cannot make an owner rely on others' noise. Whoever founds a network could otherwise be
    the aggregator, and all the other owners too, whose shares of the noise are then none.
    """
    plan = planned.program.plan
    if plan.quorum == 0 or party.trusts_aggregator:
        return plan
    return replace(plan, charged=None, quorum=0, view="public transcript")


def _machine(
    planned: Collaboration,
    at: int,
    records: Records,
    source: randomness.Source,
    outlet: Outlet,
    journal: Journal,
) -> Machine:
    program, agreement = planned.program, planned.agreement
    if isinstance(program.functions, Rounds):
        side = RoundsSide(program, at, records, source)
        if planned.hub:
            from coterie.engines.federate.hub import HubOwner

            return HubOwner(int(program.schedule), side, outlet, journal, agreement.patience)
        from coterie.engines.federate.rounds import RoundsOwner, Setting

        setting = Setting(
            names=agreement.owners,
            view=planned.view(at),
            rounds=int(program.schedule),
            debiased=program.debiased,
            patience=agreement.patience,
        )
        return RoundsOwner(setting, side, outlet, journal)
    visit = VisitSide(program, at, records, source)
    if planned.hub:
        from coterie.engines.federate.learner import Visitor

        # The owner's own clock: waiting times of a Poisson process, drawn here and told to nobody. Where the learner
        # follows a schedule, owners are always awake.
        clock = partial(random.SystemRandom().expovariate, agreement.clock)
        if isinstance(source, randomness.Injected):
            clock = float
        return Visitor(visit, outlet, journal, clock, agreement.patience, len(np.asarray(program.schedule)))
    from coterie.engines.federate.walk import Walker

    return Walker(
        visit, RegisterSide(program), outlet, journal, agreement.owners, at, agreement.patience, program
    )


def _hub(planned: Collaboration, journal: Journal, follow_schedule: bool) -> Machine:
    program, agreement = planned.program, planned.agreement
    if program.learner:
        from coterie.engines.federate.learner import Learner

        return Learner(
            RegisterSide(program),
            journal,
            agreement.owners,
            agreement.patience,
            ticks=len(np.asarray(program.schedule)),
            releases=program.plan.releases,
            layout=planned.layout,
            schedule=np.asarray(program.schedule).tolist() if follow_schedule else None,
        )
    from coterie.engines.federate.hub import Aggregator

    assert program.aggregate is not None
    return Aggregator(
        names=agreement.owners,
        weights=program.aggregate,
        quorum=program.plan.quorum,
        rounds=int(program.schedule),
        layout=planned.layout,
        journal=journal,
        patience=agreement.patience,
    )


def identity_of(data: Path) -> str:
    """What the owner's ledger knows the records by: the file, byte for byte, whichever columns an agreement reads."""
    return data_hash(np.frombuffer(data.read_bytes(), np.uint8))


def _records(party: Party, planned: Collaboration, data: Path) -> Rows:
    agreement = planned.agreement
    rows, expected = agreement.schema.read(data), agreement.sizes[party.name]
    if len(rows.y) != expected:
        raise InputError(
            f"data={str(data)!r}: has {len(rows.y)} records, the agreement says {expected} for {party.name!r}. "
            "Bring exactly these, or ask for a new agreement."
        )
    return rows


def _transport(party: Party, planned: Collaboration, identity: trust.Identity) -> Transport:
    from coterie.engines.federate.zenoh import ZenohTransport

    peers, direct = planned.peers(party.name), party.router is None
    return ZenohTransport(
        identity,
        run=planned.agreement.run,
        admitted=peers,
        listen=party.listen if direct else None,
        peers={name: where for name, where in party.peers.items() if direct and name in peers},
        router=party.router,
        longest=longest(planned),
    )


def longest(planned: Collaboration) -> int:
    """The most bytes of a frame of this run: a message or a register, and a little beside it."""
    program, widest = planned.program, planned.layout.size
    if not isinstance(program.functions, Rounds):
        widest = max(widest, RegisterSide(program).layout.size)
    return widest + 4 * OVERHEAD
