"""Faults of several kinds in one run of real processes; and that the reader of traces sees what must not be."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import chaos
import dp_accounting
import numpy as np
import pytest
import traces
from parties import until

from coterie.accounting.ledger import Ledger
from coterie.accounting.ledger.recovery import Owed, opened, write_off
from coterie.federation.releases.journal import Journal, numbered

RUN = "0badcafe"
ROUNDS = 400  # several times as many as the faults take


def test_a_run_under_faults_ends_and_its_traces_are_sound(tmp_path, monkeypatch):
    monkeypatch.setattr(chaos, "DELAY", 0.05)  # at most ten rounds a second, however fast the machine
    monkeypatch.setitem(chaos.SHAPES["hub"], "settings", {"steps": ROUNDS, "step_size": 0.5})
    found = chaos.play(tmp_path, "hub", seed=1, faults=["killed", "restored", "held"], patient=True)
    assert found.charges == dict.fromkeys((f"owner-{at}" for at in range(4)), ROUNDS)
    assert found.marks > 3 * ROUNDS
    assert found.moments >= 6
    assert found.compared == 4


def test_no_party_outlives_a_drill_however_that_ends(tmp_path):
    """Also one that stands still, and where the drill has no time to say farewell."""
    program = (
        "import sys, time, signal, pathlib, parties\n"
        "trial = parties.Trial(pathlib.Path(sys.argv[1]), (7, 8), protocol='dual_averaging', settings={'rounds': 2})\n"
        "number = trial.start('owner-0').pid\n"
        "parties.until(lambda: bool(trial.log('owner-0')))\n"
        "trial.kill('owner-0', signal.SIGSTOP)\n"
        "print(number, flush=True)\n"
        "time.sleep(600)\n"
    )
    paths = os.pathsep.join(sys.path)
    drill = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert drill.stdout is not None
    number = int(drill.stdout.readline())
    assert alive(number)
    drill.kill()
    drill.wait()
    drill.stdout.close()
    until(lambda: not alive(number))


def alive(number: int) -> bool:
    """Whether a process of this number runs or stands still; one that waits to be buried does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_every_kind_of_fault_is_in_every_run_of_the_long_drill():
    for shape in chaos.SHAPES:
        for seed in chaos.SEEDS:
            assert set(chaos.faults_of(shape, seed)) == set(chaos.FAULT)
            assert len(chaos.faults_of(shape, seed)) == chaos.FAULTS


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """An owner with three releases, and a party that was told of the second. The folder of all."""
    place, other = tmp_path / "net/parties/owner-0", tmp_path / "net/parties/owner-1"
    place.mkdir(parents=True)
    other.mkdir()
    event = dp_accounting.GaussianDpEvent(8.0)
    with Ledger.open(place / "ledger.sqlite", data_hash="0" * 64, epsilon=5.0, delta=1e-5) as ledger:
        for step in (1, 2, 3):
            ledger.charge(RUN, step, event, b"message %d" % step)
    with Journal.open(other / f"journal-{RUN}.sqlite") as journal:
        body = bytes(8) + sha256(b"message 2").digest() + bytes(32)
        journal.put({numbered("witness/owner-0", 2): body})
    return tmp_path


def edited(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("DROP TRIGGER IF EXISTS no_update; DROP TRIGGER IF EXISTS no_delete;")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_sound_traces_are_read(net):
    assert traces.read(net) == traces.Found({"owner-0": 3}, marks=1, moments=0, compared=0)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE ledger SET message = X'00' WHERE round = 2", "holds another message"),
        ("UPDATE ledger SET message = NULL WHERE round = 2", "for no message"),
        ("UPDATE ledger SET time = 'now' WHERE round = 2", "was edited"),
        ("DELETE FROM ledger WHERE round = 2", "is missing"),
        ("DELETE FROM ledger WHERE round = 3", "another head"),
    ],
)
def test_a_ledger_that_was_changed_is_noticed(net, statement, said):
    edited(net / "net/parties/owner-0/ledger.sqlite", statement)
    with pytest.raises(AssertionError, match=said):
        traces.read(net)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE entries SET key = replace(key, '2', '4')", "owner-0's step 4 was not charged"),
        (
            "UPDATE entries SET body = zeroblob(72)",
            "owner-0's step 2 was not charged, or for another message",
        ),
        ("UPDATE entries SET key = 'barred/owner-0'", "two versions"),
    ],
)
def test_a_release_that_was_never_charged_is_noticed(net, statement, said):
    edited(net / f"net/parties/owner-1/journal-{RUN}.sqlite", statement)
    with pytest.raises(AssertionError, match=said):
        traces.read(net)


def test_a_release_that_was_charged_after_it_was_sent_is_noticed(net):
    """At a moment when all stood still a party knew of it, and its owner's ledger did not have it yet."""
    shutil.copytree(net / "net", net / "earlier/1")
    assert traces.read(net).moments == 1
    ledger = net / "earlier/1/parties/owner-0/ledger.sqlite"
    ledger.unlink()
    with Ledger.open(ledger.with_name("new"), data_hash="0" * 64, epsilon=5.0, delta=1e-5) as young:
        young.charge(RUN, 1, dp_accounting.GaussianDpEvent(8.0), b"message 1")
    ledger.with_name("new").rename(ledger)
    with pytest.raises(AssertionError, match="owner-0's step 2 was not charged"):
        traces.read(net)


def test_another_message_of_an_earlier_moment_is_noticed_also_where_the_run_was_written_off(net):
    place = net / "earlier/1/parties/owner-0"
    place.mkdir(parents=True)
    with Ledger.open(place / "ledger.sqlite", data_hash="0" * 64, epsilon=5.0, delta=1e-5) as other:
        other.charge(RUN, 4, dp_accounting.GaussianDpEvent(8.0), b"lost")
    with pytest.raises(AssertionError, match="owner-0's step 4 was another message"):
        traces.read(net)
    with opened(net / "net/parties/owner-0/ledger.sqlite") as ledger:
        write_off(ledger, RUN, [Owed(dp_accounting.GaussianDpEvent(8.0))])
    assert traces.read(net).moments == 1
    with opened(place / "ledger.sqlite") as other:
        other.charge(RUN, 3, dp_accounting.GaussianDpEvent(8.0), b"another")
    with pytest.raises(AssertionError, match="owner-0's step 3 was another message"):
        traces.read(net)


def test_models_are_compared_with_each_other_and_with_the_undisturbed_ones(net):
    for name, value in (("owner-0", 1.0), ("owner-1", 2.0)):
        place = net / f"net/parties/{name}/result"
        place.mkdir()
        header = json.dumps({"model.w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        content = len(header).to_bytes(8, "little") + header + np.float32(value).tobytes()
        (place / "model.safetensors").write_bytes(content)
    assert traces.read(net).compared == 0
    with pytest.raises(AssertionError, match="owner-1: another model|owner-0: another model"):
        traces.read(net, alike=True)
    (net / "undisturbed").mkdir()
    np.save(net / "undisturbed/owner-1.npy", [2.0])
    assert traces.read(net).compared == 1
    np.save(net / "undisturbed/owner-1.npy", [2.1])
    with pytest.raises(AssertionError, match="owner-1: .* from the model of the undisturbed run"):
        traces.read(net)
