"""The state of an owner in a tree of masked sums: the sums so far, and the attempt under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coterie.federation.releases.journal import numbered
from coterie.federation.shapes import exchange
from coterie.federation.shapes.member import Member
from coterie.federation.shapes.rolls import Attempt
from coterie.federation.transport.wire import Kind, Message
from coterie.mechanisms.masks import HISTORY, members_of

TIP = 8 + 8 + HISTORY  # bytes
_SUM, _PAST = "sum", "past"  # keys of the journal


class Tip(NamedTuple):
    """The end of a chain of sums; of two chains, the one with the larger end counts."""

    step: int
    attempt: int
    history: bytes

    def written(self) -> bytes:
        return self.step.to_bytes(8) + self.attempt.to_bytes(8) + self.history

    @classmethod
    def read(cls, body: bytes) -> Tip:
        return cls(int.from_bytes(body[:8]), int.from_bytes(body[8:16]), body[16:])


class Past(NamedTuple):
    """What is kept with a sum."""

    attempt: int
    before: bytes  # the history that it follows
    members: bytes  # its roll

    def written(self) -> bytes:
        return self.attempt.to_bytes(8) + self.before + self.members

    @classmethod
    def read(cls, stored: bytes) -> Past:
        return cls(int.from_bytes(stored[:8]), stored[8 : 8 + HISTORY], stored[8 + HISTORY :])


class Chain:
    """All sums so far, for neighbours that lack them or have others."""

    def __init__(self, member: Member) -> None:
        self._member, self._journal, self._terms = member, member.journal, member.terms
        self._past = {step: Past.read(stored) for step, stored in self._journal.items(_PAST)}

    @property
    def tip(self) -> Tip:
        """Its end."""
        step = self._member.step
        return Tip(step, self._past[step].attempt if step else 0, self._member.history)

    @property
    def last(self) -> tuple[int, ...]:
        """The owners of the last sum."""
        step = self._member.step
        return (members_of(self._past[step].members, len(self._terms.names)) if step else ()) or ()

    def history(self, step: int) -> bytes | None:
        """The history after this step; None where it is not kept any more."""
        if step == self._member.step:
            return self._member.history
        return self._past[step + 1].before if step + 1 in self._past else None

    def sum(self, step: int) -> Message | None:
        """The sum of a round as a frame: the chain's end, the history before it, its owners, the numbers."""
        stored = self._journal.get(numbered(_SUM, step))
        if stored is None:
            return None
        past = self._past[step]
        return Message(Kind.SUM, step, past.attempt, self.tip.written() + past.before + stored)

    def take(self, step: int, attempt: int, body: bytes, source: str) -> None:
        """Append the sum of the next round; Refused where it is no valid sum."""
        past = Past(attempt, self._member.history, body[: self._terms.wide])
        beside = {numbered(_SUM, step): body, numbered(_PAST, step): past.written()}
        self._member.take(step, attempt, body, source, beside)
        self._past[step] = past
        self._past.pop(step - exchange.WINDOW, None)
        for key in (_SUM, _PAST):
            self._journal.prune(key, step - exchange.WINDOW + 1)


@dataclass(kw_only=True)
class Branch(Attempt):
    """The attempt that this owner answered last, with its own message and those of its children in a tree."""

    root: int
    parent: int | None  # the root has none
    height: int  # links to the farthest owner below
    since: float
    accused: bool = False  # whether silent children were named to the parent
