"""From tables to metrics: without noise they are the metrics, with noise no empty count is divided by."""

import math

import numpy as np
import pytest

from coterie.evaluation.estimate import WIDE, estimates, half_width
from coterie.evaluation.sheet import Sheet
from coterie.problems.metrics import Judge
from papers.coverage import WORLDS

ROWS = 20_000


@pytest.mark.parametrize("name", ["two classes, 20 owners", "several classes", "a quantity", "hinge"])
def test_without_noise_they_are_the_metrics(name):
    world = WORLDS[name]
    sheet = world.sheet
    scores, y = world.draw(np.random.default_rng(1), ROWS)
    told = estimates(sheet, sheet.tally(scores, y), 0.0, ROWS)
    judge = Judge(task=sheet.task, loss=sheet.loss, classes=sheet.classes, bounds=None, metric="accuracy")
    exact = dict(zip(judge.names, judge.all(scores, y)))
    for name, one in told.metrics.items():
        if name in exact:
            assert one.value == pytest.approx(exact[name], abs=0.01), name
            assert one.low <= exact[name] <= one.high, name
    if told.confusion is not None:
        counts = np.array([[one.value for one in row] for row in told.confusion])
        np.testing.assert_allclose(counts, judge.confusion(scores, y), atol=1e-6)


def test_what_is_known_anyway_takes_noise_off():
    sheet = Sheet("binary", "logistic", 2, True)
    with_total = half_width(sheet, (50 * sheet.reach) ** 2, 5_000, 1.0)
    plain = WIDE * 50 * sheet.reach / sheet.units[24] / 5_000  # of the wrong decisions' own column
    assert 0.8 * plain < with_total < plain


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_divided_by_an_empty_count(name):
    """A table of noise alone, and one of no records: no number is made up, no warning (an error here) is met."""
    sheet = WORLDS[name].sheet
    rng = np.random.default_rng(2)
    for table in (np.zeros(sheet.width), *np.rint(rng.normal(size=(20, sheet.width)) * 1e6)):
        told = estimates(sheet, table, 1e12, 50 if sheet.sizes_public else None)
        for one in told.metrics.values():
            assert one.value is None or math.isfinite(one.value)
            assert one.low <= one.high
        for metric in ("auc", "average_precision", "r2"):
            assert metric not in told.metrics or told.metrics[metric].value is None


def test_ends_of_an_interval_are_possible():
    sheet = Sheet("binary", "logistic", 2, True)
    scores, y = np.full((300, 1), 5.0), np.ones(300)
    y[:3] = -1
    one = estimates(sheet, sheet.tally(scores, y), (2 * sheet.reach) ** 2, 300).metrics["accuracy"]
    assert 0 <= one.low < 0.99 < one.high <= 1
