"""The table of defaults beside fixed radii: what it counts, and that the document shows what was measured."""

import json

import pytest

from papers import scale, scale_unseen

ACCURACY = {
    "set": "adult", "epsilon": 1.0, "metric": "accuracy", "seeds": 5, "default": 0.80, "spread": 0.001,
    "aggregator": 0.81, "server": 0.82, "fixed": {"10.0": 0.79, "40.0": 0.805},
}  # fmt: skip
ERROR = {
    **ACCURACY,
    "set": "sparcs",
    "metric": "mse",
    "default": 0.0103,
    "fixed": {"1.0": 0.0100, "3.0": 0.0200},
}


def test_a_default_loses_to_the_best_radius_in_points_or_per_cent():
    assert scale.lost(ACCURACY) == pytest.approx(0.5)
    assert scale.lost(ERROR) == pytest.approx(3.0)
    text = "\n".join(scale.section([ACCURACY, ERROR]))
    assert (
        "| adult | 1 | accuracy | 5 | **80.00** ± 0.10 | 81.00 | 82.00 | 10: 79.00, 40: 80.50 | +0.50 |"
        in text
    )
    assert "Points lost by classifiers: 0.50 on average, 0.50 at worst." in text
    assert "mnist at ε = 0.5" in text.split("Not run:")[1]
    assert "adult at ε = 1," not in text.split("Not run:")[1]


def test_what_is_measured_again_replaces_what_was(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "KEPT", tmp_path / "kept.json")
    for row in (ERROR, ACCURACY, {**ACCURACY, "default": 0.9}):
        scale.keep(row)
    assert [row["default"] for row in json.loads(scale.KEPT.read_text())] == [0.9, 0.0103]


def test_the_document_shows_what_is_kept():
    rows = json.loads(scale.KEPT.read_text())
    assert {row["set"] for row in rows} <= set(scale.JUDGING)
    assert scale.RESULTS.read_text().endswith("\n".join(scale.section(rows)))


@pytest.mark.parametrize("name", ["wine", "stays"])
def test_unseen_sets_are_declared_as_people_would(name):
    """Wider than the values, so that nothing of them is at an end; ten owners, as in the other tables."""
    ready = scale_unseen.made(name)
    assert ready.task.owners == 10
    assert bool(ready.task.problem.loss.classes) == (name not in scale_unseen.QUANTITY)
    low, high = zip(*(scale_unseen._wide(column) for column in scale_unseen.SETS[name]()[0].T))
    x = scale_unseen.SETS[name]()[0]
    assert (x.min(axis=0) >= low).all()
    assert (x.max(axis=0) < high).all()


def test_the_table_of_unseen_sets_names_each(monkeypatch, capsys):
    monkeypatch.setattr(scale_unseen, "EPSILON", (1.0,))
    scale_unseen.main(["wine"])
    told = capsys.readouterr().out
    assert told.startswith("| wine | 142 × 14 | ")
    assert told.count("|") == 6
