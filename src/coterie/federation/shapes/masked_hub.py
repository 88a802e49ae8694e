"""Masked sums over an aggregator: an owner whose messages are masked, and the aggregator, who is trusted with nothing.

A round has attempts. For each the aggregator names a roll, the owners whose messages will be added, and every member
answers once: fresh noise, a full charge, and a message under the masks of exactly this roll (`mechanisms.masks`). If
all of them answer, the masks cancel and the sum goes to everybody. If one does not, the attempt is void, its messages
are worth nothing to anybody, and another roll is called. Nobody ever reveals a mask, and no message is made twice.

An aggregator can lie at will. Owners that it told different rolls, sums or processes share no mask, and so their
messages are random numbers. What it can learn at most is the sum of one roll, and that is what owners are charged for.

A roll is on the aggregator's disk before it is called, and a sum before it is sent: an attempt has one roll, a round
one sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.member import Declined, Member
from coterie.federation.shapes.rolls import OUTSIDE, SPENT, Attempt, Bench, SumTerms
from coterie.federation.shapes.summing import AGGREGATOR, Adding, Asking
from coterie.federation.transport.machine import Out, Patience, Status, beyond
from coterie.federation.transport.wire import Kind, Message, Refused
from coterie.mechanisms.masks import PROCESS, START, Roll, bitmap, extended, label


class MaskedOwner(Asking):
    """One owner: a `Machine`."""

    def __init__(self, member: Member, patience: Patience) -> None:
        super().__init__(member, member.terms.rounds, patience)
        self._member = member

    def _answer(self, message: Message, now: float) -> list[Out]:
        match message.kind:
            case Kind.SUM:
                return self._absorbed(message, now)
            case Kind.ROLL:
                return self._rolled(message)
            case Kind.REFUSAL:
                return self._denied(message)
        raise Refused(f"{message.kind.name}: not among masked sums")

    def _rolled(self, message: Message) -> list[Out]:
        roll, named = self._member.terms.read(message.step, message.body)
        try:
            answer = Message(Kind.VALUE, message.step, 0, self._member.answer(roll, named))
        except Declined as why:
            again = self._member.next_attempt(roll.round)
            answer = Message(Kind.REFUSAL, message.step, again, str(why).encode()[:200])
        return [Out(AGGREGATOR, answer)]

    def _absorbed(self, message: Message, now: float) -> list[Out]:
        member = self._member
        member.terms.total(message.body)
        if message.step <= member.step or message.step > member.terms.rounds:
            return []
        if message.step > member.step + 1:  # it needs the sums before that first
            return [self._want()]
        member.take(message.step, message.sub, message.body, AGGREGATOR)
        self._note, self._asked = "", now
        return [] if self.done else [self._want()]

    def _want(self) -> Out:
        return Out(AGGREGATOR, Message(Kind.WANT, self._member.step + 1, 0, self._member.process))


class MaskedAggregator(Adding):
    """Adds up masked messages, and is trusted with nothing: a `Machine`."""

    _HEAD = 8

    def __init__(self, terms: SumTerms, journal: Journal, patience: Patience) -> None:
        super().__init__(terms.names, terms.rounds, journal, patience)
        self._terms = terms
        last = terms.called(journal)
        under_way = last is not None and last[0].round == self._step + 1
        self._attempt = self._called(*last) if last is not None and under_way else None
        self._next = 0 if self._attempt is None else self._attempt.roll.attempt + 1
        self._ready: dict[int, bytes] = {}  # owners that asked for the sum under way, and their processes
        self._bench = Bench()
        self._away: set[int] = set()  # owners that did not answer, and were not heard since
        self._note = ""

    @property
    def status(self) -> Status:
        note, there = self._note, len(self._willing())
        if self._attempt is not None:
            missing = self._attempt.silent
        else:
            missing = [] if self.done else [at for at in range(len(self._names)) if at not in self._ready]
            if not self.done and self._overdue() and there < self._terms.quorum:
                note = f"paused: {there} owners are there and can release, a sum needs {self._terms.quorum}"
        return Status(self._step, self._rounds, tuple(self._names[owner] for owner in missing), note)

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
        name = self._names[owner]
        self._away.discard(owner)
        if message.sub or message.step < 1 or len(message.body) != PROCESS:
            raise Refused("no such round")
        if message.step > self._rounds:
            return [beyond(name, message, self._rounds)]
        if message.step <= self._step:
            return [self._told(name, message)]
        if message.step > self._step + 1:
            self._note = f"paused: {name} has sums that are lost here. Restore the newest copy of this folder"
            return []
        self._ready[owner] = message.body
        return [one for one in self._questions() if one.peer == name]

    def _take_value(self, owner: int, message: Message) -> None:
        attempt = self._attempt
        if attempt is None or message.step != attempt.ticket:
            return  # an answer to a void attempt, which is useless
        if owner not in attempt.awaited:
            raise Refused("not in the roll")
        attempt.take(owner, message.body)

    def _objected(self, owner: int, message: Message) -> None:
        if message.body == SPENT.encode():
            self._bench.spent.add(owner)
        attempt = self._attempt
        if attempt is None or message.step != attempt.ticket or owner not in attempt.silent:
            return
        self._next = max(self._next, min(message.sub, self._terms.attempts))
        self._void([owner])

    def _void(self, guilty: Sequence[int]) -> None:
        """Begin another attempt, at first without owners that did not answer this one."""
        self._bench.blame(guilty, self._step + 1)
        self._away |= set(guilty)
        for owner in guilty:
            self._ready.pop(owner, None)
        self._attempt, self._since = None, self._now

    def _go_on(self) -> list[Out]:
        """Add up, void the attempt, or call a roll, whichever is due."""
        if self.done:
            return []
        attempt = self._attempt
        if attempt is not None:
            if not attempt.silent:
                return self._added(attempt)
            if not self._overdue():
                return []
            self._void(attempt.silent)
        return self._begin()

    def _begin(self) -> list[Out]:
        """Call a roll: at first of all, later of the owners that are there once the wait for others is over."""
        everyone = set(range(len(self._names)))
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
        self._away |= awaited
        named = label(self._terms.agreement, self._history, roll, len(self._names))
        self._terms.keep(self._journal, roll, named)
        self._attempt, self._next, self._since = self._called(roll, named), self._next + 1, self._now
        return self._ask()

    @property
    def _history(self) -> bytes:
        return self._past or START

    def _called(self, roll: Roll, named: bytes) -> Attempt:
        return Attempt(terms=self._terms, roll=roll, label=named, awaited=roll.members)

    def _willing(self) -> list[int]:
        """Owners that can be called, in order; left-out ones only where there are too few without them."""
        there = sorted(self._ready.keys() - self._bench.spent)
        free = [owner for owner in there if self._bench.free(owner, self._step + 1)]
        return free if len(free) >= self._terms.quorum else there

    def _added(self, attempt: Attempt) -> list[Out]:
        roll, body = attempt.roll, attempt.added()
        if not self._terms.fits(np.frombuffer(body, "<i8")):
            self._note = f"round {roll.round}: {OUTSIDE}"
            self._void([])
            return self._begin()
        who = bitmap(roll.members, len(self._names))
        self._attempt, self._next, self._ready, self._note = None, 0, {}, ""
        history = extended(self._history, roll.round, roll.attempt, who, body)
        return self._tell(roll.attempt.to_bytes(8) + who + body, history)

    def _questions(self) -> list[Out]:
        attempt = self._attempt
        if attempt is None:
            return []
        message = Message(Kind.ROLL, attempt.ticket, 0, attempt.body)
        return [Out(self._names[owner], message) for owner in attempt.silent]
