"""The contract, over every registered protocol: joining it is one row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from jax.flatten_util import ravel_pytree

from coterie import topologies
from coterie.accounting.plans import certificates_of
from coterie.engines import simulate as engine
from coterie.engines.simulate import simulate
from coterie.problems.problem import objective
from coterie.program import Batch, Context, Program, Rounds, Shards
from coterie.protocols import PROTOCOLS, build
from coterie.protocols.baselines import alone

DIM, DELTA = 3, 1e-4
UNEVEN, BUDGETS = (24, 9, 15), (0.6, 2.0, 1.0)


class Row(NamedTuple):
    """How a protocol joins: small settings for a certified run, and the topology that it takes."""

    settings: dict[str, Any]
    topology: str = "ring"


ROWS = {
    "async_learner": Row({}),
    "average_erm": Row({}),
    "central_erm": Row({}),
    "deep_q": Row({"policy": "coin"}),
    "dual_averaging": Row({"rounds": 6}),
    "push_sum": Row({"rounds": 6}, "one_peer_exponential"),
    "random_walk": Row({}),
    "weighted_erm": Row({}),
    "wor_sgd": Row({}),
}


def test_every_protocol_has_joined():
    assert set(ROWS) == set(PROTOCOLS)


def make(name: str, sizes=UNEVEN, epsilon=BUDGETS, calibration="certified") -> Program:
    row = ROWS[name]
    task = worlds.task(sizes, DIM, epsilon=epsilon[: len(sizes)], delta=DELTA, topology=row.topology)
    return build(name, task, row.settings, calibration)


def mixer_of(name: str, program: Program) -> topologies.Mixer:
    if program.aggregate is not None:
        return topologies.aggregate(program.aggregate)
    return topologies.mixer(topologies.build(ROWS[name].topology, len(program.plan.sizes)))


def play(name: str, program: Program, records: Shards, seed: int = 0):
    return simulate(program, records, mixer_of(name, program), seed=seed, transcript=True)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("sizes", "epsilon"), [(UNEVEN, BUDGETS), (UNEVEN, (1.0,) * 3), ((20,), (0.5,)), ((9, 30), (1.0, 0.3))]
)
def test_certified_epsilon_is_at_most_the_budget(name, sizes, epsilon):
    program = make(name, sizes, epsilon)
    certificates = certificates_of(program.plan, DELTA)
    assert len(certificates) == len(sizes)
    for one, budget in zip(certificates, epsilon):
        assert 0 < one.epsilon <= budget


@pytest.mark.parametrize("name", ROWS)
def test_a_run_is_pure_finite_and_compiled_once(name):
    """Same seed, same transcript; padding never seen; a new seed, budget or data set compiles nothing."""
    program, records = make(name), worlds.shards(UNEVEN, DIM)
    first = play(name, program, records)
    compiled = (engine._advance_rounds._cache_size(), engine._advance_visits._cache_size())
    other_padding = records._replace(x=jnp.where(records.x == 7.0, -1e6, records.x))
    second = play(name, program, other_padding)
    for one, two in zip(jax.tree.leaves(first), jax.tree.leaves(second)):
        np.testing.assert_array_equal(one, two)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((first.messages, first.model)))
    assert jax.tree.map(jnp.shape, jax.tree.map(lambda leaf: leaf[0], first.model)) == (DIM, 1)
    releases = program.plan.releases
    assert (first.turns <= np.array(releases)).all()
    again = make(name, epsilon=(0.9, 1.1, 1.3))
    if again.plan.releases == releases and np.array_equal(again.schedule, program.schedule):
        third = play(name, again, worlds.shards(UNEVEN, DIM, seed=5), seed=9)
        assert not np.allclose(ravel_pytree(third.model)[0], ravel_pytree(first.model)[0])
        assert (engine._advance_rounds._cache_size(), engine._advance_visits._cache_size()) == compiled


@pytest.mark.parametrize("name", ROWS)
def test_without_noise_the_model_learns(name):
    """The certified schedule with its noise taken out ends below the starting objective, on everyone's records."""
    program, records = make(name), worlds.shards(UNEVEN, DIM)
    quiet = program._replace(plan=replace(program.plan, noise="none"))
    trace = play(name, quiet, records)
    task = worlds.task(UNEVEN, DIM)
    mask = (np.arange(max(UNEVEN)) < np.array(UNEVEN)[:, None]).astype(np.float32)
    everything = Batch(records.x.reshape(-1, DIM), records.y.ravel(), jnp.asarray(mask.ravel()))
    start = float(objective(task.problem, task.params, everything))
    for model in np.asarray(trace.model):
        assert float(objective(task.problem, jnp.asarray(model), everything)) < start - 0.01


