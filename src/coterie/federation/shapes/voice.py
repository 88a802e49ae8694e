"""What an owner of rounds says in each step, one message for ever, and the public state that rounds leave it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.journal import numbered
from coterie.federation.releases.memory import Memory
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RoundsSide
from coterie.federation.shapes import exchange
from coterie.federation.transport import wire
from coterie.program import State

_PUBLIC, _IDLE = "public", "idle"  # keys of the journal
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


class Voice:
    """An owner's messages and its state; `step` is the last completed round.

    Where training diverged, whoever `blame` names (in words, or nobody) is told of.
    """

    def __init__(self, side: RoundsSide, outlet: Outlet) -> None:
        self._side, self._outlet, self._journal = side, outlet, outlet.journal
        self.spent = ""  # why nothing is released any more
        self._memory = Memory(outlet, side.private_layout, lambda: side.start().private)
        stored = self._journal.get(_PUBLIC)
        self.step = 0 if stored is None else int.from_bytes(stored[:8])
        self._public = side.start().public if stored is None else wire.unpack(stored[8:], side.public_layout)

    def model(self) -> PyTree:
        return self._side.model(self._public)

    def said(self, step: int) -> bytes | None:
        """The message of this step, if it was said before."""
        stored = self._outlet.stored(step)
        return self._journal.get(numbered(_IDLE, step)) if stored is None else stored

    def release(self, blame: Callable[[], str]) -> bytes | None:
        """The message of the round under way: the one said before, or a new one; None once the budget is spent.

        Guarantee: what is returned was charged and is on the disk, or was said before.
        """
        before = self.said(self.step + 1)
        if before is not None or self.spent:
            return before
        try:
            return self._release(self.step + 1, blame)
        except BudgetError as error:
            self.spent = str(error)
            return None

    def say(self, blame: Callable[[], str]) -> bytes | None:
        """As `release`; once the budget is spent, public values in its place, or None where there are none.

        Guarantee: what is returned was charged, or is made of public values alone; either way it is on the disk.
        """
        body = self.release(blame)
        return self._idle(self.step + 1) if body is None else body

    def absorb(
        self,
        own: PyTree,
        mixed: PyTree,
        blame: Callable[[], str],
        beside: Mapping[str, bytes] = _NOTHING,
    ) -> None:
        """Complete the round under way. State and what is `beside` it reach the disk together, before what follows."""
        step = self.step + 1
        public = self._side.absorb(self._public, own, mixed, step)
        body = exchange.body_of(public, self._side.public_layout, blame)
        self._journal.put({_PUBLIC: step.to_bytes(8) + body, **beside})
        self._public, self.step = public, step

    def forget(self, below: int) -> None:
        """Drop public values that were passed on before this step; releases stay in the ledger."""
        self._journal.prune(_IDLE, below)

    def _release(self, step: int, blame: Callable[[], str]) -> bytes:
        turn = self._outlet.turns()
        message, private = self._side.emit(State(self._public, self._memory.private), step, turn)
        body, fits = wire.fitted(message, self._side.layout)
        body = self._memory.release(step, turn, body, private)
        if not fits:  # said after the charge: that a message was no number is something about the records
            raise exchange.diverged(f"step={step}: the message was no finite number", blame())
        return body

    def _idle(self, step: int) -> bytes | None:
        message = self._side.idle(self._public, step)
        if message is None:
            return None
        body = wire.pack(message)
        self._journal.put({numbered(_IDLE, step): body})
        return body
