"""Units of several records in every protocol: what one of them moves, what is refused, and that models learn."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from test_contract import DELTA, DIM, ROWS, UNEVEN

from coterie import topologies
from coterie.engines.owners import everything
from coterie.engines.simulate import simulate
from coterie.engines.sweep import Lane, sweep
from coterie.errors import InputError
from coterie.mechanisms import NoNoise, gathering
from coterie.problems import holdings
from coterie.problems.losses import squared
from coterie.problems.problem import objective
from coterie.program import Groups, Program
from coterie.protocols import PROTOCOLS, async_learner, build, dual_averaging
from coterie.protocols.baselines import alone
from coterie.protocols.mixing import mixer_of
from coterie.protocols.task import Task
from coterie.testing import ContractError, check_protocol, sensitivity, small_world
from coterie.units import RECORD, Unit

PERSON = Unit("column", column="person", records=4)
MEAN = replace(PERSON, mean=True)


def unit_for(name: str) -> Unit:
    return MEAN if name == "deep_q" else PERSON


def task_for(name: str, unit: Unit | None = None) -> Task:
    unit = unit_for(name) if unit is None else unit
    return worlds.task(UNEVEN, DIM, delta=DELTA, topology=ROWS[name].topology, unit=unit)


@pytest.mark.parametrize("name", ROWS)
def test_a_unit_moves_messages_by_no_more_than_a_record_may_and_models_learn(name):
    """One record against the cap of them, aligned, duplicated, cancelling, mislabelled, not finite."""
    task, held = task_for(name), worlds.units(UNEVEN, DIM, PERSON.records)
    program = build(name, task, ROWS[name].settings, "certified")
    assert program.plan.unit == task.unit
    assert program.claim.unit == "column:person"
    found = sensitivity.measure(program, held, None, 0)
    assert 0.25 * found.allowed <= found.measured <= found.allowed * (1 + sensitivity.SLACK)
    quiet = program._replace(plan=replace(program.plan, noise=NoNoise()))
    trace = simulate(quiet, held, mixer_of(task, quiet), seed=0)
    assert _worst(task, held, trace.model) < _worst(task, held, task.params[None]) - 0.01


def _worst(task: Task, held, models) -> float:
    """The largest objective of any model, over everyone's records."""
    everyone = jax.vmap(everything)(held)
    batch = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), everyone)
    return max(float(objective(task.problem, jnp.asarray(model), batch)) for model in np.asarray(models))


def test_the_shipped_suite_takes_units_and_finds_who_clips_their_records_one_by_one():
    world = small_world(unit=PERSON)
    settings = dual_averaging.Settings(rounds=6)
    found = check_protocol(dual_averaging.build, settings, world=world)
    assert 0.25 * found.allowed <= found.shift <= found.allowed * (1 + sensitivity.SLACK)

    def by_records(task, settings, calibration) -> Program:
        program = dual_averaging.build(task, settings, calibration)
        emit = program.functions.emit

        def one_by_one(state, batch, noise, ctx):
            return emit(state, gathering.as_records(batch), noise, ctx)

        return program._replace(functions=program.functions._replace(emit=one_by_one))

    with pytest.raises(ContractError, match="sensitivity: one record moves a message"):
        check_protocol(by_records, settings, world=world)


@pytest.mark.parametrize("unit", [PERSON, MEAN])
def test_records_that_are_weighed_once_share_their_units_weight(unit):
    world = small_world(loss=squared(), unit=unit)
    program = async_learner.build(world.task, async_learner.Settings(ticks=12, clip="once"), "certified")
    found = sensitivity.measure(program, world.records, None, 0)
    assert 0 < found.measured <= found.allowed * (1 + sensitivity.SLACK)


def test_private_numbers_of_units_are_checked_on_one_unit_less():
    settings = PROTOCOLS["weighted_erm"].settings(steps=3, step_size=0.1, relation="add_or_remove_one")
    world = small_world(unit=PERSON)
    fewer = replace(world.task, sizes=(world.task.sizes[0] - 1, *world.task.sizes[1:]))
    program, smaller = (
        PROTOCOLS["weighted_erm"].build(task, settings, "certified") for task in (world.task, fewer)
    )
    found = sensitivity.measure(program, world.records, smaller, 0)
    assert 0.25 * found.allowed <= found.measured <= found.allowed * (1 + sensitivity.SLACK)


@pytest.mark.parametrize("name", ROWS)
def test_published_noise_is_built_for_units_too(name):
    """What a theorem says of a record it says of the unit in its place; its certificate is of the unit."""
    program = build(name, task_for(name), {}, "paper")
    assert program.plan.unit == unit_for(name)
    assert program.plan.clip_norm == build(name, task_for(name, RECORD), {}, "paper").plan.clip_norm


def test_deep_q_refuses_sums_which_features_do_not_bound():
    with pytest.raises(InputError, match="deep_q bounds features.*Use unit_mean"):
        build("deep_q", task_for("deep_q", PERSON), {}, "certified")


def test_steps_are_stable_for_as_many_records_as_a_unit_may_have():
    pace = [
        build(
            "dual_averaging", task_for("dual_averaging", unit), {"rounds": 4}, "noiseless"
        ).numbers.pace.gamma
        for unit in (RECORD, MEAN, PERSON)
    ]
    np.testing.assert_array_equal(pace[0], pace[1])
    assert (np.asarray(pace[2]) >= np.asarray(pace[0])).all()
    assert task_for("push_sum", MEAN).problem.mean  # a task's problem takes the unit's word for it


def test_owners_alone_protect_their_units():
    assert alone(task_for("dual_averaging")).plan.unit == PERSON


@pytest.mark.parametrize("settings", [{"rounds": 3}, {"rounds": 3, "rate": 0.5}])
def test_engines_hold_units_in_several_arrays_as_in_one(monkeypatch, settings):
    monkeypatch.setattr(holdings, "_WORTH", 1)
    sizes, task = (9, 200, 40), worlds.task((9, 200, 40), DIM, unit=PERSON)
    program, mixer = build("dual_averaging", task, settings, "certified"), topologies.mixer(task.topology)
    apart, together = worlds.units_held(sizes, DIM, 4), worlds.units(sizes, DIM, 4)
    assert isinstance(apart, Groups)
    models = [simulate(program, held, mixer, seed=2).model for held in (apart, together)]
    np.testing.assert_allclose(*models, rtol=2e-4, atol=2e-5)
    _, looks = sweep([Lane(program, mixer, 2)], apart, every=3, probe=np.asarray)
    np.testing.assert_allclose(np.asarray(looks)[-1][0], models[0], rtol=2e-4, atol=2e-5)
