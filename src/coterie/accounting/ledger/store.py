"""The ledger's SQLite file: one writer, many readers, nothing acknowledged before it is on the disk."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from coterie import _files
from coterie.accounting.ledger.chain import SCHEMA, Head, LedgerRow, LedgerTerms, sha256
from coterie.errors import InputError, LedgerError

_APPLICATION = 0x436F7465  # "Cote", in the header of the file
_NOTE = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})\n")
_LONGEST_NOTE = 128
# After a run's name, for rows that are about the run: from when on more may have left than is here, and its end.
RESTORED, WRITTEN_OFF = " (restored)", " (written off)"
_COLUMNS = ", ".join(LedgerRow._fields)
# Messages are the last column, so that reading the others does not read through them.
_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {SCHEMA};
CREATE TABLE terms (id INTEGER PRIMARY KEY CHECK (id = 0), body TEXT NOT NULL);
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 0), sequence INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE ledger (
    sequence INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, run TEXT, round INTEGER,
    partition TEXT, part INTEGER, body TEXT NOT NULL, message_sha256 TEXT,
    previous TEXT NOT NULL, hash TEXT NOT NULL, message BLOB, UNIQUE (run, round));
CREATE TRIGGER no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
"""


@contextmanager
def only_writer(path: Path) -> Iterator[int]:
    """Be the file's only writer until the block ends or the process dies; yields the lock, for `note`.

    The lock lies on a file beside it: closing any descriptor of the database would drop SQLite's own locks.
    """
    import fcntl

    with _in_one_line(path):
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"ledger={str(path)!r}: in use by another writer. Close that one first."
            ) from error
        yield descriptor
    finally:
        os.close(descriptor)


def note(descriptor: int, head: Head) -> None:
    """Write beside the file, where its lock lies, how far it has come.

    Not flushed: the row is on the disk already, and a note that a power cut took back is only an older one.
    """
    os.pwrite(descriptor, f"{head.sequence:018} {head.hash}\n".encode(), 0)


def first_note(path: Path, descriptor: int, head: Head) -> None:
    """As `note`, on opening the file: later notes overwrite this one and need no more room."""
    with _in_one_line(path):
        note(descriptor, head)


def noted(path: Path) -> Head | None:
    """How far the file at this path has come, as noted beside it; None where nothing is (readably) noted."""
    try:
        with open(f"{path}.lock", "rb") as lock:
            match = _NOTE.match(lock.read(_LONGEST_NOTE))
    except OSError:
        return None
    return None if match is None else Head(int(match[1]), match[2].decode())


def behind(path: Path, rows: int, known: Head) -> str:
    """The words for a file that lacks rows known to have been in it, and what to do about it."""
    return (
        f"ledger={str(path)!r}: has {rows} rows, and row {known.sequence} that was written before is not among them: "
        f"an older copy, or {path.name}-wal was removed. Restore the newest copy, with its {path.name}-wal"
    )


def create(path: Path, terms: LedgerTerms) -> None:
    """A new, empty ledger, complete or not there at all: written beside its place, then renamed."""
    before = noted(path)
    if before is not None and before.sequence:
        raise LedgerError(
            f"ledger={str(path)!r}: missing, and {before.sequence} rows were written to it ({path.name}.lock says so). "
            "Restore the newest copy; for other records, name another file."
        )
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:  # SQLite would read old rows from it into the new file
        raise InputError(f"ledger={str(path)!r}: missing, but its log {log.name} is there. Restore both.")
    draft = Path(f"{path}.new")
    with _in_one_line(path):
        with _anew(draft) as connection:
            _configure(connection)
            connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
            text = terms.to_text()
            connection.execute("BEGIN")
            connection.execute("INSERT INTO terms VALUES (0, ?)", (text,))
            connection.execute("INSERT INTO head VALUES (0, 0, ?)", (sha256(text),))
            connection.execute("COMMIT")
        _files.sync(draft)
        os.rename(draft, path)
        _files.sync(path.parent)


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection for the holder of the lock; InputError where the file is no ledger."""
    with _in_one_line(path):
        connection = _connect(path, "mode=rw")
        try:
            _recognise(connection, path)  # first: configuring writes to the file, whosever it is
            _configure(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def there(path: Path) -> None:
    """That the path is one of a file; who names the party's folder means the ledger in it."""
    if path.is_dir():
        raise InputError(f"ledger={str(path)!r}: is a folder. Give the file in it, such as ledger.sqlite.")
    if not path.is_file():
        raise InputError(f"ledger={str(path)!r}: no such file.")


