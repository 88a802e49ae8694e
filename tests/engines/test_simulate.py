"""The engine: one compilation, blocks that nobody can see, masks, schedules, and the rules of the contract."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds

from coterie import topologies
from coterie.engines import steps
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import FixedSize, FullBatch, NoNoise, OnePass, ReleasePlan
from coterie.mechanisms import noise as noises
from coterie.program import Program, Visits
from coterie.protocols.dual_averaging import Settings, build

SIZES = (7, 12, 9)


def dual_averaging(epsilon=1.0, calibration="certified", **settings):
    task = worlds.task(SIZES, 4, epsilon=epsilon)
    return task, build(task, Settings(rounds=10, **settings), calibration)


def test_a_new_seed_budget_or_data_set_never_compiles_again():
    task, program = dual_averaging()
    mixer = topologies.mixer(task.topology)
    simulate(program, worlds.shards(SIZES, 4), mixer, seed=0)
    compiled = steps.compilations()
    for seed, epsilon in ((1, 1.0), (2, 0.3), (3, (0.5, 1.0, 2.0))):
        _, again = dual_averaging(epsilon)
        simulate(again, worlds.shards(SIZES, 4, seed=seed), mixer, seed=seed)
    assert steps.compilations() == compiled


def test_same_seed_same_trace_and_another_seed_another():
    task, program = dual_averaging()
    mixer, records = topologies.mixer(task.topology), worlds.shards(SIZES, 4)
    runs = [simulate(program, records, mixer, seed=seed, transcript=True) for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0].messages, runs[1].messages)
    assert not np.allclose(runs[0].messages, runs[2].messages)


@pytest.mark.parametrize("calibration", ["certified", "paper"])
def test_blocks_and_looks_do_not_change_the_result(monkeypatch, calibration):
    task, program = dual_averaging(calibration=calibration)
    mixer, records = topologies.mixer(task.topology), worlds.shards(SIZES, 4)
    whole = simulate(program, records, mixer, seed=1, transcript=True)
    monkeypatch.setattr(steps, "_BLOCK", 3 * 3 * 4)  # three rounds at a time; 10 rounds leave a remainder
    looks = []
    parts = simulate(
        program, records, mixer, seed=1, every=4, transcript=True, probe=lambda m: looks.append(m) or 0
    )
    np.testing.assert_allclose(whole.messages, parts.messages, rtol=1e-5, atol=1e-6)
    assert parts.step.tolist() == [4, 8, 10]
    assert len(looks) == 3


def test_padding_is_never_seen():
    """Padding rows hold large numbers; changing them must change nothing, for any sampler."""
    for calibration in ("certified", "paper"):
        task, program = dual_averaging(calibration=calibration)
        mixer, records = topologies.mixer(task.topology), worlds.shards(SIZES, 4)
        other = records._replace(x=jnp.where(records.x == 7.0, -1e6, records.x))
        one, two = (simulate(program, data, mixer, seed=2).model for data in (records, other))
        np.testing.assert_array_equal(one, two)


def test_progress_and_turns_are_reported():
    task, program = dual_averaging()
    told = []
    trace = simulate(
        program,
        worlds.shards(SIZES, 4),
        topologies.mixer(task.topology),
        seed=0,
        every=5,
        progress=lambda done, of: told.append((done, of)),
    )
    assert told == [(5, 10), (10, 10)]
    assert trace.turns.tolist() == [10, 10, 10]


def test_parts_that_do_not_fit_are_refused():
    task, program = dual_averaging()
    mixer = topologies.mixer(task.topology)
    with pytest.raises(InputError, match="the plan is for 3 owners, the data has 2"):
        simulate(program, worlds.shards((7, 12), 4), mixer, seed=0)
    with pytest.raises(InputError, match="needs a topology"):
        simulate(program, worlds.shards(SIZES, 4), None, seed=0)
    with pytest.raises(InputError, match="rounds=11: must be between 1 and the plan's 10"):
        simulate(program._replace(schedule=11), worlds.shards(SIZES, 4), mixer, seed=0)
    endless = replace(program.plan, releases=(10**9,) * 3)
    with pytest.raises(InputError, match="steps=1000000000: must be at most 10,000,000"):
        simulate(program._replace(plan=endless, schedule=10**9), worlds.shards(SIZES, 4), mixer, seed=0)


def _counting(sampler, releases, order, sizes=(4, 6)) -> Program:
    """A program of visits whose message is the sum of the batch and whose register adds messages up."""

    def emit(private, query, batch, noise, ctx):
        del query
        total = jnp.sum(batch.mask[:, None] * batch.x, 0) + ctx.noise_scale * noise
        return (total, ctx.turn.astype(jnp.float32)), private + 1.0

    functions = Visits(
        open=lambda params, numbers: (params, jnp.zeros(())),
        init=lambda params, ctx: jnp.zeros(()),
        ask=lambda register, ctx: register[0],
        emit=emit,
        settle=lambda register, message, ctx: ((register[0] + message[0], register[1] + 1.0), ctx.step),
        model=lambda register: register[0],
    )
    plan = ReleasePlan(
        sampler=sampler,
        clip_norm=1.0,
        noise=NoNoise(),
        noise_multiplier=(1.0, 1.0),
        releases=releases,
        sizes=sizes,
        noise_like=jax.ShapeDtypeStruct((3,), jnp.float32),
    )
    return Program(functions, plan, jnp.zeros((2,)), jnp.zeros(3), np.array(order), None)  # type: ignore[arg-type]


def test_visits_go_in_order_and_stop_at_the_owners_cap():
    program = _counting(FullBatch(), (2, 1), [0, 1, 1, 0, 0])
    records = worlds.shards((4, 6), 3)
    trace = simulate(program, records, seed=0, transcript=True)
    assert trace.turns.tolist() == [2, 1]
    total, turn = trace.messages
    sums = [np.asarray(records.x)[i, :n].sum(0) for i, n in enumerate((4, 6))]
    np.testing.assert_allclose(
        total, [sums[0], sums[1], np.zeros(3), sums[0], np.zeros(3)], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(trace.model[0], 2 * sums[0] + sums[1], rtol=1e-5, atol=1e-6)
    assert turn.tolist() == [0, 0, 0, 1, 0]


def test_one_pass_shows_every_record_once_and_nothing_after():
    program = _counting(OnePass(4), (9, 9), [1, 0, 1, 1, 0])
    records = worlds.shards((4, 6), 3)
    totals = simulate(program, records, seed=0, transcript=True).messages[0]
    x = np.asarray(records.x)
    expected = [x[1, :4].sum(0), x[0, :4].sum(0), x[1, 4:6].sum(0), np.zeros(3), np.zeros(3)]
    np.testing.assert_allclose(totals, expected, rtol=1e-5, atol=1e-6)


def test_visits_equal_rounds_on_one_owner():
    """A sampler and the noise streams mean the same in both shapes: the record drawn at step t is the same."""
    program = _counting(FixedSize(1), (6, 6), [1] * 6)
    records = worlds.shards((4, 6), 3)
    totals = simulate(program, records, seed=4, transcript=True).messages[0]
    keys = noises.owner_keys(jnp.uint32(4), noises.SAMPLING, 2)
    with jax.threefry_partitionable(False):
        drawn = [
            FixedSize(1).draw(jax.random.fold_in(keys[1], t), 6, records.counts[1], jnp.int32(0)).positions[0]
            for t in range(1, 7)
        ]
    np.testing.assert_allclose(totals, np.asarray(records.x)[1][np.array(drawn)], rtol=1e-6)


def test_noise_carries_the_plans_scale_and_no_other():
    """On empty gradients a message is weight × scale × normal. Accept σ; reject 2σ/3 and 3σ/2."""
    from scipy.stats import chi2

    task, program = dual_averaging(epsilon=(0.5, 1.0, 2.0), variant="liu")
    rounds = 400
    program = build(task, Settings(rounds=rounds, variant="liu"), "certified")
    records = worlds.shards(SIZES, 4)._replace(x=jnp.zeros((3, 12, 4)))
    messages = simulate(program, records, topologies.IDENTITY, seed=7, transcript=True).messages[..., 0]
    steps = np.diff(messages, axis=0, prepend=0) / np.arange(1, rounds + 1)[:, None, None]
    for owner in range(3):
        sigma = program.plan.noise_scale[owner] * float(program.numbers.weight[owner])
        energy, freedom = np.sum((steps[:, owner] / sigma) ** 2), steps[:, owner].size
        accept = chi2.interval(1 - 1e-7, freedom)
        assert accept[0] < energy < accept[1]
        for wrong in (2 / 3, 3 / 2):
            assert not accept[0] < energy / wrong**2 < accept[1]


def test_owners_noises_are_independent():
    _, program = dual_averaging(variant="liu")
    program = program._replace(plan=replace(program.plan, releases=(2000,) * 3), schedule=2000)
    records = worlds.shards(SIZES, 4)._replace(x=jnp.zeros((3, 12, 4)))
    messages = simulate(program, records, topologies.IDENTITY, seed=8, transcript=True).messages[..., 0]
    steps = np.diff(messages, axis=0, prepend=0) / np.arange(1, 2001)[:, None, None]
    correlation = np.corrcoef(steps.reshape(2000, 12).T)
    np.testing.assert_allclose(correlation, np.eye(12), atol=6 / np.sqrt(2000))
