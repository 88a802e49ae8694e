"""A learner and the owners that visit it: the simulator's result in its order, and one version of everything else."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from in_memory import Link
from visit_world import PATIENCE, RUN, World, close, dies_at, trips

TICKS = {"ticks": 14}
WAIT = PATIENCE.wait


def free(world: World, rate: float = 2.0) -> World:
    """Owners wake by their own clocks."""
    world.follow = False
    for seed, name in enumerate(world.names):
        source = np.random.default_rng(seed)
        world.clocks[name] = lambda source=source: float(source.exponential(1 / rate))
    return world


def complete(world: World, network, until: float = 600.0):
    ends = world.play(network, until)
    assert ends["learner"].done
    assert all(end.done for end in ends.values()), {name: end.status for name, end in ends.items()}
    world.check_answers(network)
    return ends


@pytest.mark.parametrize("settings", [{}, {"learner": "copies"}, {"cap": 2}])
def test_in_the_schedules_order_the_result_is_the_simulators(settings, tmp_path):
    world = World(tmp_path, "async_learner", settings=TICKS | settings)
    network = world.visits()
    ends = complete(world, network)
    close(ends["learner"].model, world.simulated)
    assert not network.refused


@pytest.mark.parametrize("seed", range(2))
def test_loss_doubling_delay_and_reordering_change_nothing(seed, tmp_path):
    world = World(tmp_path, "async_learner", settings=TICKS)
    network = world.visits(link=Link(delay=0.02, jitter=0.5, loss=0.25, twice=0.3), seed=seed)
    close(complete(world, network)["learner"].model, world.simulated)


def test_owners_that_wake_by_their_own_clocks_give_the_agreed_number_of_answers(tmp_path):
    world = free(World(tmp_path, "async_learner", settings={"ticks": 30, "cap": 30}))
    network = world.visits(link=Link(delay=0.05, jitter=0.1))
    ends = complete(world, network)
    assert ends["learner"].status.step == 30
    assert sum(len(steps) for steps in world.check_ledgers().values()) == 30  # none in vain
    assert 2.0 < network.now < 12.0  # four clocks of rate two, 30 ticks


def test_an_owner_that_sleeps_through_the_end_hears_of_it(tmp_path):
    world = free(World(tmp_path, "async_learner", owners=3, settings={"ticks": 6, "cap": 6}))
    world.clocks["owner-0"] = lambda: 1e6
    ends = complete(world, world.visits(link=Link(loss=0.3)), until=60.0)
    assert ends["learner"].status.step == 6
    assert not world.check_ledgers()["owner-0"]


def test_a_learner_that_dies_at_any_one_moment_settles_each_answer_once(tmp_path):
    moment, died = 0, True
    while died:
        moment += 1
        (tmp_path / str(moment)).mkdir()
        world = World(tmp_path / str(moment), "async_learner", owners=3, settings={"ticks": 5})
        world.trip = dies_at(moment, "learner")
        network = world.visits(revive=0.5)
        close(complete(world, network)["learner"].model, world.simulated)
        died = network.crashes == 1
    assert moment > 20  # before and after each query and each settled answer


@pytest.mark.parametrize("every", [4, 7])
def test_death_at_every_so_many_writes_and_charges_changes_nothing(every, tmp_path):
    world = World(tmp_path, "async_learner", settings=TICKS)
    world.trip = trips(every)
    network = world.visits(revive=0.3)
    close(complete(world, network)["learner"].model, world.simulated)
    assert network.crashes > 8


def test_fifty_crashes_of_random_parties_lose_nothing(tmp_path):
    world, random = World(tmp_path, "async_learner", settings={"ticks": 24}), Random(3)
    network = world.visits(link=Link(delay=0.15, jitter=0.1), seed=1)
    for crash in range(50):
        name, at = random.choice([*world.names, "learner"]), 0.2 + 0.25 * crash
        network.crash(name, at=at)
        network.restart(name, at=at + 0.05 + 0.15 * random.random())
    close(complete(world, network)["learner"].model, world.simulated)
    assert network.crashes == 50


def test_owners_come_and_go(tmp_path):
    world = free(World(tmp_path, "async_learner", settings={"ticks": 40, "cap": 40}))
    network = world.visits(link=Link(delay=0.05, loss=0.1))
    network.crash("owner-0", at=0.5)  # for good
    for name, leaves, returns in (("owner-1", 1.0, 4.0), ("owner-2", 2.0, 5.0), ("owner-1", 6.0, 7.0)):
        network.crash(name, at=leaves)
        network.restart(name, at=returns)
    network.freeze("owner-3", at=3.0, until=3.0 + 2 * WAIT)
    ends = complete(world, network)
    assert ends["learner"].status.step == 40
    assert set(ends) == {*world.names, "learner"} - {"owner-0"}


def test_an_open_query_of_an_owner_that_never_returns_does_not_hold_the_end(tmp_path):
    world = free(World(tmp_path, "async_learner", owners=3, settings={"ticks": 6, "cap": 6}))
    world.trip = dies_at(1, "owner-0", "before release")  # asked, and gone
    network = world.visits()
    ends = complete(world, network)
    assert (network.crashes, ends["learner"].status.step) == (1, 6)


def test_owners_at_their_cap_leave_and_the_learner_goes_on_with_the_others(tmp_path):
    world = free(World(tmp_path, "async_learner", settings={"ticks": 30, "cap": (2, 20, 3, 20)}))
    ends = complete(world, world.visits())
    assert ends["learner"].status.step == 30
    held = world.check_ledgers()
    assert (len(held["owner-0"]), len(held["owner-2"])) == (2, 3)


def test_when_nobody_has_answers_left_the_run_ends_and_says_so(tmp_path):
    world = free(World(tmp_path, "async_learner", owners=3, settings={"ticks": 30, "cap": 2}))
    ends = complete(world, world.visits(link=Link(loss=0.2)))
    assert ends["learner"].status.step == 6
    assert "no owner has answers left" in ends["learner"].status.note


def test_an_owner_whose_budget_is_spent_says_so_and_is_left_alone(tmp_path):
    world = free(World(tmp_path, "async_learner", settings={"ticks": 20, "cap": 10}))
    world.budgets["owner-1"] = 0.7
    ends = complete(world, world.visits(link=Link(loss=0.2)))
    assert ends["learner"].status.step == 20
    assert "budget" in ends["owner-1"].status.note
    assert 0 < len(world.check_ledgers()["owner-1"]) < 10


def test_a_full_disk_stops_its_owner_with_a_reason_and_nobody_else(tmp_path):
    world = free(World(tmp_path, "async_learner", settings={"ticks": 20, "cap": 20}))
    world.full = {"owner-1": 1}
    network = world.visits()
    ends = complete(world, network)
    assert "disk full" in str(network.stopped["owner-1"])
    assert ends["learner"].status.step == 20
    assert len(world.check_ledgers()["owner-1"]) == 1


def test_everybody_restarted_at_once_goes_on_where_they_were(tmp_path):
    world = World(tmp_path, "async_learner", settings=TICKS)
    network = world.visits(link=Link(delay=0.1))
    for at in (0.7, 2.1):
        for name in (*world.names, "learner"):
            network.crash(name, at=at)
            network.restart(name, at=at + 0.5)
    close(complete(world, network)["learner"].model, world.simulated)
    assert network.crashes == 10


def test_a_silent_learner_and_silent_owners_are_named(tmp_path):
    world = World(tmp_path, "async_learner", settings=TICKS)
    network = world.visits()
    network.crash("learner", at=0.05)
    with network:
        network.run(4 * WAIT)
        notes = {machine.status.note for machine in network.machines.values()}
    assert notes == {"paused: the learner does not react"}
    again = world.visits()
    for name in world.names:
        again.crash(name, at=0.0)
    with again:
        again.run(4 * WAIT, lambda: False)
        assert "no owner was heard of" in again.machines["learner"].status.note
    with world.ledger("owner-0") as ledger:
        assert len(ledger.rounds(RUN)) <= 1
