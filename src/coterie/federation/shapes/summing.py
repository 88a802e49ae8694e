"""What a protocol whose messages meet in one sum has in common, masked or not: asking for sums, and adding them up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from coterie.federation.transport.machine import Out, Patience, Status, counting
from coterie.federation.transport.wire import Kind, Message, Refused

AGGREGATOR = "aggregator"


class Asking(ABC):
    """An owner that talks to an aggregator alone, and asks for the next sum until it has all of them."""

    def __init__(self, rounds: int, patience: Patience) -> None:
        self._rounds, self._patience = rounds, patience
        self._asked, self._refused, self._note = 0.0, 0, ""
        self._alone = True  # until the aggregator is heard, nothing new is released

    def start(self, now: float) -> list[Out]:
        """Begin, or resume."""
        self._asked = now
        return [] if self.done else [self._want()]

    @counting
    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take a message of the aggregator."""
        if sender != AGGREGATOR:
            raise Refused("not the aggregator")
        self._alone = False
        return self._answer(message, now)

    def tick(self, now: float) -> list[Out]:
        """Ask for the sum again."""
        if self.done or now - self._asked < self._patience.retry:
            return []
        self._asked = now
        return self._again()

    @property
    def done(self) -> bool:
        """Whether the owner has completed all rounds."""
        return self._completed >= self._rounds

    @property
    def status(self) -> Status:
        """Where the owner stands."""
        notes = [self._note]
        if self._alone and not self.done:
            notes.append("waits for the aggregator before it releases anything")
        if self._spent:
            notes.append(f"follows without releasing: {self._spent}")
        waiting = () if self.done else (AGGREGATOR,)
        return Status(self._completed, self._rounds, waiting, "; ".join(filter(None, notes)), self._refused)

    @property
    @abstractmethod
    def _completed(self) -> int: ...

    @property
    @abstractmethod
    def _spent(self) -> str:
        """Why nothing is released any more."""

    @abstractmethod
    def _answer(self, message: Message, now: float) -> list[Out]: ...

    @abstractmethod
    def _want(self) -> Out: ...

    @abstractmethod
    def _again(self) -> list[Out]: ...


class Adding(ABC):
    """An aggregator: it hears owners, by their numbers, and goes on when it can."""

    def __init__(self, names: Sequence[str], rounds: int, patience: Patience) -> None:
        self._names, self._rounds, self._patience = names, rounds, patience
        self._index = {name: owner for owner, name in enumerate(names)}
        self._step, self._since, self._asked, self._now, self._refused = 0, 0.0, 0.0, 0.0, 0

    @counting
    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take an owner's message."""
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
        """Whether all sums were made."""
        return self._step >= self._rounds

    def model(self) -> None:
        """None: an aggregator has sums alone, of which owners make models."""
        return None

    @abstractmethod
    def _answer(self, owner: int, message: Message) -> list[Out]: ...

    @abstractmethod
    def _go_on(self) -> list[Out]: ...

    @abstractmethod
    def _ask(self) -> list[Out]: ...


def refusal(peer: str, message: Message, reason: str) -> Out:
    """The answer that a peer cannot have what it asked for."""
    return Out(peer, Message(Kind.REFUSAL, message.step, message.sub, reason.encode()))
