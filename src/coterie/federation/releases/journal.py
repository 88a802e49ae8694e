"""What a party remembers over a restart, beside its ledger: short keys and their bytes, in one SQLite file.

A write returns once it would survive `kill -9`. A power cut may lose the last moments of it: that costs the
computation of public values again, never privacy, for what was charged and released is in the ledger. What must not be
lost then either is followed by `sync`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from coterie.errors import InputError

_APPLICATION = 0x436F744A  # "CotJ", in the header of the file
_VERSION = 1
_DIGITS = 12  # of a number in a key, so that keys sort as their numbers do
_WAIT = 5.0  # seconds for the lock: a process that was just killed may still hold it


def numbered(prefix: str, number: int) -> str:
    """The key of a numbered entry; such keys sort, and are pruned, by number.

    >>> numbered("value", 7)
    'value/000000000007'
    """
    return f"{prefix}/{number:0{_DIGITS}d}"


class Journal:
    """A file of keys and bytes with one writer. `with Journal.open(path) as journal:` is how to get it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: str | Path) -> Journal:
        """Open the file, or create it, readable by its owner alone; InputError where that fails."""
        path = Path(path)
        with _files(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            address = f"file:{quote(str(path))}?mode=rw"
            connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT
            )
            try:
                _configure(connection)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Doing it twice is fine."""
        self._connection.close()

    def put(self, entries: Mapping[str, bytes], drop: tuple[str, ...] = ()) -> None:
        """Write all entries and drop the named ones in one transaction."""
        with _files(self.path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())
            self._connection.executemany("DELETE FROM entries WHERE key = ?", [(key,) for key in drop])

    def sync(self) -> None:
        """Return once all that was written would survive a power cut, too."""
        with _files(self.path):
            self._connection.execute("PRAGMA wal_checkpoint").fetchone()

    def get(self, key: str) -> bytes | None:
        """The bytes of a key; None where there is none."""
        with _files(self.path):
            row = self._connection.execute("SELECT body FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def items(self, prefix: str) -> list[tuple[int, bytes]]:
        """All numbered entries of a prefix, by number."""
        return self._numbered(prefix, "")

    def last(self, prefix: str) -> tuple[int, bytes] | None:
        """The numbered entry of a prefix with the highest number; None where there is none."""
        return next(iter(self._numbered(prefix, "DESC LIMIT 1")), None)

    def _numbered(self, prefix: str, how: str) -> list[tuple[int, bytes]]:
        query = f"SELECT key, body FROM entries WHERE key >= ? AND key < ? ORDER BY key {how}"
        with _files(self.path):
            rows = self._connection.execute(query, _span(prefix)).fetchall()
        return [(int(key[len(prefix) + 1 :]), body) for key, body in rows]

    def prune(self, prefix: str, below: int) -> None:
        """Forget the numbered entries of a prefix whose number is below this one."""
        first, _ = _span(prefix)
        bounds = (first, numbered(prefix, max(below, 0)))
        with _files(self.path):
            self._connection.execute("DELETE FROM entries WHERE key >= ? AND key < ?", bounds)


def _span(prefix: str) -> tuple[str, str]:
    return f"{prefix}/", f"{prefix}0"  # "0" is the character after "/"


def _configure(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    known = (application, version) == (_APPLICATION, _VERSION)
    if not known and (application or version or tables):
        raise sqlite3.DatabaseError("another program's file")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # two processes of one party would speak twice
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise sqlite3.OperationalError("the file system does not support WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if not known:
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION};"
            "CREATE TABLE entries (key TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID; COMMIT;"
        )


@contextmanager
def _files(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and the system into one line of InputError."""
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(
            f"journal={str(path)!r}: cannot be used ({error}). Is another process using it, or the disk full?"
        ) from error
    except OSError as error:
        raise InputError(f"journal={str(path)!r}: cannot be used ({error.strerror}).") from error
