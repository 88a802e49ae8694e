from importlib import resources

import numpy as np

from coterie.problems.datasets import load
from coterie.problems.datasets.census import FIELDS, OWNERS
from coterie.problems.partition import partition


def test_the_file_is_small():
    file = resources.files("coterie.problems") / "embedded" / "census.npz"
    assert len(file.read_bytes()) < 2**20


def test_rows_owners_and_classes():
    table = load("census")
    assert table.x.shape == (27_530, 75)
    assert table.x_test.shape == (6_882, 75)
    both = np.concatenate([table.y, table.y_test])
    assert (both > 0).sum() == (both < 0).sum() == 17_206
    assert table.owner_names == OWNERS
    sizes = [len(rows) for rows in partition(table).rows]
    assert (len(sizes), min(sizes), max(sizes)) == (20, 262, 3_331)


def test_every_field_is_one_hot_within_its_public_bounds():
    table = load("census")
    assert np.array_equal(np.unique(table.x), [0.0, 1.0])
    assert (table.x.sum(axis=1) == len(FIELDS)).all()
    assert (table.bounds == [0.0, 1.0]).all()


def test_a_linear_model_has_something_to_learn():
    table = load("census")
    weights = np.linalg.solve(table.x.T @ table.x + np.eye(75, dtype=np.float32), table.x.T @ table.y)
    assert (np.sign(table.x_test @ weights) == table.y_test).mean() > 0.79
