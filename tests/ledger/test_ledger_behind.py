"""A ledger that is older than it was: put back from a copy, deleted, or without the log that a kill left behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import dp_accounting as dp
import pytest

from coterie.accounting.ledger import Ledger, read, verify
from coterie.errors import InputError, LedgerError

TERMS = {"data_hash": "ab" * 32, "epsilon": 1.0, "delta": 1e-5}
EVENT = dp.GaussianDpEvent(1000.0)
CHARGES = 20
_WRITER = """
import os, sys, dp_accounting as dp
from coterie.accounting.ledger import Ledger
ledger = Ledger.open(sys.argv[1], data_hash="ab" * 32, epsilon=1.0, delta=1e-5)
for round in range(int(sys.argv[2])):
    ledger.charge("run", round, dp.GaussianDpEvent(1000.0), b"message")
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a writer that was killed: its last rows are in the log."""
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, "-c", _WRITER, str(folder / "ledger"), str(CHARGES)], timeout=300)
    assert done.returncode == -9
    return folder


@pytest.fixture
def path(killed, tmp_path) -> Path:
    shutil.copytree(killed, tmp_path / "copy")
    return tmp_path / "copy" / "ledger"


def refused(path: Path) -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path, **TERMS)
    assert caught.value.exit_status == 3
    return str(caught.value)


def test_all_charges_are_there_after_the_kill(path):
    assert verify(path).problems == ()
    with Ledger.open(path, **TERMS) as ledger:
        assert len(ledger.rounds("run")) == CHARGES


def test_a_log_that_was_removed_is_missed(path):
    for part in ("-wal", "-shm"):
        Path(f"{path}{part}").unlink()
    assert f"row {CHARGES} that was written before is not among them" in verify(path).problems[0]
    with pytest.raises(InputError, match="has 0 rows"):
        read(path)
    assert "Restore the newest copy" in refused(path)


def test_a_ledger_put_back_from_a_copy_is_refused_until_the_newest_one_is_back(tmp_path):
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    with Ledger.open(path, **TERMS) as ledger:
        ledger.charge("run", 0, EVENT, b"first")
    shutil.copy(path, copy)
    with Ledger.open(path, **TERMS) as ledger:
        ledger.charge("run", 1, EVENT, b"second")
    newest = path.read_bytes()
    shutil.copy(copy, path)
    assert "has 1 rows, and row 2" in refused(path)
    refused(path)  # a refusal notes nothing
    path.write_bytes(newest)
    with Ledger.open(path, **TERMS) as ledger:
        assert ledger.rounds("run") == [0, 1]


def test_a_ledger_that_went_another_way_is_refused(tmp_path):
    """Of two copies that were both written to, neither is the other's future."""
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    Ledger.open(path, **TERMS).close()
    shutil.copy(path, copy)
    for file in (path, copy):
        with Ledger.open(file, **TERMS) as ledger:
            ledger.charge("run", 0, EVENT, file.name.encode())
    shutil.copy(copy, path)
    assert "has 1 rows, and row 1" in refused(path)


def test_a_deleted_ledger_is_not_begun_anew(path):
    for part in ("", "-wal", "-shm"):
        Path(f"{path}{part}").unlink()
    assert f"missing, and {CHARGES} rows were written to it" in refused(path)
    assert not path.exists()


def test_a_note_that_a_power_cut_spoiled_stops_nobody(path):
    Path(f"{path}.lock").write_bytes(bytes(90))
    with Ledger.open(path, **TERMS) as ledger:
        assert len(ledger.rounds("run")) == CHARGES


def test_a_note_older_than_the_file_is_fine(path):
    with Ledger.open(path, **TERMS) as ledger:
        before = Path(f"{path}.lock").read_bytes()
        ledger.charge("run", CHARGES, EVENT, b"message")
    Path(f"{path}.lock").write_bytes(before)
    assert verify(path).problems == ()
    Ledger.open(path, **TERMS).close()
