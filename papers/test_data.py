"""Every data set as published: checksums, shapes and class counts. Needs COTERIE_DATA (see docs/data.md)."""

import numpy as np
import pytest

from coterie.problems.datasets import DATASETS, load

# rows over train and test, columns or image shape, test rows, and how many rows each class has
PUBLISHED = {
    "a9a": (48_842, (123,), 16_281, (37_155, 11_687)),
    "adult": (45_222, (104,), 15_060, (34_014, 11_208)),
    "bank": (41_188, (57,), 8_238, (36_548, 4_640)),
    "breast_cancer": (683, (9,), 137, (444, 239)),
    "credit_card": (284_807, (30,), 56_962, (284_315, 492)),
    "credit_card_balanced": (984, (30,), 197, (492, 492)),
    "covtype": (581_012, (54,), 116_203, (297_711, 283_301)),
    "covtype7": (581_012, (54,), 116_203, (211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510)),
    "kddcup99": (494_021, (122,), 98_805, (97_278, 396_743)),
    "bigmart": (8_523, (32,), 1_705, None),
    "blackfriday": (19_280, (100,), 3_856, None),
    "lending_club": (118_578, (27,), 23_716, None),
    "lending_club_states": (10_000, (22,), 2_000, None),
    # 739,609 paid and 157,558 charged off, less the 11 and 2 without a state
    "sba_loans": (897_154, (42,), 179_431, (739_598, 157_556)),
    "sparcs": (999_215, (19,), 199_843, None),
    "sparcs_records": (997, (32,), 200, None),
    "mnist": (
        70_000,
        (28, 28),
        10_000,
        (6_903, 7_877, 6_990, 7_141, 6_824, 6_313, 6_876, 7_293, 6_825, 6_958),
    ),
    "cifar10": (60_000, (32, 32, 3), 10_000, (6_000,) * 10),
    "epsilon": (5_000, (100,), 1_000, (2_509, 2_491)),
}
# means of the targets in their own unit, where the source publishes one (rate, sales); within 0.05 %
MEANS = {"bigmart": 2181.2889, "lending_club_states": 12.43}


def test_the_table_names_every_data_set():
    assert set(PUBLISHED) | {"census"} == set(DATASETS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_data_set_is_the_published_one(name):
    rows, shape, test_rows, counts = PUBLISHED[name]
    table = load(name)
    y = np.concatenate([table.y, table.y_test])
    assert (len(y), table.x.shape[1:], len(table.y_test)) == (rows, shape, test_rows)
    assert table.x.dtype == np.float32
    assert np.isfinite(table.x).all()
    if counts is not None:
        assert tuple(np.unique(y, return_counts=True)[1].tolist()) == counts
    if name in MEANS:
        low, high = table.target_bounds
        mean = low + (high - low) * (y.astype(np.float64).mean() + 1) / 2
        assert mean == pytest.approx(MEANS[name], rel=5e-4)
    if table.x.ndim == 2:
        assert (table.x.min(axis=0) >= table.bounds[:, 0]).all()
        assert (table.x.max(axis=0) <= table.bounds[:, 1]).all()


def test_stays_weigh_hospitals_by_their_discharges():
    table = load("sparcs")
    y = np.concatenate([table.y, table.y_test]).astype(np.float64)
    assert 60 * (y.mean() + 1) == pytest.approx(5.52, abs=0.02)
    assert len(table.owner_names) == 235


def test_pixels_have_the_published_moments():
    digits = load("mnist").x
    assert (digits.mean(), digits.std()) == (pytest.approx(0.1307, abs=1e-4), pytest.approx(0.3081, abs=1e-4))
