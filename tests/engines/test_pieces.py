"""Sweeps in pieces: the last one is filled up with steps that change nothing, so that lengths share a compilation."""

import numpy as np
import pytest
import worlds

from coterie import topologies
from coterie.engines import sweep as sweeps
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, sweep
from coterie.protocols import build

SIZES, DIM = (30, 41, 37), 4


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [("dual_averaging", "rounds"), ("async_learner", "ticks"), ("push_sum", "rounds")],
)
def test_filled_up_steps_change_nothing_and_lengths_share_a_compilation(protocol, settings):
    task, shards = worlds.task(SIZES, DIM, topology="ring"), worlds.shards(SIZES, DIM)
    before = None
    for steps in (5, 8, 11):
        program = build(protocol, task, {settings: steps}, "certified")
        mixer = topologies.mixer(task.topology) if isinstance(program.schedule, int) else None
        told = []
        points, looks = sweep(
            [Lane(program, mixer, seed) for seed in (1, 2)],
            shards,
            every=steps,
            probe=np.asarray,
            piece=4,
            progress=lambda done, of, told=told: told.append((done, of)),
        )
        assert points.tolist() == [steps]
        assert told == [(min(done, steps), steps) for done in range(4, steps + 4, 4)]
        for seed, found in zip((1, 2), looks[-1]):
            expected = np.asarray(simulate(program, shards, mixer, seed=seed).model)
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
        compiled = sweeps._advance._cache_size()  # type: ignore[attr-defined]
        assert before is None or compiled == before
        before = compiled
