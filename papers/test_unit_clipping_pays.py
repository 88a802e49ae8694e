"""Unit clipping beside naive group privacy on `blackfriday` by `User_ID`, one cell of docs/units.md, measured anew."""

import json

import numpy as np
import pytest

from papers import units


@pytest.mark.parametrize(("cap", "epsilon"), [(5, 4.0)])
def test_unit_clipping_beats_naive_group_privacy_again(cap, epsilon):
    ready = units.prepared("blackfriday", cap)
    ours = units.reached(ready, epsilon)
    naive = units.reached(units.as_rows(ready), units.for_group(epsilon, units.DELTA, cap))
    assert np.mean(ours) > np.mean(naive) + 0.1
    kept = json.loads(units.KEPT.read_text())["blackfriday"]
    assert np.mean(ours) == pytest.approx(np.mean(kept[f"unit {cap} {epsilon:g}"]), abs=0.005)
