"""Three real owners end with one published accuracy, in each shape; killed, they release nothing twice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from parties import Trial
from wired import LONG

from coterie.evaluation.held import divided, simulated
from coterie.evaluation.selection import candidate
from coterie.evaluation.tables import Judged, simulated_noise, step_of, tallied
from coterie.federation.transport.machine import Patience

SIZES = (260, 300, 240)
SHAPES: dict[str, dict[str, Any]] = {
    "async_learner": {"settings": {"ticks": 9}},
    "dual_averaging": {"settings": {"rounds": 4}, "topology": "ring"},
    "weighted_erm": {"settings": {"steps": 4}},
    "wor_sgd": {"settings": {"batch": 100}, "hold_out": 0.4},
    "masked sums": {"protocol": "weighted_erm", "settings": {"view": "masked", "steps": 4}},
}


@pytest.fixture
def trials() -> Iterator[list[Trial]]:
    started: list[Trial] = []
    yield started
    for trial in started:
        trial.stop()


def told(trial: Trial, name: str) -> dict[str, Any]:
    found = json.loads((trial.place(name) / "result" / "result.json").read_text())
    return found["evaluation"] | {"selection": found["selection"]}


def check(trial: Trial) -> None:
    """One choice and one evaluation everywhere, of tables that each owner's ledger holds once, within its budget."""
    everyone = [told(trial, name) for name in trial.names]
    assert everyone[0]["owners"] == 3
    assert everyone[0]["metrics"]["accuracy"]["value"] is not None
    assert everyone[0]["selection"]["owners"] == 3
    assert all(one == everyone[0] for one in everyone)
    planned = trial.planned
    for at, name in enumerate(planned.agreement.owners):
        with trial.ledger(name) as ledger:
            steps = ledger.rounds(planned.agreement.run)
            assert len(steps) == len(set(steps))
            assert tuple(steps[-2:]) == planned.table_steps
            assert ledger.spent().epsilon <= planned.task.epsilon[at] + 1e-9


@pytest.mark.parametrize("shape", SHAPES)
def test_all_owners_publish_what_the_simulator_says(shape, tmp_path, trials):
    terms = {"protocol": shape} | SHAPES[shape]
    trial = Trial(tmp_path, SIZES, epsilon=(8.0,), evaluate=0.3, select=0.3, **terms)
    trials.append(trial)
    for party in trial.names:
        trial.start(party)
    trace = trial.simulated()
    trial.finish()
    check(trial)
    planned = trial.planned
    leaves = jax.tree.leaves(trace.model)
    for at, name in enumerate(planned.agreement.owners):
        rows = planned.agreement.schema.read(trial.folder / f"{name}.csv")
        row = at if np.shape(leaves[0])[0] > 1 else 0
        several = jax.tree.map(lambda leaf, row=row: leaf[row], trace.model)
        names = [one["model"] for one in told(trial, name)["selection"]["candidates"]]
        model = candidate(several, names.index(told(trial, name)["selection"]["choice"]))
        share = planned.agreement.experiment.hold_out
        some = (
            divided(len(rows.y), share, simulated(trial.seed, at)).held if share else np.arange(len(rows.y))
        )
        x, y = planned.features.apply(rows.x)[some], rows.y[some]
        table = tallied(planned.sheet, planned.task.problem, model, Judged(x, y))
        expected = table + simulated_noise(
            planned.program.plan.evaluation, trial.seed, at, step_of(planned.program, "evaluation")
        )
        with trial.ledger(name) as ledger:
            body = ledger.stored(planned.agreement.run, planned.table_steps[-1])
        # the two sum up in another order, so that a record at a band's edge may fall on its other side
        assert np.abs(np.frombuffer(body, "<i8") - expected).max() <= 2 * planned.sheet.units.max()


def test_killed_during_the_evaluation_an_owner_releases_nothing_twice(tmp_path, trials):
    trial = Trial(
        tmp_path, SIZES, protocol="dual_averaging", epsilon=(8.0,), evaluate=0.3, select=0.3,
        patience=Patience(wait=120.0), settings={"rounds": 3}, topology="ring",
    )  # fmt: skip
    trials.append(trial)
    for party in ("owner-0", "owner-1"):
        trial.start(party, injected=False)
    trial.start("owner-2", injected=False)
    for _ in range(3):
        _trained(trial.place("owner-0") / "status.json")
        trial.kill("owner-0")
        trial.start("owner-0", injected=False)
    trial.finish()
    check(trial)


def _trained(status: Path, seconds: float = LONG) -> None:
    """Wait until the party has all its rounds behind it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if status.exists():
            now = json.loads(status.read_text())
            if now["step"] == now["of"]:
                return
        time.sleep(0.02)
    raise AssertionError("training did not end")
