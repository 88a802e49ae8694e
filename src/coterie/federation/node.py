"""One party's whole run: check everything, join, train, and write down what came of it.

Guarantee: an owner's records are read here, by this installed program, and nothing made of them leaves but through
`release.Outlet`, which charges the owner's ledger first. Files stay in the party's own folder.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._rounding import upper
from coterie._types import PyTree
from coterie.accounting.ledger import Ledger
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import consent, forgetting, records
from coterie.federation.after import evaluated, table_sides
from coterie.federation.allowed import allowed
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.connections import longest, resolved, transport
from coterie.federation.drive import Driver, FrameTerms
from coterie.federation.honest import charged_plan, has_keys, own_masks, refuse_one_witness, unaffordable
from coterie.federation.party import Party
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.marks import Hand
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import OwnRecords, RegisterSide, RoundsSide, TableSide, VisitSide
from coterie.federation.releases.witness import NUMBER, Joining, Witnessed
from coterie.federation.shapes.evaluation import Evaluated
from coterie.federation.shapes.masked import MaskedOwner
from coterie.federation.shapes.masked_hub import MaskedAggregator
from coterie.federation.shapes.masked_tree import KEPT, TreeOwner
from coterie.federation.shapes.member import Member
from coterie.federation.transport import trust
from coterie.federation.transport.lines import private, warning
from coterie.federation.transport.machine import Machine
from coterie.federation.transport.zenoh import ROUTER
from coterie.federation.troubles import Troubles, by_second, known
from coterie.mechanisms.masks import PROCESS, Masks
from coterie.program import Rounds

if TYPE_CHECKING:
    from coterie.accounting import Certificate
    from coterie.evaluation.selection import Selected
    from coterie.evaluation.told import Published

Log = Callable[[str], None]
Watch = Callable[[Callable[[str, str], None], Mapping[int, str]], AbstractContextManager[None]]
TEST_NOISE = "TEST NOISE: whoever knows the seed can take it off again. Never use it on records that matter."
RESTORED = (
    "this ledger was restored from a copy: nothing leaves before every peer has said that it holds no later release. "
    "If that is not to be had, write the run off: coterie ledger write-off FOLDER"
)
LINGER = 60.0  # seconds that a finished party waits for slower ones


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a party has at the end of its run."""

    party: Party
    collaboration: Collaboration
    finished: bool  # False: it was stopped, and goes on where it is when it is started again
    model: PyTree | None
    selected: Selected | None  # which model was chosen, where there was a choice
    published: Published | None  # what the evaluation told, where there was one
    spent: Certificate | None  # by the owner's ledger; None for a party without records
    charged: int  # releases of this run that are in the ledger
    status: Mapping[str, Any]  # the last snapshot
    records: OwnRecords | None
    injected: bool  # whether the noise came from a seed that somebody knows: in tests alone


def run(
    party: Party,
    data: Path | None,
    *,
    log: Log,
    stop: Callable[[], bool],
    injected_seed: int | None = None,
    linger: float = LINGER,
    watch: Watch | None = None,
    shown: Callable[[Mapping[str, Any]], None] = lambda snapshot: None,
    between: Callable[[], object] = lambda: None,
) -> Outcome:
    """Take part until the run is over, or until told to stop.

    `watch`, such as `door.watched`, counts connections and messages refused before the party hears of them; it gets
    the second at which each certificate ends.

    `shown` is told about once a second where the party stands, in public values and the owner's own ledger's. `between`
    is called after each stage of the preparation, when its memory can be given back.

    `injected_seed` takes the simulator's noise in place of the owner's own: for comparison in tests alone, for who
    knows the seed can take the noise off again.
    """
    planned = forgetting.without(party, collaboration(agreements.read(party.agreement)))
    takes_part(party, planned)
    consent.given(party.folder, party.name, planned.agreement)
    has_keys(planned)
    has_records(party, planned, data)
    own = trust.identity(party.folder, party.name)
    between()
    with ExitStack() as held:
        journal = held.enter_context(_journal(party, planned.agreement.run, log))
        if data is None:
            machine, owner = _hub(planned, journal, follow_schedule=injected_seed is not None), None
        else:
            owner = _owner(party, planned, data, journal, injected_seed, held, log)
            machine = owner.machine
        between()
        sides, outlet = (owner.tables, owner.outlet) if owner else ({}, None)
        machine = evaluated(party, planned, machine, sides, outlet, journal)
        ends = known(party, (*planned.peers(party.name), *((ROUTER,) if party.router else ())))
        dates = {"certificates": {name: end.isoformat() for name, end in ends.items()}}
        troubles = Troubles(ends, resolved(party, planned), log)
        witnessed = Witnessed(
            machine,
            _joining(party, planned, everyone=owner is not None and owner.outlet.restored),
            journal,
            Hand.of(own.key, planned.agreement.digest),
            outlet,
            process=secrets.token_bytes(NUMBER),
            log=log,
        )
        driver = Driver(
            witnessed,
            transport(party, planned, own),
            FrameTerms(planned.digest, longest(planned), linger),
            log=log,
            status=party.status,
            public=lambda: {**(owner.public() if owner else {}), "troubles": troubles.now, **dates},
            stop=stop,
            left=witnessed.left,
            shown=shown,
        )
        log(f"{party.name} joins run {planned.agreement.run[:8]} of {planned.agreement.name!r}")
        with troubles, watch(driver.refuse, by_second(ends)) if watch else nullcontext():
            finished = driver.run()
        return Outcome(
            party=party,
            collaboration=planned,
            finished=finished,
            model=machine.model() if finished else None,
            **(_after_training(planned, machine) if finished else {"selected": None, "published": None}),
            spent=owner.outlet.spent() if owner else None,
            charged=len(owner.outlet.steps) if owner else 0,
            status=driver.snapshot("finished" if finished else "stopped"),
            records=owner.records if owner else None,
            injected=injected_seed is not None,
        )


