"""The ledger that an owner writes: charged first, on the disk, and only then may a message leave."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from coterie import _check
from coterie.accounting.events import event_from_json, event_to_json
from coterie.accounting.ledger import store
from coterie.accounting.ledger.account import Account, ChargedParts, Part
from coterie.accounting.ledger.chain import Head, LedgerRow, LedgerTerms, canonical, sealed, sha256
from coterie.accounting.ledger.reading import snapshot
from coterie.accounting.ledger.terms import same_terms, terms_for
from coterie.accounting.ledger.units import Tally, tally
from coterie.accounting.statements import Certificate
from coterie.errors import BudgetError, InputError, LedgerError
from coterie.relations import REPLACE_ONE

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_LONGEST_NAME = 200  # characters of a run's or a partition's name


def data_hash(*arrays: Any) -> str:
    """The SHA-256 that a data set is known by: of its arrays' types, shapes and bytes. Keep it private.

    >>> import numpy as np
    >>> data_hash(np.zeros(2)) == data_hash(np.zeros(2)), data_hash(np.zeros(2)) == data_hash(np.zeros(3))
    (True, False)
    """
    import numpy as np

    total = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        total.update(canonical([array.dtype.str, *array.shape]).encode())
        total.update(array.data)
    return total.hexdigest()


class Ledger:
    """One owner's charges on one data set, across runs. `with Ledger.open(...) as ledger:` is how to get it.

    Guarantee: every message that `charge` returned is in the file, on the disk, with the event it costs; the
    composition of all charged events stays within the budget, whatever crashes. This covers what passes
    through it, with plans fixed before their run; see `docs/ledger.md` for plans chosen on the way.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        account: Account,
        head: Head,
        lock: int,
        held: ExitStack,
    ) -> None:
        self._path, self._connection, self._account, self._head = path, connection, account, head
        self._lock = lock
        self._last: tuple[DpEvent, str, Tally] | None = None  # the event that was understood last, and how
        self._held: ExitStack | None = held  # connection and lock; None once they are let go
        self._process, self._turn = os.getpid(), RLock()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        data_hash: str,
        epsilon: float,
        delta: float,
        relation: str = REPLACE_ONE,
        rows_per_unit: int = 1,
    ) -> Ledger:
        """Open the file for writing, or create it. Its terms are fixed then; opening with others is refused.

        LedgerError where the file is older than it has been, which is noted beside it.

        `rows_per_unit` is the most records that one person has in the data; the budget is the person's.
        """
        terms = terms_for(data_hash, epsilon, delta, relation, rows_per_unit)
        path = Path(os.path.realpath(path))  # one lock for one file, by whatever name
        with ExitStack() as held:
            lock = held.enter_context(store.only_writer(path))
            if not path.exists():
                store.create(path, terms)
            connection = held.enter_context(closing(store.open_writer(path)))
            account, head, _ = snapshot(path, connection)
            _complete(path, connection, head)
            same_terms(path, account.terms, terms)
            store.first_note(path, lock, head)
            return cls(path, connection, account, head, lock, held.pop_all())

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let another writer in. Doing it twice is fine."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    @property
    def terms(self) -> LedgerTerms:
        """Data, budget, relation and unit, as the file has them."""
        return self._account.terms

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    @property
    def top(self) -> Head:
        """The last row's number and hash: what `holds` is asked later."""
        return self._head

    def holds(self, known: Head) -> bool:
        """Whether this was the ledger's last row at some time. Where it was not, the file is older, or another one."""
        with self._opened() as connection:
            return store.holds(connection, known)

    @property
    def head(self) -> str:
        """The last row's hash. Kept elsewhere, it is what `coterie ledger verify --head` compares with."""
        return self._head.hash

    def charge(
        self,
        run: str,
        round: int,
        event: DpEvent,
        message: bytes | None,
        *,
        part: tuple[str, int] | None = None,
    ) -> bytes | None:
        """Charge `event` and store `message` with it; what is returned, and nothing else, may leave.

        A round of a run is charged once: asked again, also after a crash, this returns the message of the
        first time and charges nothing. A message whose event was charged before, with the run as a whole,
        comes with `NoOpDpEvent()`. `part` names the part of a declared partition that the message was
        computed from.

        Guarantee: on return the row is on the disk. BudgetError, with nothing written or charged, where the
        composition of all rows and this event would cost more than the budget.
        """
        body, events, place = self._understood(event, part)
        row = _charge(run, round, body, place)
        content = None if message is None else bytes(message)
        with self._turn:
            stored = self._find(run, round)
            if stored is not None:
                return _once(stored, row, content)
            if not self._account.affords(events, place):
                raise self._refusal(row, events, place)
            self._append(row, content)
            self._account.add(events, place)
            return content

    def record(self, run: str, round: int, event: DpEvent, *, part: tuple[str, int] | None = None) -> None:
        """Charge what may have been released already, whatever the budget says: nothing may leave for it."""
        body, events, place = self._understood(event, part)
        row = _charge(run, round, body, place)
        with self._turn:
            if self._find(run, round) is None:
                self._append(row, None)
                self._account.add(events, place)

    def given_up(self, run: str) -> bool:
        """Whether the run was written off (`recovery.write_off`): nothing of it may ever be drawn again."""
        with self._opened() as connection:
            return store.last_of(connection, run + store.WRITTEN_OFF) > 0

    def unsettled(self) -> list[str]:
        """Runs that may have released more than this ledger knows: it was restored, and none was heard of since."""
        with self._opened() as connection:
            return store.unsettled(connection)

    def parts(self, run: str) -> dict[tuple[str, int], int]:
        """How many messages of a run were charged to which part of which partition."""
        with self._opened() as connection:
            return store.parts_of(connection, run)

    def stored(self, run: str, round: int) -> bytes | None:
        """The message that was charged for this round of this run, to be sent again; None where none was."""
        stored = self._find(run, round)
        return None if stored is None else stored[1]

    def rounds(self, run: str) -> list[int]:
        """The rounds of this run that a message was charged for, in order."""
        with self._opened() as connection:
            return store.rounds_of(connection, run)

    def declare_partition(self, name: str, *, parts: int, digest: str) -> None:
        """Declare a fixed division of the records into parts, whose charges then compose in parallel.

        Guarantee: sound only where each record's part was fixed without looking at any record: by position,
        or drawn at random. `digest` (for example `data_hash` of the parts' numbers) pins it down; the same
        name with another division is refused, and another name composes with this one.
        """
        _name("partition", name)
        body = canonical({"digest": digest, "parts": _check.count("parts", parts)})
        with self._turn:
            known = self._account.partitions.get(name)
            if known is None:
                self._append(LedgerRow(kind="partition", partition=name, body=body), None)
                self._account.partitions[name] = ChargedParts(parts, digest)
            elif (known.parts, known.digest) != (parts, digest):
                raise InputError(
                    f"partition={name!r}: declared before as another division. Give this one another name."
                )

    def compose(self, event: DpEvent, *, part: tuple[str, int] | None = None) -> Certificate:
        """What all charges and this event would cost together. Charges nothing."""
        _, events, place = self._understood(event, part)
        with self._turn:
            return self._account.certificate(self._account.worst_cases(events, place), self.terms.delta)

    def would_exceed(self, event: DpEvent, *, part: tuple[str, int] | None = None) -> bool:
        """Whether charging this event would be refused. Asked of a whole run, it makes its rounds quick."""
        _, events, place = self._understood(event, part)
        with self._turn:
            return not self._account.within(self._account.worst_cases(events, place))

    def spent(self, delta: float | None = None) -> Certificate:
        """What all charges cost together, at the budget's delta unless another is given."""
        with self._turn:
            return self._account.spent(self.terms.delta if delta is None else delta)

    def remaining(self) -> float:
        """The budget's epsilon less what is spent. Epsilons do not add up: ask `would_exceed` what fits."""
        return max(0.0, self.terms.epsilon - self.spent().epsilon)

    def _understood(self, event: DpEvent, part: tuple[str, int] | None) -> tuple[str, Tally, Part | None]:
        """The event as it is stored and as it is counted, read back from what will be stored.

        A run charges one and the same event in each of its rounds: the last one is not read again.
        """
        if self._last is None or self._last[0] is not event:
            body = canonical(event_to_json(event))
            events = tally(event_from_json(json.loads(body)), self.terms.rows_per_unit)
            self._last = (event, body, events) if _is_fixed(event) else None
        else:
            _, body, events = self._last
        place = None if part is None else Part(*part)
        if place is not None:
            self._account.known(place)
        return body, events, place

    def _find(self, run: str, round: int) -> tuple[LedgerRow, bytes | None] | None:
        try:
            with self._opened() as connection:
                stored = store.find(connection, run, round)
        except sqlite3.Error as error:
            raise InputError(f"ledger={str(self._path)!r}: cannot be read ({error}).") from error
        if stored is not None:
            _unchanged(self._path, *stored)
        return stored

    def _append(self, draft: LedgerRow, message: bytes | None) -> None:
        """Complete the row, write it. After any failure the ledger is closed: memory and disk may differ."""
        self._usable()
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        hashed = None if message is None else sha256(message)
        row = sealed(
            draft._replace(
                sequence=self._head.sequence + 1, time=now, message_sha256=hashed, previous=self._head.hash
            )
        )
        try:
            store.append(self._connection, row, message)
            store.note(self._lock, Head(row.sequence, row.hash))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise InputError(
                f"ledger={str(self._path)!r}: cannot be written ({error}); nothing may leave. "
                "Make room or repair the disk, then open it again."
            ) from error
        except BaseException:
            self.close()
            raise
        self._head = Head(row.sequence, row.hash)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time."""
        with self._turn:
            self._usable()
            yield self._connection

    def _usable(self) -> None:
        if self._held is None:
            raise InputError(f"ledger={str(self._path)!r}: closed. Open it again.")
        if os.getpid() != self._process:
            raise InputError(
                f"ledger={str(self._path)!r}: opened before a fork. Open it in one process only."
            )

    def _refusal(self, row: LedgerRow, events: Tally, part: Part | None) -> BudgetError:
        cost = max(map(self._account.epsilon, self._account.worst_cases(events, part)))
        return BudgetError(
            f"run={row.run!r}, round={row.round}: would bring epsilon to {cost:.6g}, the budget is "
            f"{self.terms.epsilon:g} at delta={self.terms.delta:g}. Nothing was charged; nothing may leave."
        )


def _complete(path: Path, connection: sqlite3.Connection, head: Head) -> None:
    """LedgerError unless everything is there that was noted beside the file."""
    known = store.noted(path)
    if known is not None and not store.holds(connection, known):
        raise LedgerError(f"{store.behind(path, head.sequence, known)}. Nothing may leave before that.")


def _is_fixed(event: DpEvent) -> bool:
    """Whether the object can never stand for another event: one that holds a list could."""
    try:
        hash(event)
    except TypeError:
        return False
    return True


def _charge(run: str, round: int, body: str, part: Part | None) -> LedgerRow:
    """A row to be completed: InputError where a run cannot be called so, or a round not be numbered so."""
    return LedgerRow(
        run=_name("run", run),
        round=_check.count("round", round, 0),
        body=body,
        partition=part and part.partition,
        part=part and part.number,
    )


def _once(charged: tuple[LedgerRow, bytes | None], again: LedgerRow, message: bytes | None) -> bytes | None:
    """What the round was charged with, provided that it is asked for again and not for something else."""
    row, stored = charged
    if (row.body, row.partition, row.part) != (again.body, again.partition, again.part):
        raise InputError(
            f"run={row.run!r}, round={row.round}: charged before with another event. Give the run a new name."
        )
    if stored is None and message is not None:
        raise InputError(
            f"run={row.run!r}, round={row.round}: charged before without a message. Use another round."
        )
    return stored


def _unchanged(path: Path, row: LedgerRow, message: bytes | None) -> None:
    """What leaves must be what was hashed; the chain was checked on opening, messages are checked here."""
    if sealed(row).hash != row.hash or row.message_sha256 != (None if message is None else sha256(message)):
        raise InputError(
            f"ledger={str(path)!r}: row {row.sequence} was edited. Restore the file from a copy."
        )


def _name(argument: str, value: str) -> str:
    if not 0 < len(value) <= _LONGEST_NAME:
        raise InputError(f"{argument}={value[:20]!r}: must have 1 to {_LONGEST_NAME} characters.")
    return value
