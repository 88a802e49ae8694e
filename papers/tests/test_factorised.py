"""Noise that is correlated over an owner's visits: it costs what independent noise does, and adds up to less."""

import math

import numpy as np
import pytest

from papers.factorised import coefficients, correlation


@pytest.mark.parametrize("visits", [1, 3, 12, 120])
def test_one_record_moves_whitened_releases_by_no_more_than_one(visits):
    """The noise is M ξ: a record that moves one release by e_t moves M⁻¹ of it, and no column of M⁻¹ is longer."""
    columns = np.linalg.norm(np.linalg.inv(correlation(visits, True)), axis=0)
    assert columns.max() == pytest.approx(1.0)
    np.testing.assert_array_equal(correlation(visits, False), np.eye(visits))


@pytest.mark.parametrize(("visits", "gain"), [(3, 1.245), (120, 4.229)])
def test_golden_gains_of_the_last_prefix(visits, gain):
    both = [np.linalg.norm(correlation(visits, way).sum(axis=0)) for way in (False, True)]
    assert both[0] == pytest.approx(math.sqrt(visits))
    assert both[0] / both[1] == pytest.approx(gain, rel=1e-3)
    assert np.sum(coefficients(visits) ** 2) == pytest.approx(both[1])
