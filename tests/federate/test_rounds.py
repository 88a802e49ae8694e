"""Owners of a protocol of rounds, among each other in memory: what `simulate` computes, whatever the network does."""

from __future__ import annotations

import numpy as np
import pytest
from gossip_world import World

from coterie.engines.federate.memory import Link

ROUGH = Link(delay=0.01, jitter=0.4, loss=0.25, twice=0.3)

SAME = [
    ("dual_averaging", {}),
    ("dual_averaging", {"gossip": 4}),  # Chebyshev
    ("dual_averaging", {"topology": "complete", "gossip": 2}),
    ("dual_averaging", {"topology": "random_matching", "gossip": 3, "options": {"period": 5}}),
    ("push_sum", {"topology": "exponential"}),
    ("push_sum", {"topology": "one_peer_exponential", "gossip": 2}),
    ("push_sum", {"topology": "erdos_renyi", "options": {"weights": "column_stochastic", "period": 3}}),
]


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-5 * scale)


@pytest.mark.parametrize(("protocol", "options"), SAME)
def test_real_owners_compute_what_simulate_does(tmp_path, protocol, options):
    world = World(tmp_path, protocol, **options)
    with world.network() as network:
        network.run(100.0)
        assert not network.refused
        close(world.models(network), world.simulated())
    world.check(network)


@pytest.mark.parametrize(("protocol", "options"), SAME)
def test_loss_doubling_delay_and_disorder_change_nothing(tmp_path, protocol, options):
    world = World(tmp_path, protocol, **options)
    with world.network(link=ROUGH, seed=1) as network:
        network.run(1000.0)
        close(world.models(network), world.simulated())
        assert all(not machine.status.note for machine in network.machines.values())
    world.check(network)
