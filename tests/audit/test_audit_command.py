"""`coterie audit` as a user calls it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from coterie.accounting.plans import certificates_of
from coterie.cli import app
from coterie.experiments.experiment import Experiment
from coterie.experiments.training import ready

QUICK = ("--games", "2000", "--delta", "0.01")


def coterie(*arguments: object):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path):
    """A run's folder, as far as an audit reads it: two owners, the second with the larger budget."""
    data = tmp_path / "records.csv"
    rows = (f"{'ab'[at % 2]},{at % 5 / 5},{'yes' if at % 3 else 'no'}" for at in range(20))
    data.write_text("\n".join(["owner,x,label", *rows]) + "\n")
    chosen = Experiment(
        protocol="wor_sgd",
        data=str(data),
        target="label",
        owner_column="owner",
        delta=0.01,
        epsilon=(0.5, 1.0),
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "experiment.toml").write_text(chosen.to_toml())
    plan = ready(chosen, None, lambda what, done, of: None).program.plan
    per_owner = [one.epsilon for one in certificates_of(plan, 0.01)]
    privacy = {"audited_epsilon": None, "certified_epsilon": {"per_owner": per_owner}}
    (run / "result.json").write_text(json.dumps({"kept": 1, "privacy": privacy}))
    return run


def test_json_is_one_object_with_all_three_columns():
    done = coterie(*QUICK, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert found["audited_epsilon"] <= found["certified_epsilon"] <= 1.0 + 1e-6
    assert found["finding"]["games"] == 2000
    assert found["finding"]["confidence"] == 0.999
    assert found["finding"]["view"] == "public transcript"
    assert found["second_opinions"].keys() == {"gaussian_assumed"}
    assert found["second_opinions_left_out"].keys() == {"one_run"}
    assert found["claimed_epsilon"] > 0


def test_words_fit_and_show_all_three():
    done = coterie(*QUICK)
    assert done.exit_code == 0
    for word in ("claimed", "certified", "audited", "confidence 0.999, 2,000 games"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_runs_folder_gets_its_finding(folder):
    done = coterie(folder, "--games", "2000", "--json")
    assert done.exit_code == 0, done.stderr
    written = json.loads((folder / "result.json").read_text())
    assert written["kept"] == 1
    assert written["privacy"]["audited_epsilon"] == json.loads(done.stdout)["audited_epsilon"]
    assert written["privacy"]["audit"]["finding"]["games"] == 2000
    assert written["privacy"]["audit"]["certified_epsilon"] == pytest.approx(1.0, abs=1e-3)
    assert written["privacy"]["audit"]["world"].startswith("this run: b, ")
    assert sorted(path.name for path in folder.iterdir()) == ["experiment.toml", "result.json"]


@pytest.mark.parametrize("more", [("--epsilon", 2), ("--records", 5), ("--set", "batch=3"), ("--dim", 2)])
def test_a_run_is_audited_as_it_was_run(folder, more):
    done = coterie(folder, *more)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"{more[0][2:]}=" in done.stderr
    assert "as it was run" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--protocol", "nope"), "protocol='nope'"),
        (("--calibration", "hopeful"), "calibration='hopeful'"),
        (("--games", "3"), "games=3"),
        (("--confidence", "1.5"), "confidence=1.5"),
        (("--records", "0"), "records=0"),
        (("--dim", "0"), "dim=0"),
        (("missing.toml",), "missing.toml"),
        (("--set", "nothing=1"), "nothing"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, words):
    done = coterie(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_that_is_no_run_is_refused_before_any_game(tmp_path):
    (tmp_path / "experiment.toml").write_text(Experiment().to_toml())
    done = coterie(tmp_path)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "result.json" in done.stderr


def test_no_games_are_no_audit():
    told = coterie("--games", "0")
    assert told.exit_code == 2
    assert "games=0: must be a whole number >= 32" in told.stderr
