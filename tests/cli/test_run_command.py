"""`coterie run` as a user calls it: what it prints, what it writes, that it can be repeated."""

import csv
import json
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from cli_world import HOSPITALS, coterie, on

from coterie.experiments.experiment import read_toml
from coterie.experiments.prepare import prepare
from coterie.protocols import PROTOCOLS

ROOT = Path(__file__).parents[2]
FILES = {
    "report.html",
    "result.json",
    "trace.csv",
    "experiment.toml",
    "metric.png",
    "model.safetensors",
    "epsilon.png",
}
SUMMARY = {"protocol", "engine", "owners", "rounds", "seconds", "metric", "privacy", "out"}
METRIC = {"name", "joint", "local_only", "central"}
PRIVACY = {
    "relation",
    "view",
    "delta",
    "budget_epsilon",
    "claimed_epsilon",
    "certified_epsilon",
    "accountant",
}


def test_json_is_one_object_and_nothing_else(ran):
    assert ran.status == 0, ran.stderr
    assert ran.stdout.count("\n") == 1
    assert isinstance(ran.json, dict)


def test_json_has_the_promised_keys_and_types(ran):
    found = ran.json
    assert found.keys() >= SUMMARY
    assert found["metric"].keys() >= METRIC
    assert found["privacy"].keys() >= PRIVACY
    assert (found["protocol"], found["engine"]) == ("dual_averaging", "simulate")
    assert (found["owners"], found["rounds"], found["out"]) == (4, 5, str(ran.out))
    assert found["owner_names"] == list(HOSPITALS)
    assert found["seconds"] > 0
    assert found["metric"]["name"] == "accuracy"
    assert all(0 <= found["metric"][key] <= 1 for key in ("joint", "local_only", "central"))
    privacy = found["privacy"]
    assert (privacy["relation"], privacy["view"]) == ("replace_one", "public transcript")
    assert privacy["delta"] == 1e-5
    assert privacy["certified_epsilon"].keys() == {"max", "per_owner"}
    assert privacy["claimed_epsilon"] > 0
    assert privacy["accountant"]


def test_what_nobody_released_is_marked(ran):
    # The user's own test rows are still somebody's records.
    names = ["joint", "local_only", "central", "constant", "constant_says"]
    assert ran.json["metric"]["oracle"] == [*names, "beats_constant", "verdict", "all", "confusion"]


def test_every_owner_stays_within_its_own_budget_and_uses_it(ran):
    privacy = ran.json["privacy"]
    assert privacy["budget_epsilon"] == [0.5, 1.0, 2.0, 4.0]
    spent = privacy["certified_epsilon"]["per_owner"]
    assert all(one <= budget for one, budget in zip(spent, privacy["budget_epsilon"]))
    assert spent == pytest.approx(privacy["budget_epsilon"], rel=1e-3)
    assert privacy["certified_epsilon"]["max"] == max(spent)


def test_the_folder(ran):
    assert {path.name for path in ran.out.iterdir()} == FILES
    assert json.loads((ran.out / "result.json").read_text()) == ran.json
    for name in ("metric.png", "epsilon.png"):
        assert (ran.out / name).read_bytes().startswith(b"\x89PNG")
        assert (ran.out / name).stat().st_size < 100_000
    assert [path.name for path in ran.out.parent.iterdir()] == [ran.out.name]


