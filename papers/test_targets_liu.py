"""Certified dual averaging on real data: within a point of the non-private optimum, and above paper A's best.

Settings are the defaults. Their constants (radius, clipping at half the bound) were chosen on the embedded
census data; rounds and γ follow from sizes, budgets and bounds.

`python -m papers.test_targets_liu` prints the means of five seeds, with the defaults' own number of rounds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie import topologies
from coterie.accounting.plans import certificates_of
from coterie.cli import app
from coterie.engines.simulate import simulate
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import prepare
from coterie.experiments.run import run
from coterie.protocols import build
from papers.reproductions.jin_tables import TABLES
from papers.scoring import accuracy


def data_dir() -> Path:
    """The data sets' folder; a missing one fails the test, it never skips."""
    folder = os.environ.get("COTERIE_DATA")
    assert folder, "set COTERIE_DATA to the folder that holds the data sets (docs/data.md)"
    return Path(folder)


@pytest.mark.parametrize("data", ["a9a", "covtype"])
def test_within_a_point_of_the_non_private_optimum(data, tmp_path):
    words = f"run --protocol dual_averaging --data {data} --owners 20 --topology ring --epsilon 1 --delta 0.01 --json"
    done = CliRunner().invoke(
        app, [*words.split(), "--out", str(tmp_path / "run"), "--data-dir", str(data_dir())]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    print(data, found["metric"])
    assert found["metric"]["joint"] >= found["metric"]["central"] - 0.010
    assert max(found["privacy"]["certified_epsilon"]["per_owner"]) <= 1.0


@pytest.mark.parametrize(
    ("data", "settings", "target", "table"),
    [("mnist", {"rounds": 60}, 0.900, "mnist"), ("covtype", {"rounds": 100}, 0.725, "covtype7")],
)
def test_above_the_best_of_jin_2020(data, settings, target, table):
    """10 owners, certified (1, 1/n²), public transcript; published: the paper's best private accuracy anywhere."""
    private = [row for (name, _, method), row in TABLES.items() if name == table and method != "A0"]
    published = max(accuracy for row in private for accuracy in row if accuracy is not None) / 100
    records = {"mnist": 60_000, "covtype": 464_809}[data]
    experiment = Experiment(data=data, owners=10, epsilon=(1.0,), delta=1 / records**2, settings=settings)
    result = run(experiment, data_dir())
    assert sum(result.prepared.task.sizes) == records
    print(
        data, "joint", round(result.joint, 4), "published", published, "no privacy", round(result.central, 4)
    )
    assert result.joint >= target > published
    assert max(one.epsilon for one in result.certificates) <= 1.0
    assert np.isclose(result.certificates[0].delta, 1 / records**2)


def five_seeds(data: str, records: int) -> None:
    """Accuracy of the owners' mean model on the public test rows: one partition, five draws of the noise."""
    prepared = prepare(Experiment(data=data, owners=10, delta=1 / records**2), data_dir())
    task = prepared.task
    program = build("dual_averaging", task, {}, "certified")
    mixer = topologies.mixer(task.topology, topologies.gossip_steps_for(task.topology))
    found = []
    for seed in range(5):
        model = simulate(program, prepared.shards, mixer, seed=seed).model.mean(axis=0)
        found.append(accuracy(np.asarray(task.problem.model.scores(model, prepared.x_test)), prepared.y_test))
    epsilon = max(one.epsilon for one in certificates_of(program.plan, task.delta))
    print(
        f"{data}: {np.mean(found):.4f} ± {np.std(found):.4f} (5 seeds), certified ε = {epsilon:.3f}, "
        f"δ = 1/{records:,}², {program.schedule} rounds"
    )


if __name__ == "__main__":
    five_seeds("covtype", 464_809)
    five_seeds("mnist", 60_000)