def emitted(program: Program, batch: Batch, noise: jax.Array, shift: jax.Array) -> jax.Array:
    """What owner 0 says first, as one vector, from a public state `shift` away from the start."""
    plan, functions = program.plan, program.functions
    like, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), plan.noise_like))
    assert like.shape == noise.shape
    numbers = jax.tree.map(lambda leaf: leaf[0], program.numbers)
    ctx = Context(
        jnp.int32(0), jnp.int32(1), jnp.int32(0), jnp.float32(plan.sizes[0]),
        jnp.float32(plan.noise_scale[0]), numbers, jax.random.key(1),
    )  # fmt: skip
    params = jax.tree.map(lambda leaf: leaf + shift.reshape(leaf.shape), program.params)
    if isinstance(functions, Rounds):
        message, _ = functions.emit(functions.init(params, ctx), batch, unravel(noise), ctx)
    else:
        query = functions.ask(functions.open(params, program.numbers), ctx)
        message, _ = functions.emit(functions.init(params, ctx), query, batch, unravel(noise), ctx)
    return ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), message))[0]


@pytest.mark.parametrize("name", ROWS)
def test_one_record_moves_a_release_by_no_more_than_its_noise_is_made_for(name):
    """In units of the noise: the change of a message is that of noise shifted by at most 2 / noise_multiplier.

    A message is A(records) + B(noise). Replacing a record must be explained by B alone (nothing leaves without
    noise), by a shift no longer than the plan declares; and some neighbours must come near it.
    """
    program = make(name)
    allowed = 2 / program.plan.noise_multiplier[0]
    lengths = [shift_of_noise(program, *pair) for pair in neighbours(program)]
    assert max(lengths) <= allowed * (1 + 1e-3)
    assert max(lengths) >= 0.25 * allowed


def neighbours(program: Program) -> list[tuple[Batch, Batch, jax.Array]]:
    """Pairs of batches that differ in their first record, and public states to meet them in."""
    rng = np.random.default_rng(0)
    drawn = program.plan.sampler.draw(jax.random.key(0), max(UNEVEN), jnp.int32(UNEVEN[0]), jnp.int32(0))
    count = UNEVEN[0] if drawn is None else len(drawn.positions)
    pairs = []
    for trial in range(12):
        x = rng.standard_normal((count, DIM)).astype(np.float32)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = np.sign(rng.standard_normal(count)).astype(np.float32)
        state = jnp.asarray(rng.standard_normal(DIM) * (0.0, 3.0, 30.0)[trial % 3], jnp.float32)
        x[0] = (
            np.sign(state[0]) or 1.0,
            0.0,
            0.0,
        )  # its label wrong on one side: the steepest slope there is
        one, two = (
            Batch(jnp.asarray(x), jnp.asarray(y).at[0].set(sign), jnp.ones(count)) for sign in (-1.0, 1.0)
        )
        if trial % 2:
            two = one._replace(x=one.x.at[0].multiply(-1.0))
        pairs.append((one, two, state))
    return pairs


def shift_of_noise(program: Program, one: Batch, two: Batch, state: jax.Array) -> float:
    """How far noise must move to turn one message into the other; fails where noise cannot explain the change."""
    like = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), program.plan.noise_like)
    zero = jnp.zeros_like(ravel_pytree(like)[0])
    change = np.asarray(emitted(program, one, zero, state) - emitted(program, two, zero, state), np.float64)
    through = np.asarray(jax.jacobian(lambda unit: emitted(program, one, unit, state))(zero), np.float64)
    needed, *_ = np.linalg.lstsq(through, change, rcond=1e-9)
    assert np.abs(through @ needed - change).max() <= 1e-3 * max(np.abs(change).max(), 1e-6)
    return float(np.linalg.norm(needed))


@pytest.mark.parametrize("name", ROWS)
def test_others_first_words_do_not_know_an_owners_record(name):
    """Before anything was mixed, changing owner 0's record changes owner 0's message at most."""
    program, records = make(name), worlds.shards(UNEVEN, DIM)
    if not isinstance(program.functions, Rounds):
        order = np.asarray(program.schedule)
        first_of_0 = int(np.argmax(order == 0))
        before = slice(0, first_of_0)
    changed = worlds.with_record(records, 0, 3, -np.ones(DIM, np.float32), -records.y[0, 3])
    one, two = (play(name, program, data).messages for data in (records, changed))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two)):
        same = (a[0, 1:], b[0, 1:]) if isinstance(program.functions, Rounds) else (a[before], b[before])
        np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("private", [True, False])
def test_owners_alone_keep_their_budgets_and_to_themselves(private):
    task = worlds.task(UNEVEN, DIM, epsilon=BUDGETS, delta=DELTA)
    program, records = alone(task, private), worlds.shards(UNEVEN, DIM)
    certificates = certificates_of(program.plan, DELTA)
    assert all((one.epsilon <= budget) == private for one, budget in zip(certificates, BUDGETS))
    changed = worlds.with_record(records, 0, 3, -np.ones(DIM, np.float32), -records.y[0, 3])
    models = [
        np.asarray(simulate(program, data, topologies.identity(), seed=0).model)
        for data in (records, changed)
    ]
    assert not np.allclose(models[0][0], models[1][0])
    np.testing.assert_array_equal(models[0][1:], models[1][1:])
