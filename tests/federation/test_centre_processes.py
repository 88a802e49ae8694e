"""Real owners train around one charged mean of their features; killed before they begin, they release it once."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from parties import Trial, until
from typer.testing import CliRunner

from coterie.cli import app
from coterie.federation import agreement as agreements
from coterie.federation import check, party
from coterie.model import load

PRIVATE = ("relation=add_or_remove_one", "steps=3", "step_size=0.5")
COLUMNS = 'target = "y"\nclasses = ["no", "yes"]\n[columns]\na = [0, 1]\n'

SIZES = (260, 300, 240)
SHAPES: dict[str, dict[str, Any]] = {
    "rounds": {"protocol": "dual_averaging", "settings": {"rounds": 4}, "topology": "ring"},
    "masked sums": {"protocol": "weighted_erm", "settings": {"view": "masked", "steps": 4}},
}


@pytest.fixture
def trials():
    started: list[Trial] = []
    yield started
    for trial in started:
        trial.stop()


def results(trial: Trial) -> dict[str, Any]:
    return {
        name: json.loads((trial.place(name) / "result" / "result.json").read_text()) for name in trial.names
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_all_owners_train_around_one_centre_and_say_so(shape, tmp_path, trials):
    trial = Trial(tmp_path, SIZES, epsilon=(8.0,), centre=0.1, evaluate=0.3, **SHAPES[shape])
    trials.append(trial)
    for name in trial.names[:-1]:
        trial.start(name, injected=False)
    first = trial.place(trial.names[0])
    until(lambda: (first / "status.json").exists())
    for _ in range(2):
        time.sleep(0.3)
        trial.kill(trial.names[0])
        trial.start(trial.names[0], injected=False)
    trial.start(trial.names[-1], injected=False)
    trial.finish()
    told = results(trial)
    centres = [one["centre"] for one in told.values()]
    assert all(one == centres[0] for one in centres)
    assert (centres[0]["share"], centres[0]["owners"]) == (0.1, 3)
    assert 0 < centres[0]["noise"] < 1
    planned = trial.planned
    for at, name in enumerate(planned.agreement.owners):
        with trial.ledger(name) as ledger:
            steps = ledger.rounds(planned.agreement.run)
            assert len(steps) == len(set(steps))
            assert set(planned.table_steps) <= set(steps)
            assert ledger.spent().epsilon <= planned.task.epsilon[at] + 1e-9
        place = trial.place(name) / "result"
        steps = {step.name: step for step in load(place).steps}
        assert steps["centre"].settings["distance"] == pytest.approx(centres[0]["distance"])
        page = (place / "report.html").read_text()
        assert "Centred by the owners: the mean of their features" in page
        assert told[name]["certified_epsilon"] <= planned.task.epsilon[at] + 1e-9


def test_a_dry_run_counts_the_sums_of_features(tmp_path):
    trial = Trial(
        tmp_path, SIZES, epsilon=(8.0,), centre=0.1, protocol="dual_averaging", settings={"rounds": 4}
    )
    (found,) = check.check(
        [(party.read(trial.place("owner-0")), tmp_path / "owner-0.csv")], lambda line: None
    )
    assert found.facts["releases"] == 5
    assert 7 < found.facts["cost"] <= 8.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", "0.01"), "times as long as a record"),
        (("--features", "scale"), "have no length that is known to be at most 1"),
        (
            ("--protocol", "weighted_erm", *(word for one in PRIVATE for word in ("--set", one))),
            "a mean needs the number of records, which is private",
        ),
    ],
)
def test_what_cannot_be_centred_is_not_founded(tmp_path, options, words):
    given = (
        "--owners",
        "a,b",
        "--sizes",
        "400,300",
        "--columns",
        tmp_path / "columns.toml",
        "--centre",
        0.05,
    )
    (tmp_path / "columns.toml").write_text(COLUMNS)
    found = CliRunner().invoke(app, ["network", "new", *map(str, (tmp_path / "net", *given, *options))])
    assert found.exit_code == 2
    assert words in found.stderr
    assert not (tmp_path / "net").exists()


def test_a_founder_and_who_signs_are_told_of_the_centre(tmp_path):
    given = ("--owners", "a,b", "--sizes", "4000,3000", "--columns", tmp_path / "columns.toml")
    (tmp_path / "columns.toml").write_text(COLUMNS)
    found = CliRunner().invoke(
        app, ["network", "new", *map(str, (tmp_path / "net", *given, "--centre", 0.05))]
    )
    assert "Centre: 0.05 of every budget pays for the mean of all features" in found.stdout
    agreement = agreements.read(tmp_path / "net" / "agreement.json")
    assert agreement.experiment.centre == 0.05
    assert "0.05 of each budget pays for the mean of all features" in agreements.words(agreement)
    plain = replace(agreement, experiment=replace(agreement.experiment, centre=0.0))
    assert "centre" not in plain.to_json()["terms"]  # as agreements were before there was such a term
