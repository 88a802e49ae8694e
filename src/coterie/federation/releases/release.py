"""The only way out for anything made of private records: charged and on the disk first, and then sent."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from coterie.accounting import Certificate
from coterie.accounting.ledger import Head, Ledger, data_hash
from coterie.accounting.plans import charges_of
from coterie.errors import BudgetError, LedgerError
from coterie.federation.releases.journal import Journal
from coterie.mechanisms import ReleasePlan
from coterie.units import RECORD

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_LEDGER = "ledger"  # the journal's key of the ledger's length


class OwnRun(NamedTuple):
    """What one owner may release in one run."""

    run: str
    plan: ReleasePlan
    owner: int
    messages: int  # the most that it sends: 1, or the number of the plan's releases
    order: str = ""
    # A hash of the records in their order. Another order is another division by position, and puts a record elsewhere;
    # charges under two divisions compose with each other.
    tables: Sequence[int] = ()  # the steps of the plan's tables, in their order; each has its own charge


class Outlet:
    """One owner's releases of one run, through its ledger; `journal`: what goes with them over a restart.

    Guarantee: `release` returns only what the ledger holds, with its charge; a step has one message for ever, also
    after a crash; the messages of a run never exceed the plan's, nor the ledger's budget.
    """

    def __init__(self, ledger: Ledger, journal: Journal, part: OwnRun) -> None:
        """LedgerError where the journal knows of charges that the ledger does not have."""
        plan, tables = part.plan, part.tables
        _agree(ledger, journal)
        _refuse_unsettled(ledger, part.run)
        self._ledger, self._run, self._messages, self.journal = ledger, part.run, part.messages, journal
        self._charges = charges_of(plan, part.owner, part.messages)
        self._tables = dict(zip(tables, self._charges.tables, strict=True))
        opening = tables[0] if tables and plan.centre is not None else 0
        self._steps = _as_made(ledger.rounds(part.run), opening)
        self._released_steps = set(self._steps)
        self._turns = sum(step not in self._tables for step in self._steps)
        self._partition = _partition(part, self._charges.parts)
        if self._charges.parts:
            bounds = data_hash(_bounds(part))
            ledger.declare_partition(self._partition, parts=self._charges.parts, digest=bounds)
        # The whole run is checked first, so that its rounds are charged without a new certificate.
        self.affordable = bool(self._steps) or not ledger.would_exceed(plan.event(part.owner))

    def stored(self, step: int) -> bytes | None:
        """The message that was released at this step, to be sent again; None where none was."""
        # This process is the ledger's only writer, so it knows every release in it.
        return self._ledger.stored(self._run, step) if step in self._released_steps else None

    def release(self, step: int, turn: int, body: bytes) -> bytes:
        """Charge the message and write it down; only what this returns may leave.

        BudgetError, with nothing charged or written, where the plan's releases or the budget are used up.
        """
        earlier = self.stored(step)
        if earlier is not None:
            return earlier
        if step in self._tables:
            return self._released(step, self._tables[step], body, None)
        if self.turns() >= self._messages:
            raise BudgetError(
                f"step={step}: all {self._messages} releases of run {self._run!r} were made. Nothing may leave."
            )
        charges = self._charges
        if charges.upfront is not None:
            self._ledger.charge(self._run, 0, charges.upfront, None)
        part = (self._partition, turn % charges.parts) if charges.parts else None
        return self._released(step, charges.each, body, part)

    def _released(self, step: int, event: DpEvent, body: bytes, part: tuple[str, int] | None) -> bytes:
        stored = self._ledger.charge(self._run, step, event, body, part=part)
        assert stored is not None
        self._released_steps.add(step)
        self.journal.put({_LEDGER: _noted(self._ledger.top)})
        self._steps.append(step)
        self._turns += step not in self._tables
        return stored

    @property
    def steps(self) -> Sequence[int]:
        """The steps of all releases of the run, restarts included, in the order in which they were made."""
        return self._steps

    @property
    def restored(self) -> bool:
        """Whether the ledger was restored from a copy and has no release since: peers must then say what had left."""
        return self._run in self._ledger.unsettled()

    @property
    def where(self) -> str:
        """The ledger's file."""
        return str(self._ledger.path)

    def turns(self) -> int:
        """How many releases of training this run made, restarts included."""
        return self._turns

    def spent(self) -> Certificate:
        """What all of the owner's runs on these records have cost so far."""
        return self._ledger.spent()


def _as_made(steps: list[int], opening: int) -> list[int]:
    """Steps in the order of their releases: that of their numbers, but for one that training begins with."""
    return sorted(steps, key=lambda step: 0 if step == opening else step)


def _agree(ledger: Ledger, journal: Journal) -> None:
    """LedgerError where the journal is newer than its ledger; an older one is fine: messages are sent again."""
    note = journal.get(_LEDGER)
    if note is None:
        return
    known = Head(int.from_bytes(note[:8]), note[8:].hex())
    if not ledger.holds(known):
        raise LedgerError(
            f"ledger={str(ledger.path)!r}: has {ledger.top.sequence} rows, and not the row {known.sequence} that the "
            f"journal {journal.path.name} knows: an older copy, or a new file. Nothing may leave. Restore the newest "
            "copy of the ledger, with its -wal; docs/ledger.md says what to do without one."
        )


def _refuse_unsettled(ledger: Ledger, run: str) -> None:
    """LedgerError where this run was written off, or a copy was restored that may lack releases of another run."""
    if ledger.given_up(run):
        raise LedgerError(
            f"ledger={str(ledger.path)!r}: run {run!r} was written off after a disaster: all that it could have "
            "released counts as released. Nothing may leave. Take part in later runs."
        )
    for unsettled in ledger.unsettled():
        if unsettled != run:
            raise LedgerError(
                f"ledger={str(ledger.path)!r}: was restored from a copy, and run {unsettled!r} may have released more "
                "than it knows. Start that run's node first, or write the run off: coterie ledger write-off FOLDER"
            )


def _noted(head: Head) -> bytes:
    return head.sequence.to_bytes(8) + bytes.fromhex(head.hash)


def _partition(part: OwnRun, parts: int) -> str:
    plan = part.plan
    batch = getattr(plan.sampler, "batch", 0)  # in the name: two sizes may make equally many parts
    place = f"position in order {part.order[:16]}" if part.order else "position"
    # The unit too: divided by patients a record lies in another part than by doctors, even with as many units.
    what = "records" if plan.unit == RECORD else f"units ({sha256(str(plan.unit).encode()).hexdigest()[:16]})"
    return f"{plan.sizes[part.owner]} {what} by {place}, {batch} in each of {parts} batches"


def _bounds(part: OwnRun):
    """The division into parts, by position alone, so that no record's content can change it."""
    import numpy as np

    return np.array([part.plan.sizes[part.owner], getattr(part.plan.sampler, "batch", 0)])
