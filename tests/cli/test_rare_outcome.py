"""A rare outcome is not praised for its accuracy, and a quantity is measured in its own unit."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_world import HOSPITALS, Ran, coterie

ROWS = 540
QUICK = ("--owner-column", "hospital", "--set", "rounds=2", "--epsilon", "0.5", "--delta", "1e-3")
NO = "always saying 'no' gives an accuracy of"


def write_rare(folder: Path) -> Path:
    """Every 27th patient is ill, 3.7 %, which the columns hardly tell; `days` is a quantity."""
    rng = np.random.default_rng(1)
    lines = ["hospital,age,stay,ill,days"]
    for at in range(ROWS):
        age, stay = rng.uniform(-1, 1, 2)
        ill = "yes" if at % 27 == 0 else "no"
        lines.append(f"{HOSPITALS[at % 4]},{age:.3f},{stay:.3f},{ill},{20 + 10 * age:.2f}")
    ranges = "[columns]\nage = [-1, 1]\nstay = [-1, 1]\n"
    (folder / "ill.toml").write_text(f'target = "ill"\nclasses = ["no", "yes"]\n{ranges}')
    (folder / "days.toml").write_text(f'target = "days"\nrange = [0, 40]\n{ranges}')
    path = folder / "patients.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def patients(tmp_path_factory) -> Path:
    return write_rare(tmp_path_factory.mktemp("rare"))


def ran(patients: Path, target: str, out: Path, *more: object) -> Ran:
    done = coterie(
        "run",
        "--data",
        patients,
        "--columns",
        patients.with_name(f"{target}.toml"),
        *QUICK,
        *more,
        "--out",
        out,
        out=out,
    )
    assert done.status == 0, done.stderr
    return done


def test_a_model_that_finds_nothing_is_called_so_first(patients, tmp_path):
    done = ran(patients, "ill", tmp_path / "out")
    text = " ".join(done.stdout.split())
    assert text.startswith(("No better than a constant: " + NO, "Worse than a constant: " + NO))
    assert "(oracle)" in text[:200]  # the test rows are owners' records
    assert "nobody declared how common the rarer class is" in text
    found = json.loads((done.out / "result.json").read_text())["metric"]
    assert found["name"] == "accuracy"
    assert found["beats_constant"] is False
    assert found["verdict"].startswith(("No better", "Worse"))
    assert {"joint", "constant", "constant_says", "beats_constant", "verdict", "all", "confusion"} <= set(
        found["oracle"]
    )
    assert found["constant"] == found["all"]["accuracy"]["constant"] > 0.9
    assert sum(map(sum, found["confusion"])) == found["rows"]
    page = (done.out / "report.html").read_text()
    assert page.index("than a constant: always saying") < page.index("Together, 4 owners")


def test_a_declared_share_of_the_rarer_class_chooses_auc(patients, tmp_path):
    done = ran(patients, "ill", tmp_path / "out", "--base-rate", "0.037", "--json")
    found = done.json["metric"]
    assert (found["name"], found["constant"]) == ("auc", 0.5)
    assert "3.7% of rows are of the rarer class (as declared)" in found["why"]
    assert 0 <= found["joint"] <= 1
    header = (done.out / "trace.csv").read_text().splitlines()[0]
    assert header.startswith("step,auc (oracle)")
    assert "an AUC of" in (done.out / "report.html").read_text()
    assert "base_rate = 0.037" in (done.out / "experiment.toml").read_text()


def test_a_quantity_is_measured_in_its_own_unit(patients, tmp_path):
    done = ran(patients, "days", tmp_path / "out", "--metric", "mae")
    assert "mean absolute error (in the unit of 'days') on" in done.stdout
    assert "always saying the mean, " in done.stdout
    found = json.loads((done.out / "result.json").read_text())["metric"]
    assert 4 < found["constant"] < 6  # a uniform quantity on 10 to 30 days is 5 days from its mean
    assert found["all"]["mse"]["constant"] == pytest.approx(100 / 3, rel=0.3)
    assert found["all"]["r2"]["constant"] == pytest.approx(0, abs=1e-9)
    assert found["beats_constant"] == (found["joint"] < found["constant"])
    assert found["confusion"] is None
