"""What a protocol whose messages meet in one sum has in common, masked or not: asking for sums, and adding them up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from coterie._types import PyTree
from coterie.federation.releases.journal import Journal, numbered
from coterie.federation.shapes import exchange
from coterie.federation.shapes.member import Member
from coterie.federation.shapes.voice import Voice
from coterie.federation.transport.machine import Out, Patience, Status, refusal
from coterie.federation.transport.wire import Kind, Message, Refused

AGGREGATOR = "aggregator"
_SUM, _DONE = "sum", "done"  # keys of an aggregator's journal


class Asking(ABC):
    """An owner that talks to an aggregator alone, and asks for the next sum until it has all of them."""

    def __init__(self, own: Voice | Member, rounds: int, patience: Patience) -> None:
        """`own`: what it says, and where it stands."""
        self._own, self._rounds, self._patience = own, rounds, patience
        self._asked, self._note = 0.0, ""
        self._alone = True  # until the aggregator is heard, nothing new is released

    def start(self, now: float) -> list[Out]:
        self._asked = now
        return [] if self.done else [self._want()]

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        if sender != AGGREGATOR:
            raise Refused("not the aggregator")
        self._alone = False
        return self._answer(message, now)

    def tick(self, now: float) -> list[Out]:
        """Ask for the sum again."""
        if self.done or now - self._asked < self._patience.retry:
            return []
        self._asked = now
        return [self._want(), *self._again()]

    @property
    def done(self) -> bool:
        return self._own.step >= self._rounds

    @property
    def status(self) -> Status:
        notes = [self._note]
        if self._alone and not self.done:
            notes.append("waits for the aggregator before it releases anything")
        if self._own.spent:
            notes.append(f"follows without releasing: {self._own.spent}")
        waiting = () if self.done else (AGGREGATOR,)
        return Status(self._own.step, self._rounds, waiting, "; ".join(filter(None, notes)))

    def model(self) -> PyTree:
        return self._own.model()

    def _denied(self, message: Message) -> list[Out]:
        if message.step == self._own.step + 1:
            self._note = f"paused: the aggregator has forgotten the sum of round {message.step}"
        return []

    def _again(self) -> list[Out]:
        """What is said once more beside the question."""
        return []

    @abstractmethod
    def _answer(self, message: Message, now: float) -> list[Out]: ...

    @abstractmethod
    def _want(self) -> Out: ...


class Adding(ABC):
    """An aggregator: it hears owners, by their numbers, and goes on when it can. A sum has one version: it is on the
    disk before it leaves."""

    _HEAD = 0  # bytes of a kept sum that say its attempt, where rounds have several

    def __init__(self, names: Sequence[str], rounds: int, journal: Journal, patience: Patience) -> None:
        self._names, self._rounds, self._journal, self._patience = names, rounds, journal, patience
        self._index = {name: owner for owner, name in enumerate(names)}
        done = journal.get(_DONE) or b""
        self._step, self._past = int.from_bytes(done[:8]), done[8:]
        self._since = self._asked = self._now = 0.0

    def start(self, now: float) -> list[Out]:
        """Begin, or resume, and ask for the messages that are missing."""
        self._now = self._since = now
        return self._ask()

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        self._now = now
        owner = self._index.get(sender)
        if owner is None:
            raise Refused("not an owner")
        return self._answer(owner, message) + self._go_on()

    def tick(self, now: float) -> list[Out]:
        """Go on without overdue owners; ask the others again."""
        self._now = now
        outs = self._go_on()
        if self.done or now - self._asked < self._patience.retry:
            return outs
        return outs + self._ask()

    @property
    def done(self) -> bool:
        return self._step >= self._rounds

    def model(self) -> None:
        """None: an aggregator has sums alone, of which owners make models."""
        return None

    def _ask(self) -> list[Out]:
        self._asked = self._now
        return [] if self.done else self._questions()

    def _overdue(self) -> bool:
        return self._now - self._since >= self._patience.wait

    def _tell(self, kept: bytes, past: bytes = b"") -> list[Out]:
        """Send everybody the sum of the round under way, which ends it. `past`: what is to be known of all sums."""
        step = self._step + 1
        self._journal.put({numbered(_SUM, step): kept, _DONE: step.to_bytes(8) + past})
        self._journal.prune(_SUM, step - exchange.WINDOW)
        self._step, self._past, self._since, self._asked = step, past, self._now, self._now
        return [Out(name, self._sum(step, kept)) for name in self._names]

    def _told(self, peer: str, asked: Message) -> Out:
        """A sum that was sent before, to an owner that asks for it."""
        kept = self._journal.get(numbered(_SUM, asked.step))
        if kept is None:
            return refusal(peer, asked, "not there any more")
        return Out(peer, self._sum(asked.step, kept))

    def _sum(self, step: int, kept: bytes) -> Message:
        return Message(Kind.SUM, step, int.from_bytes(kept[: self._HEAD]), kept[self._HEAD :])

    @abstractmethod
    def _answer(self, owner: int, message: Message) -> list[Out]: ...

    @abstractmethod
    def _go_on(self) -> list[Out]: ...

    @abstractmethod
    def _questions(self) -> list[Out]: ...
