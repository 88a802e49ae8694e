"""A learner that owners visit by their own clocks, and such an owner.

An owner wakes, says so, is shown a query, releases an answer through its ledger, and repeats it until the learner has
it on its disk. All asking again is the owner's, so the learner keeps nothing in its head: register, tick, everybody's
number of settled answers and what each was last asked lie in its journal, written together before a word leaves. So an
answer is settled once, whoever crashes when. Several owners may have a query at a time; answers are settled as they
come. An owner that stays away holds nobody up, and one that has given all its answers says so and is left alone.

The learner is not trusted: whatever it asks, an owner answers its own turns in order, each once, only after its own
clock woke it, and never more than its plan and its budget allow. It believes the learner's registers, as the learner
believes owners' answers; both are bounded and checked for shape and finiteness, not for truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

import msgpack
import numpy as np

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RegisterSide, VisitSide
from coterie.federation.shapes.visit import Speaker
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Out, Patience, Status, refusal
from coterie.federation.transport.wire import Kind, Layout, Message, Refused

LEARNER = "learner"
_KEY, _MODEL = "learner", "model"  # keys of the journal
_COMPLETE = b"complete"
_SPENT = b"no more answers"


@dataclass
class _Book:
    """What the learner has on its disk, one entry for each owner in the lists."""

    tick: int
    turns: list[int]  # answers settled
    asked: list[int]  # the tick that an open query is for; 0: none
    gone: list[bool]  # whether the owner has no more answers
    register: bytes


class Learner:
    """The learner's process. It meets owners as they wake or, with `follow_schedule` (in tests), in its order."""

    def __init__(
        self,
        register: RegisterSide,
        journal: Journal,
        names: tuple[str, ...],
        patience: Patience,
        layout: Layout,
        follow_schedule: bool = False,
    ) -> None:
        """`layout`: of an answer."""
        schedule = register.schedule
        self._register, self._journal, self._layout = register, journal, layout
        self._names, self._patience, self._ticks = names, patience, len(schedule)
        self._indices = {name: index for index, name in enumerate(names)}
        self._most, self._schedule = register.program.plan.releases, schedule if follow_schedule else None
        self._book = self._recover()
        self._awake: set[int] = set()
        self._shown: dict[int, float] = {}  # when an owner was last shown its query
        self._heard, self._again, self._note = 0.0, 0.0, ""

    def start(self, now: float) -> list[Out]:
        """Begin, or resume: owners ask for what they miss."""
        self._heard = now
        self._pass_over()
        return []

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        owner = self._indices.get(sender)
        if owner is None:
            raise Refused("not an owner")
        match message.kind:
            case Kind.AWAKE:
                outs = self._on_awake(owner, now)
            case Kind.ANSWER:
                outs = self._on_answer(owner, message, now)
            case Kind.REFUSAL:
                outs = self._on_refusal(owner, message, now)
            case _:
                raise Refused(f"{message.kind.name}: not for a learner")
        self._heard, self._note = now, ""
        return outs

    def tick(self, now: float) -> list[Out]:
        """Note when nobody comes; at the end, send the model to sleeping owners too."""
        if self.done and now >= self._again:
            self._again = now + self._patience.wait / 4
            return [Out(name, self._complete()) for name in self._names]
        if not self.done and now - self._heard > self._patience.wait:
            self._note = f"paused: no owner was heard of for {now - self._heard:.0f} s"
        return []

    @property
    def done(self) -> bool:
        """Whether the agreed ticks are over, or nobody has answers left."""
        return self._book.tick >= self._ticks or all(map(self._exhausted, range(len(self._names))))

    @property
    def status(self) -> Status:
        waiting = tuple(name for name, asked in zip(self._names, self._book.asked) if asked)
        if self._schedule is not None and not self.done:
            waiting = (self._names[self._schedule[self._book.tick]],)
        early = self.done and self._book.tick < self._ticks
        note = "ended early: no owner has answers left" if early else self._note
        return Status(self._book.tick, self._ticks, () if self.done else waiting, note)

    def model(self) -> PyTree:
        return self._register.model(self._unpacked())

    def _on_awake(self, owner: int, now: float) -> list[Out]:
        if self.done or self._exhausted(owner):
            return [Out(self._names[owner], self._complete())]
        self._awake.add(owner)
        return self._ask(owner, now)

    def _complete(self) -> Message:
        """The final model; before it is final, a message that this owner's part is over."""
        if self.done:
            return Message(Kind.SUM, self._book.tick, 0, wire.pack(self.model()))
        return Message(Kind.REFUSAL, self._book.tick, 0, _COMPLETE)

    def _ask(self, owner: int, now: float) -> list[Out]:
        """Send an awake owner its query, if it is due and was not sent just now."""
        book, shown = self._book, self._shown.get(owner, -np.inf)
        if owner not in self._awake or self.done or now < shown + self._patience.retry / 2:
            return []
        if not book.asked[owner]:
            if not self._has_time(owner, now):
                return []
            book.asked[owner] = book.tick + 1
            self._keep()
        self._shown[owner] = now
        step, turn = book.asked[owner], book.turns[owner]
        query = self._register.ask(self._unpacked(), owner, step, turn)
        return [Out(self._names[owner], Message(Kind.QUERY, step, turn, wire.pack(query)))]

    def _has_time(self, owner: int, now: float) -> bool:
        """Whether a tick is left beside those of open queries, so that every answer can be settled."""
        tick, asked = self._book.tick, self._book.asked
        if self._schedule is not None:
            return self._schedule[tick] == owner
        recent = now - self._patience.wait
        return tick + sum(bool(asked[peer]) and at > recent for peer, at in self._shown.items()) < self._ticks

    def _on_answer(self, owner: int, message: Message, now: float) -> list[Out]:
        book, turn = self._book, message.sub
        settled = Out(self._names[owner], Message(Kind.SETTLED, message.step, turn))
        if turn < book.turns[owner]:
            return [settled]
        if (message.step, turn) != (book.asked[owner], book.turns[owner]):
            raise Refused("an answer to nothing that was asked")
        answer = wire.unpack(message.body, self._layout)
        if self.done:
            return [Out(self._names[owner], self._complete())]
        body = self._register.settled(self._unpacked(), answer, owner, message.step, turn)
        book.tick, book.register = book.tick + 1, body
        book.turns[owner], book.asked[owner] = turn + 1, 0
        self._keep()
        self._awake.discard(owner)
        return [settled, *self._next(now)]

    def _next(self, now: float) -> list[Out]:
        """Ask the next owner of the schedule, after a tick."""
        self._pass_over()
        if self._schedule is None or self.done:
            return []
        return self._ask(self._schedule[self._book.tick], now)

    def _on_refusal(self, owner: int, message: Message, now: float) -> list[Out]:
        """Note that an owner has no more answers; its open query is void."""
        if message.body != _SPENT:
            return []
        if not self._book.gone[owner]:
            self._book.gone[owner], self._book.asked[owner] = True, 0
            self._keep()
        noted = Out(self._names[owner], Message(Kind.SETTLED, message.step, message.sub))
        return [noted, *self._next(now)]

    def _pass_over(self) -> None:
        """Leave out the ticks that the schedule gives to owners without answers."""
        book, before = self._book, self._book.tick
        while self._schedule and book.tick < self._ticks and self._exhausted(self._schedule[book.tick]):
            book.tick += 1
        if book.tick > before:
            self._keep()

    def _exhausted(self, owner: int) -> bool:
        return self._book.gone[owner] or self._book.turns[owner] >= self._most[owner]

    def _unpacked(self) -> PyTree:
        return wire.unpack(self._book.register, self._register.layout)

    def _keep(self) -> None:
        """Write the book down before what it says is acted on."""
        self._journal.put({_KEY: cast("bytes", msgpack.packb(list(vars(self._book).values())))})

    def _recover(self) -> _Book:
        stored, owners = self._journal.get(_KEY), len(self._names)
        if stored is not None:
            return _Book(*msgpack.unpackb(stored))
        return _Book(0, [0] * owners, [0] * owners, [False] * owners, wire.pack(self._register.open()))


