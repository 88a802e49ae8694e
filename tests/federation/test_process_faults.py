"""Real processes, killed, frozen and restarted: the run goes on, and nothing is charged twice or lost."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from links import Links
from parties import Trial, until
from ports import ports
from wired import HOST, LONG

from coterie.accounting.ledger import verify
from coterie.federation.transport.machine import Patience

KILLS, PAUSE = 50, 0.4  # seconds between two kills: an owner comes back in about two
DELAY = 0.1  # seconds on a line, one way, until the last fault: 10 rounds a second at most, on any machine
ROUNDS = 750  # so that they take 75 seconds at least, four times as many as the kills


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Callable[..., tuple[Trial, Links]]]:
    """Starts all parties of a network, on lines that take their time: no run is over before its faults."""
    with ExitStack() as held:

        def begin(sizes: tuple[int, ...], **terms: Any) -> tuple[Trial, Links]:
            trial = Trial(tmp_path, sizes, **terms)
            links = Links(trial, DELAY)
            held.callback(links.close)
            held.callback(trial.stop)
            for name in trial.names:
                trial.start(name)
            return trial, links

        yield begin


def step(trial: Trial, name: str) -> int:
    path = trial.place(name) / "status.json"
    return json.loads(path.read_text())["step"] if path.exists() else 0


def note(trial: Trial, name: str) -> str:
    return json.loads((trial.place(name) / "status.json").read_text())["note"]


def sound(trial: Trial) -> None:
    """Ledgers are whole, hold each step once, and stay within budgets; models are numbers."""
    planned = trial.planned
    for at, name in enumerate(planned.agreement.owners):
        assert verify(trial.place(name) / "ledger.sqlite").problems == ()
        with trial.ledger(name) as ledger:
            charged = ledger.rounds(planned.agreement.run)
            assert len(set(charged)) == len(charged) <= planned.messages(at)
            assert ledger.spent().epsilon <= planned.task.epsilon[at] + 1e-9
        assert np.isfinite(trial.model(name)).all()
        assert "Traceback" not in trial.log(name)
        for file in (
            trial.place(name) / "result"
        ).iterdir():  # they hold a metric that nothing was charged for
            assert file.stat().st_mode & 0o077 == 0


def test_owners_are_killed_fifty_times_and_the_run_completes(begun):
    trial, links = begun(
        (12, 7, 9, 10, 8, 11),
        protocol="dual_averaging",
        settings={"rounds": ROUNDS},
        gossip_steps=1,
        patience=Patience(wait=1.0, retry=0.2),
    )
    rng = random.Random(1)
    until(lambda: min(step(trial, name) for name in trial.names) > 0)
    for _ in range(KILLS):
        name = rng.choice(trial.names)
        trial.kill(name)
        trial.start(name)
        time.sleep(rng.uniform(0, 2 * PAUSE))
    assert max(step(trial, name) for name in trial.names) < ROUNDS  # all of them fell into the run
    links.delay = 0.0
    trial.finish()
    sound(trial)


def test_an_owner_is_frozen_and_then_all_are_restarted(begun):
    trial, links = begun(
        (12, 7, 9, 10),
        protocol="push_sum",
        topology="one_peer_exponential",
        settings={"rounds": 150},
        patience=Patience(wait=1.0, retry=0.2),
    )
    until(lambda: min(step(trial, name) for name in trial.names) > 5)
    trial.kill("owner-1", signal.SIGSTOP)
    before = step(trial, "owner-0")
    until(lambda: step(trial, "owner-0") > before)  # on without it, for a few rounds
    until(lambda: any("owner-1 missed" in note(trial, name) for name in trial.names))  # and then not
    trial.kill("owner-1", signal.SIGCONT)
    for name in trial.names:
        trial.kill(name, signal.SIGTERM)
    for name, process in list(trial.processes.items()):
        process.join(LONG)
        assert process.exitcode == 9, trial.log(name)  # stopped before its end
        trial.start(name)
    links.delay = 0.0
    trial.finish()
    sound(trial)


def test_the_learner_is_killed_and_restarted(begun):
    trial, links = begun(
        (12, 7, 9),
        protocol="async_learner",
        settings={"ticks": 60},
        patience=Patience(wait=2.0, retry=0.2),
        clock=20.0,
    )
    for at in (5, 20, 35):
        until(lambda at=at: step(trial, "learner") >= at)
        trial.kill("learner")
        trial.start("learner")
    links.delay = 0.0
    trial.finish()
    sound(trial)
    assert step(trial, "learner") == 60
    models = [trial.model(name) for name in trial.names]
    for model in models[1:]:
        np.testing.assert_array_equal(model, models[0])


def test_owners_with_their_own_keys_come_as_far_as_the_simulation(tmp_path):
    """Through the command line, as a user would: export, found, start everything."""

    def coterie(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "coterie", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=3 * LONG,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    sizes = json.loads(coterie("data", "export", "census", "--out", "files", "--json"))["sizes"]
    owners, counts = ",".join(sizes), ",".join(str(size) for size in sizes.values())
    coterie(
        "network", "new", "net", "--owners", owners, "--sizes", counts, "--columns", "files/columns.toml",
        "--set", "rounds=30", *(f"--address={name}={HOST}:{port}" for name, port in zip(sizes, ports(len(sizes)))),
    )  # fmt: skip
    outcome = json.loads(coterie("network", "up", "net", "--data", "files", "--json"))
    simulated = json.loads(
        coterie(
            "run", "--data", "census", "--owners", "3", "--partition", "iid", "--set", "rounds=30", "--json"
        )
    )
    for one in outcome["parties"]:
        result = one["result"]
        assert result["certified_epsilon"] <= 1.0
        assert result["own_metric"]["value"] == pytest.approx(simulated["metric"]["joint"], abs=0.03)
        place = tmp_path / "net" / "parties" / one["name"]
        assert (place / "result" / "report.html").exists()
        assert (place / "node.log").stat().st_mode & 0o077 == 0  # the metric on its own records is in it
