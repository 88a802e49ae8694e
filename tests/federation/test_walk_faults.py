"""A walk whose owners crash, freeze, vanish, are cut off and run out of disk: one history, nothing charged twice."""

from __future__ import annotations

from random import Random

import pytest
from in_memory import Link
from visit_world import PATIENCE, RUN, World, close, dies_at, trips

from coterie.federation.transport.machine import Status

WAIT = PATIENCE.wait
SMALL = {"owners": 3, "settings": {"batch": 8}}  # three steps


def everything(world: World) -> set[int]:
    return set(range(1, world.last + 1))


def steps_of(world: World, *names: str) -> set[int]:
    return {t for t in everything(world) if world.names[world.schedule[t - 1]] in names}


def apart(left, right) -> list[tuple[str, str]]:
    return [(a, b) for a in left for b in right]


def complete(world: World, network, until: float = 600.0) -> set[int]:
    """Which steps are in the result, after everybody who runs has it."""
    ends = world.play(network, until)
    assert ends
    assert all(end.done for end in ends.values()), {name: end.status for name, end in ends.items()}
    applied = world.check_walk(network, ends)
    if applied == everything(world):
        for end in ends.values():
            close(end.model, world.simulated)
    return applied


def test_fifty_crashes_of_random_owners_lose_nothing(tmp_path):
    world, random = World(tmp_path, settings={"batch": 1}), Random(7)
    network = world.walk(link=Link(delay=0.3, jitter=0.2), seed=1)
    for crash in range(50):
        name, at = random.choice(world.names), 0.2 + 0.25 * crash
        network.crash(name, at=at)
        network.restart(name, at=at + 0.05 + 0.15 * random.random())
    assert complete(world, network) == everything(world)
    assert network.crashes == 50


@pytest.mark.parametrize("every", [5, 7, 11])
def test_death_at_every_so_many_writes_and_charges_loses_nothing(every, tmp_path):
    world = World(tmp_path, "random_walk", settings={"batch": 3, "passes": 1})
    world.trip = trips(every)
    network = world.walk(revive=0.5)
    assert complete(world, network) == everything(world)
    assert network.crashes > 4


def moments(tmp_path) -> int:
    count = 0

    def counted(name: str, what: str) -> None:
        nonlocal count
        count += 1

    (tmp_path / "all").mkdir()
    world = World(tmp_path / "all", **SMALL)
    world.trip = counted
    complete(world, world.walk())
    return count


def test_whoever_dies_at_any_one_moment_and_comes_back_loses_nothing(tmp_path):
    for moment in range(1, moments(tmp_path) + 1):
        (tmp_path / str(moment)).mkdir()
        world = World(tmp_path / str(moment), **SMALL)
        world.trip = dies_at(moment)
        network = world.walk(revive=0.5)
        assert complete(world, network) == everything(world)
        assert network.crashes == 1


@pytest.mark.parametrize("revive", [None, 5 * WAIT])
@pytest.mark.parametrize(
    ("number", "when"),
    [
        (3, "before register"),  # it has the handover, and nobody knows
        (3, "after register"),  # it has written it down, and not acknowledged it
        (2, "before release"),
        (2, "after release"),
        (4, "before register"),
        (4, "after register"),  # ready to hand on
    ],
)
def test_a_holder_that_dies_and_stays_away_is_replaced(number, when, revive, tmp_path):
    world = World(tmp_path, settings={"batch": 2})
    world.trip = dies_at(number, "owner-2", when)
    network = world.walk(revive=revive)
    applied = complete(world, network)
    assert network.crashes == 1
    others = everything(world) - steps_of(world, "owner-2")
    assert applied >= others
    assert len(applied - others) >= 1  # what it did before
    with world.ledger("owner-2") as ledger:
        lost = set(ledger.rounds(RUN)) - applied  # charged, never used, and not charged again
    assert len(lost) <= 1
    if revive is None:
        assert network.now < 3 * WAIT  # once it is known to be away, its turns cost no time


def test_a_holder_that_dies_after_its_handover_arrived_is_not_missed(tmp_path):
    world = World(tmp_path, settings={"batch": 2})
    network = world.walk(link=Link(delay=0.1))
    first = world.names[world.schedule[0]]
    network.crash(first, at=0.35)
    assert complete(world, network) >= everything(world) - steps_of(world, first) | {1}


def test_a_majority_goes_on_and_a_minority_pauses_and_rejoins(tmp_path):
    world = World(tmp_path, owners=5, settings={"batch": 1})
    minority, majority = world.names[:2], world.names[2:]
    network = world.walk(link=Link(delay=0.1))
    network.cut(apart(minority, majority), at=1.0, until=40.0)
    with network:
        network.run(30.0, lambda: False)
        assert all(network.machines[name].done for name in majority)
        for name in minority:
            assert "paused" in network.machines[name].status.note
            assert not network.machines[name].done
        spoken = len(world.writes)
        network.run(39.0, lambda: False)
        assert len(world.writes) == spoken  # nobody moves
    applied = complete(world, world.walk())
    assert applied >= steps_of(world, *majority)
    assert applied < everything(world)


