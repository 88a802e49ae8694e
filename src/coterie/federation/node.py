"""One party's whole run: check everything, join, train, and write down what came of it.

Guarantee: an owner's records are read here, by this installed program, and nothing made of them leaves but through
`release.Outlet`, which charges the owner's ledger first. Files stay in the party's own folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._types import PyTree
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import consent, forgetting
from coterie.federation import owner as owners
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.connections import longest, resolved, transport
from coterie.federation.drive import Driver, FrameTerms, Hooks
from coterie.federation.honest import has_keys
from coterie.federation.party import Party
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.marks import Hand
from coterie.federation.releases.side import OwnRecords
from coterie.federation.releases.witness import Joining, Witnessed
from coterie.federation.shapes.centring import Centring
from coterie.federation.shapes.evaluation import Evaluated
from coterie.federation.training import Start, hub
from coterie.federation.transport import trust
from coterie.federation.transport.lines import Log
from coterie.federation.transport.machine import Machine
from coterie.federation.transport.zenoh import ROUTER
from coterie.federation.troubles import Troubles, by_second, known
from coterie.program import Rounds

if TYPE_CHECKING:
    from coterie.accounting import Certificate
    from coterie.evaluation.selection import Selected
    from coterie.evaluation.told import Published

Watch = Callable[[Callable[[str, str], None], Mapping[int, str]], AbstractContextManager[None]]
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


class Host(NamedTuple):
    """The process around a run: what it is told, and how it stops the run."""

    log: Log
    stop: Callable[[], bool]
    # Such as `door.watched`: counts connections and messages refused before the party hears of them, and gets the
    # second at which each certificate ends.
    watch: Watch | None = None
    # About once a second: where the party stands, in public values and the owner's own ledger's.
    shown: Callable[[Mapping[str, Any]], None] = lambda snapshot: None
    between: Callable[[], object] = lambda: (
        None
    )  # after each stage of the preparation: its memory can be given back


def run(
    party: Party, data: Path | None, host: Host, *, injected_seed: int | None = None, linger: float = LINGER
) -> Outcome:
    """Take part until the run is over, or until told to stop.

    `injected_seed` takes the simulator's noise in place of the owner's own: for comparison in tests alone, for who
    knows the seed can take the noise off again.
    """
    log, planned = host.log, forgetting.without(party, collaboration(agreements.read(party.agreement)))
    takes_part(party, planned)
    consent.given(party.folder, party.name, planned.agreement)
    has_keys(planned)
    has_records(party, planned, data)
    own = trust.identity(party.folder, party.name)
    host.between()
    with ExitStack() as held:
        journal = held.enter_context(_journal(party, planned.agreement.run, log))
        owner = None
        if data is not None:
            owner = held.enter_context(owners.owner(party, planned, data, journal, injected_seed, log))
        begin = Start(party, planned, owner.machine if owner else hub(party, journal, injected_seed))
        machine = begin.machine(owner and owner.sums(planned), journal)
        host.between()
        ends = known(party, (*planned.peers(party.name), *((ROUTER,) if party.router else ())))
        dates = {"certificates": {name: end.isoformat() for name, end in ends.items()}}
        troubles = Troubles(ends, resolved(party, planned), log)
        witnessed = Witnessed(
            machine,
            _joining(party, planned, everyone=owner is not None and owner.outlet.restored),
            journal,
            Hand.of(own.key, planned.agreement.digest),
            owner and owner.outlet,
            log,
        )
        driver = Driver(
            witnessed,
            transport(party, planned, own),
            FrameTerms(planned.digest, longest(planned), linger),
            Hooks(
                log,
                status=party.status,
                public=lambda: {**(owner.public() if owner else {}), "troubles": troubles.now, **dates},
                stop=host.stop,
                left=witnessed.left,
                shown=host.shown,
            ),
        )
        log(f"{party.name} joins run {planned.agreement.run[:8]} of {planned.agreement.name!r}")
        with troubles, host.watch(driver.refuse, by_second(ends)) if host.watch else nullcontext():
            finished = driver.run()
        selected, told = _after_training(begin.planned, machine) if finished else (None, None)
        return Outcome(
            party=party,
            collaboration=begin.planned,
            finished=finished,
            model=machine.model() if finished else None,
            selected=selected,
            published=told,
            spent=owner.outlet.spent() if owner else None,
            charged=len(owner.outlet.steps) if owner else 0,
            status=driver.snapshot("finished" if finished else "stopped"),
            records=owner.records if owner else None,
            injected=injected_seed is not None,
        )


def _after_training(
    planned: Collaboration, machine: Machine | None
) -> tuple[Selected | None, Published | None]:
    """The choice and the metrics from the tables after training, as far as they have come."""
    chosen, told = None, None
    if isinstance(machine, Centring):
        machine = machine.machine
    while isinstance(machine, Evaluated):
        if machine.name == "selection":
            chosen = planned.selected(machine.tables(), machine.choice)
        else:
            told = planned.published(machine.tables())
        machine = machine.machine
    return chosen, told


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
    opening = planned.last_step + 1 if program.plan.centre is not None else 0
    return Joining(party.name, peers, steps, first, again, planned.agreement.patience, opening)
