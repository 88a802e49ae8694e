"""Which metric is shown first, and the constant that stands beside it: by public facts alone."""

from dataclasses import replace

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.experiments.judging import judge_of, shown_first
from coterie.problems.table import Table
from coterie.reports.constant import says

ROWS = 1000


def rare(positives: int = 37, public: bool = True, private_positives: int = 37) -> Table:
    """Rows of which some are positive: public test rows, and private ones."""
    return Table(
        name="rare",
        task="binary",
        x=np.zeros((ROWS, 1), np.float32),
        y=np.where(np.arange(ROWS) < private_positives, 1.0, -1.0).astype(np.float32),
        x_test=np.zeros((ROWS, 1), np.float32),
        y_test=np.where(np.arange(ROWS) < positives, 1.0, -1.0).astype(np.float32),
        columns=("a",),
        bounds=np.array([[-1.0, 1.0]]),
        classes=("no", "yes"),
        test_is_public=public,
    )


def quantity() -> Table:
    y = np.linspace(-1, 1, ROWS, dtype=np.float32)
    return replace(
        rare(), task="regression", y=y, y_test=y, classes=(), target_bounds=(100.0, 300.0), target_unit="mg"
    )


@pytest.mark.parametrize(
    ("table", "given", "name", "why"),
    [
        (rare(), {}, "auc", "3.7% of rows are of the rarer class (in the public test rows)"),
        (rare(963), {}, "auc", "3.7%"),
        (rare(240), {}, "accuracy", ""),
        (rare(0), {}, "accuracy", ""),  # no AUC can be taken there
        (rare(public=False), {}, "accuracy", "nobody declared how common the rarer class is"),
        (rare(public=False), {"base_rate": 0.03}, "auc", "3.0% of rows are of the rarer class (as declared)"),
        (rare(public=False), {"base_rate": 0.3}, "accuracy", ""),
        (rare(), {"base_rate": 0.3}, "accuracy", ""),
        (rare(), {"metric": "recall"}, "recall", ""),
        (quantity(), {}, "mse", ""),
        (replace(rare(), task="multiclass", classes=tuple("abc")), {}, "accuracy", ""),
    ],
)
def test_the_metric_that_is_shown_first(table, given, name, why):
    found, reason = shown_first(Experiment(**given), table)
    assert found == name
    assert why in reason
    assert bool(why) == bool(reason)


@pytest.mark.parametrize("public", [True, False])
def test_private_rows_have_no_part_in_the_choice(public):
    """Neighbours and more: all private rows change, and where test rows are private they change as well."""
    tables = [rare(37, public, count) for count in (0, 37, 500)]
    tables += [] if public else [rare(count, public) for count in (1, 500, 999)]
    assert len({shown_first(Experiment(), table) for table in tables}) == 1


@pytest.mark.parametrize(
    ("table", "loss", "metric", "named"),
    [
        (rare(), "logistic", "acuracy", ("metric='acuracy'", "Did you mean 'accuracy'?")),
        (quantity(), "huber", "auc", ("metric='auc'", "regression", "mse, mae, r2")),
        (rare(), "logistic", "mse", ("metric='mse'", "binary", "accuracy")),
        (rare(), "hinge", "log_loss", ("metric='log_loss'", "'hinge'", "recall")),
        (rare(0), "logistic", "auc", ("metric='auc'", "test rows", "accuracy")),
        (rare(0), "logistic", "recall", ("metric='recall'", "test rows")),
    ],
)
def test_a_metric_that_does_not_fit_is_one_line(table, loss, metric, named):
    with pytest.raises(InputError) as caught:
        judge_of(Experiment(metric=metric), table, loss)
    assert all(part in str(caught.value) for part in named)


@pytest.mark.parametrize("rate", [0.0, -0.1, 0.51, 1.0])
def test_a_share_of_the_rarer_class_is_at_most_a_half(rate):
    with pytest.raises(InputError, match=r"base_rate=.*at most 0\.5"):
        Experiment(base_rate=rate)


@pytest.mark.parametrize(
    ("table", "loss", "metric", "words"),
    [
        (rare(), "logistic", "accuracy", "always saying 'no'"),
        (rare(963), "hinge", "recall", "always saying 'yes'"),
        (rare(), "logistic", "auc", "the same score for every row"),
        (rare(), "logistic", "brier", "the classes' shares as every row's probabilities"),
        (quantity(), "huber", "mae", "always saying the mean, 200 mg"),
    ],
)
def test_what_the_constant_says(table, loss, metric, words):
    judge = judge_of(Experiment(metric=metric), table, loss)
    assert says(judge, table, judge.constant(table.y_test)) == words