def _after_training(planned: Collaboration, machine: Machine) -> dict[str, Any]:
    """The choice and the metrics from the tables after training, as far as they have come."""
    evaluation: dict[str, Any] = {"selected": None, "published": None}
    while isinstance(machine, Evaluated):
        if machine.name == "selection":
            evaluation["selected"] = planned.selected(machine.tables(), machine.choice)
        else:
            evaluation["published"] = planned.published(machine.tables())
        machine = machine.machine
    return evaluation


def takes_part(party: Party, planned: Collaboration) -> None:
    """InputError unless the agreement knows the party."""
    if party.name not in planned.parties:
        raise InputError(
            f"name={party.name!r}: the agreement does not know this party. Parties: {', '.join(planned.parties)}."
        )


def has_records(party: Party, planned: Collaboration, data: Path | None) -> None:
    """InputError unless the party has records exactly where it is an owner."""
    if party.name == planned.hub and data is not None:
        raise InputError(f"data={str(data)!r}: the {planned.hub} has no records. Leave --data out.")
    if party.name != planned.hub and data is None:
        raise InputError("data=None: name the file with this owner's records (--data FILE).")


def _journal(party: Party, run: str, log: Log) -> Journal:
    """This agreement's journal. If journals of earlier agreements lie beside a new one, the log says so.

    Guarantee: no state that was made under one agreement enters a run under another: not that of an owner who was
    revoked since, nor that of a run that is over.
    """
    path, older = party.journal(run), party.older_journals(run)
    if older and not path.exists():
        log(
            f"a new agreement: run {run[:8]} begins at its first step. What earlier agreements left "
            f"({', '.join(file.name for file in older)}) is kept and not gone on from; their releases stay in the "
            "ledger."
        )
    return Journal.open(path)


@dataclass
class _Owner:
    machine: Machine
    outlet: Outlet
    records: OwnRecords
    budget: float
    tables: Mapping[str, TableSide]  # what is released after training
    _spent: float = 0.0
    _certified: int = -1  # releases that `_spent` is for
    _again: float = 0.0  # when the next certificate may be computed: some take seconds

    def public(self) -> dict[str, Any]:
        """For the status file: how many releases were charged, and the ε of everything charged on these records."""
        now, releases = time.monotonic(), len(self.outlet.steps)
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
    rows, hashes = records.read(party, planned, data)
    if rows.read_as:
        log(private(f"your file: {rows.read_as}"))
    for line in rows.findings:
        log(private(f"your file, for your eyes: {line}"))
    division = records.division(planned, at, journal, injected_seed)
    content = records.known_to(party, hashes.content, data, log)
    ledger = held.enter_context(_ledger(party, planned, at, content, log))
    epsilon = ledger.terms.epsilon
    plan = charged_plan(party, planned)
    outlet = Outlet(
        ledger,
        planned.agreement.run,
        plan,
        at,
        planned.messages(at),
        journal,
        order=records.order(hashes.order, division),
        tables=planned.table_steps,
    )
    if outlet.restored:
        refuse_one_witness(party, planned, outlet.where)
        log(warning(RESTORED))
    if not outlet.affordable and plan is not program.plan:
        raise unaffordable(party, planned, epsilon)
    if not outlet.affordable:
        log(
            warning(
                f"budget: ε = {upper(ledger.spent().epsilon)} of {epsilon:g} is spent on these records; this run needs "
                "more than is left. The owner releases what it can, then only passes on what others released."
            )
        )
    seed = secrets.randbits(128) if injected_seed is None else injected_seed
    own, judged = records.divided_by(rows, planned, division, (seed, at))
    source = (
        randomness.source(party.generator, program.plan, at)
        if injected_seed is None
        else randomness.injected(program.plan, injected_seed, at)
    )
    if injected_seed is not None:
        log(warning(TEST_NOISE))
    masks = None if program.plan.masked is None else own_masks(party, planned)
    machine = _machine(planned, at, own, source, outlet, masks)
    return _Owner(machine, outlet, own, epsilon, table_sides(party, planned, own, judged, injected_seed))


def _ledger(party: Party, planned: Collaboration, at: int, content: str, log: Log) -> Ledger:
    """The owner's ledger; its budget is logged before any use."""
    plan = charged_plan(party, planned)
    budget = allowed(party, planned, at, plan)
    log(budget.words)
    return Ledger.open(
        party.ledger,
        data_hash=content,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=plan.relation,
    )


def _machine(
    planned: Collaboration,
    at: int,
    records: OwnRecords,
    source: randomness.NoiseSource,
    outlet: Outlet,
    masks: Masks | None,
) -> Machine:
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


def _hub(planned: Collaboration, journal: Journal, follow_schedule: bool) -> Machine:
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


def _joining(party: Party, planned: Collaboration, *, everyone: bool) -> Joining:
    """How many peers the party must have heard before it speaks: all at the start of a run in rounds, a majority in a
    walk, otherwise one; with `everyone`, always all."""
    peers, program = planned.peers(party.name), planned.program
    rounds = isinstance(program.functions, Rounds)
    walks = not rounds and planned.hub is None
    again = len(planned.agreement.owners) // 2 if walks else 1
    first = len(peers) if rounds and planned.hub is None else again
    if everyone:
        first = again = len(peers)
    steps = planned.last_step + len(planned.table_steps)
    return Joining(party.name, peers, steps, first, again, planned.agreement.patience)
