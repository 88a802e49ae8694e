"""After training: every owner's table, of losses or of scores, released once and passed on until all have all of them.

A `Machine` around the one that trains, whatever its shape. When that is done, an owner makes its table of the model it
has, through its outlet: one version for ever, charged before it leaves. Tables are public, so parties pass on what they
get: at once to the other peers, and again to who says (HAVE) that it lacks some. An owner whose budget allows no table
says so with an empty one. A party waits for missing tables as long as new ones come, and `_WAITS` times the agreed wait
after the last; who does not come is left out, and takes part in what is published as soon as its table does come.

A party that passes on a changed table is believed, as one that passes on changed values is; owners who compare the hash
of all tables, which is in every result, know. Nothing here can make an owner release more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coterie._types import PyTree
from coterie.errors import BudgetError
from coterie.evaluation.selection import candidate
from coterie.federation.releases.journal import Journal, numbered
from coterie.federation.releases.release import Outlet
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Out, Patience, Status, counting
from coterie.federation.transport.wire import Kind, Layout, Message, Refused

NONE = b""  # in a table's place: its owner releases none
_CHOICE = "choice"  # a journal's key; tables are under their name
_WAITS = 6.0  # agreed waits after which missing tables are not waited for
_AT_ONCE = 16  # tables sent for one HAVE


_WORDS = {"selection": "sums of losses", "evaluation": "table of scores"}


class TableTerms(NamedTuple):
    """What the agreement says of one table after training, and whom this party talks to."""

    name: str  # of the table
    names: Sequence[str]  # of all owners
    step: int  # at which tables are released
    layout: Layout
    peers: Sequence[str]
    patience: Patience
    choose: Callable[[np.ndarray], int] | None = None  # (sum of tables) -> the chosen model's number


class OwnTable(NamedTuple):
    """What an owner's own table is made with."""

    owner: int
    emit: Callable[[PyTree], bytes]  # (model) -> a noisy table, drawn anew
    outlet: Outlet


