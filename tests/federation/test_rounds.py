"""Owners of a protocol of rounds, among each other in memory: what `simulate` computes, whatever the network does."""

from __future__ import annotations

import shutil
from random import Random

import numpy as np
import pytest
from gossip_world import World, frame, trips
from in_memory import Link

from coterie import topologies
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Kind

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


@pytest.mark.parametrize("gossip", [1, 4])
def test_real_owners_compute_what_simulate_does_with_the_fewest_messages(tmp_path, gossip):
    world = World(tmp_path, gossip=gossip)
    with world.network() as network:
        network.run(100.0)
        assert not network.refused
        close(world.models(network), world.simulated())
    # At the first place owners ask whether anybody is there, and are answered.
    later = [one.message for one in network.sent if (one.message.step, one.message.sub) != (1, 0)]
    each = topologies.messages_per_round(world.topology, gossip) / gossip
    assert len(later) == (world.rounds * gossip - 1) * each
    assert {message.kind for message in later} == {Kind.VALUE}
    world.check(network)


@pytest.mark.parametrize(("protocol", "options"), SAME)
def test_under_loss_doubling_delay_and_disorder_they_compute_the_same(tmp_path, protocol, options):
    world = World(tmp_path, protocol, **options)
    with world.network(link=ROUGH, seed=1) as network:
        network.run(1000.0)
        close(world.models(network), world.simulated())
        assert all(not machine.status.note for machine in network.machines.values())
    world.check(network)


PATIENT = Patience(wait=1e6, retry=0.3)  # nobody is ever gone on without


@pytest.mark.parametrize(("protocol", "topology"), [("dual_averaging", "ring"), ("push_sum", "exponential")])
def test_fifty_crashes_change_no_model_and_charge_nothing_twice(tmp_path, protocol, topology):
    world = World(tmp_path, protocol, topology, rounds=12, gossip=2, patience=PATIENT)
    random = Random(3)
    with world.network(link=Link(delay=0.2), revive=0.3) as network:
        world.trip = trips(23)
        for crash in range(50):
            name, at = random.choice(world.names), 0.2 + 0.11 * crash
            network.crash(name, at=at)
            network.restart(name, at=at + random.uniform(0.02, 0.3))
        network.run(1000.0)
        close(world.models(network), world.simulated())
    assert network.crashes >= 50
    world.check(network)


def test_all_owners_restarted_change_no_model(tmp_path):
    world = World(tmp_path, rounds=12, gossip=2, patience=PATIENT)
    with world.network(link=Link(delay=0.2, loss=0.1)) as network:
        for name in world.names:
            network.crash(name, at=2.1)
            network.restart(name, at=3.0)
        network.run(1000.0)
        close(world.models(network), world.simulated())
    world.check(network)


def test_a_journal_from_before_a_power_cut_costs_time_alone(tmp_path):
    world = World(tmp_path, rounds=12, gossip=2, patience=PATIENT)
    journal, copy = tmp_path / "owner-1.journal", tmp_path / "copy"
    with world.network(link=Link(delay=0.2)) as network:
        network.run(1.0)
        network.crash("owner-1")
        shutil.copy(journal, copy)
        network.restart("owner-1")
        network.run(3.0)
        ahead = network.machines["owner-1"].status.step
        network.crash("owner-1")
        shutil.copy(copy, journal)
        network.restart("owner-1")
        assert network.machines["owner-1"].status.step < ahead
        network.run(1000.0)
        close(world.models(network), world.simulated())
    world.check(network)


@pytest.mark.parametrize(("protocol", "topology"), [("dual_averaging", "ring"), ("push_sum", "exponential")])
def test_absence_keeps_the_sum_and_the_model_is_near(tmp_path, protocol, topology):
    world = World(tmp_path, protocol, topology, rounds=12, patience=Patience(wait=0.7, retry=0.2))
    with world.network(link=Link(delay=0.1)) as network:
        network.freeze("owner-1", at=0.55, until=1.45)
        network.run(1000.0)
        drift, moved = world.moved()
        got = world.models(network)
        apart = np.abs(got - world.simulated()).max() / np.abs(world.simulated()).max()
    assert drift < 1e-5 * moved
    assert 1e-4 < apart < 0.5  # something was late, and nothing was lost
    world.check(network)


