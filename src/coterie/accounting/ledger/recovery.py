"""Copies of a ledger, and what may be done with one after a disaster: nothing is ever drawn, or spent, twice.

A copy is old as soon as the next message is charged. Where nobody on this machine can tell that it is the newest
(`FILE.lock` can, if it survived), restoring it marks, in the chain, every run that may have released more. Such a run
goes on only after all of its peers have said that they hold no later release, and until then no other run may be
charged; or it is written off: all that it could still have released counts as released, and it never goes on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.accounting.ledger import store
from coterie.accounting.ledger.book import Ledger
from coterie.accounting.ledger.chain import Head
from coterie.accounting.ledger.reading import read, snapshot, terms_of, verify
from coterie.errors import InputError, LedgerError

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class Restored(NamedTuple):
    """The outcome of restoring a copy."""

    head: Head
    complete: bool  # the copy has all that was ever noted beside the file
    unsettled: tuple[str, ...]  # runs that may have released more


class Owed(NamedTuple):
    """Something that a run could still have released."""

    event: DpEvent
    part: tuple[str, int] | None = None


def backup(path: Path, copy: Path) -> Head:
    """Copy a ledger as it is now, also while its owner writes: one file, checked, whole or not there at all.

    A newer copy, and one of another ledger, is not overwritten (InputError).
    """
    _sound(path)
    draft = Path(f"{copy}.new")
    if os.path.realpath(path) == os.path.realpath(copy):
        raise InputError(f"copy={str(copy)!r}: is the ledger itself. Name another file.")
    with store.reader(path) as connection:
        store.copied(connection, draft)
    head = _sound(draft)
    if copy.exists() and not _has(draft, _sound(copy)):
        draft.unlink()
        raise InputError(
            f"copy={str(copy)!r}: has rows that {str(path)!r} has not: a newer copy, or another ledger's. Name another "
            "file."
        )
    store.replace(draft, copy)
    return head


def restore(copy: Path, path: Path, runs: Sequence[str]) -> Restored:
    """Put a copy in a ledger's place. `runs`: all that may have released something since the copy was made.

    Guarantee: no row is lost that can still be read: LedgerError where the file in place has more than the copy.
    """
    head = _sound(copy)
    path = Path(os.path.realpath(path))
    with store.only_writer(path) as lock:
        damaged = _refuse_newer(path, copy)
        known = store.noted(path)
        # Notes are not flushed: what damaged the file, as a power cut does, may have taken the last of them back.
        complete = known is not None and not damaged and _has(copy, known)
        if not complete and not runs:
            raise InputError(
                "runs: none named. Name every one that may have released since the copy was made."
            )
        draft = Path(f"{path}.new")
        with store.reader(copy) as connection:
            store.copied(connection, draft)
        if not complete:
            head = _marked(draft, runs)
        store.replace(draft, path)
        store.note(lock, head)
    return Restored(head, complete, () if complete else tuple(runs))


def write_off(ledger: Ledger, run: str, owed: Sequence[Owed]) -> None:
    """Count everything that a run could still have released as released; from then on it releases nothing.

    Guarantee: sound whatever was released since the copy was made, for that is at most what is owed.
    """
    name = run + store.WRITTEN_OFF
    for number, release in enumerate(owed):
        ledger.record(name, number, release.event, part=release.part)


def opened(path: Path) -> Ledger:
    """A ledger with the terms that it has."""
    terms = terms_of(path)
    return Ledger.open(
        path,
        data_hash=terms.data_hash,
        epsilon=terms.epsilon,
        delta=terms.delta,
        relation=terms.relation,
        rows_per_unit=terms.rows_per_unit,
    )


def _sound(path: Path) -> Head:
    """InputError unless the file is a ledger without a fault."""
    for problem in verify(path).problems:
        raise InputError(f"ledger={str(path)!r}: not in order ({problem}). Take another copy.")
    return read(path).head


def _has(path: Path, known: Head) -> bool:
    with store.reader(path) as connection:
        return store.holds(connection, known)


def _refuse_newer(path: Path, copy: Path) -> bool:
    """LedgerError where rows in place would be lost. Whether the file cannot be read; it is kept under another name."""
    if not path.exists():
        return False
    try:
        with store.reader(path) as connection:
            head = snapshot(path, connection).head
    except InputError:
        store.replace(path, Path(f"{path}.damaged"))
        return True
    if not _has(copy, head):
        raise LedgerError(
            f"ledger={str(path)!r}: has rows that the copy {str(copy)!r} has not. Nothing was restored; keep this file."
        )
    return False


def _marked(draft: Path, runs: Sequence[str]) -> Head:
    """Write into a copy, before it is put in place, which runs may have released more."""
    import dp_accounting as dp

    with opened(draft) as ledger:
        for run in runs:
            name = run + store.RESTORED
            ledger.record(name, ledger.top.sequence, dp.NoOpDpEvent())
        head = ledger.top
    Path(f"{draft}.lock").unlink()
    with store.reader(draft) as connection:
        finished = Path(f"{draft}.done")
        store.copied(connection, finished)
    store.replace(finished, draft)
    return head
