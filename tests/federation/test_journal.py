"""What a party wrote is there after a crash, whole or not at all, and nobody else writes beside it."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import subprocess
import sys

import pytest

from coterie.errors import InputError
from coterie.federation.releases.journal import Journal, numbered

_KILLED = """
import os, signal, sys
from coterie.federation.releases.journal import Journal
journal = Journal.open(sys.argv[1])
journal.put({"a": b"1", "b": b"2"})
journal._connection.execute("BEGIN IMMEDIATE")
journal._connection.execute("INSERT OR REPLACE INTO entries VALUES ('a', ?)", (b"half",))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_entries_are_read_back_replaced_and_dropped(tmp_path):
    with Journal.open(tmp_path / "journal") as journal:
        assert journal.get("a") is None
        journal.put({"a": b"1", "b": b""})
        journal.put({"a": b"2"}, drop=("b", "never there"))
        assert (journal.get("a"), journal.get("b")) == (b"2", None)


def test_a_reopened_journal_has_everything(tmp_path):
    with Journal.open(tmp_path / "journal") as journal:
        journal.put({numbered("value", n): bytes([n]) for n in (3, 100, 20)})
    with Journal.open(tmp_path / "journal") as journal:
        assert journal.items("value") == [(3, b"\x03"), (20, b"\x14"), (100, b"d")]


def test_a_killed_writer_leaves_whole_writes_only(tmp_path):
    path = tmp_path / "journal"
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert killed.returncode == -9
    with Journal.open(path) as journal:
        assert (journal.get("a"), journal.get("b")) == (b"1", b"2")


def test_what_was_synced_needs_no_log_beside_the_file(tmp_path):
    """A power cut may take the log, where writes wait: `sync` writes it into the file, and both to the disk."""
    copies = []
    with Journal.open(tmp_path / "journal") as journal:
        for key in ("a", "b"):
            journal.put({key: b"1"})
            if key == "a":
                journal.sync()
            copies.append(tmp_path / f"after-{key}")
            shutil.copy(journal.path, copies[-1])
    kept = []
    for copy in copies:
        with Journal.open(copy) as journal:
            kept.append([key for key in ("a", "b") if journal.get(key)])
    assert kept == [["a"], ["a"]]


def test_prune_forgets_old_numbers_of_its_prefix_alone(tmp_path):
    with Journal.open(tmp_path / "journal") as journal:
        journal.put({numbered(prefix, n): b"x" for prefix in ("value", "values") for n in range(12)})
        journal.prune("value", 10)
        assert [n for n, _ in journal.items("value")] == [10, 11]
        assert len(journal.items("values")) == 12


def test_a_failed_put_changes_nothing(tmp_path):
    with Journal.open(tmp_path / "journal") as journal:
        journal.put({"a": b"1"})
        with pytest.raises(InputError, match="cannot be used"):
            journal.put({"a": b"2", "b": None})  # type: ignore[dict-item]
        journal.put({"c": b"3"})
        assert (journal.get("a"), journal.get("b"), journal.get("c")) == (b"1", None, b"3")


def test_a_full_disk_is_said_in_one_line_and_changes_nothing(tmp_path):
    with Journal.open(tmp_path / "journal") as journal:
        journal.put({"a": b"1"})
        journal._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(InputError, match="full"):
            journal.put({"a": bytes(100_000)})
        assert journal.get("a") == b"1"


def test_the_file_is_its_owners_alone_and_has_one_writer(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.federation.releases.journal._WAIT", 0.01)
    path = tmp_path / "journal"
    with Journal.open(path) as journal:
        journal.put({"a": b"1"})
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(InputError, match="another process"):
            Journal.open(path)
    Journal.open(path).close()


def test_a_file_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="another program"):
        Journal.open(path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="cannot be used"):
        Journal.open(tmp_path / "no" / "folder")
