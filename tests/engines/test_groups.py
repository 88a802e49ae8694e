"""Owners held in several arrays, by size, run as they do in one: same samples, same noise, same messages."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds

from coterie import topologies
from coterie.engines import owners
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, sweep
from coterie.mechanisms import FixedSize, Poisson
from coterie.problems import holdings
from coterie.program import Groups, Shards
from coterie.protocols import build

SIZES, DIM = (9, 600, 40, 12), 8


@pytest.fixture(autouse=True)
def every_number_of_padding_counts(monkeypatch):
    monkeypatch.setattr(holdings, "_WORTH", 1)


def run(protocol: str, settings: dict, calibration: str, records) -> object:
    task = worlds.task(SIZES, DIM, topology="ring")
    program = build(protocol, task, settings, calibration)
    mixer = topologies.mixer(task.topology)
    if program.aggregate is not None:
        mixer = topologies.aggregate(program.aggregate)
    return simulate(program, records, mixer, seed=2, transcript=True)


@pytest.mark.parametrize(
    ("protocol", "settings", "calibration"),
    [
        ("dual_averaging", {"rounds": 4}, "certified"),  # rounds on all records
        ("dual_averaging", {"rounds": 40}, "paper"),  # rounds on one record, drawn
        ("weighted_erm", {"steps": 3}, "certified"),  # an aggregator
        ("async_learner", {"ticks": 12}, "certified"),  # visits on all records
        ("wor_sgd", {}, "certified"),  # visits on the next batch
    ],
)
def test_a_run_does_not_depend_on_how_records_are_held(protocol, settings, calibration):
    apart, together = worlds.holdings(SIZES, DIM), worlds.shards(SIZES, DIM)
    assert isinstance(apart, Groups)
    assert len(apart.shards) > 1
    found, expected = (run(protocol, settings, calibration, records) for records in (apart, together))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("sampler", [FixedSize(5), Poisson(0.3, 20), Poisson(0.3, SIZES[1])])
def test_hidden_samples_do_not_depend_on_how_records_are_held(sampler):
    """Rounds and visits: an owner's batch has the same records, whoever shares its array."""
    keys, four = jax.random.split(jax.random.key(0), 4), np.arange(4, dtype=np.int32)
    context = owners.Context(four, np.int32(1), np.int32(0), four, four, four, (), keys)  # type: ignore[arg-type]

    def chosen(batch, at):
        kept = np.asarray(batch.mask[at]) > 0
        return sorted(map(tuple, np.asarray(batch.x[at])[kept].tolist()))

    held = [jax.tree.map(jnp.asarray, worlds.holdings(SIZES, DIM)), worlds.shards(SIZES, DIM)]
    rounds = [jax.jit(partial(owners.drawn, sampler))(one, context) for one in held]
    turn = np.int32(0)
    mapped = jax.jit(jax.vmap(partial(owners.drawn_by, sampler), (None, 0, 0, None)))
    visits = [mapped(one, four, keys, turn) for one in held]
    for at in range(4):
        expected = chosen(rounds[1], at)
        assert expected
        assert all(chosen(batch, at) == expected for batch in (rounds[0], *visits))


def test_lanes_of_a_sweep_share_them():
    task = worlds.task(SIZES, DIM, topology="ring")
    program = build("dual_averaging", task, {"rounds": 3}, "certified")
    lanes = [Lane(program, topologies.mixer(task.topology), seed) for seed in (2, 5)]
    each: list[Groups | Shards] = [worlds.holdings(SIZES, DIM), worlds.shards(SIZES, DIM)]
    looks = [sweep(lanes, held, every=3, probe=np.asarray)[1][-1] for held in each]
    np.testing.assert_allclose(*looks, rtol=2e-4, atol=2e-5)
