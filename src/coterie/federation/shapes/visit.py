"""What an owner says at its visits: one message for each step, and the private state that belongs to it.

The state after a release is written down, with the message's hash, before the message is charged. After a crash the
ledger decides: the state whose message it holds is the owner's. Where neither fits (a power cut took the journal's
last moments), the owner starts from the state before its first visit, in which there is nothing of any record:
going back to a state whose content was released would release that content twice for one charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple, cast

import msgpack

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import RegisterSide, VisitSide
from coterie.federation.transport import wire

_BEFORE, _AFTER = "visit/before", "visit/after"


class _State(NamedTuple):
    """A private state as the journal has it."""

    turns: int  # how many releases it has behind it
    step: int  # of the last of them
    message: bytes  # its hash
    basis: bytes  # hash of what it was computed from
    private: bytes


class Speaker:
    """One owner's voice. Everything it returns is in the owner's ledger, with its charge."""

    def __init__(self, side: VisitSide, outlet: Outlet) -> None:
        self._side, self._outlet, self._journal = side, outlet, outlet.journal
        self._last, self._private = self._recover()

    @property
    def turns(self) -> int:
        """How many releases were made."""
        return self._outlet.turns()

    @property
    def last(self) -> int | None:
        """The step of the last release, where the journal knows it."""
        return None if self._last is None else self._last.step

    def said(self, step: int) -> bytes | None:
        """The message of a step, to be sent again; None where none was released."""
        return self._outlet.stored(step)

    def based_on(self, step: int, basis: bytes) -> bool:
        """Whether the last release is of this step, and was computed from the register with this hash."""
        return self._last is not None and (self._last.step, self._last.basis) == (step, basis)

    def say(self, query: PyTree, basis: bytes, step: int, turn: int) -> bytes:
        """The message of this step, the same one every time. BudgetError, with nothing released, where none is left.

        Guarantee: what is returned is what the ledger charged and stored; private state that has seen a record
        is never used again once a release that contains it was charged.
        """
        earlier = self.said(step)
        if earlier is not None:
            return earlier
        message, private = self._side.emit(self._private, query, step, turn)
        body, _ = wire.fitted(message, self._side.layout)  # others accept nothing else
        after = _State(self.turns + 1, step, sha256(body).digest(), basis, wire.pack(private))
        before = {} if self._last is None else {_BEFORE: _packed(self._last)}
        self._journal.put(before | {_AFTER: _packed(after)})
        released = self._outlet.release(step, turn, body)
        self._private, self._last = private, after
        return released

    def _recover(self) -> tuple[_State | None, PyTree]:
        for key in (_AFTER, _BEFORE):
            state = _unpacked(self._journal.get(key))
            if state is not None and self._belongs(state):
                try:
                    return state, wire.unpack(state.private, self._side.private_layout)
                except wire.Refused:  # it had diverged
                    break
        return None, self._side.start()

    def _belongs(self, state: _State) -> bool:
        """Whether the state is the one after the ledger's last message."""
        stored = self._outlet.stored(state.step) if state.turns == self.turns else None
        return stored is not None and sha256(stored).digest() == state.message


class Steps:
    """One owner's steps of a walk: from the register before each to the register after it."""

    def __init__(
        self,
        side: VisitSide,
        register: RegisterSide,
        speaker: Speaker,
        schedule: Sequence[int],
        owner: int,
        most: int,
    ) -> None:
        """`schedule[t]`: the owner of step t + 1; `most`: how many of its turns this owner may speak at."""
        self._side, self._register, self._speaker = side, register, speaker
        self._schedule, self._owner, self._most = schedule, owner, most
        self.spent = ""  # why this owner has nothing more to say

    def after(self, body: bytes, digest: bytes, step: int) -> bytes:
        """The register after the own step; unchanged where this owner has nothing to say.

        Guarantee: private records are read by `Speaker.say` alone, which charges what it returns. What is settled
        was computed from this very register: a release for a history that was left stays charged, and unused.
        """
        turn = self._schedule[: step - 1].count(self._owner)
        register = wire.unpack(body, self._register.layout)
        packed = self._speaker.said(step)
        if packed is None and turn < self._most:
            try:
                query = self._register.ask(register, self._owner, step, turn)
                packed = self._speaker.say(query, digest, step, turn)
            except BudgetError as error:
                self.spent = str(error)
        if packed is None or not self._speaker.based_on(step, digest):
            return body
        return self._settled(register, packed, step, turn) or body

    def _settled(self, register: PyTree, packed: bytes, step: int, turn: int) -> bytes | None:
        """The register with the own message; None where it is not finite, as nobody would accept it."""
        try:
            message = wire.unpack(packed, self._side.layout)
            body = wire.pack(self._register.settle(register, message, self._owner, step, turn))
            wire.unpack(body, self._register.layout)
        except wire.Refused:
            return None
        return body


def _packed(state: _State) -> bytes:
    return cast("bytes", msgpack.packb(list(state)))


def _unpacked(entry: bytes | None) -> _State | None:
    return None if entry is None else _State(*msgpack.unpackb(entry))
