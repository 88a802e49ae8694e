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
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgpack
import numpy as np

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RegisterSide, VisitSide
from coterie.federation.shapes.visit import Speaker
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Out, Patience, Status, counting
from coterie.federation.transport.wire import Kind, Layout, Message, Refused

LEARNER = "learner"
_KEY, _MODEL = "learner", "model"  # keys of the journal
_COMPLETE = b"complete"
_SPENT = b"no more answers"


class _Book(NamedTuple):
    """What the learner has on its disk, one entry for each owner in the lists."""

    tick: int
    turns: tuple[int, ...]  # answers settled
    asked: tuple[int, ...]  # the tick that an open query is for; 0: none
    gone: tuple[bool, ...]  # whether the owner has no more answers
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
        *,
        follow_schedule: bool = False,
    ) -> None:
        """`layout`: of an answer."""
        program, schedule = register.program, np.asarray(register.program.schedule).tolist()
        self._register, self._journal, self._layout = register, journal, layout
        self._names, self._patience, self._ticks = names, patience, len(schedule)
        self._indices = {name: index for index, name in enumerate(names)}
        self._most, self._schedule = program.plan.releases, schedule if follow_schedule else None
        self._book = self._recover()
        self._awake: set[int] = set()
        self._shown: dict[int, float] = {}  # when an owner was last shown its query
        self._heard, self._again, self._refused, self._note = 0.0, 0.0, 0, ""

    def start(self, now: float) -> list[Out]:
        """Begin, or resume: owners ask for what they miss."""
        self._heard = now
        self._pass_over()
        return []

    @counting
    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """A frame of an owner."""
        owner = self._indices.get(sender)
        if owner is None:
            raise Refused("not an owner")
        out = self._handle(owner, message, now)
        self._heard, self._note = now, ""
        return out

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
        """Where the learner stands."""
        waiting = tuple(name for name, asked in zip(self._names, self._book.asked) if asked)
        if self._schedule is not None and not self.done:
            waiting = (self._names[self._schedule[self._book.tick]],)
        early = self.done and self._book.tick < self._ticks
        note = "ended early: no owner has answers left" if early else self._note
        return Status(self._book.tick, self._ticks, () if self.done else waiting, note, self._refused)

    def model(self) -> PyTree:
        """The model so far."""
        return self._register.model(self._unpacked())

    def _handle(self, owner: int, message: Message, now: float) -> list[Out]:
        if message.kind == Kind.AWAKE:
            return self._on_awake(owner, now)
        if message.kind == Kind.ANSWER:
            return self._on_answer(owner, message, now)
        if message.kind == Kind.REFUSAL:
            return self._on_refusal(owner, message, now)
        raise Refused(f"{message.kind.name}: not for a learner")

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
        book, again = (
            self._book,
            self._shown.get(owner, now - self._patience.retry) + self._patience.retry / 2,
        )
        if owner not in self._awake or self.done or now < again:
            return []
        if not book.asked[owner]:
            if not self._has_time(owner, now):
                return []
            self._keep(asked=_set(book.asked, owner, book.tick + 1))
        self._shown[owner] = now
        step, turn = self._book.asked[owner], book.turns[owner]
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
        body = wire.pack(self._register.settle(self._unpacked(), answer, owner, message.step, turn))
        wire.unpack(body, self._register.layout)
        self._keep(
            tick=book.tick + 1,
            turns=_set(book.turns, owner, turn + 1),
            asked=_set(book.asked, owner, 0),
            register=body,
        )
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
            self._keep(gone=_set(self._book.gone, owner, True), asked=_set(self._book.asked, owner, 0))
        noted = Out(self._names[owner], Message(Kind.SETTLED, message.step, message.sub))
        return [noted, *self._next(now)]

    def _pass_over(self) -> None:
        """Leave out the ticks that the schedule gives to owners without answers."""
        tick = self._book.tick
        while self._schedule is not None and tick < self._ticks and self._exhausted(self._schedule[tick]):
            tick += 1
        if tick > self._book.tick:
            self._keep(tick=tick)

    def _exhausted(self, owner: int) -> bool:
        return self._book.gone[owner] or self._book.turns[owner] >= self._most[owner]

    def _unpacked(self) -> PyTree:
        return wire.unpack(self._book.register, self._register.layout)

    def _keep(self, **changes: Any) -> None:
        """Write changes down before acting on them."""
        book = self._book._replace(**changes)
        self._journal.put({_KEY: cast("bytes", msgpack.packb(list(book)))})
        self._book = book

    def _recover(self) -> _Book:
        stored = self._journal.get(_KEY)
        if stored is not None:
            tick, turns, asked, gone, register = msgpack.unpackb(stored)
            return _Book(tick, tuple(turns), tuple(asked), tuple(gone), register)
        none = (0,) * len(self._names)
        return _Book(0, none, none, (False,) * len(self._names), wire.pack(self._register.open()))


