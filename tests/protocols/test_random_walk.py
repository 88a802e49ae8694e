"""DP-SGD-5: the walk, five visits of a record and no more, the published noise, and what it costs."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import shards, task

from coterie.accounting import certify
from coterie.accounting.plans import certificates_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import Passes
from coterie.problems.losses import one_vs_all
from coterie.problems.penalties import none
from coterie.protocols import build
from coterie.protocols.random_walk import walk

DIM = 4


def test_every_owner_is_drawn_uniformly_until_it_is_silent():
    order = walk((400, 400, 50), seed=3)
    assert np.bincount(order).tolist() == [400, 400, 50]
    early = order[:100]  # nobody is silent yet: uniform over three owners
    assert np.abs(np.bincount(early, minlength=3) - 100 / 3).max() < 6 * math.sqrt(100 * 2 / 9)
    assert not np.array_equal(order, walk((400, 400, 50), seed=4))
    assert np.array_equal(order, walk((400, 400, 50), seed=3))


def test_each_record_is_in_exactly_as_many_batches_as_there_are_passes():
    sampler, seen = Passes(3), np.zeros(8)
    for turn in range(5 * 3):
        drawn = sampler.draw(jax.random.key(0), 8, jnp.int32(7), jnp.int32(turn))
        np.add.at(seen, np.asarray(drawn.positions), np.asarray(drawn.mask))
    assert seen.tolist() == [5.0] * 7 + [0.0]


def test_one_pass_with_one_owner_is_wor_sgd():
    given, records = task((13,), DIM, penalty=none()), shards((13,), DIM)
    walked = build("random_walk", given, {"passes": 1, "batch": 4, "step": 0.3}, "certified")
    turned = build("wor_sgd", given, {"batch": 4, "step": 0.3}, "certified")
    assert walked.plan.noise_multiplier == turned.plan.noise_multiplier
    models = [np.asarray(simulate(program, records, seed=2).model) for program in (walked, turned)]
    np.testing.assert_allclose(
        *models, rtol=1e-5, atol=1e-6
    )  # two programs, each rounded as its compiler likes


def test_without_noise_it_is_five_passes_of_sgd_with_root_steps():
    records = shards((6,), DIM)
    program = build("random_walk", task((6,), DIM, penalty=none()), {"batch": 4}, "noiseless")
    x, y, w = np.asarray(records.x[0], float), np.asarray(records.y[0], float), np.zeros(DIM)
    for t in range(1, 11):
        rows = slice(0, 4) if t % 2 else slice(4, 6)
        slopes = -y[rows] / (1 + np.exp(y[rows] * (x[rows] @ w)))
        w = w - (slopes @ x[rows] / 4) / math.sqrt(t)
    found = np.asarray(simulate(program, records, seed=0).model[0, :, 0])
    np.testing.assert_allclose(found, w, rtol=1e-4, atol=1e-6)


def test_published_noise_is_a_fifth_of_the_budget_for_each_visit():
    given = task((100, 60), DIM, penalty=none(), epsilon=0.8)
    program = build("random_walk", given, {}, "paper")
    scale = math.sqrt(2 * math.log(1.25 * 5 / given.delta)) * 2 / (0.8 / 5)
    np.testing.assert_allclose(program.plan.noise_scale, scale, rtol=1e-6)
    assert program.plan.releases == (10, 10)
    assert program.claim.epsilon == pytest.approx(0.8)
    event = program.plan.event(0)
    assert event.count == 5  # type: ignore[attr-defined]
    assert (
        certificates_of(program.plan, given.delta)[0].epsilon
        == certify(event, delta=given.delta).epsilon
        < 0.8
    )


@pytest.mark.parametrize("epsilon", [1.0, (0.2, 3.0, 1.0)])
def test_certified_meets_every_owners_budget(epsilon):
    sizes = (30, 200, 5)
    given = task(sizes, DIM, epsilon=epsilon)
    program = build("random_walk", given, {}, "certified")
    for one, budget in zip(certificates_of(program.plan, given.delta), given.epsilon):
        assert 0.98 * budget <= one.epsilon <= budget
    trace = simulate(program, shards(sizes, DIM), seed=0)
    assert tuple(trace.turns) == program.plan.releases
    assert np.isfinite(np.asarray(trace.model)).all()


def test_joint_classes_are_charged_jointly():
    binary = build("random_walk", task((100,), DIM, penalty=none()), {}, "paper")
    joint = build("random_walk", task((100,), DIM, loss=one_vs_all(4), penalty=none()), {}, "paper")
    costs = [certificates_of(one.plan, 1e-5)[0].epsilon for one in (binary, joint)]
    assert costs[1] > 1.9 * costs[0]


def test_bad_input_is_one_line():
    with pytest.raises(InputError, match="passes=0: must be a whole number >= 1"):
        build("random_walk", task((10,), DIM), {"passes": 0}, "paper")