def test_a_holder_that_hears_of_no_majority_says_nothing(tmp_path):
    """It could pass over everybody and walk to the end alone."""
    world = World(tmp_path, settings={"batch": 1})
    first = world.names[world.schedule[0]]
    network = world.walk()
    network.cut(apart([first], set(world.names) - {first}), at=0.0)
    with network:
        network.run(20.0, lambda: False)
        assert network.machines[first].status == Status(
            0, world.last, (), network.machines[first].status.note
        )
        assert "1 of 4 owners are heard of, 3 are needed" in network.machines[first].status.note
        assert all(network.machines[name].done for name in set(world.names) - {first})
    with world.ledger(first) as ledger:
        assert not ledger.rounds(RUN)
    assert complete(world, world.walk()) == everything(world) - steps_of(world, first)


def test_healed_while_the_majority_walks_both_sides_finish_together(tmp_path):
    world = World(tmp_path, owners=5, settings={"batch": 1})
    network = world.walk(link=Link(delay=0.4))
    network.cut(apart(world.names[:2], world.names[2:]), at=3.0, until=10.0)
    applied = complete(world, network)
    assert applied >= steps_of(world, *world.names[2:])
    late = {
        t for t in applied if world.names[world.schedule[t - 1]] in world.names[:2] and t > world.last // 2
    }
    assert late  # the minority's later turns count again


def test_halves_of_an_even_split_both_pause_until_it_heals(tmp_path):
    world = World(tmp_path, settings={"batch": 1})
    network = world.walk(link=Link(delay=0.1))
    network.cut(apart(world.names[:2], world.names[2:]), at=1.0)
    with network:
        network.run(60.0)
        assert all("paused" in machine.status.note for machine in network.machines.values())
        epochs = {machine.held.promised for machine in network.machines.values()}  # type: ignore[attr-defined]
        assert epochs == {0}
    assert complete(world, world.walk()) == everything(world)


def test_too_few_owners_pause_and_go_on_when_the_others_return(tmp_path):
    world = World(tmp_path, owners=5, settings={"batch": 1})
    network = world.walk(link=Link(delay=0.1))
    for name in world.names[2:]:
        network.crash(name, at=0.7)
        network.restart(name, at=30.0)
    with network:
        network.run(25.0, lambda: False)
        for name in world.names[:2]:
            assert "paused" in network.machines[name].status.note
        network.run(300.0)
        ends = {name: machine.done for name, machine in network.machines.items()}
    assert all(ends.values())
    applied = complete(world, world.walk())
    assert len(everything(world) - applied) <= 2


def test_a_frozen_owner_is_passed_over_and_takes_part_again(tmp_path):
    world = World(tmp_path, settings={"batch": 1})
    network = world.walk(link=Link(delay=0.3))
    network.freeze("owner-1", at=1.0, until=1.0 + 3 * WAIT)
    applied = complete(world, network)
    assert applied >= everything(world) - steps_of(world, "owner-1")
    assert max(applied & steps_of(world, "owner-1")) > world.last // 2


def test_everybody_restarted_at_once_goes_on_where_they_were(tmp_path):
    world = World(tmp_path, settings={"batch": 1})
    network = world.walk(link=Link(delay=0.2))
    for at in (1.0, 2.1, 3.3):
        for name in world.names:
            network.crash(name, at=at)
            network.restart(name, at=at + 1.0)
    assert complete(world, network) == everything(world)
    assert network.crashes == 12


def test_a_full_disk_stops_its_owner_with_a_reason_and_nobody_else(tmp_path):
    world = World(tmp_path, settings={"batch": 2})
    world.full = {"owner-1": 1}
    network = world.walk()
    applied = complete(world, network)
    assert "disk full" in str(network.stopped["owner-1"])
    assert applied >= everything(world) - steps_of(world, "owner-1")
    world.full = {}
    again = world.walk()
    assert complete(world, again) == applied  # and with room again it learns the result
    assert len(again.machines) == 0
    assert not again.stopped


def test_an_owner_whose_budget_is_spent_hands_on_and_says_so(tmp_path):
    world = World(tmp_path, "random_walk", settings={"batch": 3, "passes": 3})
    world.budgets["owner-1"] = 0.5
    network = world.walk()
    ends = world.play(network)
    assert all(end.done for end in ends.values())
    applied = world.check_walk(network, ends)
    assert everything(world) - applied <= steps_of(world, "owner-1")
    assert applied < everything(world)
    assert "budget" in ends["owner-1"].status.note
    assert {end.held.epoch for end in ends.values()} == {0}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_there_is_one_history(seed, tmp_path):
    random = Random(seed)
    world = World(tmp_path, owners=5, settings={"batch": 2})
    link = Link(delay=0.1, jitter=0.5 * random.random(), loss=0.2 * random.random(), twice=0.2)
    network = world.walk(link=link, seed=seed)
    for _ in range(12):
        at, lasting = 20.0 * random.random(), 2.5 * WAIT * random.random()
        names = random.sample(world.names, 5)
        fault = random.choice(["crash", "freeze", "cut"])
        if fault == "crash":
            network.crash(names[0], at=at)
            network.restart(names[0], at=at + lasting)
        elif fault == "freeze":
            network.freeze(names[0], at=at, until=at + lasting)
        else:
            side = random.randint(1, 2)
            network.cut(apart(names[:side], names[side:]), at=at, until=at + lasting)
    assert complete(world, network)
