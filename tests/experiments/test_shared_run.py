"""A run with shared noise as a user sees it: two numbers, plain words, gossip that is enough, and a check of it all."""

import json

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.experiments import output, recompute
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import fit
from coterie.experiments.run import run

SETTINGS = {"view": "shared", "rounds": 20, "colluding": 2}
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (480, 3)).astype(np.float32)
ROWS = {"x": X, "y": (X @ [1.0, -2.0, 0.5] + 0.3 * RNG.standard_normal(480) > 0).astype(int)}


def experiment(tmp_path_factory, **more):
    file = tmp_path_factory.mktemp("rows") / "rows.npz"
    np.savez(file, **ROWS)
    return Experiment(data=str(file), target="y", owners=12, epsilon=(1.0,), settings=SETTINGS, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return output.write(run(experiment(tmp_path_factory)), tmp_path_factory.mktemp("runs") / "shared")


def test_both_numbers_and_the_words_are_there_and_can_be_computed_again(folder):
    obj = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    found = obj["privacy"]
    assert 0.99 < found["certified_epsilon"]["max"] <= 1.0 < found["all_others_epsilon"]
    assert obj["gossip_steps"] == 6  # a ring of twelve: exactly the mean
    trust = next(line for line in found["statement"] if line.startswith("Trust: "))
    assert "at least 9 of an owner's 11 fellow owners" in trust
    assert "noise that owners share in pairs hides" in trust
    assert any("one adding what the other takes off" in line for line in found["promise"])
    assert not any("masks" in line for line in (*found["promise"], *found["statement"]))
    assert not [problem for one in recompute.check(folder) for problem in one.problems]


def test_few_steps_end_in_a_consensus_and_fewer_are_refused(tmp_path_factory):
    some = experiment(tmp_path_factory, gossip_steps=4)
    result = run(some)
    assert result.consensus > 0
    assert result.messages == 24 * (20 * 4 + result.consensus)
    assert result.disagreement[-1] < 0.5 * result.disagreement[-2]
    assert result.joint == pytest.approx(float(np.mean(result.curve[-1])), abs=0.02)
    with pytest.raises(InputError, match="gossip_steps=1: shared noise would leave owners"):
        fit(experiment(tmp_path_factory, gossip_steps=1))
