"""Class weights and thresholds: by what is public alone, and without a change of what is certified."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.plans import certificates_of
from coterie.errors import InputError
from coterie.experiments import training
from coterie.experiments.decisions import decision_of, in_words
from coterie.experiments.experiment import Experiment, from_toml
from coterie.experiments.trained import model_of_node
from coterie.federation import agreement as agreements
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import collaboration
from coterie.problems.datasets import schema
from coterie.problems.metrics import PLAIN, Decision, Judge
from coterie.problems.table import Table

BALANCED = {"class_weight": "balanced", "base_rate": 0.03}
ODDS = 0.03 / 0.97


def rare(positives: int = 37, public: bool = False, private: int = 37, **more) -> Table:
    given = {"task": "binary", "classes": ("no", "yes"), "test_is_public": public} | more
    signs = [np.where(np.arange(100) < count, 1.0, -1.0).astype(np.float32) for count in (private, positives)]
    x = np.zeros((100, 1), np.float32)
    return Table(name="rare", x=x, y=signs[0], x_test=x, y_test=signs[1], columns=("a",),
                 bounds=np.array([[-1.0, 1.0]]), **given)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "loss", "expected"),
    [
        ({}, "logistic", PLAIN),
        ({"base_rate": 0.03}, "logistic", PLAIN),
        ({"threshold": 0.2}, "logistic", Decision(threshold=0.2)),
        ({"threshold": "base_rate", "base_rate": 0.03}, "logistic", Decision(threshold=0.03)),
        (BALANCED, "logistic", Decision(math.log(ODDS), 0.03, (ODDS, 1.0))),
        (BALANCED | {"threshold": 0.2}, "logistic", Decision(math.log(ODDS), 0.2, (ODDS, 1.0))),
        (BALANCED, "hinge", Decision(weights=(ODDS, 1.0))),
    ],
)
def test_what_is_declared_decides(given, loss, expected):
    assert decision_of(Experiment(**given), rare(), loss) == expected


def test_public_test_rows_decide_where_nothing_is_declared():
    found = decision_of(Experiment(class_weight="balanced"), rare(80, public=True), "logistic")
    assert (found.offset, found.threshold) == pytest.approx((math.log(4), 0.8))
    assert found.weights == pytest.approx((1.0, 0.25))


def test_private_rows_have_no_part_in_it():
    asked = [Experiment(**BALANCED), Experiment(threshold="base_rate", base_rate=0.1)]
    for experiment in asked:
        tables = [rare(count, private=other) for count in (0, 37, 99) for other in (0, 1, 50)]
        assert len({decision_of(experiment, table, "logistic") for table in tables}) == 1


WRONG = [
    ({"class_weight": "balanced"}, {}, "logistic", r"nobody declared.*Give --base-rate"),
    ({"threshold": "base_rate"}, {}, "logistic", r"threshold='base_rate': nobody declared"),
    ({"class_weight": "balanced"}, {"public": True, "positives": 0}, "logistic", "nobody declared"),
    (
        BALANCED,
        {"classes_declared": False},
        "logistic",
        "Declare classes in a columns file, the rarer one second",
    ),
    (
        BALANCED,
        {"task": "multiclass", "classes": tuple("abc")},
        "softmax",
        "class_weight='balanced': is for a target of",
    ),
    ({"threshold": 0.3}, {"task": "regression"}, "huber", "threshold=0.3: is for a target of two classes"),
    (BALANCED, {}, "squared", "is for the losses logistic, hinge, not for 'squared'"),
    ({"threshold": 0.3}, {}, "hinge", "gives no probabilities"),
]


@pytest.mark.parametrize(("given", "table", "loss", "words"), WRONG)
def test_what_nothing_public_decides_is_refused(given, table, loss, words):
    with pytest.raises(InputError, match=words) as error:
        decision_of(Experiment(**given), rare(**table), loss)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "given", [{"threshold": 0.0}, {"threshold": 1.0}, {"threshold": "often"}, {"class_weight": "ja"}]
)
def test_what_no_experiment_can_mean_is_refused(given):
    with pytest.raises(InputError, match=next(iter(given))):
        Experiment(**given)


def test_an_experiment_file_has_them():
    experiment = Experiment(**BALANCED, threshold="base_rate")
    assert from_toml(experiment.to_toml()) == experiment
    assert from_toml("threshold = 0.2").threshold == 0.2


def test_words():
    assert in_words(PLAIN, rare()) == ""
    told = in_words(decision_of(Experiment(**BALANCED), rare(), "logistic"), rare())
    assert (
        told
        == "'yes' is predicted where its probability is above 0.03; class weights 0.03093 for 'no', 1 for 'yes'"
    )


@pytest.mark.parametrize("protocol", ["dual_averaging", "push_sum", "weighted_erm"])
def test_plan_and_certificate_are_those_without_weights(protocol):
    """Weights are at most 1, so the clip norm, and all that follows from it, stays."""
    plain = Experiment(protocol=protocol, owners=4, base_rate=0.1, epsilon=1.0)
    made = [
        training.ready(one, None, lambda what, done, of: None)
        for one in (plain, replace(plain, class_weight="balanced"))
    ]
    first, second = (one.program.plan for one in made)
    assert first.clip_norm == second.clip_norm
    assert np.array_equal(first.noise_scale, second.noise_scale)
    assert first.releases == second.releases
    certified = [[one.epsilon for one in certificates_of(plan, 1e-5)] for plan in (first, second)]
    assert certified[0] == certified[1]
    assert made[1].prepared.task.problem.loss.weights == pytest.approx((1 / 9, 1.0))


def test_a_judge_decides_at_the_threshold():
    """Scores of a weighted loss lack the base rate; a constant has it."""
    judge = Judge(task="binary", loss="logistic", classes=2, bounds=None, metric="recall",
                  decision=Decision(math.log(ODDS), 0.1, (ODDS, 1.0)))  # fmt: skip
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    edge = math.log(0.1 / 0.9) - math.log(ODDS)
    scores = np.array([[-1.0], [edge + 0.01], [edge - 0.01], [9.0]])
    assert judge(scores, y) == 0.5
    assert judge.confusion(scores, y).tolist() == [[1, 1], [1, 1]]
    shifted = replace(judge, metric="log_loss")(scores, y)
    assert shifted == pytest.approx(replace(judge.plain, metric="log_loss")(scores + math.log(ODDS), y))
    rarely = np.where(np.arange(100) < 20, 1.0, -1.0)
    assert judge.plain(judge.constant(rarely), rarely) == 0  # the most common class, whatever the threshold


def test_real_owners_agree_on_it_and_their_model_has_it():
    columns = {"target": "ill", "classes": ["no", "yes"], "columns": {"a": [-1, 1]}}
    agreed = Agreement(name="net", experiment=Experiment(**BALANCED, settings={"rounds": 2}),
                       schema=schema.from_json(columns, "net"), sizes={"north": 50, "south": 60})  # fmt: skip
    again = agreements.from_json(json.loads(agreed.text()), "net")
    planned = collaboration(again)
    assert planned.task.problem.loss.weights == (ODDS, 1.0)
    model = model_of_node(planned, "north", planned.task.params, injected=False)
    assert model.description.decision == Decision(math.log(ODDS), 0.03, (ODDS, 1.0))
