"""Intervals of charged metrics cover the truth; `python -m papers.coverage` has the whole table.

An interval that covers in 96 of 100 cases is below 88 of 100 in fewer than one of a million tests of 250.
"""

import pytest

from papers.coverage import WORLDS, coverage

TIMES, LEAST = 250, 0.88
QUICK = ("two classes, 20 owners", "few records, little noise", "a quantity")


@pytest.mark.parametrize("name", QUICK)
def test_intervals_cover_the_truth(name):
    for metric, (covered, _) in coverage(WORLDS[name], TIMES).items():
        assert covered >= LEAST, metric


def test_intervals_that_know_of_half_the_noise_do_not():
    world = WORLDS["two classes, 20 owners"]
    found = coverage(world, TIMES, noise=2 * world.noise)
    assert all(found[metric][0] < LEAST for metric in ("accuracy", "recall", "brier"))
