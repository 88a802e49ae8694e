"""What administrators did, in a chain of hashes of its own: `actions.jsonl` in a party's folder, or in a founder's.

Why not rows of the ledger. A founder, an aggregator and a learner have none, and an owner signs before its own exists;
a ledger has one writer, which is the node, for as long as it runs; and a row written after a backup would make that
copy look older than what has left, so that restoring it asks all peers for nothing. So the trail stands beside it, and
each entry has the ledger's last row at that moment: which of the two came first can be seen afterwards.

Entries hold names, times, counts and hashes: nothing that was computed from a record. As with the ledger, whoever can
write the whole file can compute a new chain; a hash that was written down elsewhere is what such people cannot change.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import coterie
from coterie.accounting.ledger import head_of
from coterie.accounting.ledger.chain import canonical, sha256
from coterie.errors import InputError

NAME = "actions.jsonl"
START = sha256("coterie actions 1")  # what the first entry follows
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class ActionEntry(NamedTuple):
    """One action. `time` only informs, because clocks go backwards; `sequence` orders."""

    sequence: int
    time: str  # UTC
    action: str
    by: str  # the system's user, and who became it by sudo
    version: str  # of coterie
    about: Mapping[str, Any]
    ledger: Mapping[str, Any] | None  # its rows and head at that moment; None: there was none
    previous: str
    hash: str


def record(
    folder: Path, action: str, *, by: str | None = None, ledger: Path | None = None, **about: Any
) -> None:
    """Add an entry, on the disk when this returns. `by`: None for whoever runs this process."""
    path = folder / NAME
    with _only_writer(path) as file:
        entries = _entries(path, _whole_lines(file))
        last = entries[-1] if entries else None
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        draft = ActionEntry(
            sequence=last.sequence + 1 if last else 1,
            time=now,
            action=action,
            by=by or own_user(),
            version=coterie.__version__,
            about=about,
            ledger=_ledger(ledger),
            previous=last.hash if last else START,
            hash="",
        )
        try:
            os.write(file, (canonical(_sealed(draft)._asdict()) + "\n").encode())
            os.fsync(file)
        except OSError as error:
            raise _unwritable(path, error) from error


def read(folder: Path) -> tuple[ActionEntry, ...]:
    """All entries, in order; none where nothing was done. InputError where the chain is broken."""
    path = folder / NAME
    if not folder.is_dir():
        raise InputError(f"folder={str(folder)!r}: no such folder. Give your party's, or the network's.")
    try:
        text = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise InputError(f"actions={str(path)!r}: cannot be read ({error.strerror}).") from error
    return _entries(path, text[: text.rfind(b"\n") + 1])


def own_user() -> str:
    """Whoever runs this process."""
    return user(os.getuid(), os.environ.get("SUDO_USER"))


def user(number: int, sudo: str | None) -> str:
    """A user of this machine in words. Who it was before sudo is that program's word, which the user could have forged.

    >>> user(0, None)
    'root (0)'
    """
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container's user need not have a name
        name = "user"
    through = f", by sudo of {sudo}" if sudo and _LOGIN.fullmatch(sudo) else ""
    return f"{name} ({number}){through}"


def _sealed(entry: ActionEntry) -> ActionEntry:
    """The entry with its hash, which covers all other fields."""
    return entry._replace(hash=sha256(canonical(entry[:-1])))


def _ledger(path: Path | None) -> dict[str, Any] | None:
    """Where the ledger stood; None where there is none that can be read: the action is written down all the same."""
    if path is None or not path.exists():
        return None
    try:
        head = head_of(path)
    except InputError:
        return None
    return {"rows": head.sequence, "head": head.hash}


def _entries(path: Path, text: bytes) -> tuple[ActionEntry, ...]:
    entries: list[ActionEntry] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            entry = ActionEntry(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise _broken(path, number) from error
        before = entries[-1].hash if entries else START
        if entry.sequence != number or entry.previous != before or _sealed(entry).hash != entry.hash:
            raise _broken(path, number)
        entries.append(entry)
    return tuple(entries)


def _broken(path: Path, number: int) -> InputError:
    return InputError(
        f"actions={str(path)!r}: entry {number} was edited, or one before it removed. Keep the file for whoever is to "
        "see it, under another name; a new trail begins then."
    )


@contextmanager
def _only_writer(path: Path) -> Iterator[int]:
    """The file, locked for one process at a time and, from its first byte on, readable by its owner alone."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"actions={str(path)!r}: cannot be written ({error.strerror}). Make room, or repair the disk."
    )


def _whole_lines(file: int) -> bytes:
    """The file without a last line that a power cut or a full disk cut short: it was never acknowledged."""
    text = os.pread(file, os.fstat(file).st_size, 0)
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        os.ftruncate(file, len(whole))
    return whole
