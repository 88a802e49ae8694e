"""After an owner is added or revoked a new run begins: nothing of a run under another agreement enters it.

Real nodes over mutual TLS, stopped in the middle of a run or left to its end. They are threads here, so that sixteen
cases share what JAX compiles; one case of each shape is played by processes too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from parties import Trial, until
from wired import LONG

from coterie.federation import node, owner, party
from coterie.federation.releases.release import Outlet
from coterie.federation.transport.machine import Patience
from coterie.program import Rounds

SIZES = (7, 8, 6, 9)
FEWER = SIZES[:3]  # for processes, which take seconds to begin
SHAPES: dict[str, dict[str, Any]] = {
    "rounds": {
        "protocol": "dual_averaging",
        "settings": {"rounds": 6},
        "topology": "ring",
        "gossip_steps": 1,
    },
    "hub": {"protocol": "weighted_erm", "settings": {"steps": 6, "step_size": 0.5}},
    "learner": {"protocol": "async_learner", "settings": {"ticks": 12}},
    "walk": {"protocol": "wor_sgd", "settings": {"batch": 2}},
}


class Nodes:
    """All parties of a trial at once, until all are done or told to stop."""

    def __init__(self, trial: Trial, stop: Callable[[], bool]) -> None:
        self.outcomes: dict[str, node.Outcome] = {}
        self.lines: dict[str, list[str]] = {name: [] for name in trial.names}
        self.errors: list[BaseException] = []
        self._trial, self._stop = trial, stop
        threads = [threading.Thread(target=self._run, args=(name,)) for name in trial.names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self.errors == []

    def _run(self, name: str) -> None:
        trial = self._trial
        data = None if name == trial.planned.hub else trial.folder / f"{name}.csv"
        try:
            self.outcomes[name] = node.run(
                party.read(trial.place(name)),
                data,
                node.Host(log=self.lines[name].append, stop=lambda: self._stop() or bool(self.errors)),
                injected_seed=trial.seed,
                linger=LONG,
            )
        except BaseException as error:
            self.errors.append(error)

    def finished(self) -> set[bool]:
        return {one.finished for one in self.outcomes.values()}


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps that any owner has released in this process."""
    steps: list[int] = []

    class Counting(Outlet):
        def release(self, step: int, turn: int, body: bytes) -> bytes:
            steps.append(step)
            return super().release(step, turn, body)

    monkeypatch.setattr(owner, "Outlet", Counting)
    return steps


def founded(folder: Path, shape: str, change: str, sizes: tuple[int, ...] = SIZES) -> Trial:
    """A network of all of them, or of all but the last."""
    first = sizes if change == "revoke" else sizes[:-1]
    trial = Trial(folder, first, patience=Patience(wait=120.0, retry=0.2), **SHAPES[shape])
    trial.write_records(sizes)
    trial.allow(50.0)
    return trial


def changed(trial: Trial, change: str, sizes: tuple[int, ...] = SIZES) -> str:
    """The last one goes, or comes. Its name."""
    last = f"owner-{len(sizes) - 1}"
    if change == "revoke":
        trial.revoke(last)
    else:
        trial.add(last, sizes[-1])
    trial.allow(50.0)
    for name in trial.planned.agreement.owners if trial.planned.program.plan.quorum else ():
        own = trial.place(name) / party.NAME
        if "trusts_aggregator" not in own.read_text():
            own.write_text("trusts_aggregator = true\n" + own.read_text())
    return last


def charged(trial: Trial, name: str) -> int:
    with trial.ledger(name) as ledger:
        return len(ledger.rounds(trial.planned.agreement.run))


def planned_releases(trial: Trial, name: str) -> int:
    program, at = trial.planned.program, trial.planned.agreement.owners.index(name)
    if isinstance(program.functions, Rounds):
        return int(program.schedule)
    return int((np.asarray(program.schedule) == at).sum())


@pytest.mark.parametrize("when", ["middle", "end"])
@pytest.mark.parametrize("change", ["add", "revoke"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_new_agreement_begins_at_the_beginning(tmp_path, released, shape, change, when):
    trial = founded(tmp_path, shape, change)
    first = Nodes(trial, lambda: when == "middle" and len(released) >= 8)
    assert first.finished() == ({False} if when == "middle" else {True})
    old = trial.planned.agreement.run
    last = changed(trial, change)
    second = Nodes(trial, lambda: False)
    assert second.finished() == {True}
    for name, model in zip(trial.planned.agreement.owners, trial.undisturbed(), strict=True):
        outcome = second.outcomes[name]
        assert outcome.charged == charged(trial, name) == planned_releases(trial, name)
        found = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(outcome.model)])
        np.testing.assert_allclose(found, model, rtol=1e-4, atol=1e-4)
    for name in trial.names:
        said = [line for line in second.lines[name] if "a new agreement" in line]
        kept = trial.place(name) / f"journal-{old}.sqlite"
        assert (len(said), kept.exists()) == ((0, False) if name == last else (1, True))


@pytest.fixture
def trials() -> Iterator[list[Trial]]:
    started: list[Trial] = []
    yield started
    for trial in started:
        trial.stop()


@pytest.mark.parametrize(
    ("shape", "change", "when"),
    [
        ("rounds", "revoke", "end"),
        ("hub", "add", "end"),
        ("learner", "revoke", "end"),
        ("walk", "add", "middle"),
    ],
)
def test_processes_begin_a_new_agreement_at_the_beginning(tmp_path, trials, shape, change, when):
    trial = founded(tmp_path, shape, change, FEWER)
    trials.append(trial)
    for name in trial.names:
        trial.start(name)
    if when == "end":
        trial.finish()
    else:
        until(lambda: len(list((tmp_path / "net").glob("parties/*/ledger.sqlite"))) == len(FEWER) - 1)
        trial.stop()
    trial.processes.clear()
    changed(trial, change, FEWER)
    for name in trial.names:
        trial.start(name)
    models = trial.undisturbed()
    trial.finish()
    for name, model in zip(trial.planned.agreement.owners, models, strict=True):
        assert charged(trial, name) == planned_releases(trial, name)
        np.testing.assert_allclose(trial.model(name), model, rtol=1e-4, atol=1e-4)
        assert "Traceback" not in trial.log(name)
