"""Evaluation by groups, and on rows kept out of training: what a record can move, what is told, what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from coterie.audit.table import worst
from coterie.errors import InputError
from coterie.evaluation.estimate import estimates
from coterie.evaluation.groups import OTHERS, groups_of
from coterie.evaluation.held import divided, held_of, secret, simulated, trained_sizes
from coterie.evaluation.sheet import Sheet
from coterie.evaluation.words import sentences, too_few
from coterie.experiments import output, recompute
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import prepare
from coterie.experiments.training import ready
from coterie.model import load
from coterie.model.words import card
from coterie.problems.fields import Category, Flag
from coterie.problems.table import Table

GROUPS = 3
SHEETS = [
    Sheet("binary", "logistic", 2, True, GROUPS),
    Sheet("multiclass", "softmax", 4, False, GROUPS),
    Sheet("regression", "squared", 0, True, GROUPS),
    Sheet("regression", "squared", 0, False, GROUPS),
]
SMALL = Experiment(
    owners=4,
    partition="iid",
    evaluate=0.2,
    evaluate_by="sex",
    hold_out=0.5,
    gossip_steps=2,
    settings={"rounds": 8},
)


def made_up(sheet: Sheet, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, targets and groups; scores are better in group 0 than in group 1, and group 2 is rare."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(GROUPS, rows, p=(0.6, 0.38, 0.02))
    spread = np.array([1.0, 3.0, 1.0])[codes]
    if sheet.task == "regression":
        y = rng.uniform(-0.6, 0.6, rows)
        return (y + 0.1 * spread * rng.normal(size=rows))[:, None], y, codes
    if sheet.task == "binary":
        y = rng.choice([-1.0, 1.0], rows)
        return (1.5 * y + spread * rng.normal(size=rows))[:, None], y, codes
    y = rng.integers(0, sheet.classes, rows)
    return 2 * np.eye(sheet.classes)[y] + spread[:, None] * rng.normal(size=(rows, sheet.classes)), y, codes


@pytest.mark.parametrize("sheet", SHEETS, ids=str)
def test_explicit_neighbours_are_as_far_apart_as_declared_at_most(sheet):
    """Every two records of many, at any scores, in equal and in different groups; or one more."""
    scores, y, codes = made_up(sheet, 60, 1)
    scores = scores * np.random.default_rng(2).choice([0.1, 1.0, 50.0, np.nan], len(y))[:, None]
    extreme = [(*record, np.array([code])) for record in worst(sheet) for code in (0, 1)]
    each = [sheet.tally(scores[[at]], y[[at]], codes[[at]]) for at in range(len(y))]
    each = np.array([*each, *(sheet.tally(*one) for one in extreme)], float)
    if sheet.sizes_public:
        far = np.linalg.norm(each[:, None] - each[None], axis=2).max()
        assert 0.9 * 2 * sheet.reach < far <= 2 * sheet.reach
    else:
        assert 0.8 * sheet.reach < np.linalg.norm(each, axis=1).max() <= sheet.reach


@pytest.mark.parametrize("sheet", SHEETS, ids=str)
def test_without_noise_groups_have_what_their_records_say(sheet):
    scores, y, codes = made_up(sheet, 4_000, 3)
    found = estimates(sheet, sheet.tally(scores, y, codes), 1e-6, len(y) if sheet.sizes_public else None)
    for at, metrics in enumerate(found.groups):
        own = codes == at
        assert metrics["records"].value == pytest.approx(own.sum(), abs=0.01)
        if sheet.task == "regression":
            error = np.clip(scores[own, 0] - y[own], -1, 1)
            assert metrics["mae"].value == pytest.approx(np.abs(error).mean(), abs=2e-3)
            assert metrics["mse"].value == pytest.approx((error**2).mean(), abs=2e-3)
        else:
            right = (
                (scores[own, 0] > 0) == (y[own] > 0)
                if sheet.task == "binary"
                else scores[own].argmax(1) == y[own]
            )
            assert metrics["accuracy"].value == pytest.approx(right.mean(), abs=1e-3)
        if sheet.task == "binary":
            wrong = scores[own & (y < 0), 0] > 0
            assert metrics["false_positive_rate"].value == pytest.approx(wrong.mean(), abs=1e-3)


@pytest.mark.parametrize("sheet", SHEETS[::2], ids=str)
def test_intervals_of_groups_cover_what_many_records_say(sheet):
    """95 % are meant; 300 evaluations with fewer than 86 % have a chance below one in a million at 94 %."""
    name = "mae" if sheet.task == "regression" else "accuracy"
    whole = made_up(sheet, 200_000, 4)
    truth = [one[name].value for one in estimates(sheet, sheet.tally(*whole), 1e-6, 200_000).groups]
    scale, rng, covered = 8.0 * sheet.reach, np.random.default_rng(5), []
    for seed in range(300):
        table = sheet.tally(*made_up(sheet, 3_000, 100 + seed)) + scale * rng.normal(size=sheet.width)
        found = estimates(sheet, table, scale**2, 3_000).groups
        covered.append([one[name].low <= value <= one[name].high for one, value in zip(found[:2], truth)])
    assert np.mean(covered, axis=0).min() > 0.86


def test_a_group_that_noise_hides_is_said_to_be_too_small():
    sheet = SHEETS[0]
    table = sheet.tally(*made_up(sheet, 3_000, 6))
    rare = estimates(sheet, table, (20 * sheet.reach) ** 2, 3_000).groups[2]
    assert all(rare[name].value is None for name in ("accuracy", "recall", "false_positive_rate"))


def test_a_run_says_by_groups_and_on_which_rows_everywhere(tmp_path):
    result = runs.run(SMALL)
    told = result.published.to_json()
    assert "kept out of training" in told["which"]
    assert list(told["groups"]["metrics"]) == ["sex=Female", "sex=Male", OTHERS]
    lines = list(sentences(told))
    assert f"{OTHERS}: {too_few('record')}" in lines
    assert any(line.startswith("sex=Male: ") and "accuracy 0." in line for line in lines)
    prepared = result.prepared
    assert told["rows"] == sum(map(len, prepared.held))
    assert all(0.98 < one.epsilon <= 1.0 for one in result.certificates)
    folder = output.write(result, tmp_path / "run")
    assert json.loads((folder / "result.json").read_text())["evaluation"] == told
    assert not any(one.problems for one in recompute.check(folder))
    page = (folder / "report.html").read_text()
    assert "By groups of" in page
    assert "kept out of training" in page
    assert "sex=Female" in card(load(folder), "d")
    words = " ".join(result.guarantee["statement"])
    assert (
        "0.5 of its records, which it drew in secret and kept out of training and by groups of 'sex'" in words
    )


def test_rows_kept_out_have_no_part_in_training():
    whole, part = prepare(replace(SMALL, hold_out=0.0)), prepare(SMALL)
    for owner, (all_rows, trained, held) in enumerate(
        zip(whole.partition.rows, part.partition.rows, part.held)
    ):
        assert len(held) == held_of(len(all_rows), 0.5)
        assert sorted([*trained, *held]) == sorted(all_rows)
        assert len(part.shards.of(owner)[1]) == len(trained) == part.task.sizes[owner]
    other = prepare(replace(SMALL, seed=1)).held
    assert any(set(one) != set(two) for one, two in zip(part.held, other))


def test_a_draw_is_the_same_again_from_the_same_key():
    one, again, other = (divided(50, 0.3, secret(key * 32)).held.tolist() for key in (b"a", b"a", b"b"))
    assert one == again != other
    assert len(one) == 15
    assert divided(50, 0.3, simulated(7, 0)).held.tolist() != divided(50, 0.3, simulated(7, 1)).held.tolist()
    assert trained_sizes((10, 25), 0.2) == (8, 20)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hold_out": 0.2}, "hold_out=0.2: is about an evaluation, and there is none"),
        ({"evaluate_by": "sex"}, "evaluate_by='sex': is about an evaluation"),
        ({"evaluate": 0.1, "hold_out": 1.0}, "hold_out=1.0: must be at least 0 and below 1"),
    ],
)
def test_what_has_no_meaning_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        Experiment(**given)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"evaluate_by": "nothing"}, "evaluate_by='nothing': no column of census has that name.*sex"),
        ({"hold_out": 1e-5}, "hold_out=1e-05: would keep 0 of an owner's"),
        (
            {
                "protocol": "weighted_erm",
                "settings": {"relation": "add_or_remove_one", "steps": 3, "step_size": 0.5},
            },
            "hold_out=0.5: under relation='add_or_remove_one' one row more can send another one out of training",
        ),
    ],
)
def test_what_the_data_do_not_allow_is_refused_before_training(changes, words):
    with pytest.raises(InputError, match=words):
        ready(replace(SMALL, **changes), None, lambda *_: None)


def test_groups_of_flags_and_of_what_a_list_does_not_hold():
    fields = (Category("ward", ("a", "b"), "marked"), Flag("smoker", ("yes",), ("no",), "middle"))
    x = np.array([[1, 0, 0, 1.0], [0, 1, 0, 0.0], [0, 0, 1, 0.5]], np.float32)
    table = Table(
        name="t", task="binary", x=x, y=np.ones(3), x_test=x, y_test=np.ones(3), columns=("a", "b", "m", "s"),
        bounds=np.zeros((4, 2)), fields=fields,
    )  # fmt: skip
    assert groups_of(table, "ward").codes(x).tolist() == [0, 1, 2]
    assert groups_of(table, "smoker").codes(x).tolist() == [0, 1, 2]
    assert groups_of(table, "ward").names == ("ward=a", "ward=b", OTHERS)
