"""The study of a charged centre: what a record moves, what noise it gets, and that a centre is found."""

import numpy as np
import pytest

from coterie.evaluation.centre import centre_of
from coterie.experiments.centring import around
from coterie.problems.features import identity, unit_ball
from papers.centring import SHARE, noise_on_mean


def test_a_replaced_record_moves_its_owners_sum_by_two_at_most():
    """Explicit neighbours: all records but one the same, that one as far away as a record can be."""
    rows = np.random.default_rng(0).normal(size=(20, 5))
    one, other = rows.copy(), rows.copy()
    one[3], other[3] = [1e9, 0, 0, 0, 0], [-1e9, 0, 0, 0, 0]
    sums = [unit_ball(intercept=1.0).apply(each).sum(axis=0, dtype=np.float64) for each in (one, other)]
    assert 1.999 < np.linalg.norm(sums[0] - sums[1]) <= 2 * (1 + 1e-6)


def test_noise_is_that_of_its_share():
    """A share s of a Gaussian's 1/σ² is noise of σ/√s: a quarter of the share, twice the noise."""
    assert noise_on_mean(1_000, 1.0, SHARE / 4) == pytest.approx(2 * noise_on_mean(1_000, 1.0, SHARE))
    assert noise_on_mean(1_000, 1.0, SHARE) == pytest.approx(7.461 / SHARE**0.5 * 10**0.5 / 1_000, rel=1e-3)


def test_records_around_a_far_centre_are_as_long_as_others_and_none_is_longer_than_one():
    rng = np.random.default_rng(1)
    x = unit_ball(surface=True).apply(np.array([5.0, 5.0, 5.0, 5.0]) + rng.normal(size=(4_000, 4)))
    moved = around(identity(), centre_of(x.mean(axis=0, dtype=np.float64), 0.0), quantity=False).apply(x)
    assert np.linalg.norm(moved, axis=1).max() <= 1 + 1e-6
    assert x.var(axis=0).sum() < 0.05
    assert moved[:, :-1].var(axis=0).sum() > 0.5


def test_a_mean_that_is_all_noise_is_not_taken_off():
    centre = centre_of(np.array([0.3, -0.4]), 1.0)
    assert not centre.mean.any()
    assert centre.distance == 1.0
