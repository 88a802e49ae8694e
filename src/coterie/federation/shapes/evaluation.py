"""After training: every owner's table, of losses or of scores, as `tables` passes them on.

A `Machine` around the one that trains, whatever its shape. When that is done, an owner makes its table of the model it
has. A party waits for missing tables as long as new ones come, and `_WAITS` times the agreed wait after the last; who
does not come is left out, and takes part in what is published as soon as its table does come.

A party that passes on a changed table is believed, as one that passes on changed values is; owners who compare the hash
of all tables, which is in every result, know. Nothing here can make an owner release more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coterie._types import PyTree
from coterie.evaluation.selection import candidate
from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.tables import OwnTable, Tables, TableTerms
from coterie.federation.transport.machine import Machine, Out, Status
from coterie.federation.transport.wire import Kind, Message

_CHOICE = "choice"  # a journal's key; tables are under their name
_WAITS = 6.0  # agreed waits after which missing tables are not waited for


_WORDS = {"selection": "sums of losses", "evaluation": "table of scores"}


class Evaluated:
    """A party that trains and then evaluates; `own` is None for one without records."""

    def __init__(self, machine: Machine, terms: TableTerms, own: OwnTable | None, journal: Journal) -> None:
        self.machine, self._terms, self._journal = machine, terms, journal
        self._tables = Tables(terms, own, journal)
        self._over: float | None = None  # when training ended; None: it has not
        choice = journal.get(_CHOICE) if terms.choose else None
        self._choice = None if choice is None else int.from_bytes(choice)
        self._now = 0.0

    def start(self, now: float) -> list[Out]:
        return self.machine.start(now) + self._onward(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Take a table, a question for tables, or a message for training."""
        foreign = isinstance(self.machine, Evaluated) and message.step != self._terms.step
        if message.kind not in (Kind.TABLE, Kind.HAVE) or foreign:
            return self.machine.receive(sender, message, now) + self._onward(now)
        return self._tables.receive(sender, message, now) + self._onward(now)

    def tick(self, now: float) -> list[Out]:
        """Let the training go on; after it, ask for what is missing."""
        outs = self.machine.tick(now) + self._onward(now)
        return outs + (self._tables.ask(now) if self.machine.done else [])

    @property
    def done(self) -> bool:
        """Whether training is over, and no table is waited for any more."""
        return self.machine.done and (not self._tables.missing or self._overdue)

    @property
    def status(self) -> Status:
        """Where the training stands; after it, whose tables are missing."""
        status, spent = self.machine.status, self._tables.spent
        notes = [status.note, f"releases no {_WORDS[self.name]}: {spent}" if spent else ""]
        lacking = self._tables.missing if self.machine.done else ()
        missing = tuple(self._terms.names[owner] for owner in lacking)
        if missing:
            verb = "was left out of" if self.done else "is awaited for"
            notes.append(f"the {_WORDS[self.name]} of {', '.join(missing)} {verb} the {self.name}")
        return replace(
            status,
            waiting_for=status.waiting_for or (() if self.done else missing),
            note="; ".join(note for note in notes if note),
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
        return self._tables.arrays()

    @property
    def _overdue(self) -> bool:
        if self._over is None:
            return False
        return self._now - max(self._over, self._tables.came) > _WAITS * self._terms.patience.wait

    def _onward(self, now: float) -> list[Out]:
        """Once training is over: release the own table, and send it to everybody."""
        self._now = now
        if not self.machine.done:
            return []
        self._over = now if self._over is None else self._over
        outs = self._tables.release(self.machine.model, now)
        self._decide()
        return outs
