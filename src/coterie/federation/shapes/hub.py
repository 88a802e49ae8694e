"""A protocol whose messages meet in one sum: the aggregator, and an owner that talks to it.

In each round owners release their message to the aggregator, which waits for all of them, or for `patience.wait` and
enough of them, and sends everyone the weighted sum of what came, scaled up to the weight of all. A sum has one
version: it is on the aggregator's disk before it leaves. The first round waits for everybody, and nobody releases
anything before that: an owner asks for the sum, and is asked for its message.

Where owners rely on each other's noise, messages are whole numbers. They are added up as such, and the sum is rounded
once: so all that anybody is told follows from the sum alone. Two sums of one round would differ by single owners'
messages, which have less noise than was charged. So there a sum outlives a power cut, too; an owner that has a round's
sum hands out its message of that round no more, however often it is asked; and an aggregator that was put back to an
older state makes no sums while it hears of later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RoundsSide
from coterie.federation.shapes import exchange
from coterie.federation.shapes.summing import AGGREGATOR, Adding, Asking
from coterie.federation.shapes.voice import Voice
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Out, Patience, Status, beyond, refusal
from coterie.federation.transport.wire import Kind, Message, Refused
from coterie.program import Program


class HubOwner(Asking):
    """One owner: a `Machine`."""

    def __init__(self, rounds: int, side: RoundsSide, outlet: Outlet, patience: Patience) -> None:
        self._voice = Voice(side, outlet)
        super().__init__(self._voice, rounds, patience)
        self._layout, self._sums = side.layout, exchange.sum_layout(side.layout)
        exchange.vector_type(self._sums)  # an error where there is no one type
        self._back = self._voice.step > 0  # after a restart: ask first whether the round is over

    def _again(self) -> list[Out]:
        return self._speak() if self._back and not self._alone else []

    def _answer(self, message: Message, now: float) -> list[Out]:
        if message.kind == Kind.WANT and message.step > self._rounds:
            return [beyond(AGGREGATOR, message, self._rounds)]
        if message.sub or not 1 <= message.step <= self._rounds:
            raise Refused("no such round")
        match message.kind:
            case Kind.SUM:
                return self._absorbed(message, now)
            case Kind.WANT:
                return self._told(message)
            case Kind.REFUSAL:
                return self._denied(message)
        raise Refused(f"{message.kind.name}: not in a protocol with an aggregator")

    def _absorbed(self, message: Message, now: float) -> list[Out]:
        mixed = wire.unpack(message.body, self._sums)
        if message.step <= self._voice.step:
            return []
        if message.step > self._voice.step + 1:  # others are ahead: its own rounds are over, and it follows
            self._back = True
            return [self._want()]
        said = self._voice.said(message.step)
        # Without a message of its own, the sum stands in: programs that meet in one sum do not look at their own.
        own = mixed if said is None else wire.unpack(said, self._layout)
        self._voice.absorb(own, mixed, lambda: f"by the sum that {AGGREGATOR} sent")
        self._note, self._asked = "", now
        if self.done:
            return []
        return [self._want()] if self._back else self._speak()

    def _told(self, message: Message) -> list[Out]:
        """Send the own message, if there is one: the aggregator asks for that of the round under way."""
        if message.step != self._voice.step + 1:  # one of the two lacks a sum, and needs that first
            return [self._want()]
        return self._speak() or [refusal(AGGREGATOR, message, "nothing is released")]

    def _speak(self) -> list[Out]:
        self._back = False
        body = self._voice.release(lambda: f"by sums that {AGGREGATOR} sent")
        return [] if body is None else [Out(AGGREGATOR, Message(Kind.VALUE, self._voice.step + 1, 0, body))]

    def _want(self) -> Out:
        return Out(AGGREGATOR, Message(Kind.WANT, self._voice.step + 1))


def weights_of(program: Program) -> np.ndarray:
    """(owners,) what each message counts for: its weight in the sum, or in whole numbers, its records' part of it."""
    assert program.aggregate is not None
    return program.aggregate if program.plan.lattice is None else program.plan.parts


class Weighted(NamedTuple):
    """What the agreement says of the sums."""

    names: Sequence[str]  # of all owners
    rounds: int
    quorum: int  # the fewest owners of a sum
    weights: np.ndarray  # as `weights_of`
    layout: wire.Layout  # of a message


