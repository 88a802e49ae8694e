"""Reading a ledger: into an account to go on with, for its owner to see, and to check it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from coterie.accounting.events import event_from_json
from coterie.accounting.ledger import store
from coterie.accounting.ledger.account import Account, ChargedParts, Part
from coterie.accounting.ledger.chain import Head, LedgerRow, LedgerTerms, breaks, sha256, terms_from
from coterie.accounting.ledger.units import Tally, tally
from coterie.errors import InputError


@dataclass
class LedgerRun:
    """What one run was charged, in the order of the rows."""

    name: str
    charges: int = 0
    messages: int = 0
    rounds: tuple[int, int] = (0, 0)  # the first and the last one charged
    times: tuple[str, str] = ("", "")
    events: Counter[str] = field(default_factory=Counter)  # JSON of the event -> how many times


class Snapshot(NamedTuple):
    """A ledger at one moment."""

    account: Account
    head: Head
    runs: tuple[LedgerRun, ...]


class Verification(NamedTuple):
    """What a check found: nothing is wrong exactly when there are no `problems`."""

    problems: tuple[str, ...]
    rows: int
    head: str | None  # None where the file could not be read so far


def read(path: str | Path) -> Snapshot:
    """What is in the ledger now, also while its owner writes. InputError where its chain is broken or rows are gone."""
    place = Path(os.path.realpath(path))
    known = store.noted(place)  # first: what was noted before the view was taken is in the view
    with store.reader(Path(path)) as connection:
        now = snapshot(Path(path), connection)
        if known is not None and not store.holds(connection, known):
            raise InputError(f"{store.behind(place, now.head.sequence, known)}.")
    return now


def terms_of(path: str | Path) -> LedgerTerms:
    """A ledger's terms alone, as the file has them: nothing else is checked."""
    with store.reader(Path(path)) as connection:
        return terms_from(store.terms_text(connection))


def head_of(path: str | Path) -> Head:
    """A ledger's last row alone, as the file has it, also while its owner writes: nothing is checked."""
    with store.reader(Path(path)) as connection:
        return store.head(connection)


def verify(path: str | Path, head: str | None = None) -> Verification:
    """Check the file's structure, the chain, every message and event, and that `head` is still in the chain.

    `head` is a hash that the owner, or a neighbour, wrote down earlier. Rows added since then are fine; that
    it is gone means that rows were removed or rewritten, also where the file fits together by itself.
    """
    store.there(Path(path))
    place = Path(os.path.realpath(path))
    known = store.noted(place)  # first: what was noted before the view was taken is in the view
    try:
        with store.reader(Path(path)) as connection:
            damage = store.damage(connection)
            if damage is not None:
                raise InputError(f"ledger={str(path)!r}: the file is damaged ({damage}).")
            rows = list(store.rows(connection))
            problems = _problems(connection, rows, head)
            if known is not None and not store.holds(connection, known):
                problems.append(store.behind(place, len(rows), known))
            return Verification(tuple(problems), len(rows), store.head(connection).hash)
    except InputError as error:
        return Verification((str(error),), 0, None)


def _problems(connection: sqlite3.Connection, rows: list[LedgerRow], head: str | None) -> list[str]:
    start = sha256(store.terms_text(connection))
    problems = list(breaks(start, rows, store.head(connection)))
    problems += [f"the message of row {sequence} was edited" for sequence in store.wrong_messages(connection)]
    if head is not None and head not in {start, *(row.hash for row in rows)}:
        problems.append(
            f"head {head}: not in the chain; rows were removed or rewritten since it was written down"
        )
    if not problems:
        accounted(connection, rows)  # whoever computed a new chain may still have left nonsense in it
    return problems


def snapshot(path: Path, connection: sqlite3.Connection) -> Snapshot:
    """Everything charged so far, composed. Refuses a file whose chain is broken."""
    try:
        head, start = store.head(connection), sha256(store.terms_text(connection))
        rows = list(store.rows(connection))
    except sqlite3.Error as error:
        raise InputError(f"ledger={str(path)!r}: cannot be read ({error}).") from error
    for problem in breaks(start, rows, head):
        raise InputError(
            f"ledger={str(path)!r}: {problem}. See `coterie ledger verify`; restore it from a copy."
        )
    return Snapshot(accounted(connection, rows), head, _runs(rows))


def accounted(connection: sqlite3.Connection, rows: list[LedgerRow]) -> Account:
    """What these rows charge, composed; InputError where one is not understood."""
    account = Account(terms_from(store.terms_text(connection)))

    @cache
    def events_in(body: str) -> Tally:
        return tally(event_from_json(json.loads(body)), account.terms.rows_per_unit)

    for row in rows:
        try:
            if row.kind == "partition":
                declared = json.loads(row.body)
                account.partitions[str(row.partition)] = ChargedParts(declared["parts"], declared["digest"])
            else:
                place = None if row.partition is None else Part(row.partition, int(row.part or 0))
                account.add(events_in(row.body), place)
        except (InputError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"row {row.sequence}: not understood ({error}).") from error
    return account


def _runs(rows: list[LedgerRow]) -> tuple[LedgerRun, ...]:
    runs: dict[str, LedgerRun] = {}
    for row in rows:
        if row.run is None or row.round is None:
            continue
        run = runs.setdefault(
            row.run, LedgerRun(row.run, rounds=(row.round, row.round), times=(row.time, ""))
        )
        run.charges += 1
        run.messages += row.message_sha256 is not None
        run.rounds, run.times = (run.rounds[0], row.round), (run.times[0], row.time)
        run.events[row.body] += 1
    return tuple(runs.values())