@contextmanager
def reader(path: Path) -> Iterator[sqlite3.Connection]:
    """One consistent view of the file, also while its owner writes; never creates or changes a ledger."""
    there(path)
    with _in_one_line(path), closing(_connect(path, _how_to_read(path))) as connection:
        _recognise(connection, path)
        connection.execute("BEGIN")
        yield connection


def terms_text(connection: sqlite3.Connection) -> str:
    """The stored terms, as text."""
    return _only(connection, "SELECT body FROM terms")[0]


def head(connection: sqlite3.Connection) -> Head:
    """The stored head record."""
    return Head(*_only(connection, "SELECT sequence, hash FROM head"))


def holds(connection: sqlite3.Connection, known: Head) -> bool:
    """Whether this was the head of the chain at some time."""
    if known.sequence == 0:
        return sha256(terms_text(connection)) == known.hash
    row = connection.execute("SELECT hash FROM ledger WHERE sequence = ?", (known.sequence,)).fetchone()
    return row is not None and row[0] == known.hash


def rows(connection: sqlite3.Connection) -> Iterator[LedgerRow]:
    """Every row in order, without the messages."""
    for row in connection.execute(f"SELECT {_COLUMNS} FROM ledger ORDER BY sequence"):
        yield LedgerRow(*row)


def find(connection: sqlite3.Connection, run: str, round: int) -> tuple[LedgerRow, bytes | None] | None:
    """The row that was charged for this round of this run, with its message."""
    query = f"SELECT {_COLUMNS}, message FROM ledger WHERE run = ? AND round = ?"
    row = connection.execute(query, (run, round)).fetchone()
    return None if row is None else (LedgerRow(*row[:-1]), row[-1])


def rounds_of(connection: sqlite3.Connection, run: str) -> list[int]:
    """The rounds of this run that have a message, in order."""
    query = "SELECT round FROM ledger WHERE run = ? AND message_sha256 IS NOT NULL ORDER BY round"
    return [round for (round,) in connection.execute(query, (run,))]


def last_of(connection: sqlite3.Connection, run: str) -> int:
    """The number of the last row of a run; 0 where it has none."""
    return connection.execute(
        "SELECT coalesce(max(sequence), 0) FROM ledger WHERE run = ?", (run,)
    ).fetchone()[0]


def unsettled(connection: sqlite3.Connection) -> list[str]:
    """The runs about which nothing was written since a copy was restored that may lack releases of theirs."""
    query = "SELECT DISTINCT run FROM ledger WHERE substr(run, -length(?)) = ? ORDER BY run"
    restored = [name.removesuffix(RESTORED) for (name,) in connection.execute(query, (RESTORED, RESTORED))]
    return [
        run
        for run in restored
        if last_of(connection, run + RESTORED)
        > max(last_of(connection, run), last_of(connection, run + WRITTEN_OFF))
    ]


def parts_of(connection: sqlite3.Connection, run: str) -> dict[tuple[str, int], int]:
    """How many messages of a run were charged to which part of which partition."""
    query = (
        "SELECT partition, part, count(*) FROM ledger WHERE run = ? AND partition IS NOT NULL "
        "AND message_sha256 IS NOT NULL GROUP BY partition, part"
    )
    return {(name, part): count for name, part, count in connection.execute(query, (run,))}


