"""What is printed of a value at a prompt or in a log: short, and never an array or a record."""

from __future__ import annotations

import numpy as np
import pytest
import worlds
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

import coterie
from coterie import topologies
from coterie.accounting import certify
from coterie.engines.simulate import simulate
from coterie.problems.feature_steps import pipeline
from coterie.problems.table import Table
from coterie.protocols import build

OWNERS = 60
SECRET = 123.456


def table() -> Table:
    x = np.full((4, 2), SECRET, np.float32)
    y = np.ones(4, np.float32)
    return Table(name="secrets", task="binary", x=x, y=y, x_test=x, y_test=y, columns=("a", "b"),
                 bounds=np.array([[0.0, 200.0]] * 2), classes=("no", "yes"))  # fmt: skip


@pytest.fixture(scope="module")
def values():
    task = worlds.task((3,) * OWNERS, 2)
    program = build("dual_averaging", task, {"rounds": 2}, "certified")
    records = worlds.shards((3,) * OWNERS, 2)
    return {
        "task": task,
        "program": program,
        "plan": program.plan,
        "trace": simulate(program, records, topologies.mixer(task.topology), seed=0),
        "shards": records,
        "topology": task.topology,
        "table": table(),
        "step": pipeline("scale,piecewise:40", table()).steps[1],
        "certificate": certify(SelfComposedDpEvent(GaussianDpEvent(40.0), 100), delta=1e-5),
        "claim": program.claim,
        "experiment": coterie.Experiment(owners=4, epsilon=[0.1] * OWNERS, settings={"rounds": 5}),
    }


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("task", "<Task: 60 owners, linear model of 2 numbers, logistic loss, topology ring>"),
        ("program", "<Program of 2 rounds, <ReleasePlan: 60 owners, at most 2 releases"),
        ("plan", "gaussian noise, replace_one>"),
        ("trace", "<Trace of 60 owners, looked at after"),
        ("shards", "<Shards: records of shape (60, 3, 2), private>"),
        ("topology", "<Topology ring: 60 owners, 1 in turn>"),
        ("table", "<Table secrets: 2 columns, binary 'target'>"),
        ("step", "<Step piecewise {'knots': 40}, bounds (2, 2), binary (2,)>"),
        ("certificate", "<certified: ε ≤ 1.994 (δ = 1e-05, replace_one, unit: record"),
        ("claim", "<claimed: "),
        ("experiment", "Experiment(owners=4, epsilon=(0.1, "),
    ],
)
def test_it_is_one_short_line_without_arrays(values, name, has):
    said = repr(values[name])
    assert has in said
    assert len(said) < 200
    assert "\n" not in said
    assert not any(word in said for word in ("array(", "Array(", "123.4"))


def test_an_experiment_reads_back_from_what_is_printed():
    experiment = coterie.Experiment(protocol="push_sum", owners=4, settings={"rounds": 5})
    said = repr(experiment)
    assert said == "Experiment(protocol='push_sum', owners=4, settings={'rounds': 5})"
    assert eval(said, {"Experiment": coterie.Experiment}) == experiment
    assert repr(coterie.Experiment()) == "Experiment()"
