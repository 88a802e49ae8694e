"""Crashes, freezes, partitions and absences in rounds: the run goes on or says why not, and the owners' sum is kept."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from gossip_world import trips
from hypothesis import given, settings
from hypothesis import strategies as st
from in_memory import Link, Network
from toy_world import Toys

from coterie.federation.shapes import exchange, rounds
from coterie.federation.transport import wire
from coterie.federation.transport.wire import Kind, Message

KINDS: dict[str, dict[str, Any]] = {  # symmetric, accelerated, time-varying; directed, time-varying
    "ring": {},
    "chebyshev": {"gossip": 4},
    "matching": {"topology": "random_matching", "owners": 6, "period": 5, "gossip": 2},
    "directed": {"topology": "exponential", "owners": 6, "debiased": True},
    "one peer": {"topology": "one_peer_exponential", "owners": 6, "gossip": 2, "debiased": True},
}
kinds = pytest.mark.parametrize("kind", KINDS)
EXACT = 1e-12


def finished(toys: Toys, network: Network) -> None:
    assert all(machine.done for machine in network.machines.values())
    assert len(network.machines) == len(toys.names)
    assert all(len(seen) == toys.rounds for seen in toys.seen.values())
    toys.check(network)
    assert toys.drift(network) < EXACT


@kinds
def test_fifty_crashes_of_random_owners(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind])
    random = Random(1)
    with toys.network() as network:
        for crash in range(50):
            name, at = random.choice(toys.names), 0.3 + 0.15 * crash
            network.crash(name, at=at)
            network.restart(name, at=at + random.uniform(0.05, 2.0))
        network.run(1000.0)
        finished(toys, network)
    assert network.crashes > 20


@kinds
def test_killed_around_every_kind_of_write(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind])
    with toys.network(revive=0.5) as network:
        toys.trip = trips(17)
        network.run(1000.0)
        finished(toys, network)
    assert network.crashes > 10


@kinds
def test_all_owners_restarted_at_once_again_and_again(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind])
    with toys.network(link=Link(delay=0.1, jitter=0.1, loss=0.1)) as network:
        for at in (0.7, 1.5, 2.9):
            for name in toys.names:
                network.crash(name, at=at)
                network.restart(name, at=at + 0.3)
        network.run(1000.0)
        finished(toys, network)


@kinds
def test_an_owner_frozen_for_longer_than_the_wait_catches_up(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind] | {"rounds": 60})
    with toys.network() as network:
        network.freeze("owner-1", at=0.75, until=2.6)
        network.run(2.5)
        others = [network.machines[name].status.step for name in toys.names if name != "owner-1"]
        mine = network.machines["owner-1"].status.step
        network.run(1000.0)
        finished(toys, network)
        assert all(not machine.status.note for machine in network.machines.values())
    assert max(others) > mine + 1  # they went on without it


@kinds
def test_a_partition_that_heals(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind] | {"rounds": 80})
    half = set(toys.names[: len(toys.names) // 2])
    with toys.network() as network:
        pairs = [(a, b) for a in half for b in set(toys.names) - half]
        network.cut(pairs, at=0.95, until=4.0)
        network.run(1000.0)
        finished(toys, network)
        assert all(not machine.status.note for machine in network.machines.values())


@kinds
def test_without_an_owner_that_never_comes_back_the_others_finish_or_say_why_not(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind])
    with toys.network() as network:
        network.crash("owner-1", at=1.05)
        network.run(1000.0)
        assert len(network.machines) == len(toys.names) - 1
        if kind in ("directed", "one peer"):  # their weight would drain away into the one that is gone
            notes = [machine.status.note for machine in network.machines.values()]
            assert any("owner-1 missed" in note for note in notes)
            assert not any(machine.done for machine in network.machines.values())
            toys.check(network)
            return
        for machine in network.machines.values():
            assert machine.done
            hears = any(1 in hop.hears for hop in machine._view.hops)  # type: ignore[attr-defined]
            assert ("never completed" in machine.status.note) == hears
    toys.check(network)


@kinds
def test_an_owner_that_all_others_forget_costs_nothing_more(tmp_path, kind):
    """Restarted with the decision, the others end their run, and no weight leaves them any more."""
    toys = Toys(tmp_path, **KINDS[kind])
    others = [name for name in toys.names if name != "owner-1"]
    with toys.network() as network:
        network.crash("owner-1", at=1.05)
        network.run(30.0)
        toys.forgotten = {1}
        for name in others:
            network.crash(name)
            network.restart(name, at=network.now + 0.1)
        network.run(1000.0)
        assert all(network.machines[name].done for name in others)
        assert not any(network.machines[name].status.waiting_for for name in others)
        weights = {
            step: sum(float(toys.seen[name][step][0]["w"][0]) for name in others)
            for step in (toys.rounds - 5, toys.rounds)
        }
        assert weights[toys.rounds - 5] == pytest.approx(weights[toys.rounds], rel=EXACT)
        models = np.array([network.machines[name].model() for name in others])
    assert np.isfinite(models).all()


@pytest.mark.parametrize("kind", ["ring", "one peer"])
def test_an_owner_that_comes_back_when_all_have_finished_asks_for_many_values_at_once(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind] | {"rounds": 60})
    with toys.network() as network:
        network.crash("owner-1", at=0.75)
        network.run(1000.0)
        back = network.now
        network.restart("owner-1")
        places = toys.gossip * (60 - network.machines["owner-1"].status.step)
        network.run(2000.0)
        assert network.machines["owner-1"].status.step == 60
    assert places > 50
    assert network.now - back < 0.5 * places * toys.patience.retry
    toys.check(network)


@kinds
def test_an_owner_whose_budget_is_spent_goes_on_mixing(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind])
    toys.limits = {2: 10}
    with toys.network() as network:
        network.crash("owner-2", at=1.53)
        network.restart("owner-2", at=1.9)
        network.run(1000.0)
        finished(toys, network)
        assert "budget spent" in network.machines["owner-2"].status.note
    assert len(toys.ledgers["owner-2"]) == 10


def test_an_owner_that_cannot_mix_without_releasing_falls_silent(tmp_path):
    toys = Toys(tmp_path, mute=(2,))
    toys.limits = {2: 10}
    with toys.network() as network:
        network.run(1000.0)
        assert all(machine.done for machine in network.machines.values())
        assert "no more" in network.machines["owner-2"].status.note
        assert network.now < 30 * 0.2 + 5.0  # nobody waits for it in every round
    assert [len(seen) for seen in toys.seen.values()] == [30, 30, 10, 30, 30]
    toys.check(network)


@pytest.mark.parametrize("kind", ["ring", "directed"])
def test_an_owner_that_hears_nobody_pauses_and_releases_nothing_more(tmp_path, kind):
    toys = Toys(tmp_path, **KINDS[kind] | {"rounds": 60})
    with toys.network() as network:
        pairs = [("owner-1", name) for name in toys.names if name != "owner-1"]
        network.cut(pairs, at=0.95, until=4.0)
        network.run(3.9)
        assert network.machines["owner-1"].status.note == "paused: no neighbour is heard"
        assert len(toys.ledgers["owner-1"]) <= 12
        network.run(1000.0)
        finished(toys, network)


def test_directed_links_without_weights_pause_until_everyone_is_heard(tmp_path):
    toys = Toys(tmp_path, "exponential", 6)
    with toys.network() as network:
        network.freeze("owner-1", at=0.75, until=20.0)
        network.run(15.0)
        assert network.machines["owner-2"].status.note.startswith("paused until all neighbours are heard")
        assert network.machines["owner-2"].status.waiting_for == ("owner-1",)
        network.run(1000.0)
        finished(toys, network)
        assert not any(machine._debts for machine in network.machines.values())  # type: ignore[attr-defined]


def test_a_run_begins_when_everyone_has_come(tmp_path):
    toys = Toys(tmp_path)
    with toys.network() as network:
        network.cut([("owner-0", name) for name in toys.names[1:]], until=30.0)
        network.run(29.0)
        assert [network.machines[name].status.step for name in toys.names[1:]] == [0, 1, 1, 0]
        notes = [network.machines[name].status.note for name in toys.names]
        assert notes[0] == "waits for a neighbour before it releases anything"
        assert set(notes[1:]) == {"waits for all owners to come"}
        network.run(1000.0)
        finished(toys, network)


def test_what_is_too_old_is_forgotten_and_memory_stays_bounded(tmp_path, monkeypatch):
    for module in (exchange, rounds):
        monkeypatch.setattr(module, "WINDOW", 40)
    toys = Toys(tmp_path, rounds=150, gossip=2)
    with toys.network() as network:
        network.freeze("owner-1", at=1.05, until=40.0)
        network.run(1000.0)
        assert all(machine.done for machine in network.machines.values())
        for name in toys.names:
            machine: Any = network.machines[name]
            kept = machine._journal.items("value")
            assert len(kept) <= 40 + rounds._TIDY + 1
            assert len(machine._inbox) <= rounds.AHEAD
            assert sum(map(len, machine._debts._owed.values())) <= 2 * 41
            assert sum(len(peer.asked) for peer in machine._peers.values()) <= 2 * (
                41 + rounds.AHEAD + rounds._TIDY
            )
        assert "never completed" in network.machines["owner-0"].status.note
    toys.check(network)


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["crash", "freeze", "cut", "noise"]),
        st.integers(0, 5),
        st.floats(0.0, 6.0),
        st.floats(0.05, 4.0),
    ),
    max_size=8,
)


@settings(max_examples=10, deadline=None)
@given(
    faults=FAULTS, kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 999), every=st.integers(10, 200)
)
def test_the_sum_is_kept_under_any_faults(tmp_path_factory, faults, kind, seed, every):
    toys = Toys(tmp_path_factory.mktemp("toys"), **KINDS[kind] | {"rounds": 25})
    with toys.network(seed=seed, revive=0.4) as network:
        toys.trip = trips(every)
        for fault, owner, at, long in faults:
            name = toys.names[owner % len(toys.names)]
            other = toys.names[(owner + 1) % len(toys.names)]
            match fault:
                case "crash":
                    network.crash(name, at=at)
                    network.restart(name, at=at + long)
                case "freeze":
                    network.freeze(name, at=at, until=at + long)
                case "cut":
                    network.cut([(name, other)], at=at, until=at + long)
                case "noise":
                    network.link = Link(delay=0.05, jitter=0.3, loss=0.2, twice=0.2)
        network.run(2000.0)
        finished(toys, network)
    assert np.isfinite([machine.model() for machine in network.machines.values()]).all()  # type: ignore[attr-defined]


BODIES = st.sampled_from(
    [b"", bytes(8 * 4), np.full(4, np.nan).tobytes(), np.full(4, 1e308).tobytes(), bytes(33)]
)
JUNK = st.tuples(
    st.sampled_from(["owner-1", "owner-2", "owner-4", "stranger"]),
    st.builds(Message, st.sampled_from(Kind), st.integers(0, 12), st.integers(0, 4), BODIES),
)


@settings(max_examples=10, deadline=None)
@given(junk=st.lists(JUNK, max_size=60), seed=st.integers(0, 99))
def test_no_message_crashes_or_stalls_an_owner(tmp_path_factory, junk, seed):
    toys = Toys(tmp_path_factory.mktemp("toys"), rounds=10, gossip=2)
    with toys.network(seed=seed) as network:
        for number, (sender, message) in enumerate(junk):
            network.inject(sender, "owner-0", wire.encode(message, bytes(32)), at=0.05 * number)
        network.run(200.0)
        assert not network.stopped
        assert all(machine.done for machine in network.machines.values())
    assert len(toys.ledgers["owner-0"]) == 10
    toys.check(network)
