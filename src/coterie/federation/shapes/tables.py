"""Owners' tables, each released once by its owner and passed on until all have all of them.

An owner releases its table through its outlet: one version for ever, charged before it leaves. Tables are public, so
parties pass on what they get: at once to the other peers, and again to who says (HAVE) that it lacks some. An owner
whose budget allows no table says so with an empty one. Nothing here can make an owner release more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.federation.releases.journal import Journal, numbered
from coterie.federation.releases.release import Outlet
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Out, Patience
from coterie.federation.transport.wire import Kind, Layout, Message, Refused

NONE = b""  # in a table's place: its owner releases none
_AT_ONCE = 16  # tables sent for one HAVE


class TableTerms(NamedTuple):
    """What the agreement says of one table, and whom this party talks to."""

    name: str  # of the table, and of its keys in the journal
    names: Sequence[str]  # of all owners
    step: int  # at which tables are released
    layout: Layout
    peers: Sequence[str]
    patience: Patience
    choose: Callable[[np.ndarray], int] | None = None  # (sum of tables) -> which of the models to take
    all_needed: bool = False  # whether an owner that releases none is asked for all the same


Emit: TypeAlias = Callable[[PyTree], bytes]  # (model) -> a noisy table, drawn anew


class OwnTable(NamedTuple):
    """What an owner's own table is made with."""

    owner: int
    emit: Emit
    outlet: Outlet


class Tables:
    """The tables that are here, in the journal; `own` is None for a party without records."""

    def __init__(self, terms: TableTerms, own: OwnTable | None, journal: Journal) -> None:
        self._terms, self._own, self._journal = terms, own, journal
        self._bodies = {owner: body for owner, body in journal.items(terms.name) if owner < len(terms.names)}
        self._asked = -np.inf
        self.came = -np.inf  # when the last one did
        self.spent = ""  # why the own one is none

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """A table (TABLE), or a question for some (HAVE)."""
        if sender not in self._terms.peers:
            raise Refused("not a peer")
        if message.step != self._terms.step:
            raise Refused("no such step")
        if message.kind == Kind.TABLE:
            return self._taken(sender, message, now)
        return self._sent(sender, message)

    def release(self, model: Callable[[], PyTree], now: float) -> list[Out]:
        """The own table of the model, once, to everybody."""
        own = self._own
        if own is None or own.owner in self._bodies:
            return []
        return self._keep(own.owner, self._released(own, model), None, now)

    def ask(self, now: float) -> list[Out]:
        """For what is missing, where it is time to."""
        if not self.missing or now - self._asked < self._terms.patience.retry:
            return []
        self._asked = now
        own = set() if self._own is None else {self._own.owner}  # which nobody else can have
        here = np.isin(np.arange(len(self._terms.names)), [*(self._here() | own)])
        message = Message(Kind.HAVE, self._terms.step, 0, np.packbits(here).tobytes())
        return [Out(peer, message) for peer in self._terms.peers]

    def arrays(self) -> dict[int, np.ndarray]:
        """The tables that are here, by owner: public."""
        return {
            owner: np.asarray(wire.unpack(body, self._terms.layout))
            for owner, body in sorted(self._bodies.items())
            if body != NONE
        }

    @property
    def missing(self) -> tuple[int, ...]:
        """The owners whose tables are not here, and are asked for."""
        here = self._here()
        return tuple(owner for owner in range(len(self._terms.names)) if owner not in here)

    @property
    def declined(self) -> tuple[int, ...]:
        """The owners of whom it is said that they release none."""
        return tuple(owner for owner, body in sorted(self._bodies.items()) if body == NONE)

    def _here(self) -> set[int]:
        return {owner for owner, body in self._bodies.items() if body != NONE or not self._terms.all_needed}

    def _released(self, own: OwnTable, model: Callable[[], PyTree]) -> bytes:
        """Guarantee: what is returned is in the ledger with its charge, and the same after every restart."""
        stored = own.outlet.stored(self._terms.step)
        if stored is not None:
            return stored
        try:
            return own.outlet.release(self._terms.step, 0, own.emit(model()))
        except BudgetError as error:
            self.spent = str(error)
            return NONE

    def _keep(self, owner: int, body: bytes, source: str | None, now: float) -> list[Out]:
        """Write a table down, and pass it on; but not to whom it is of."""
        self._journal.put({numbered(self._terms.name, owner): body})
        self._bodies[owner], self.came = body, now
        known = (source, self._terms.names[owner])
        return [Out(peer, self._table(owner)) for peer in self._terms.peers if peer not in known]

    def _table(self, owner: int) -> Message:
        return Message(Kind.TABLE, self._terms.step, owner, self._bodies[owner])

    def _taken(self, sender: str, message: Message, now: float) -> list[Out]:
        owner, body = message.sub, message.body
        if owner >= len(self._terms.names) or (self._own is not None and owner == self._own.owner):
            raise Refused("no other owner's table")
        if body != NONE:
            wire.unpack(body, self._terms.layout)
        if self._bodies.get(owner, NONE) == NONE and (body != NONE or owner not in self._bodies):
            return self._keep(owner, body, sender, now)
        if body not in (NONE, self._bodies[owner]):
            raise Refused("a second version of a table")
        return []

    def _sent(self, sender: str, message: Message) -> list[Out]:
        """Some of what the sender lacks and is here."""
        owners = len(self._terms.names)
        if message.sub or len(message.body) != -(-owners // 8):
            raise Refused(f"wrong shape: {len(message.body)} bytes, must be {-(-owners // 8)}")
        theirs = np.unpackbits(np.frombuffer(message.body, np.uint8), count=owners)
        lacking = [owner for owner in sorted(self._bodies) if not theirs[owner]]
        return [Out(sender, self._table(owner)) for owner in lacking[:_AT_ONCE]]