class Aggregator(Adding):
    """Adds up the owners' messages: a `Machine`. It sees releases alone.

    Guarantee: no sum of fewer than `quorum` owners' messages is ever sent; that is how many the charges rely on.
    """

    def __init__(self, terms: Weighted, journal: Journal, patience: Patience) -> None:
        super().__init__(terms.names, terms.rounds, journal, patience)
        self._layout, self._whole = terms.layout, exchange.is_whole(terms.layout)
        self._type = exchange.vector_type(exchange.sum_layout(terms.layout))
        self._weights = np.asarray(terms.weights, self._type)
        self._needed = max(terms.quorum, len(terms.names) // 2 + 1)
        self._values: dict[int, np.ndarray] = {}
        self._declined: set[int] = set()  # owners that will not speak in this round
        self._absent: set[int] = set()  # owners silent in the last round and since
        self._come: set[int] = set()  # owners heard since this process began
        self._ahead: set[int] = set()  # owners that have, or say they have, sums that are not here

    @property
    def status(self) -> Status:
        missing = () if self.done else tuple(self._names[owner] for owner in self._missing())
        note = ""
        if self._overdue() and not self._enough():
            note = f"paused: {len(self._values)} owners are there, a sum needs {self._needed}"
        if self._ahead:
            who = ", ".join(self._names[owner] for owner in sorted(self._ahead))
            note = (
                f"paused: sums are lost here that others hold ({who}). Restore the newest copy of this folder"
            )
        return Status(self._step, self._rounds, missing, note)

    def _answer(self, owner: int, message: Message) -> list[Out]:
        sender = self._names[owner]
        if message.kind in (Kind.VALUE, Kind.WANT):
            (self._ahead.add if message.step > self._step + 1 else self._ahead.discard)(owner)
        if message.kind == Kind.WANT and message.step > self._rounds:
            return [beyond(sender, message, self._rounds)]
        if message.sub or not 1 <= message.step <= self._rounds:
            raise Refused("no such round")
        if message.kind not in (Kind.VALUE, Kind.WANT, Kind.REFUSAL):
            raise Refused(f"{message.kind.name}: not in a protocol with an aggregator")
        if message.kind == Kind.VALUE:
            self._take_value(owner, message)
        elif message.kind == Kind.REFUSAL and message.step == self._step + 1:
            self._declined.add(owner)
        self._absent.discard(owner)
        if message.kind != Kind.REFUSAL and message.step <= self._step:
            return [self._told(sender, message)]
        return self._invite(owner, message.kind)

    def _invite(self, owner: int, kind: Kind) -> list[Out]:
        """Ask an owner that wants the sum under way for its message; in the first round all, once all have come."""
        new = owner not in self._come
        self._come.add(owner)
        if new and self._step == 0:
            return self._ask()
        wanted = kind == Kind.WANT and owner not in self._values and owner not in self._declined
        if not wanted or self.done or self._awaited():
            return []
        return [Out(self._names[owner], Message(Kind.WANT, self._step + 1))]

    def _awaited(self) -> bool:
        """Whether the first round waits for somebody who has not come yet."""
        return self._step == 0 and len(self._come) < len(self._names)

    def _take_value(self, owner: int, message: Message) -> None:
        kind = np.dtype("<i4") if self._whole else self._type
        value = exchange.vector(message.body, self._layout, kind)
        if message.step > self._step + 1:
            raise Refused("ahead of the sum")
        due = message.step == self._step + 1
        if due and not np.array_equal(self._values.setdefault(owner, value), value):
            raise Refused("a second version of a value")

    def _go_on(self) -> list[Out]:
        """Add up once all messages are there, or enough of them and the wait is over."""
        waiting = [owner for owner in self._missing() if owner not in self._declined | self._absent]
        if self.done or self._ahead or not self._enough() or (waiting and not self._overdue()):
            return []
        present = sorted(self._values)
        total = self._added(present)
        whole, part = self._weights.sum(), self._weights[present].sum()
        body = (total if len(present) == len(self._names) else total * (whole / part)).tobytes()
        self._absent = set(range(len(self._names))) - self._values.keys()
        self._values, self._declined = {}, set()
        outs = self._tell(body)
        if self._whole:
            self._journal.sync()
        return outs

    def _added(self, present: Sequence[int]) -> np.ndarray:
        if self._whole:  # weights are in the cells
            return np.sum([self._values[one] for one in present], axis=0, dtype=np.int64).astype(self._type)
        return sum((self._weights[one] * self._values[one] for one in present), np.zeros((), self._type))

    def _missing(self) -> list[int]:
        return [owner for owner in range(len(self._names)) if owner not in self._values]

    def _enough(self) -> bool:
        return len(self._values) >= self._needed and float(self._weights[list(self._values)].sum()) > 0

    def _overdue(self) -> bool:
        return not self.done and self._step > 0 and super()._overdue()

    def _questions(self) -> list[Out]:
        wanted = Message(Kind.WANT, self._step + 1)
        if self._awaited():
            return []
        return [Out(self._names[owner], wanted) for owner in self._missing()]
