"""The example runs on rows that look like Adult's, and is as short as its page says."""

import runpy
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coterie

EXAMPLE = Path(__file__).parents[2] / "examples/adult.py"


def made_up(rows, seed, end=""):
    """Rows of Adult's form, whose income follows from education alone."""
    said = tomllib.loads(EXAMPLE.with_suffix(".toml").read_text())
    rng = np.random.default_rng(seed)
    columns = {}
    for name, spec in said["columns"].items():
        spec = spec["range"] if isinstance(spec, dict) else spec
        columns[name] = rng.choice(spec, rows) if isinstance(spec[0], str) else rng.integers(*spec, rows)
    columns |= {"fnlwgt": 1, "native-country": "Peru"}
    columns["income"] = np.where(columns["education-num"] > 8, f">50K{end}", f"<=50K{end}")
    frame = pd.DataFrame(columns)[said["order"]]
    frame.loc[0, "workclass"] = "?"
    return frame


def test_the_example_trains_saves_loads_predicts_and_prints_its_promise(tmp_path, monkeypatch, capsys):
    made_up(20_000, 0).to_csv(tmp_path / "adult.data", header=False, index=False)
    test = made_up(1_000, 1, end=".").to_csv(header=False, index=False)
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{test}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "adult.data", "adult.test"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    assert float(said.partition("accuracy ")[2][:6]) > 0.75
    assert "at ε ≤ 1\nIn short: if real owners do what was simulated here, a suspicion of 1 in 10" in said
    model = coterie.load("adult.safetensors")
    assert len(model.description.training["owners"]) == 8
    assert model.description.privacy["warnings"] == []


def test_the_example_is_twenty_lines():
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20


@pytest.mark.parametrize("name", ["CoterieClassifier", "CoterieRegressor", "PrivacyLeakWarning"])
def test_the_names_are_at_hand(name):
    assert name in coterie.__all__
