"""Real owners whose files went back in time, and one whose folder was copied: nothing leaves, and status 3 says so."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from parties import Trial, until
from ports import ports
from wired import LONG

from coterie.federation import party
from coterie.federation.transport.machine import Patience

ME, ROUNDS = "owner-2", 100_000  # the last one dials the others; no test sees the end


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    found = Trial(
        tmp_path,
        (12, 7, 9),
        protocol="dual_averaging",
        settings={"rounds": ROUNDS},
        topology="complete",
        gossip_steps=1,
        patience=Patience(wait=3.0, retry=0.2),
    )
    for name in found.names:
        found.start(name, injected=False)
    yield found
    found.stop()


def step(trial: Trial, name: str = ME) -> int:
    path = trial.place(name) / "status.json"
    return json.loads(path.read_text())["step"] if path.exists() else 0


def gone_on(trial: Trial, rounds: int = 20) -> None:
    before = step(trial)
    until(lambda: step(trial) >= before + rounds)


def kept(trial: Trial) -> dict[str, bytes]:
    """Ledger and journal, with their logs and the ledger's note, after a kill."""
    trial.kill(ME)
    place = trial.place(ME)
    return {file.name: file.read_bytes() for kind in ("ledger", "journal") for file in place.glob(f"{kind}*")}


def put_back(trial: Trial, *contents: dict[str, bytes]) -> None:
    for kind in ("ledger", "journal"):
        for file in trial.place(ME).glob(f"{kind}*"):
            file.unlink()
    for content in contents:
        for name, body in content.items():
            (trial.place(ME) / name).write_bytes(body)


def refused(trial: Trial) -> str:
    """Start the owner: it must stop with status 3. What it said."""
    process = trial.start(ME, injected=False)
    process.join(LONG)
    lines = (trial.place(ME) / "test.log").read_text().splitlines()
    assert process.exitcode == 3, lines
    return lines[-1]


def parts(content: dict[str, bytes], start: str, *endings: str) -> dict[str, bytes]:
    return {
        name: body
        for name, body in content.items()
        if name.startswith(start) and name.endswith(endings or ("",))
    }


def test_files_that_went_back_in_time_are_refused_and_the_newest_go_on(trial):
    gone_on(trial)
    old = kept(trial)
    trial.start(ME, injected=False)
    gone_on(trial)
    newest = kept(trial)
    journal, note = parts(newest, "journal"), parts(newest, "ledger", ".lock")
    # The ledger alone was put back: what is noted beside it says so, or the journal does.
    put_back(trial, journal, parts(old, "ledger"), note)
    assert "that was written before is not among them" in refused(trial)
    put_back(trial, journal, parts(old, "ledger"))
    assert "that the journal" in refused(trial)
    # It was deleted.
    put_back(trial, journal, note)
    assert "missing, and" in refused(trial)
    put_back(trial, journal)
    assert "that the journal" in refused(trial)
    # Its log was removed.
    put_back(trial, journal, parts(newest, "ledger", ".sqlite", ".lock"))
    assert "-wal was removed" in refused(trial)
    # All of it was put back, or is gone: the neighbours know.
    put_back(trial, old)
    assert "holds this owner's release of step" in refused(trial)
    put_back(trial)
    assert "has nothing of this run, and owner-" in refused(trial)
    put_back(trial, newest)
    trial.start(ME, injected=False)
    gone_on(trial)


def test_a_copied_folder_is_refused_and_both_are_told(trial, tmp_path):
    gone_on(trial)
    copy = tmp_path / "copy"
    trial.kill(
        ME, signal.SIGSTOP
    )  # else files change under the copy, which is then refused for another reason
    shutil.copytree(trial.place(ME), copy)
    trial.kill(ME, signal.SIGCONT)
    (copy / "test.log").unlink()
    own = replace(party.read(copy), listen=f"127.0.0.1:{ports(1)[0]}")
    (copy / party.NAME).write_text(own.to_toml())
    process = trial.start(ME, injected=False, place=copy)
    process.join(LONG)
    said = (copy / "test.log").read_text()
    assert process.exitcode == 3, said
    assert "another process runs under this name" in said or "holds this owner's release" in said
    until(lambda: "another process came under this name" in (trial.place(ME) / "test.log").read_text())
    gone_on(trial)
    assert "error" not in (trial.place(ME) / "test.log").read_text()