def _set(entries: tuple, at: int, value: Any) -> tuple:
    return (*entries[:at], value, *entries[at + 1 :])


class Visitor:
    """An owner that visits the learner when its clock rings; `clock()` gives the time until the next visit."""

    def __init__(
        self,
        side: VisitSide,
        outlet: Outlet,
        clock: Callable[[], float],
        patience: Patience,
        ticks: int,
    ) -> None:
        self._side, self._clock, self._patience, self._ticks = side, clock, patience, ticks
        self._speaker = Speaker(side, outlet)
        self._saying: Message | None = None  # what is repeated until the learner reacts; None: asleep
        self._wakes, self._again, self._heard = 0.0, 0.0, 0.0
        self._over, self._refused, self._note = False, 0, ""  # over: no more answers of this owner are wanted
        self._journal, self._model = outlet.journal, outlet.journal.get(_MODEL)

    def start(self, now: float) -> list[Out]:
        """Sleep until the clock rings, but first repeat an answer that may not have arrived."""
        self._heard, self._wakes = now, now + self._clock()
        if (step := self._speaker.last) is not None:
            self._saying = self._answer(step)
        elif self._speaker.turns:
            self._wakes = now
        return self.tick(now)

    @counting
    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """A frame of the learner."""
        if sender != LEARNER:
            raise Refused("not the learner")
        self._heard = now
        return self._handle(message, now)

    def tick(self, now: float) -> list[Out]:
        """Wake up, or repeat an unanswered message; at the end, ask for the model from time to time."""
        if self.done:
            return []
        if self._over:
            if now < self._again:
                return []
            self._again = now + self._patience.wait
            return [Out(LEARNER, Message(Kind.AWAKE, self._speaker.turns + 1))]
        if self._saying is None and now >= self._wakes:
            self._say(Message(Kind.AWAKE, self._speaker.turns + 1))
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
        note = self._note or (
            "its answers are given; waiting for the model" if self._over and not self.done else ""
        )
        if silent and self._again - self._heard > self._patience.wait:
            note = "paused: the learner does not react"
        return Status(self._speaker.turns, self._ticks, (LEARNER,) if silent else (), note, self._refused)

    def model(self) -> PyTree | None:
        """The learner's final model; None before."""
        return None if self._model is None else wire.unpack(self._model, self._side.model_layout)

    def _handle(self, message: Message, now: float) -> list[Out]:
        if message.kind == Kind.QUERY:
            return self._on_query(message, now)
        if message.kind == Kind.SETTLED:
            return self._on_settled(message, now)
        if message.kind == Kind.REFUSAL:
            self._over = self._over or message.body == _COMPLETE
            return []
        if message.kind == Kind.SUM:
            return self._on_model(message)
        raise Refused(f"{message.kind.name}: not for a visitor")

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
            return [Out(LEARNER, Message(Kind.REFUSAL, step, turn, b"beyond the agreed ticks"))]
        if turn == self._speaker.turns - 1 and self._speaker.said(step) is not None:
            return self._repeat(self._answer(step), now)
        if turn != self._speaker.turns or self._speaker.said(step) is not None:
            raise Refused(f"turn {turn}: the next is {self._speaker.turns}")
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
        return Message(Kind.ANSWER, step, self._speaker.turns - 1, self._speaker.said(step) or b"")

    def _say(self, message: Message) -> None:
        self._saying, self._again = message, 0.0

    def _repeat(self, message: Message, now: float) -> list[Out]:
        self._say(message)
        return self.tick(now)
