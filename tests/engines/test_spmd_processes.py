"""`coterie run --engine spmd` over processes: one result, one error line, nobody left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ports import ports
from typer.testing import CliRunner

from coterie.cli import app

PATIENCE = 600  # seconds; other people use the machine too
LOST = 4  # exit status


@pytest.fixture
def visits(tmp_path) -> Path:
    """Four clinics' rows with two features, both within [-1, 1], and something to learn from them."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (120, 2))
    rows = [f"clinic {at % 4},{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for at, (a, b) in enumerate(x)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["clinic,age,stay,readmitted", *rows]) + "\n")
    return path


def words(data: Path, *options: object) -> list[str]:
    given = ("--data", data, "--target", "readmitted", "--owner-column", "clinic")
    return [str(one) for one in ("run", "--engine", "spmd", *given, *options)]


def start(data: Path, *options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from coterie.cli import main; main()", *words(data, *options), "--json"],
        cwd=data.parent,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(run: subprocess.Popen[str]) -> tuple[int, str, list[str]]:
    """Status, standard output, and the error lines."""
    out, err = run.communicate(timeout=PATIENCE)
    return run.returncode, out, [line for line in err.splitlines() if line.startswith("error: ")]


def workers(run: subprocess.Popen[str]) -> list[int]:
    return [int(one) for one in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]


def wait_until(true, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_process_stops_all_and_the_run_goes_on_to_the_same_result(visits):
    folder = visits.parent
    options = ("--processes", 2, "--set", "rounds=2000", "--gossip-steps", 1)
    whole = start(visits, *options, "--out", folder / "whole")
    status, out, _ = finish(whole)
    assert status == 0
    assert json.loads(out)["engine"] == "spmd"
    assert not (folder / "whole.checkpoint").exists()

    run, kept = start(visits, *options, "--out", folder / "again"), folder / "again.checkpoint"
    wait_until(lambda: kept.exists() or run.poll() is not None, "no checkpoint was written")
    first, second = workers(run)
    os.kill(second, signal.SIGKILL)
    status, _, errors = finish(run)
    assert status == LOST
    assert errors == [f"error: process 1 of 2 was ended by SIGKILL. Continue from {kept} with --resume."]
    assert gone(first)
    assert not (folder / "again").exists()

    refused = CliRunner().invoke(app, words(visits, *options, "--out", folder / "again"))
    assert refused.exit_code == 2
    assert "exists, of a run that did not end. Add --resume" in refused.stderr
    status, _, errors = finish(start(visits, *options, "--out", folder / "again", "--resume"))
    assert (status, errors) == (0, [])
    assert (folder / "again/trace.csv").read_text() == (folder / "whole/trace.csv").read_text()
    assert not kept.exists()


def test_workers_end_with_a_supervisor_that_was_killed(visits):
    run = start(visits, "--processes", 2, "--set", "rounds=2000", "--out", visits.parent / "out")
    wait_until(lambda: len(workers(run)) == 2, "two workers")
    both = workers(run)
    run.kill()
    run.communicate()
    wait_until(lambda: all(gone(one) for one in both), "workers are still there")


def test_processes_that_cannot_meet_say_why(visits):
    """Nobody there, a port that is taken, too few, and settings that differ."""
    one, other = (f"127.0.0.1:{port}" for port in ports(2))
    with socket.create_server(("", 0)) as taken:
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        alone = [
            start(visits, "--processes", 2, "--coordinator", address, "--process-id", process, "--timeout", 2)
            for address, process in ((one, 1), (busy, 0), (other, 0))
        ]
        cases = [finish(run) for run in alone]
    reasons = (
        "process 0 was not reached within 2 s",
        "Address already in use",
        "not all 2 processes came within 2 s",
    )
    for (status, out, errors), reason in zip(cases, reasons):
        assert (status, out, len(errors)) == (LOST, "", 1)
        assert reason in errors[0]

    here = f"127.0.0.1:{ports(1)[0]}"
    hosts = ("--processes", 2, "--coordinator", here, "--timeout", PATIENCE)
    both = [start(visits, *hosts, "--process-id", at, "--seed", at) for at in (0, 1)]
    line = "error: process 0 has seed = 0, process 1 has seed = 1. Give every process the same options."
    assert [finish(one) for one in both] == [(2, "", [line])] * 2


def test_options_that_do_not_go_together_are_refused(visits):
    cases = {
        ("--coordinator", "10.0.0.5:7000"): "go together",
        ("--processes", 0): "processes=0: must be a whole number >= 1",
        ("--processes", 2, "--coordinator", "here", "--process-id", 0): "must be HOST:PORT",
        ("--processes", 2, "--coordinator", "here:7000", "--process-id", 2): "must lie between 0 and 1",
        ("--engine", "simulate", "--resume"): "means nothing to engine='simulate'",
    }
    for options, reason in cases.items():
        given = ["run", "--engine", "spmd", *map(str, options), "--out", str(visits.parent / "out")]
        result = CliRunner().invoke(app, given, catch_exceptions=False)
        assert result.exit_code == 2
        assert reason in result.stderr
        assert result.stderr.count("\n") == 1
