"""A walk with the simulator's keys, without faults and with the network's usual ones."""

from __future__ import annotations

from typing import Any

import pytest
from in_memory import Link
from visit_world import World, close, trips

SETTINGS: dict[str, dict[str, Any]] = {
    "wor_sgd": {"settings": {"batch": 2}},
    "deep_q": {"settings": {"batch": 2, "policy": "q"}, "owners": 3},
    "random_walk": {"settings": {"batch": 3, "passes": 2}},
}


@pytest.mark.parametrize("protocol", SETTINGS)
def test_without_faults_a_walk_is_the_simulators(protocol, tmp_path):
    world = World(tmp_path, protocol, **SETTINGS[protocol])
    network = world.walk()
    ends = world.play(network)
    assert world.check_walk(network, ends) == set(range(1, world.last + 1))
    for end in ends.values():
        assert (end.done, end.held.epoch, end.status.step, end.status.note) == (True, 0, world.last, "")
        close(end.model, world.simulated)
    assert not network.refused


def test_private_state_survives_crashes_around_every_write_and_charge(tmp_path):
    """Of `deep_q`: a local model, and an agent with its memory."""
    world = World(tmp_path, "deep_q", **SETTINGS["deep_q"])
    world.trip = trips(7)
    network = world.walk(revive=0.4)
    ends = world.play(network)
    assert network.crashes > 4
    assert world.check_walk(network, ends) == set(range(1, world.last + 1))
    for end in ends.values():
        close(end.model, world.simulated)


@pytest.mark.parametrize("seed", range(3))
def test_loss_doubling_delay_and_reordering_change_nothing(seed, tmp_path):
    world = World(tmp_path, settings={"batch": 2})
    network = world.walk(link=Link(delay=0.02, jitter=0.3, loss=0.2, twice=0.3), seed=seed)
    ends = world.play(network)
    assert world.check_walk(network, ends) == set(range(1, world.last + 1))
    for end in ends.values():
        assert end.done
        close(end.model, world.simulated)
