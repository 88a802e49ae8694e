"""Owners and their aggregator in memory: the sums that `simulate` computes, one version each, never of too few."""

from __future__ import annotations

import shutil
from random import Random
from typing import Any

import jax
import numpy as np
import pytest
from gossip_world import World, frame, trips
from in_memory import Link

from coterie.federation.releases.journal import Journal
from coterie.federation.releases.randomness import injected
from coterie.federation.shapes import exchange
from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Kind

ROUGH = Link(delay=0.01, jitter=0.4, loss=0.25, twice=0.3)
PATIENT = Patience(wait=1e6, retry=0.3)
QUICK = Patience(wait=1.0, retry=0.2)
STEPS = {"steps": 6, "step_size": 0.5}
SAME: dict[str, tuple[str, dict[str, Any]]] = {
    "average": ("average_erm", STEPS),
    "average once": ("average_erm", {"aggregation": "once"}),
    "weighted": ("weighted_erm", STEPS),
    "aggregator's view": ("weighted_erm", STEPS | {"view": "aggregator"}),
    "uneven shares": ("weighted_erm", STEPS | {"view": "aggregator", "shares": "records"}),
    "private sizes": ("weighted_erm", STEPS | {"relation": "add_or_remove_one"}),
}


def world_of(folder: Any, kind: str = "average", **options: Any) -> World:
    protocol, settings = SAME[kind]
    return World(folder, protocol, settings=settings, careful="view" in settings, **options)


