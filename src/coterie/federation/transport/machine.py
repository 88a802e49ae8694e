"""A party's side as a state machine: messages and the time go in, messages come out.

It has no clock, socket or thread, so that a test plays a whole network in one process, the same way every time,
under whatever faults it likes; and the process of a real owner (`drive`) runs the very same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coterie._types import PyTree
from coterie.federation.transport.wire import Kind, Message


class Out(NamedTuple):
    """A message for a peer. It may be lost, doubled, late or out of order: machines ask again."""

    peer: str
    message: Message


def refusal(peer: str, asked: Message, reason: str) -> Out:
    """The answer that a peer cannot have what it asked for."""
    return Out(peer, Message(Kind.REFUSAL, asked.step, asked.sub, reason.encode()))


def beyond(peer: str, asked: Message, rounds: int) -> Out:
    """The answer to a peer that asks for a round after the last."""
    return refusal(peer, asked, f"round {asked.step}: the agreement has {rounds}")


@dataclass(frozen=True)
class Status:
    """Where a party stands. Public values alone: a live table and other owners may see it."""

    step: int  # rounds or visits completed
    of: int
    waiting_for: tuple[str, ...] = ()
    note: str = ""  # why it is paused, or what an administrator should know
    refused: int = 0  # messages dropped, by their content: `Witnessed` counts them, the transport its own


class Patience(NamedTuple):
    """How long, in seconds, a party waits. It is agreed on, so that neighbours know what to expect."""

    wait: float = 10.0  # for a neighbour's message, before going on without it
    retry: float = 0.5  # before asking for it (again)


class Machine(Protocol):
    """One party. `now` is in seconds from any start; it never goes back.

    All state that must outlive the process is on the disk (ledger, journal) before a message that reveals it is
    returned: a machine that is made anew from the same files goes on where the old one stopped.
    """

    def start(self, now: float) -> list[Out]:
        """Begin, or resume."""
        ...

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take a message of a peer, whose name the transport vouches for; `wire.Refused` where it is not acceptable."""
        ...

    def tick(self, now: float) -> list[Out]:
        """Act on the time; called several times a second."""
        ...

    @property
    def done(self) -> bool:
        """Whether the party's own training is complete. It still answers peers who are behind."""
        ...

    @property
    def status(self) -> Status:
        """Where the party stands."""
        ...

    def model(self) -> PyTree | None:
        """The model as this party knows it; None where it knows none."""
        ...