def copied(source: sqlite3.Connection, path: Path) -> None:
    """What a connection sees, as one file without a log beside it, on the disk; readable by its owner alone."""
    with _in_one_line(path):
        with _anew(path) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        _files.sync(path)


def replace(draft: Path, path: Path) -> None:
    """Put a finished file in a ledger's place, with nothing of what was there before beside it."""
    with _in_one_line(path):
        _without_logs(path)
        os.replace(draft, path)
        _files.sync(path.parent)


def append(connection: sqlite3.Connection, row: LedgerRow, message: bytes | None) -> None:
    """Write the row, its message and the new head together; return once they are on the disk."""
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute("BEGIN IMMEDIATE")
    try:
        # The head moves only from where this writer left it: a writer that went around the lock is noticed.
        moved = connection.execute(
            "UPDATE head SET sequence = ?, hash = ? WHERE sequence = ? AND hash = ?",
            (row.sequence, row.hash, row.sequence - 1, row.previous),
        )
        if moved.rowcount != 1:
            raise sqlite3.IntegrityError("the head has moved: somebody else has written to the file")
        connection.execute(f"INSERT INTO ledger ({_COLUMNS}, message) VALUES ({marks})", (*row, message))
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # the first error says more; closing the connection also rolls back
            connection.execute("ROLLBACK")
        raise


def wrong_messages(connection: sqlite3.Connection) -> Iterator[int]:
    """Numbers of the rows whose message is not the one that was hashed. Reads every message."""
    for sequence, wanted, message in connection.execute(
        "SELECT sequence, message_sha256, message FROM ledger ORDER BY sequence"
    ):
        actual = sha256(message) if isinstance(message, bytes) else message
        if actual != wanted:
            yield sequence


def damage(connection: sqlite3.Connection) -> str | None:
    """What SQLite's own check of the file's structure finds first, if anything."""
    report = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    return None if report == "ok" else str(report).splitlines()[-1]


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """SQLite's and the system's complaints as one line of InputError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise InputError(f"ledger={str(path)!r}: not readable as a ledger ({error}).") from error
    except OSError as error:
        raise InputError(f"ledger={str(path)!r}: cannot be used ({error.strerror}).") from error


def _connect(path: Path, how: str) -> sqlite3.Connection:
    # An edited file may hold text that is not UTF-8; it must reach the hash, not an exception.
    address = f"file:{quote(str(path))}?{how}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda content: content.decode(errors="backslashreplace")
    return connection


def _anew(path: Path) -> closing[sqlite3.Connection]:
    """A connection to an empty file, readable by its owner alone from its first byte on, in place of any other."""
    path.unlink(missing_ok=True)
    _without_logs(path)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return closing(_connect(path, "mode=rw"))


def _without_logs(path: Path) -> None:
    for log in (Path(f"{path}-wal"), Path(f"{path}-shm")):
        log.unlink(missing_ok=True)


def _how_to_read(path: Path) -> str:
    """`immutable` only where SQLite could not share the file: a folder closed to us, and no log beside it."""
    shared = os.path.exists(f"{path}-wal") or os.access(path.parent, os.W_OK)
    return "mode=ro" if shared else "immutable=1"


def _configure(connection: sqlite3.Connection) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    connection.execute("PRAGMA synchronous = FULL")
    if mode != "wal" or connection.execute("PRAGMA synchronous").fetchone()[0] != 2:
        raise sqlite3.OperationalError(f"journal mode {mode}: the file system does not support WAL")


def _recognise(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != _APPLICATION:
        raise InputError(f"ledger={str(path)!r}: not a ledger (another program's file, or an empty one).")
    if version != SCHEMA:
        raise InputError(f"ledger={str(path)!r}: schema {version}, this program reads schema {SCHEMA}.")


def _only(connection: sqlite3.Connection, query: str) -> tuple:
    row = connection.execute(query).fetchone()
    if row is None:
        raise sqlite3.DatabaseError("its terms or its head were removed")
    return row
