"""What an owner of rounds says in each step: one message for ever, whatever crashes in between.

The private state after a message is journalled, with the message's hash, before the message is charged. So after a
crash either the ledger has the message, and the state that goes with it is found; or it has not, nothing had left,
and the step is played again from the state before. Where neither fits (a power cut took the journal's last moments),
the owner starts from the state before its first message, in which there is nothing of any record: what a state holds
that was released since would be released twice, for one charge.
"""

from __future__ import annotations

import hashlib

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.journal import numbered
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RoundsSide
from coterie.federation.transport import wire
from coterie.program import State

_PENDING, _PRIVATE, _IDLE = "pending", "private", "idle"
_HEAD = 8 + 32  # bytes of a step and of a hash


class Diverged(Exception):
    """A message had to be made finite before it was charged. It is on the disk, and said when asked for again."""


class Voice:
    """An owner's messages, and the private state between them."""

    def __init__(self, side: RoundsSide, outlet: Outlet) -> None:
        self._side, self._outlet, self._journal = side, outlet, outlet.journal
        self.spent = ""  # why nothing is released any more
        self._stateful = bool(side.private_layout.leaves)
        self._private = self._restored()

    def said(self, step: int) -> bytes | None:
        """The message of this step, if it was said before."""
        stored = self._outlet.stored(step)
        return self._journal.get(numbered(_IDLE, step)) if stored is None else stored

    def release(self, public: PyTree, step: int) -> bytes | None:
        """The message of this step: the one said before, or a new release; None once the budget is spent.

        Guarantee: what is returned was charged and is on the disk, or was said before.
        """
        before = self.said(step)
        if before is not None or self.spent:
            return before
        try:
            return self._release(public, step)
        except BudgetError as error:
            self.spent = str(error)
            return None

    def say(self, public: PyTree, step: int) -> bytes | None:
        """As `release`; once the budget is spent, public values in its place, or None where there are none.

        Guarantee: what is returned was charged, or is made of public values alone; either way it is on the disk.
        """
        body = self.release(public, step)
        return self._idle(public, step) if body is None else body

    def forget(self, below: int) -> None:
        """Drop public values that were passed on before this step; releases stay in the ledger."""
        self._journal.prune(_IDLE, below)

    def _release(self, public: PyTree, step: int) -> bytes:
        message, private = self._side.emit(State(public, self._private), step, self._outlet.turns())
        body, fits = wire.fitted(message, self._side.layout)
        if self._stateful:
            self._journal.put(
                {
                    _PRIVATE: self._last().to_bytes(8) + wire.pack(self._private),
                    _PENDING: step.to_bytes(8) + hashlib.sha256(body).digest() + wire.pack(private),
                }
            )
        body = self._outlet.release(step, self._outlet.turns(), body)
        self._private = private
        if not fits:  # said after the charge: that a message was no number is something about the records
            raise Diverged(f"step={step}: the message was no finite number")
        return body

    def _idle(self, public: PyTree, step: int) -> bytes | None:
        message = self._side.idle(public, step)
        if message is None:
            return None
        body = wire.pack(message)
        self._journal.put({numbered(_IDLE, step): body})
        return body

    def _last(self) -> int:
        """The step of the last message that the ledger has; 0: none."""
        return self._outlet.steps[-1] if self._outlet.steps else 0

    def _restored(self) -> PyTree:
        """The private state after the last message that the ledger has, and after no other."""
        if not self._stateful:
            return self._side.start().private
        last, pending, private = self._last(), self._journal.get(_PENDING), self._journal.get(_PRIVATE)
        if pending is not None and int.from_bytes(pending[:8]) == last:
            stored = self._outlet.stored(last)
            if stored is not None and hashlib.sha256(stored).digest() == pending[8:_HEAD]:
                return wire.unpack(pending[_HEAD:], self._side.private_layout)
        if private is not None and int.from_bytes(private[:8]) == last:
            return wire.unpack(private[8:], self._side.private_layout)
        return self._side.start().private