class Visitor:
    """An owner that visits the learner when its clock rings; `clock()` gives the time until the next visit."""

    def __init__(
        self, side: VisitSide, outlet: Outlet, clock: Callable[[], float], patience: Patience, ticks: int
    ) -> None:
        self._side, self._outlet, self._clock = side, outlet, clock
        self._patience, self._ticks = patience, ticks
        self._speaker = Speaker(side, outlet)
        self._saying: Message | None = None  # what is repeated until the learner reacts; None: asleep
        self._wakes, self._again, self._heard = 0.0, 0.0, 0.0
        self._over, self._note = False, ""  # over: no more answers of this owner are wanted
        self._journal, self._model = outlet.journal, outlet.journal.get(_MODEL)

    def start(self, now: float) -> list[Out]:
        """Sleep until the clock rings, but first repeat an answer that may not have arrived."""
        self._heard, self._wakes = now, now + self._clock()
        if (step := self._speaker.memory.last) is not None:
            self._saying = self._answer(step)
        elif self._outlet.turns():
            self._wakes = now
        return self.tick(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        if sender != LEARNER:
            raise Refused("not the learner")
        self._heard = now
        match message.kind:
            case Kind.QUERY:
                return self._on_query(message, now)
            case Kind.SETTLED:
                return self._on_settled(message, now)
            case Kind.REFUSAL:
                self._over = self._over or message.body == _COMPLETE
                return []
            case Kind.SUM:
                return self._on_model(message)
        raise Refused(f"{message.kind.name}: not for a visitor")

    def tick(self, now: float) -> list[Out]:
        """Wake up, or repeat an unanswered message; at the end, ask for the model from time to time."""
        if self.done:
            return []
        if self._over:
            if now < self._again:
                return []
            self._again = now + self._patience.wait
            return [Out(LEARNER, Message(Kind.AWAKE, self._outlet.turns() + 1))]
        if self._saying is None and now >= self._wakes:
            self._saying, self._again = Message(Kind.AWAKE, self._outlet.turns() + 1), 0.0
            self._heard = now
        if self._saying is None or now < self._again:
            return []
        self._again = now + self._patience.retry
        return [Out(LEARNER, self._saying)]

    @property
    def done(self) -> bool:
        """Whether the run is complete, and its model here."""
        return self._model is not None

    @property
    def status(self) -> Status:
        """Where this owner stands: answers given, of the ticks of all."""
        silent = self._saying is not None and not self._over
        note = self._note
        if self._over and not self.done and not note:
            note = "its answers are given; waiting for the model"
        if silent and self._again - self._heard > self._patience.wait:
            note = "paused: the learner does not react"
        return Status(self._outlet.turns(), self._ticks, (LEARNER,) if silent else (), note)

    def model(self) -> PyTree | None:
        """The learner's final model; None before."""
        return None if self._model is None else wire.unpack(self._model, self._side.model_layout)

    def _on_model(self, message: Message) -> list[Out]:
        """Take the final model. Only the first one counts, whatever the learner sends later."""
        wire.unpack(message.body, self._side.model_layout)
        if self._model is None:
            self._journal.put({_MODEL: message.body})
            self._model, self._over = message.body, True
        return []

    def _on_query(self, message: Message, now: float) -> list[Out]:
        """Answer the own next turn once, from the query; repeat the answer of an earlier turn.

        Guarantee: private records are read by `Speaker.say` alone, which charges what it returns.
        """
        step, turn = message.step, message.sub
        if not 1 <= step <= self._ticks:
            return [refusal(LEARNER, message, "beyond the agreed ticks")]
        said = self._outlet.stored(step) is not None
        if turn == self._outlet.turns() - 1 and said:
            return self._repeat(self._answer(step), now)
        if turn != self._outlet.turns() or said:
            raise Refused(f"turn {turn}: the next is {self._outlet.turns()}")
        if self._saying is None or self._saying.kind != Kind.AWAKE:
            raise Refused("asked while asleep")
        query = wire.unpack(message.body, self._side.query_layout)
        try:
            self._speaker.say(query, sha256(message.body).digest(), step, turn)
        except BudgetError as error:
            self._note = str(error)
            return self._repeat(Message(Kind.REFUSAL, step, turn, _SPENT), now)
        return self._repeat(self._answer(step), now)

    def _on_settled(self, message: Message, now: float) -> list[Out]:
        saying = self._saying
        if saying is None or (message.step, message.sub) != (saying.step, saying.sub):
            return []
        if saying.kind == Kind.ANSWER:
            self._saying, self._wakes = None, now + self._clock()
            return self.tick(now)
        self._over = self._over or saying.kind == Kind.REFUSAL
        return []

    def _answer(self, step: int) -> Message:
        return Message(Kind.ANSWER, step, self._outlet.turns() - 1, self._outlet.stored(step) or b"")

    def _repeat(self, message: Message, now: float) -> list[Out]:
        self._saying, self._again = message, 0.0
        return self.tick(now)
