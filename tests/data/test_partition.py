import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.problems.partition import (
    by_column,
    dirichlet,
    iid,
    partition,
    random_sizes,
    two_groups,
)
from coterie.problems.table import Table

sizes = st.integers(60, 300)
few = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)


def table(rows=40, owner=None, task="binary"):
    y = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0).astype(np.float32)
    x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    names = () if owner is None else tuple(f"o{code}" for code in range(int(owner.max()) + 1))
    return Table(
        name="toy", task=task, x=x, y=y, x_test=x[:4], y_test=y[:4], columns=("a", "b"),
        bounds=np.tile(np.array([0.0, 100.0], np.float32), (2, 1)), owner=owner, owner_names=names,
    )  # fmt: skip


def every_row_once(parts, n, least=2):
    assert np.array_equal(np.sort(np.concatenate(parts.rows)), np.arange(n))
    assert min(len(rows) for rows in parts.rows) >= least
    assert len(parts.rows) == len(parts.names) == len(set(parts.names))


@settings(max_examples=30, deadline=None)
@given(n=sizes, owners=few, seed=seeds, alpha=st.floats(0.01, 100), ratio=st.floats(1, 50))
def test_every_record_goes_to_exactly_one_owner(n, owners, seed, alpha, ratio):
    labels = np.arange(n) % 5
    every_row_once(iid(n, owners, seed), n)
    every_row_once(dirichlet(labels, owners, alpha, seed), n)
    every_row_once(two_groups(n, owners, ratio, seed), n)
    every_row_once(random_sizes(n, owners, 4, seed), n, least=4)


def test_the_same_seed_gives_the_same_owners_and_another_seed_others():
    for divide in (
        lambda s: iid(50, 3, s),
        lambda s: random_sizes(50, 3, 2, s),
        lambda s: two_groups(50, 4, 2.0, s),
    ):
        first, again, other = divide(1), divide(1), divide(2)
        assert all(np.array_equal(a, b) for a, b in zip(first.rows, again.rows))
        assert not all(np.array_equal(a, b) for a, b in zip(first.rows, other.rows))


def test_small_alpha_skews_labels_and_large_alpha_does_not():
    labels = np.arange(10_000) % 2

    def spread(alpha):
        shares = [labels[rows].mean() for rows in dirichlet(labels, 10, alpha, seed=3).rows]
        return np.std(shares)

    assert spread(0.1) > 0.25
    assert spread(1000.0) < 0.05


def test_two_groups_keep_their_ratio():
    lengths = [len(rows) for rows in two_groups(10_000, 10, 4.0).rows]
    assert lengths == [1600] * 5 + [400] * 5


def test_by_column_keeps_the_largest_and_leaves_ownerless_rows_out():
    codes = np.array([2, 0, 2, 1, 1, 2, -1, 1, 0])
    parts = by_column(codes, ("a", "b", "c", "empty"))
    assert parts.names == ("a", "b", "c")
    assert [rows.tolist() for rows in parts.rows] == [[1, 8], [3, 4, 7], [0, 2, 5]]
    assert by_column(codes, ("a", "b", "c"), owners=2).names == ("b", "c")


def test_a_partition_says_how_rows_were_dealt():
    data = table(owner=np.arange(40) % 4)
    asked = [None, "iid", "dirichlet:0.3", "two_groups:4", "random_sizes:5", "column"]
    owners = [None, 2, 2, 2, 2, 2]
    found = [partition(data, how, many).how for how, many in zip(asked, owners)]
    assert found == ["column", "iid", "dirichlet:0.3", "two_groups:4", "random_sizes:5", "column"]
    assert partition(data, owners=2).how == "iid"


def test_small_owners_that_do_not_stay_are_no_error():
    codes = np.array([0, 1, 1, 2, 2, 2])  # the first has one record
    parts = by_column(codes, ("a", "b", "c"), owners=2, empty_too=True)
    assert parts.names == ("b", "c")
    with pytest.raises(InputError, match="owners <= 2"):
        by_column(codes, ("a", "b", "c"))


def test_defaults_follow_the_natural_owner():
    data = table(owner=np.arange(40) % 4)
    assert partition(data).names == ("o0", "o1", "o2", "o3")
    assert partition(data, owners=5).names[0] == "owner 0"
    assert len(partition(data, "column", 2).rows) == 2
    assert [len(rows) for rows in partition(table(), "two_groups:4", 2).rows] == [32, 8]
    assert min(len(rows) for rows in partition(table(), "random_sizes:9", 4).rows) >= 9


@pytest.mark.parametrize(
    ("ask", "part"),
    [
        (lambda: iid(5, 3), "owners=3: 5 records"),
        (lambda: iid(5, 0), "owners=0"),
        (lambda: random_sizes(10, 2, 1), "floor=1"),
        (lambda: random_sizes(10, 2, 6), "owners=2"),
        (lambda: two_groups(10, 2, 0.5), "ratio=0.5"),
        (lambda: two_groups(10, 2, float("nan")), "ratio=nan"),
        (lambda: dirichlet(np.zeros(10), 2, 0.0), "alpha=0.0"),
        (lambda: by_column(np.array([0, 0, 1]), ("a", "b")), "owner 'b': 1 of its records"),
        (lambda: by_column(np.array([0, 0]), ("a", "b"), empty_too=True), "owner 'b': 0 of its records"),
        (lambda: by_column(np.array([0, 0]), ("a",), owners=2), "owners=2"),
        (lambda: partition(table()), "Name the column that says whose a row is (--owner-column)"),
        (lambda: partition(table(), "column"), "no owner column"),
        (lambda: partition(table(), "shards", 2), "partition='shards'"),
        (lambda: partition(table(), "dirichlet:x", 2), "alpha='x'"),
        (lambda: partition(table(), "random_sizes:2.5", 2), "floor=2.5"),
        (lambda: partition(table(task="regression"), "dirichlet:1", 2), "no classes"),
    ],
)
def test_bad_input_is_one_line(ask, part):
    with pytest.raises(InputError) as caught:
        ask()
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
