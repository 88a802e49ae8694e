"""The contract, over every registered protocol: joining it is one row. What is measured is in `coterie.testing`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds

from coterie import topologies
from coterie.accounting.plans import certificates_of, person_of
from coterie.engines.simulate import simulate
from coterie.mechanisms import NoNoise
from coterie.problems.problem import objective
from coterie.program import Batch, Program
from coterie.protocols import PROTOCOLS, build, weighted_erm
from coterie.protocols.baselines import alone
from coterie.protocols.mixing import mixer_of
from coterie.testing import ContractError, check_protocol, sensitivity, small_world

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
def test_a_person_whom_two_owners_know_costs_at_most_every_budget(name):
    """All owners' budgets hold for it: it may be the strictest owner's. A hundredth of ε at most is left unspent."""
    row = ROWS[name]
    task = worlds.task(UNEVEN, DIM, epsilon=BUDGETS, delta=DELTA, topology=row.topology)
    program = build(name, replace(task, owners_per_person=2), row.settings, "certified")
    assert 0.99 * min(BUDGETS) <= person_of(program.plan, DELTA, 2).epsilon <= min(BUDGETS)


@pytest.mark.parametrize("name", ROWS)
def test_the_contract_is_kept(name):
    """The suite that is shipped for everybody's protocols, and that some neighbours come near what is allowed."""
    row = ROWS[name]
    settings = PROTOCOLS[name].settings(**row.settings)
    found = check_protocol(PROTOCOLS[name].build, settings, world=small_world(topology=row.topology))
    assert 0.25 * found.allowed <= found.shift


@pytest.mark.parametrize("name", ROWS)
def test_the_plans_clip_norm_alone_is_clipped_to(name):
    """With another clip norm in the plan, and nothing else changed, records are clipped to that one.

    The noise follows from it too: so a message moves by as much of its noise as before.
    """
    program = make(name)
    records, allowed = worlds.shards(UNEVEN, DIM), sensitivity.charged(program, 1)
    quarter = program._replace(plan=replace(program.plan, clip_norm=program.plan.clip_norm / 4))
    found = sensitivity.measure(quarter, records, None, 0)
    assert 0.25 * found.allowed <= found.measured <= found.allowed * (1 + sensitivity.SLACK)
    assert sensitivity.charged(quarter, 1) == allowed


@pytest.mark.parametrize("name", ROWS)
def test_no_program_has_a_clip_norm_of_its_own(name):
    paths, _ = jax.tree_util.tree_flatten_with_path(make(name).numbers)
    assert not [place for place, _ in paths if "clip" in jax.tree_util.keystr(place)]


def test_private_sizes_are_checked_on_a_record_less():
    """Added or removed records: the noise must not follow sizes, and the released size is charged too."""
    settings = weighted_erm.Settings(steps=3, step_size=0.1, relation="add_or_remove_one")
    found = check_protocol(weighted_erm.build, settings)
    assert 0.25 * found.allowed <= found.shift

    def by_size(task, settings, calibration):
        program = weighted_erm.build(task, settings, calibration)
        wider = tuple(z * (1 + 1 / n) for z, n in zip(program.plan.noise_multiplier, task.sizes))
        return program._replace(plan=replace(program.plan, noise_multiplier=wider))

    with pytest.raises(ContractError, match="the noise on a message changes with the number of records"):
        check_protocol(by_size, settings)


@pytest.mark.parametrize("name", ROWS)
def test_without_noise_the_model_learns(name):
    """The certified schedule with its noise taken out ends below the starting objective, on everyone's records."""
    program, records = make(name), worlds.shards(UNEVEN, DIM)
    quiet = program._replace(plan=replace(program.plan, noise=NoNoise()))
    mixer = mixer_of(worlds.task(UNEVEN, DIM, topology=ROWS[name].topology), quiet)
    trace = simulate(quiet, records, mixer, seed=0)
    task = worlds.task(UNEVEN, DIM)
    mask = (np.arange(max(UNEVEN)) < np.array(UNEVEN)[:, None]).astype(np.float32)
    everything = Batch(records.x.reshape(-1, DIM), records.y.ravel(), jnp.asarray(mask.ravel()))
    start = float(objective(task.problem, task.params, everything))
    for model in np.asarray(trace.model):
        assert float(objective(task.problem, jnp.asarray(model), everything)) < start - 0.01


@pytest.mark.parametrize("private", [True, False])
def test_owners_alone_keep_their_budgets_and_to_themselves(private):
    task = worlds.task(UNEVEN, DIM, epsilon=BUDGETS, delta=DELTA)
    program, records = alone(task, private), worlds.shards(UNEVEN, DIM)
    certificates = certificates_of(program.plan, DELTA)
    assert all((one.epsilon <= budget) == private for one, budget in zip(certificates, BUDGETS))
    changed = worlds.with_record(records, 0, 3, -np.ones(DIM, np.float32), -records.y[0, 3])
    models = [
        np.asarray(simulate(program, data, topologies.IDENTITY, seed=0).model) for data in (records, changed)
    ]
    assert not np.allclose(models[0][0], models[1][0])
    np.testing.assert_array_equal(models[0][1:], models[1][1:])