class Evaluated:
    """A party that trains and then evaluates; `own` is None for one without records."""

    def __init__(self, machine: Machine, terms: TableTerms, own: OwnTable | None, journal: Journal) -> None:
        self.machine, self._terms, self._own, self._journal = machine, terms, own, journal
        self._tables = {owner: body for owner, body in journal.items(terms.name) if owner < len(terms.names)}
        self._news: float | None = None  # when the last table came; None: still training
        self._asked = -np.inf
        choice = journal.get(_CHOICE) if terms.choose else None
        self._choice = None if choice is None else int.from_bytes(choice)
        self._now, self._refused, self._spent = 0.0, 0, ""

    def start(self, now: float) -> list[Out]:
        """Begin, or resume."""
        return self.machine.start(now) + self._onward(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take a table, a question for tables, or a message for training."""
        foreign = isinstance(self.machine, Evaluated) and message.step != self._terms.step
        if message.kind not in (Kind.TABLE, Kind.HAVE) or foreign:
            return self.machine.receive(sender, message, now) + self._onward(now)
        return self._take(sender, message, now) + self._onward(now)

    @counting
    def _take(self, sender: str, message: Message, now: float) -> list[Out]:
        if sender not in self._terms.peers:
            raise Refused("not a peer")
        if message.step != self._terms.step:
            raise Refused("no such step")
        return (
            self._taken(sender, message, now) if message.kind == Kind.TABLE else self._sent(sender, message)
        )

    def tick(self, now: float) -> list[Out]:
        """Let the training go on; after it, ask for what is missing."""
        return self.machine.tick(now) + self._onward(now) + self._ask(now)

    @property
    def done(self) -> bool:
        """Whether training is over, and no table is waited for any more."""
        return self.machine.done and (not self._missing or self._overdue)

    @property
    def status(self) -> Status:
        """Where the training stands; after it, whose tables are missing."""
        status = self.machine.status
        notes = [status.note, f"releases no {_WORDS[self.name]}: {self._spent}" if self._spent else ""]
        missing = self._missing if self.machine.done else ()
        if missing:
            verb = "was left out of" if self.done else "is awaited for"
            notes.append(f"the {_WORDS[self.name]} of {', '.join(missing)} {verb} the {self.name}")
        return replace(
            status,
            waiting_for=status.waiting_for or (() if self.done else missing),
            note="; ".join(note for note in notes if note),
            refused=status.refused + self._refused,
        )

    def model(self) -> PyTree | None:
        """The trained model, or the chosen one of several."""
        model = self.machine.model()
        if self._terms.choose is None or model is None:
            return model
        return candidate(model, self.choice)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._terms.name

    @property
    def choice(self) -> int:
        """The number of the chosen model: decided once, when no table is waited for any more.

        Without the tables of all it is the first, as other owners may have more of them: nobody then chooses by what
        another does not see, unless that other gave up waiting before.
        """
        return self._choice or 0

    def _decide(self) -> None:
        """Write the choice down before it is used, so that a restart finds the same model."""
        if self._terms.choose is None or self._choice is not None or not self.done:
            return
        tables = self.tables()
        complete = len(tables) == len(self._terms.names)
        choice = self._terms.choose(np.sum(list(tables.values()), axis=0)) if complete else 0
        self._journal.put({_CHOICE: choice.to_bytes(2)})
        self._choice = choice

    def tables(self) -> dict[int, np.ndarray]:
        """The tables that are here, by owner: public."""
        return {
            owner: np.asarray(wire.unpack(body, self._terms.layout))
            for owner, body in sorted(self._tables.items())
            if body != NONE
        }

    @property
    def _missing(self) -> tuple[str, ...]:
        return tuple(name for owner, name in enumerate(self._terms.names) if owner not in self._tables)

    @property
    def _overdue(self) -> bool:
        return self._news is not None and self._now - self._news > _WAITS * self._terms.patience.wait

    def _onward(self, now: float) -> list[Out]:
        """Once training is over: release the own table, and send it to everybody."""
        self._now = now
        if not self.machine.done:
            return []
        self._news = now if self._news is None else self._news
        outs = []
        if self._own is not None and self._own.owner not in self._tables:
            outs = self._keep(self._own.owner, self._released(self._own), None, now)
        self._decide()
        return outs

    def _released(self, own: OwnTable) -> bytes:
        """Guarantee: what is returned is in the ledger with its charge, and the same after every restart."""
        stored = own.outlet.stored(self._terms.step)
        if stored is not None:
            return stored
        try:
            return own.outlet.release(self._terms.step, 0, own.emit(self.machine.model()))
        except BudgetError as error:
            self._spent = str(error)
            return NONE

    def _keep(self, owner: int, body: bytes, source: str | None, now: float) -> list[Out]:
        """Write a table down, and pass it on to all peers but its owner."""
        self._journal.put({numbered(self.name, owner): body})
        self._tables[owner], self._news = body, now
        known = (source, self._terms.names[owner])
        return [Out(peer, self._table(owner)) for peer in self._terms.peers if peer not in known]

    def _table(self, owner: int) -> Message:
        return Message(Kind.TABLE, self._terms.step, owner, self._tables[owner])

    def _taken(self, sender: str, message: Message, now: float) -> list[Out]:
        owner, body = message.sub, message.body
        if owner >= len(self._terms.names) or (self._own is not None and owner == self._own.owner):
            raise Refused("no other owner's table")
        if body != NONE:
            wire.unpack(body, self._terms.layout)
        if self._tables.get(owner, NONE) == NONE and (body != NONE or owner not in self._tables):
            return self._keep(owner, body, sender, now)
        if body not in (NONE, self._tables[owner]):
            raise Refused("a second version of a table")
        return []

    def _ask(self, now: float) -> list[Out]:
        if not self.machine.done or not self._missing or now - self._asked < self._terms.patience.retry:
            return []
        self._asked = now
        here = np.isin(np.arange(len(self._terms.names)), list(self._tables))
        message = Message(Kind.HAVE, self._terms.step, 0, np.packbits(here).tobytes())
        return [Out(peer, message) for peer in self._terms.peers]

    def _sent(self, sender: str, message: Message) -> list[Out]:
        """Up to `_AT_ONCE` tables that the sender lacks and this party has."""
        owners = len(self._terms.names)
        if message.sub or len(message.body) != -(-owners // 8):
            raise Refused(f"wrong shape: {len(message.body)} bytes, must be {-(-owners // 8)}")
        theirs = np.unpackbits(np.frombuffer(message.body, np.uint8), count=owners)
        lacking = [owner for owner in sorted(self._tables) if not theirs[owner]]
        return [Out(sender, self._table(owner)) for owner in lacking[:_AT_ONCE]]
