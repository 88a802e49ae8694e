"""Everyone's records in few arrays: the right rows, little padding, the best division."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.problems import holdings
from coterie.problems.holdings import grouped, to_shards
from coterie.problems.partition import iid
from coterie.program import Groups, Shards


def test_like_sizes_share_one_array_in_the_owners_order():
    x, y = np.arange(22, dtype=np.float32).reshape(11, 2), np.arange(11.0)
    parts = iid(11, 3)
    shards = to_shards(x, y, parts.rows)
    assert isinstance(shards, Shards)
    assert shards.x.shape == (3, 4, 2)
    assert shards.x.dtype == np.float32
    assert shards.counts.tolist() == [4, 4, 3]
    assert not shards.x[2][3].any()
    for owner, rows in enumerate(parts.rows):
        assert np.array_equal(shards.of(owner)[0], x[rows])
        assert np.array_equal(shards.of(owner)[1], y[rows])


def test_owners_of_other_sizes_are_held_apart():
    """One hospital and a thousand practices: 1.1 million numbers; one array would have a billion."""
    sizes = [40, 100_000, *[10] * 998, 25]
    x = np.arange(sum(sizes), dtype=np.float32)[:, None].repeat(10, axis=1)
    rows = np.split(np.arange(len(x)), np.cumsum(sizes)[:-1])
    found = to_shards(x, x[:, 0].astype(np.int32), rows)
    assert isinstance(found, Groups)
    assert sum(one.x.size for one in found.shards) < 1.5 * x.size
    assert sorted(np.concatenate(found.owners).tolist()) == list(range(len(sizes)))
    for owner in (0, 1, 2, 999, 1000):
        own_x, own_y = found.of(owner)
        assert np.array_equal(own_x, x[rows[owner]])
        assert np.array_equal(own_y, rows[owner])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 4))
def test_devices_hold_equally_many_owners_of_each_group(sizes, devices):
    groups = grouped(sizes, 1 << 20, devices)
    held = -(-len(sizes) // devices)
    everyone = np.concatenate([group.owners for group in groups], axis=1)
    for device in range(devices):  # in order: the engine deals owners out so
        assert sorted(everyone[device]) == list(range(device * held, (device + 1) * held))
    for group in groups:
        real = [sizes[owner] for owner in group.owners.ravel() if owner < len(sizes)]
        assert max(real, default=1) <= group.rows


@pytest.mark.parametrize("seed", range(20))
def test_no_division_has_less_padding(monkeypatch, seed):
    monkeypatch.setattr(holdings, "_WORTH", 3)
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 30, rng.integers(1, 8)))[::-1]

    def numbers(starts):
        return sum((end - start) * sizes[start] for start, end in zip(starts, [*starts[1:], len(sizes)]))

    ways = [
        [0, *more]
        for many in range(len(sizes))
        for more in itertools.combinations(range(1, len(sizes)), many)
    ]
    least = min(numbers(way) + 3 * len(way) for way in ways)
    found = holdings._starts(sizes, 1)
    assert numbers(found) + 3 * len(found) == least


def test_ten_thousand_sizes_are_divided_well():
    sizes = (np.random.default_rng(0).pareto(1.2, 10_000) * 20 + 5).astype(int)
    padded = sum(group.owners.size * group.rows for group in grouped(sizes.tolist(), 500))
    assert padded < 1.5 * sizes.sum()
    assert 100 * padded < sizes.max() * len(sizes)