def same(world: World, network: Any) -> None:
    wanted = world.simulated()
    np.testing.assert_allclose(world.models(network), wanted, rtol=0, atol=3e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", SAME)
def test_real_owners_compute_what_simulate_does(tmp_path, kind):
    world = world_of(tmp_path, kind)
    with world.network(link=ROUGH, seed=2) as network:
        network.run(1000.0)
        assert not network.refused
        same(world, network)
    world.check(network)


@pytest.mark.parametrize("kind", ["average", "private sizes"])
def test_fifty_crashes_of_owners_and_aggregator_change_no_model(tmp_path, kind):
    world = world_of(tmp_path, kind, patience=PATIENT)
    random = Random(3)
    with world.network(link=Link(delay=0.2), revive=0.3) as network:
        world.trip = trips(11)
        for crash in range(50):
            name, at = random.choice([*world.names, "aggregator"]), 0.1 + 0.1 * crash
            network.crash(name, at=at)
            network.restart(name, at=at + random.uniform(0.02, 0.3))
        network.run(1000.0)
        same(world, network)
    assert network.crashes >= 45
    world.check(network)


def test_a_straggler_is_gone_on_without_and_follows_without_needless_releases(tmp_path):
    world = world_of(tmp_path, patience=QUICK)
    with world.network(link=Link(delay=0.1)) as network:
        network.crash("owner-1", at=0.35)  # in the second round
        network.restart("owner-1", at=2.0)
        network.run(1000.0)
        models = world.models(network)
        assert all(machine.done for machine in network.machines.values())
    np.testing.assert_array_equal(models, models[:1].repeat(4, axis=0))
    assert np.abs(models[0] - world.simulated()[0]).max() > 1e-4  # its messages were really missing
    with world.ledger("owner-1") as ledger:
        assert len(ledger.rounds("run")) < 6
    world.check(network)


def test_missing_owners_weight_is_shared_among_those_who_came(tmp_path):
    world = world_of(tmp_path, patience=QUICK)
    with world.network(link=Link(delay=0.1)) as network:
        network.crash("owner-3", at=0.25)
        network.run(1000.0)
    sums = {f.message.step: f.message.body for f in network.sent if f.message.kind == Kind.SUM}
    values = {
        (f.message.step, f.sender): np.frombuffer(f.message.body, np.float32)
        for f in network.sent
        if f.message.kind == Kind.VALUE
    }
    weights = np.asarray(world.program.aggregate)
    wanted = sum(weights[i] * values[4, world.names[i]] for i in range(3)) * weights.sum() / weights[:3].sum()
    np.testing.assert_allclose(np.frombuffer(sums[4], np.float32), wanted, rtol=1e-5)
    world.check(network)


def test_too_few_owners_pause_the_run_and_no_sum_leaves(tmp_path):
    world = world_of(tmp_path, "aggregator's view", patience=QUICK)
    assert world.program.plan.quorum == 3
    with world.network(link=Link(delay=0.1)) as network:
        for name in world.names[2:]:
            network.crash(name, at=0.25)
            network.restart(name, at=30.0)
        network.run(29.0)
        assert network.machines["aggregator"].status.note == "paused: 2 owners are there, a sum needs 3"
        assert network.machines["aggregator"].status.waiting_for == ("owner-2", "owner-3")
        assert {f.message.step for f in network.sent if f.message.kind == Kind.SUM} <= {1, 2}
        network.run(1000.0)
        assert all(machine.done for machine in network.machines.values())
    world.check(network)


class Given:
    """Whole-number noise that a test chooses, in place of an owner's own."""

    def __init__(self, source: Any, cells: int) -> None:
        self._source, self._cells = source, cells

    def noise(self, step: int) -> Any:
        return jax.tree.map(lambda leaf: np.full(leaf.shape, self._cells, np.int32), self._source.noise(step))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def first_sum(folder: Any, cells: dict[int, int], careful: bool = True) -> bytes:
    """The first sum that leaves the aggregator where owners' noise is this, in cells of the common lattice."""
    folder.mkdir()
    world = World(folder, "weighted_erm", settings=STEPS | {"view": "aggregator"}, owners=3, careful=careful)
    world.keys = lambda plan, seed, owner: Given(injected(plan, seed, owner), cells[owner])  # pyright: ignore
    with world.network() as network:
        network.run(1000.0)
    sums = {f.message.step: f.message.body for f in network.sent if f.message.kind == Kind.SUM}
    return sums[1]


def test_last_bits_of_a_sum(tmp_path):
    """What leaves follows from the sum: who of the owners drew which part of its noise makes no difference to any bit.

    In sums of real numbers, each rounded by itself, the last bits told of each owner's message alone.
    """
    parts = [
        (70_001, -31_007, 12_345),
        (-20_011, 40_005, 31_345),
        (51_339, 0, 0),
        (-300_001, 90_013, 261_327),
    ]
    sums = {first_sum(tmp_path / str(at), dict(enumerate(one))) for at, one in enumerate(parts)}
    assert {sum(one) for one in parts} == {51_339}
    assert len(sums) == 1
    rounded = {first_sum(tmp_path / f"real{at}", dict(enumerate(one)), False) for at, one in enumerate(parts)}
    assert len(rounded) > 1


def two_sums(network: Any) -> set[int]:
    """Rounds of which the aggregator has said two different sums."""
    said: dict[int, set[bytes]] = {}
    for f in network.sent:
        if f.message.kind == Kind.SUM:
            said.setdefault(f.message.step, set()).add(f.message.body)
    return {step for step, bodies in said.items() if len(bodies) > 1}


def put_back(folder: Any, network: Any, name: str, *, until: float, at: float) -> None:
    """Bring the aggregator's folder back to its state now, some time later: a copy, or what a power cut has left."""
    network.crash("aggregator")
    shutil.copy(folder / "aggregator.journal", folder / name)
    network.restart("aggregator")
    network.run(until, lambda: False)
    network.crash("aggregator")
    for file in folder.glob("aggregator.journal*"):
        file.unlink()
    shutil.copy(folder / name, folder / "aggregator.journal")
    network.restart("aggregator", at=at)


@pytest.mark.parametrize("witnessed", [False, True])
def test_an_aggregator_that_lost_sums_makes_no_second_ones(tmp_path, witnessed):
    """Of owners who rely on each other's noise: the difference of two sums of a round is single owners' messages.

    owner-3 was away when sums were made that are lost then, and has come back when they would be made again.
    """
    world = world_of(tmp_path, "aggregator's view", patience=QUICK)
    world.witnessed = witnessed
    with world.network(link=Link(delay=0.05)) as network:
        network.crash("owner-3", at=0.42)
        network.restart("owner-3", at=6.0)
        network.run(0.4, lambda: False)
        put_back(tmp_path, network, "old", until=3.0, at=6.3)
        network.run(30.0, lambda: False)
        assert not two_sums(network)
        status = network.machines["aggregator"].status
        assert (status.step < 4, "hold (owner-0, owner-1, owner-2)" in status.note) == (True, True)
    world.check(network)


def test_a_sum_that_one_owner_has_alone_is_not_made_again(tmp_path):
    """The aggregator is gone with the fifth sum on its way; one owner got it, and enough others could give another."""
    world = world_of(tmp_path, "aggregator's view", patience=QUICK)
    with world.network(link=Link(delay=0.05)) as network:
        network.crash("owner-3", at=0.42)
        network.restart("owner-3", at=6.0)
        network.run(1.0, lambda: False)
        network.cut([("aggregator", "owner-1"), ("aggregator", "owner-2")], at=1.97, until=5.0)
        put_back(tmp_path, network, "old", until=3.0, at=6.3)
        network.run(30.0, lambda: False)
        assert not two_sums(network)
        status = network.machines["aggregator"].status
        assert (status.step, "hold (owner-0)" in status.note) == (4, True)
    world.check(network)


def test_a_false_word_of_later_sums_holds_until_its_owner_takes_it_back(tmp_path):
    world = world_of(tmp_path, "aggregator's view", patience=QUICK)
    with world.network(link=Link(delay=0.05)) as network:
        network.crash("owner-3", at=0.22)
        network.inject("owner-3", "aggregator", frame(Kind.WANT, 6), at=0.3)
        network.restart("owner-3", at=6.0)
        network.run(5.0, lambda: False)
        assert "hold (owner-3)" in network.machines["aggregator"].status.note
        network.run(100.0)
        assert all(machine.done for machine in network.machines.values())
    world.check(network)


def test_a_sum_outlives_a_power_cut_before_it_leaves(tmp_path, monkeypatch):
    """Where owners rely on each other's noise: else what a power cut took back would be made again, of other owners."""
    synced: list[int] = []
    monkeypatch.setattr(Journal, "sync", lambda journal: synced.append(int.from_bytes(journal.get("done"))))
    for kind, wanted in (("average", []), ("aggregator's view", [1, 2, 3, 4, 5, 6])):
        (tmp_path / kind).mkdir()
        world = world_of(tmp_path / kind, kind)
        with world.network() as network:
            network.run(1000.0)
        assert synced == wanted


def test_the_first_round_waits_for_everyone(tmp_path):
    world = world_of(tmp_path, patience=QUICK)
    with world.network(link=Link(delay=0.1)) as network:
        network.cut([("aggregator", "owner-0")], until=20.0)
        network.run(19.0)
        assert network.machines["aggregator"].status.step == 0
        network.run(1000.0)
        same(world, network)


def test_a_spent_budget_is_followed_without_releasing(tmp_path):
    world = world_of(tmp_path, patience=PATIENT)
    world.epsilon = {"owner-1": 1.2}
    with world.network() as network:
        network.run(100.0)
        assert all(machine.done for machine in network.machines.values())
        assert network.machines["owner-1"].status.note.startswith("follows without releasing")
        models = world.models(network)
    np.testing.assert_array_equal(models, models[:1].repeat(4, axis=0))
    with world.ledger("owner-1") as ledger:
        assert 1 <= len(ledger.rounds("run")) < 6
    world.check(network)


def test_a_full_disk_stops_its_owner_and_nothing_leaves(tmp_path):
    world = world_of(tmp_path, patience=QUICK)
    world.full = {"owner-2": 3}
    with world.network() as network:
        network.run(100.0)
        assert "disk full" in str(network.stopped["owner-2"])
        assert all(machine.done for machine in network.machines.values())
    left = {f.message.step for f in network.sent if (f.sender, f.message.kind) == ("owner-2", Kind.VALUE)}
    assert left == {1, 2, 3}
    world.check(network)


def test_a_sum_that_was_forgotten_pauses_who_needs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "WINDOW", 1)
    world = world_of(tmp_path, patience=QUICK)
    with world.network(link=Link(delay=0.1)) as network:
        network.crash("owner-1", at=0.45)
        network.restart("owner-1", at=20.0)
        network.run(30.0, lambda: False)
        status = network.machines["owner-1"].status
    assert status.note.startswith("paused: the aggregator has forgotten the sum of round")
    world.check(network)


