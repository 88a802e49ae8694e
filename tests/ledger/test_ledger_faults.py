"""The ledger under kill -9, a full disk, a second process and a clock that goes backwards."""

import hashlib
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import dp_accounting as dp
import pytest

from coterie.accounting.ledger import Ledger, read, verify
from coterie.errors import InputError

TERMS = {"data_hash": "ab" * 32, "epsilon": 1.0, "delta": 1e-5}
EVENT = dp.GaussianDpEvent(1000.0)
KILLS = 225


def test_what_was_sent_is_charged_once_whenever_the_writer_is_killed(tmp_path):
    script = Path(__file__).with_name("killed_writer.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS), str(time.time_ns())],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    acknowledged = 0
    for notes in sorted(tmp_path.glob("*.notes")):
        sent, path = defaultdict(set), notes.with_suffix("")
        for line in notes.read_text().splitlines():
            _, round, sha = line.split()
            sent[int(round)].add(sha)
        acknowledged += len(sent)
        if not sent:  # killed before the first message; the file may not even be there
            continue
        assert verify(path).problems == ()
        with Ledger.open(path, **TERMS) as ledger:
            # At most the round in which the last writer died was charged without being acknowledged.
            rows = read(path).head.sequence
            assert rows in (len(sent), len(sent) + 1)
            assert ledger.spent().event.events[0].count == rows
            for round, shas in sent.items():
                assert {hashlib.sha256(ledger.stored("run", round) or b"").hexdigest()} == shas
    # The writers really got to work: three in four end none to three new rounds, 253 expected, 17.5 the deviation.
    assert acknowledged > KILLS / 2


def test_a_kill_between_storing_and_sending_gives_the_same_message_again(tmp_path):
    path = tmp_path / "ledger"
    child = os.path.join(os.path.dirname(__file__), "killed_writer.py")
    script = (
        "import os, sys, dp_accounting as dp\n"
        f"sys.path.insert(0, {os.path.dirname(child)!r})\n"
        "from killed_writer import EVENT, TERMS, Ledger\n"
        f"Ledger.open({str(path)!r}, **TERMS).charge('run', 0, EVENT, b'first draw')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == -9
    with Ledger.open(path, **TERMS) as ledger:
        spent = ledger.spent().epsilon
        assert spent > 0
        assert ledger.charge("run", 0, EVENT, b"second draw") == b"first draw"
        assert ledger.spent().epsilon == spent


def test_a_full_disk_acknowledges_nothing_and_keeps_what_was_acknowledged(tmp_path):
    path = tmp_path / "ledger"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    done = []
    ledger = Ledger.open(path, **TERMS)

    def charge_on():
        for round in range(100):
            ledger.charge("run", round, EVENT, bytes(20_000))
            done.append(round)

    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        with pytest.raises(InputError, match="cannot be written .*nothing may leave"):
            charge_on()
        with pytest.raises(InputError, match="closed"):
            ledger.charge("run", len(done), EVENT, b"")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    acknowledged = len(done)
    assert 2 < acknowledged < 100
    assert verify(path).problems == ()
    with Ledger.open(path, **TERMS) as ledger:
        assert read(path).head.sequence == acknowledged
        assert ledger.charge("run", acknowledged, EVENT, b"later") == b"later"


def test_no_room_for_a_new_ledger(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(InputError, match="ledger="):
            Ledger.open(tmp_path / "ledger", **TERMS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "ledger").exists()
    with Ledger.open(tmp_path / "ledger", **TERMS) as ledger:
        assert ledger.remaining() == TERMS["epsilon"]


def test_a_second_process_is_refused_until_the_first_one_ends(tmp_path):
    path = tmp_path / "ledger"
    script = (
        "import sys; from coterie.accounting.ledger import Ledger; from coterie.errors import InputError\n"
        "try:\n"
        f"    Ledger.open({str(path)!r}, data_hash='ab' * 32, epsilon=1.0, delta=1e-5).close()\n"
        "except InputError as error:\n"
        "    sys.exit(str(error))\n"
    )
    with Ledger.open(path, **TERMS) as ledger:
        ledger.charge("run", 0, EVENT, b"m")
        second = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        assert second.returncode == 1
        assert "in use by another writer" in second.stderr
        with pytest.raises(InputError, match="in use by another writer"):  # nor twice in one process
            Ledger.open(path, **TERMS)
        (tmp_path / "link").symlink_to(path)
        with pytest.raises(InputError, match="in use by another writer"):  # nor by another name
            Ledger.open(tmp_path / "link", **TERMS)
        assert ledger.charge("run", 1, EVENT, b"n") == b"n"
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == 0


def test_a_writer_that_went_around_the_lock_is_noticed(tmp_path):
    import sqlite3

    path = tmp_path / "ledger"
    with Ledger.open(path, **TERMS) as ledger:
        ledger.charge("run", 0, EVENT, b"m")
        with sqlite3.connect(path) as other:
            other.execute("UPDATE head SET sequence = 7")
        other.close()
        with pytest.raises(InputError, match="the head has moved"):
            ledger.charge("run", 1, EVENT, b"n")


def test_a_forked_child_may_not_write(tmp_path, monkeypatch):
    with Ledger.open(tmp_path / "ledger", **TERMS) as ledger:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(InputError, match="fork"):
            ledger.charge("run", 0, EVENT, b"m")


def test_rows_keep_their_order_when_the_clock_goes_backwards(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    clock = iter([2e9, 1e9, 1.5e9, 0.0])
    with Ledger.open(path, **TERMS) as ledger:
        monkeypatch.setattr(time, "time", lambda: next(clock))
        for round in range(4):
            ledger.charge("run", round, EVENT, bytes([round]))
        monkeypatch.undo()
    assert verify(path).problems == ()
    (run,) = read(path).runs
    assert run.rounds == (0, 3)
    assert run.times[0] > run.times[1]  # as the clock said; informative only
    with Ledger.open(path, **TERMS) as ledger:
        assert [ledger.stored("run", round) for round in range(4)] == [bytes([n]) for n in range(4)]


def test_importing_the_ledger_is_light():
    script = (
        "import sys, coterie.accounting.ledger\n"
        "sys.exit(str([name for name in ('jax', 'dp_accounting', 'scipy') if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stderr.strip() == ""