def test_a_full_disk_stops_its_owner_with_the_reason_and_nothing_leaves(tmp_path):
    world = World(tmp_path, rounds=6, patience=Patience(wait=1.0, retry=0.2))
    world.full = {"owner-2": 3}
    with world.network() as network:
        network.run(100.0)
        assert "disk full" in str(network.stopped["owner-2"])
        assert all(machine.done for machine in network.machines.values())
        left = {f.message.step for f in network.sent if (f.sender, f.message.kind) == ("owner-2", Kind.VALUE)}
        world.full = {}
        network.restart("owner-2")
        network.run(200.0)
        assert network.machines["owner-2"].status.step == 6
    assert left == {1, 2, 3}
    world.check(network)


def test_a_spent_budget_goes_on_mixing_without_charges(tmp_path):
    world = World(tmp_path, rounds=6)
    world.epsilon = {"owner-1": 1.2}
    with world.network() as network:
        network.run(100.0)
        drift, moved = world.moved()
        assert all(machine.done for machine in network.machines.values())
        note = network.machines["owner-1"].status.note
    assert note.startswith("mixes without releasing")
    assert drift < 1e-5 * moved
    with world.ledger("owner-1") as ledger:
        assert 1 <= len(ledger.rounds("run")) < 6
    world.check(network)


def test_hostile_frames_are_refused_and_the_run_is_the_same(tmp_path):
    world = World(tmp_path, rounds=6, gossip=2, owners=5)
    size = world.side(0).layout.size
    good, nan = bytes(size), np.full(size // 4, np.nan, np.float32).tobytes()
    big = np.full(size // 4, 1e38, np.float32).tobytes()
    frames = [
        ("owner-1", frame(Kind.VALUE, 7, 0, good), "no such round"),
        ("owner-1", frame(Kind.VALUE, 0, 0, good), "no such round"),
        ("owner-1", frame(Kind.VALUE, 2, 2, good), "no such round"),
        ("owner-1", frame(Kind.VALUE, 2, 0, nan), "not finite"),
        ("owner-1", frame(Kind.VALUE, 2, 0, big), "too large"),
        ("owner-1", frame(Kind.VALUE, 2, 0, good[:-1]), f"wrong shape: {size - 1} bytes, must be {size}"),
        ("owner-1", frame(Kind.SUM, 1, 0, good), "SUM: not in a protocol of rounds"),
        ("owner-2", frame(Kind.VALUE, 1, 0, good), "not a neighbour"),
        ("owner-2", frame(Kind.WANT, 1), "not a neighbour"),
        ("stranger", frame(Kind.VALUE, 1, 0, good), "not a neighbour"),
        ("owner-1", frame(Kind.WANT, 0), "no such round"),
        ("owner-1", frame(Kind.WANT, 1, 9), "no such round"),
    ]
    with world.network(link=Link(delay=0.1)) as network:
        for at in (0.35, 0.75, 300.0):
            for sender, junk, _ in frames:
                network.inject(sender, "owner-0", junk, at=at)
        network.inject("owner-1", "owner-0", frame(Kind.WANT, 7), at=0.5)
        network.run(100.0)
        for old in [f for f in network.sent if f.receiver == "owner-0"]:  # replays of everything
            network.inject(old.sender, "owner-0", wire.encode(old.message, bytes(32)))
        network.run(400.0, lambda: False)
        close(world.models(network), world.simulated())
        counts = [count for (receiver, _), count in network.refused.items() if receiver == "owner-0"]
        assert sum(counts) == 3 * len(frames)
    assert {reason for _, reason in network.refused} == {reason for _, _, reason in frames}
    refusals = [f.message for f in network.sent if f.message.kind == Kind.REFUSAL]
    assert [(m.step, m.body) for m in refusals] == [(7, b"round 7: the agreement has 6")]
    with world.ledger("owner-0") as ledger:
        assert ledger.rounds("run") == [1, 2, 3, 4, 5, 6]
    world.check(network)


def test_the_first_version_of_a_value_stands(tmp_path):
    world = World(tmp_path, rounds=3)
    size = world.side(0).layout.size
    with world.network(link=Link(delay=0.2)) as network:
        network.run(0.1)
        network.inject("owner-1", "owner-0", frame(Kind.VALUE, 1, 0, bytes(size)))
        network.run(100.0)
    assert dict(network.refused) == {("owner-0", "a second version of a value"): 1}