def test_hostile_frames_are_refused_and_the_run_is_the_same(tmp_path):
    world = world_of(tmp_path)
    size = world.side(0).layout.size
    good, nan = bytes(size), np.full(size // 4, np.nan, np.float32).tobytes()
    to_owner = [
        ("aggregator", frame(Kind.SUM, 7, 0, good), "no such round"),
        ("aggregator", frame(Kind.SUM, 0, 0, good), "no such round"),
        ("aggregator", frame(Kind.SUM, 2, 1, good), "no such round"),
        ("aggregator", frame(Kind.SUM, 2, 0, nan), "not finite"),
        ("aggregator", frame(Kind.VALUE, 2, 0, good), "VALUE: not in a protocol with an aggregator"),
        ("owner-1", frame(Kind.SUM, 1, 0, good), "not the aggregator"),
        ("owner-1", frame(Kind.WANT, 1), "not the aggregator"),
    ]
    to_hub = [
        ("owner-1", frame(Kind.VALUE, 7, 0, good), "no such round"),
        ("owner-1", frame(Kind.VALUE, 6, 0, good), "ahead of the sum"),
        ("owner-1", frame(Kind.VALUE, 1, 0, nan), "not finite"),
        ("owner-1", frame(Kind.VALUE, 1, 0, b""), f"wrong shape: 0 bytes, must be {size}"),
        ("owner-1", frame(Kind.SUM, 1, 0, good), "SUM: not in a protocol with an aggregator"),
        ("stranger", frame(Kind.VALUE, 1, 0, good), "not an owner"),
        ("stranger", frame(Kind.WANT, 1), "not an owner"),
    ]
    with world.network(link=Link(delay=0.1)) as network:
        for receiver, frames in (("owner-0", to_owner), ("aggregator", to_hub)):
            for sender, junk, _ in frames:
                network.inject(sender, receiver, junk, at=0.35)
        network.inject("aggregator", "owner-0", frame(Kind.WANT, 7), at=0.5)
        network.inject("owner-1", "aggregator", frame(Kind.WANT, 7), at=0.5)
        network.run(100.0)
        same(world, network)
    # Those who seemed to ask for round 7 did not, and refuse the answer.
    reasons = [reason for _, _, reason in to_owner + to_hub] + ["no such round"] * 2
    assert sorted(reason for (_, reason), n in network.refused.items() for _ in range(n)) == sorted(reasons)
    refusals = [(f.sender, f.message.step) for f in network.sent if f.message.kind == Kind.REFUSAL]
    assert sorted(refusals) == [("aggregator", 7), ("owner-0", 7)]
    world.check(network)


def test_the_aggregator_keeps_few_sums(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "WINDOW", 2)
    world = world_of(tmp_path)
    with world.network() as network:
        network.run(100.0)
        machine: Any = network.machines["aggregator"]
        assert [step for step, _ in machine._journal.items("sum")] == [4, 5, 6]
        assert not machine._values