def test_the_trace_ends_with_the_result(ran):
    with (ran.out / "trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert "joint" in ran.json["metric"]["oracle"]  # the test rows are owners' own: so the columns are marked
    owners = [f"{name} (oracle)" for name in HOSPITALS]
    assert list(rows[0]) == ["step", "accuracy (oracle)", "disagreement", *owners]
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert float(rows[-1]["accuracy (oracle)"]) == pytest.approx(ran.json["metric"]["joint"], abs=1e-5)
    assert float(rows[-1]["disagreement"]) > 0


def test_the_written_experiment_gives_the_same_numbers_bit_for_bit(ran, tmp_path):
    again = coterie("run", ran.out / "experiment.toml", "--json", "--out", tmp_path / "again")
    assert again.status == 0, again.stderr
    for part in ("metric", "privacy", "rounds", "messages", "owner_names"):
        assert again.json[part] == ran.json[part]
    assert (tmp_path / "again" / "trace.csv").read_bytes() == (ran.out / "trace.csv").read_bytes()
    assert (tmp_path / "again" / "experiment.toml").read_bytes() == (ran.out / "experiment.toml").read_bytes()


def test_options_override_the_file_and_another_seed_is_another_run(ran, tmp_path):
    out = tmp_path / "other"
    other = coterie("run", ran.out / "experiment.toml", "--seed", 3, "--epsilon", 2, "--json", "--out", out)
    assert other.status == 0, other.stderr
    assert other.json["privacy"]["budget_epsilon"] == 2.0  # one number where all owners share it
    assert (out / "trace.csv").read_bytes() != (ran.out / "trace.csv").read_bytes()
    written = tomllib.loads((out / "experiment.toml").read_text())
    assert (written["seed"], written["epsilon"], written["settings"]) == (3, [2.0], {"rounds": 5})


def test_records_in_parts_are_the_same_run_to_float_tolerance(ran, tmp_path):
    out = tmp_path / "parts"
    done = coterie("run", ran.out / "experiment.toml", "--microbatch", 3, "--json", "--out", out)
    assert done.status == 0, done.stderr
    assert done.json["privacy"] == ran.json["privacy"]
    traces = [np.genfromtxt(folder / "trace.csv", delimiter=",", skip_header=1) for folder in (ran.out, out)]
    np.testing.assert_allclose(*traces, rtol=1e-4, atol=1e-6)
    written = tomllib.loads((out / "experiment.toml").read_text())
    assert written["microbatch"] == 3
    assert prepare(read_toml(out / "experiment.toml")).task.problem.microbatch == 3


def test_budgets_from_a_file_go_by_name(visits, tmp_path):
    table = tmp_path / "budgets.csv"
    table.write_text("budget,hospital\n4,Riverside\n0.5,Eastside\n2,Northgate\n1,Lakeview\n")
    found = coterie(*on(visits), "--epsilon", f"{table}:budget", "--json", "--out", tmp_path / "out")
    assert found.status == 0, found.stderr
    assert found.json["privacy"]["budget_epsilon"] == [0.5, 1.0, 2.0, 4.0]
    written = tomllib.loads((tmp_path / "out" / "experiment.toml").read_text())
    assert written["epsilon"] == {"Riverside": 4.0, "Eastside": 0.5, "Northgate": 2.0, "Lakeview": 1.0}


def test_without_noise_epsilon_is_the_text_inf_and_the_reason_is_given(visits, tmp_path):
    options = ("--calibration", "noiseless", "--json", "--out", tmp_path / "out")
    found = coterie(*on(visits), *options)
    assert found.status == 0, found.stderr
    privacy = found.json["privacy"]
    assert privacy["certified_epsilon"] == {"max": "inf", "per_owner": ["inf"] * 4}
    assert privacy["claimed_epsilon"] is None
    assert privacy["reason"]
    assert "Infinity" not in (tmp_path / "out" / "result.json").read_text()


def test_in_words(visits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()  # an empty folder is as good as none
    done = coterie(*on(visits), "--epsilon", "0.5,1,2,4", "--out", "out")
    assert done.status == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(done.stdout.split())
    for part in (
        "4 owners, 160 records",
        "5 rounds",
        "ε = 0.5 to 4",
        "4 of 4 within budget",
        "promise: ",
        "can at most become 86 in 100",
        "written: out",
    ):
        assert part in text
    assert "held-out rows (oracle)" in text
    assert sum("oracle" in line for line in lines) == 5
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_the_demonstration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = coterie("run")
    assert done.status == 0, done.stderr
    out = tmp_path / "runs" / "census-dual_averaging-1"
    assert {path.name for path in out.iterdir()} == FILES
    found = json.loads((out / "result.json").read_text())
    assert found["owners"] == 20
    assert found["metric"]["joint"] >= found["metric"]["local_only"] + 0.03
    assert found["metric"]["joint"] <= found["metric"]["central"] + 0.01
    assert found["metric"]["oracle"] == ["local_only", "central"]
    privacy = found["privacy"]
    assert privacy["budget_epsilon"] == 1.0
    assert all(one <= 1.0 for one in privacy["certified_epsilon"]["per_owner"])
    assert not math.isclose(privacy["claimed_epsilon"], privacy["certified_epsilon"]["max"])
    assert np.genfromtxt(out / "trace.csv", delimiter=",", skip_header=1).shape[1] == 23


def test_the_readme_has_a_row_for_every_protocol():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(PROTOCOLS)


def test_links_of_the_documents_lead_somewhere():
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs/index.md",
        ROOT / "docs/running.md",
    ):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
