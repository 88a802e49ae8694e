"""The aggregator of masked sums (`masked`): it calls rolls and adds up, and is trusted with nothing.

A roll is on its disk before it is called, and a sum before it is sent: an attempt has one roll, a round one sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.federation.releases.journal import Journal, numbered
from coterie.federation.shapes import exchange
from coterie.federation.shapes.rolls import OUTSIDE, SPENT, Bench, SumTerms
from coterie.federation.shapes.summing import Adding, refusal
from coterie.federation.transport.machine import Out, Patience, Status
from coterie.federation.transport.wire import Kind, Message, Refused
from coterie.mechanisms.masks import LABEL, PROCESS, START, Roll, bitmap, extended, label

_ROLL, _SUM, _DONE = "roll", "sum", "done"  # keys of the journal


class _Open(NamedTuple):
    """The attempt under way."""

    ticket: int
    roll: Roll
    label: bytes
    body: bytes


class MaskedAggregator(Adding):
    """Adds up masked messages, and is trusted with nothing: a `Machine`."""

    def __init__(self, terms: SumTerms, journal: Journal, patience: Patience) -> None:
        super().__init__(terms.names, terms.rounds, patience)
        self._terms, self._journal = terms, journal
        done = journal.get(_DONE)
        self._step = 0 if done is None else int.from_bytes(done[:8])
        self._history = START if done is None else done[8:]
        self._open = self._restored()
        self._next = 0 if self._open is None else self._open.roll.attempt + 1
        self._values: dict[int, bytes] = {}
        self._ready: dict[int, bytes] = {}  # owners that asked for the sum under way, and their processes
        self._bench = Bench()
        self._away: set[int] = set()  # owners that did not answer, and were not heard since
        self._note = ""

    def start(self, now: float) -> list[Out]:
        """Begin, or resume, and ask members of the roll under way for their answers again."""
        self._now = self._since = self._asked = now
        return self._ask()

    @property
    def status(self) -> Status:
        """Where the aggregator stands."""
        everybody = range(len(self._terms.names))
        missing = [] if self.done else [owner for owner in everybody if owner not in self._ready]
        if self._open is not None:
            missing = self._silent()
        note = self._note
        if (
            not self.done
            and self._open is None
            and self._overdue()
            and len(self._willing()) < self._terms.quorum
        ):
            note = f"paused: {len(self._willing())} owners are there and can release, a sum needs {self._terms.quorum}"
        names = tuple(self._terms.names[owner] for owner in missing)
        return Status(self._step, self._terms.rounds, names, note, self._refused)

    def _answer(self, owner: int, message: Message) -> list[Out]:
        match message.kind:
            case Kind.WANT:
                return self._wanted(owner, message)
            case Kind.VALUE:
                self._take_value(owner, message)
                return []
            case Kind.REFUSAL:
                self._objected(owner, message)
                return []
        raise Refused(f"{message.kind.name}: not among masked sums")

    def _wanted(self, owner: int, message: Message) -> list[Out]:
        name = self._terms.names[owner]
        self._away.discard(owner)
        if message.sub or message.step < 1 or len(message.body) != PROCESS:
            raise Refused("no such round")
        if message.step > self._terms.rounds:
            return [refusal(name, message, f"round {message.step}: the agreement has {self._terms.rounds}")]
        if message.step <= self._step:
            stored = self._journal.get(numbered(_SUM, message.step))
            if stored is None:
                return [refusal(name, message, "not there any more")]
            return [Out(name, Message(Kind.SUM, message.step, int.from_bytes(stored[:8]), stored[8:]))]
        if message.step > self._step + 1:
            self._note = f"paused: {name} has sums that are lost here. Restore the newest copy of this folder"
            return []
        self._ready[owner] = message.body
        called = self._open is not None and owner in self._silent()
        return [self._called(owner)] if called else []

    def _take_value(self, owner: int, message: Message) -> None:
        now = self._open
        if now is None or message.step != now.ticket:
            return  # an answer to a void attempt, which is useless
        if len(message.body) != LABEL + 8 * self._terms.count or message.body[:LABEL] != now.label:
            raise Refused("not a message of this roll")
        if owner not in now.roll.members:
            raise Refused("not in the roll")
        if self._values.setdefault(owner, message.body) != message.body:
            raise Refused("a second version of a value")

    def _objected(self, owner: int, message: Message) -> None:
        if message.body == SPENT.encode():
            self._bench.spent.add(owner)
        now = self._open
        if now is None or message.step != now.ticket:
            return
        if owner not in now.roll.members or owner in self._values:
            return
        self._next = max(self._next, min(message.sub, self._terms.attempts))
        self._void([owner])

    def _void(self, guilty: Sequence[int]) -> None:
        """Begin another attempt, at first without owners that did not answer this one."""
        self._bench.blame(guilty, self._step + 1)
        self._away |= set(guilty)
        for owner in guilty:
            self._ready.pop(owner, None)
        self._open, self._values, self._since = None, {}, self._now

    def _go_on(self) -> list[Out]:
        """Add up, void the attempt, or call a roll, whichever is due."""
        if self.done:
            return []
        if self._open is not None:
            if not self._silent():
                return self._added()
            if not self._overdue():
                return []
            self._void(self._silent())
        return self._begin()

    def _begin(self) -> list[Out]:
        """Call a roll: at first of all, later of the owners that are there once the wait for others is over."""
        everyone = set(range(len(self._terms.names)))
        if self._step == 0 and self._next == 0 and self._ready.keys() != everyone:
            return []
        awaited = everyone - self._bench.spent - self._away - self._ready.keys()
        awaited = {owner for owner in awaited if self._bench.free(owner, self._step + 1)}
        members = self._willing()
        if len(members) < self._terms.quorum or self._next > self._terms.attempts:
            return []
        if awaited and not self._overdue():
            return []
        ready = tuple(self._ready[owner] for owner in members)
        roll = Roll(self._step + 1, self._next, tuple(members), ready)
        named = label(self._terms.agreement, self._history, roll, len(self._terms.names))
        ticket, body = self._terms.ticket(roll.round, roll.attempt), self._terms.written(roll, named)
        self._away |= awaited
        self._journal.put({_ROLL: ticket.to_bytes(8) + body})
        self._open, self._next, self._values, self._since = (
            _Open(ticket, roll, named, body),
            self._next + 1,
            {},
            self._now,
        )
        return self._ask()

    def _willing(self) -> list[int]:
        """Owners that can be called, in order; left-out ones only where there are too few without them."""
        there = sorted(self._ready.keys() - self._bench.spent)
        free = [owner for owner in there if self._bench.free(owner, self._step + 1)]
        return free if len(free) >= self._terms.quorum else there

    def _added(self) -> list[Out]:
        assert self._open is not None
        roll = self._open.roll
        parts = [np.frombuffer(self._values[owner][LABEL:], "<u8") for owner in roll.members]
        total = np.sum(parts, axis=0, dtype=np.uint64).astype("<u8")
        if not self._terms.fits(total.view("<i8")):
            self._note = f"round {roll.round}: {OUTSIDE}"
            self._void([])
            return self._begin()
        who, body = bitmap(roll.members, len(self._terms.names)), total.tobytes()
        self._history = extended(self._history, roll.round, roll.attempt, who, body)
        entries = {
            numbered(_SUM, roll.round): roll.attempt.to_bytes(8) + who + body,
            _DONE: roll.round.to_bytes(8) + self._history,
        }
        self._journal.put(entries)
        self._journal.prune(_SUM, roll.round - exchange.WINDOW)
        self._step, self._next, self._since, self._asked = roll.round, 0, self._now, self._now
        self._open, self._values, self._ready, self._note = None, {}, {}, ""
        message = Message(Kind.SUM, roll.round, roll.attempt, who + body)
        return [Out(name, message) for name in self._terms.names]

    def _restored(self) -> _Open | None:
        stored = self._journal.get(_ROLL)
        if stored is None:
            return None
        ticket = int.from_bytes(stored[:8])
        roll, named = self._terms.read(ticket, stored[8:])
        return _Open(ticket, roll, named, stored[8:]) if roll.round == self._step + 1 else None

    def _silent(self) -> list[int]:
        assert self._open is not None
        return [owner for owner in self._open.roll.members if owner not in self._values]

    def _overdue(self) -> bool:
        return self._now - self._since >= self._patience.wait

    def _ask(self) -> list[Out]:
        self._asked = self._now
        return [] if self.done or self._open is None else [self._called(owner) for owner in self._silent()]

    def _called(self, owner: int) -> Out:
        assert self._open is not None
        return Out(self._terms.names[owner], Message(Kind.ROLL, self._open.ticket, 0, self._open.body))
