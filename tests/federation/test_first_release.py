"""Nothing is released, and so nothing charged, before there is somebody to tell it to."""

from __future__ import annotations

from typing import Any

import pytest
import visit_world
from gossip_world import RUN, World
from in_memory import Network

ROUNDS: dict[str, dict[str, Any]] = {
    "ring": {},
    "push_sum": {"protocol": "push_sum", "topology": "one_peer_exponential"},
    "matching": {"topology": "random_matching", "owners": 5, "options": {"period": 4}},
    "hub": {"protocol": "weighted_erm"},
}


def charged(world: Any) -> dict[str, int]:
    found = {}
    for name in world.names:
        if (world.folder / f"{name}.ledger").exists():
            with world.ledger(name) as ledger:
                found[name] = len(ledger.rounds(RUN))
    return found


def parties(world: World, *names: str) -> dict[str, Any]:
    known = {"aggregator": world.aggregator}
    return {name: known.get(name, lambda name=name: world.process(name)) for name in names}


@pytest.mark.parametrize("kind", ROUNDS)
def test_an_owner_alone_charges_nothing_and_the_run_begins_when_others_come(tmp_path, kind):
    world = World(tmp_path, **ROUNDS[kind])
    with Network(parties(world, "owner-0")) as network:
        network.run(60.0, lambda: False)
        assert "before it releases anything" in network.machines["owner-0"].status.note
    assert charged(world) == {"owner-0": 0}
    with world.network() as network:
        network.run(300.0)
        assert all(machine.done for machine in network.machines.values())
    assert set(charged(world).values()) == {world.rounds}


def test_owners_of_a_sum_charge_nothing_before_all_of_them_have_come(tmp_path):
    world = World(tmp_path, "weighted_erm")
    some = parties(world, "aggregator", *world.names[:-1])
    with Network(some) as network:
        network.run(60.0, lambda: False)
    assert set(charged(world).values()) == {0}


@pytest.mark.parametrize("kind", ROUNDS)
def test_an_owner_that_comes_back_alone_repeats_and_charges_nothing_new(tmp_path, kind):
    world = World(tmp_path, **ROUNDS[kind])
    with world.network() as network:
        network.run(300.0, lambda: network.machines["owner-0"].status.step >= 2)
    before = charged(world)["owner-0"]
    with Network(parties(world, "owner-0")) as network:
        network.run(60.0, lambda: False)
    assert charged(world)["owner-0"] == before < world.rounds


@pytest.mark.parametrize("protocol", ["wor_sgd", "async_learner"])
def test_an_owner_of_visits_alone_charges_nothing(tmp_path, protocol):
    world = visit_world.World(tmp_path, protocol)
    machine = world.walker if protocol == "wor_sgd" else world.visitor
    first = world.names[world.schedule[0]]
    with Network({first: lambda: machine(first)}) as network:
        network.run(60.0, lambda: False)
    with world.ledger(first) as ledger:
        assert ledger.rounds(visit_world.RUN) == []
