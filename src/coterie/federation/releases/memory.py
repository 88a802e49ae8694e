"""An owner's private state between its releases: always the one that belongs to its last release, or none at all.

The state after a message is written down, with the message's hash, before the message is charged. So after a crash
either the ledger has the message, and the state that goes with it is found; or it has not, nothing had left, and the
step is played again from the state before. Where neither fits (a power cut took the journal's last moments), the owner
starts from the state before its first message, in which there is nothing of any record: what a state holds that was
released since would be released twice, for one charge.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple, cast

import msgpack

from coterie._types import PyTree
from coterie.federation.releases.release import Outlet
from coterie.federation.transport import wire

_BEFORE, _AFTER = "visit/before", "visit/after"  # keys of the journal


class _State(NamedTuple):
    """A private state as the journal has it."""

    turns: int  # how many releases it has behind it
    step: int  # of the last of them
    message: bytes  # its hash
    basis: bytes  # hash of what it was computed from, where that matters
    private: bytes


class Memory:
    """The private state, and what the last release was."""

    def __init__(self, outlet: Outlet, layout: wire.Layout, start: Callable[[], PyTree]) -> None:
        """`start`: the state before the first message."""
        self._outlet, self._layout = outlet, layout
        self._last, self.private = self._recovered() or (None, start())

    @property
    def last(self) -> int | None:
        """The step of the last release, where the journal knows it."""
        return None if self._last is None else self._last.step

    def based_on(self, step: int, basis: bytes) -> bool:
        """Whether the last release is of this step, and was computed from what has this hash."""
        return self._last is not None and (self._last.step, self._last.basis) == (step, basis)

    def release(self, step: int, turn: int, body: bytes, private: PyTree, basis: bytes = b"") -> bytes:
        """The charged message; `private` is the state after it. BudgetError, with nothing released, where none is left.

        Guarantee: what is returned is what the ledger charged and stored; a private state that has seen a record is
        never used again once a release that contains it was charged.
        """
        after = _State(self._outlet.turns() + 1, step, sha256(body).digest(), basis, wire.pack(private))
        if self._layout.leaves or basis:  # else there is nothing to remember
            before = {} if self._last is None else {_BEFORE: _packed(self._last)}
            self._outlet.journal.put(before | {_AFTER: _packed(after)})
        released = self._outlet.release(step, turn, body)
        self.private, self._last = private, after
        return released

    def _recovered(self) -> tuple[_State, PyTree] | None:
        for key in (_AFTER, _BEFORE):
            entry = self._outlet.journal.get(key)
            state = None if entry is None else _State(*msgpack.unpackb(entry))
            if state is not None and self._belongs(state):
                try:
                    return state, wire.unpack(state.private, self._layout)
                except wire.Refused:  # it had diverged
                    return None
        return None

    def _belongs(self, state: _State) -> bool:
        """Whether the state is the one after the ledger's last message."""
        stored = self._outlet.stored(state.step) if state.turns == self._outlet.turns() else None
        return stored is not None and sha256(stored).digest() == state.message


def _packed(state: _State) -> bytes:
    return cast("bytes", msgpack.packb(list(state)))
