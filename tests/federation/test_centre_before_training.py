"""Before training: every owner's sums reach everybody, once; then all train around the same centre, in every shape."""

from __future__ import annotations

import json
from random import Random

import jax
import numpy as np
import pytest
from centring_world import SHAPES, SIZES, World, trained
from in_memory import Killed, Link
from visit_world import close

from coterie.errors import InputError, LedgerError
from coterie.evaluation.centre import WHOLE
from coterie.federation.releases.side import table_layout
from coterie.federation.shapes.centring import Basis
from coterie.federation.shapes.tables import NONE
from coterie.federation.transport.wire import Kind, Message, encode, pack

ROUGH = Link(delay=0.05, jitter=0.2, loss=0.2, twice=0.3)
TRAINING = (Kind.VALUE, Kind.ANSWER, Kind.HANDOVER)


def models_of(world: World) -> list:
    """Every owner's, as the simulation has them: visits shape one for all."""
    model, _ = world.simulated
    several = len(jax.tree.leaves(model)[0]) > 1
    return [jax.tree.map(lambda leaf, at=at: leaf[at if several else 0], model) for at in range(len(SIZES))]


def basis(machine) -> Basis:
    found = machine._basis
    assert found is not None
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_all_train_as_the_simulation_does_on_features_around_the_same_centre(tmp_path, shape, monkeypatch):
    world = World(tmp_path, shape, monkeypatch)
    with world.network(link=Link(delay=0.02)) as network:
        network.run(120.0)
        assert all(machine.done for machine in network.machines.values())
        assert not network.stopped
        assert not network.refused
        found = trained(network, world.names)
        assert {basis(machine).digest.hex() for machine in network.machines.values()} == {
            world.simulated[1].sums
        }
    if world.agreement.masks is None:  # masked sums are added as whole numbers, other than a simulation does
        for got, expected in zip(found, models_of(world), strict=True):
            close(got, expected)
    assert (
        all(jax.tree.all(jax.tree.map(np.array_equal, found[0], one)) for one in found) or shape == "rounds"
    )
    world.check(network)
    first = {
        name: min(
            frame.time for frame in network.sent if frame.sender == name and frame.message.kind in TRAINING
        )
        for name in world.names
        if any(frame.sender == name and frame.message.kind in TRAINING for frame in network.sent)
    }
    last = max(
        min(f.time for f in network.sent if f.message.kind == Kind.TABLE and f.message.sub == at)
        for at in range(len(SIZES))
    )
    assert first
    assert min(first.values()) > last


@pytest.mark.parametrize("shape", ["rounds", "hub", "walk", "learner"])
def test_killed_around_every_write_no_sums_are_drawn_for_a_second_release(tmp_path, shape, monkeypatch):
    world = World(tmp_path, shape, monkeypatch)
    world.injected = None
    random = Random(3)

    def trip(name: str) -> None:
        if random.random() < 0.15:
            raise Killed

    world.trip = trip
    with world.network(link=ROUGH, seed=2, revive=0.2) as network:
        network.run(300.0, lambda: all(getattr(one, "machine", None) for one in network.machines.values())
                    and len(network.machines) == len(world.parties))  # fmt: skip
        found = {basis(machine) for machine in network.machines.values()}
    assert network.crashes > 5
    assert max(world.drawn.values()) > 1  # somebody drew sums that never left
    assert len(found) == 1
    assert next(iter(found)).owners == {0, 1, 2, 3}
    world.check(network)


@pytest.mark.parametrize("shape", ["rounds", "walk"])
def test_an_owner_that_comes_late_is_waited_for(tmp_path, shape, monkeypatch):
    world = World(tmp_path, shape, monkeypatch)
    with world.network() as network:
        network.cut([(name, "owner-3") for name in world.names[:3]], until=60.0)
        network.run(60.0, lambda: False)
        status = network.machines["owner-0"].status
        assert status.waiting_for == ("owner-3",)
        assert "waits for the sums of features of owner-3: training begins with those of all" in status.note
        assert not any(frame.message.kind in TRAINING for frame in network.sent)
        network.run(200.0)
        assert all(machine.done for machine in network.machines.values())
    world.check(network)


def test_changed_sums_are_noticed_before_anybody_trains(tmp_path, monkeypatch):
    """A neighbour passes on others than it was told: whoever got them, and who would train with them, stop."""
    world = World(tmp_path, "rounds", monkeypatch)
    forged = Message(
        Kind.TABLE, world.step, 2, pack(np.ones(world.planned.program.plan.centre.width, np.int64))
    )
    with world.network() as network:
        network.inject("owner-1", "owner-0", encode(forged, bytes(32)), at=0.001)
        network.run(30.0)
        assert "owner-0" in network.stopped
        assert len(network.stopped) > 1
        assert all(isinstance(error, InputError) for error in network.stopped.values())
        assert "other sums of features than this party" in str(network.stopped["owner-0"])
        assert network.refused["owner-0", "a second version of a table"]
    assert not any(frame.message.kind in TRAINING for frame in network.sent)


@pytest.mark.parametrize("shape", ["rounds", "hub"])
def test_without_the_budget_of_one_nobody_trains_and_all_say_whose(tmp_path, shape, monkeypatch):
    world = World(tmp_path, shape, monkeypatch)
    world.budgets["owner-2"] = 0.2
    with world.network() as network:
        network.run(20.0, lambda: False)
        for name in world.names:
            note = network.machines[name].status.note
            assert "the budget of owner-2 does not allow its sums of features" in note
            assert "--centre 0" in note
        assert "releases no sums of features" in network.machines["owner-2"].status.note
        assert not network.refused
    assert {frame.message.kind for frame in network.sent} == {Kind.TABLE, Kind.HAVE}
    world.check(network)
    for name in world.names:
        with world.ledger(name) as ledger:
            assert ledger.rounds(world.agreement.run) in ([], [world.step])
            assert name != "owner-2" or ledger.spent().epsilon == 0


def forgotten(world: World, who: str) -> None:
    for name in world.names:
        if name != who:
            file = world.folder / name / f"forgotten-{world.agreement.run}.json"
            file.write_text(json.dumps([who]))


def test_who_is_forgotten_before_it_came_is_left_out_by_all(tmp_path, monkeypatch):
    world = World(tmp_path, "rounds", monkeypatch)
    forgotten(world, "owner-3")
    with world.network() as network:
        network.crash("owner-3", at=0.0)
        network.run(100.0)
        found = {basis(machine) for machine in network.machines.values()}
        assert all(machine.done for machine in network.machines.values())
    assert len(found) == 1
    assert next(iter(found)).owners == {0, 1, 2}


def test_who_is_forgotten_when_some_have_begun_stays_in_the_centre_of_all(tmp_path, monkeypatch):
    """The others had not begun: they would leave it out, and train around another centre."""
    world = World(tmp_path, "rounds", monkeypatch)
    with world.network() as network:
        network.run(30.0, lambda: any(one.machine is not None for one in network.machines.values()))  # type: ignore[attr-defined]
        begun = [name for name, one in network.machines.items() if one.machine is not None]  # type: ignore[attr-defined]
        assert len(begun) < 4
        for name in world.names:
            network.crash(name)
        forgotten(world, "owner-3")
        for name in world.names[:3]:
            network.restart(name)
        network.run(network.now + 60.0)
        assert {basis(machine).owners for machine in network.machines.values()} == {frozenset(range(4))}
        assert len({basis(machine) for machine in network.machines.values()}) == 1
        assert not network.stopped


def test_who_lost_its_journal_is_told_the_sums_by_those_who_train_already(tmp_path, monkeypatch):
    world = World(tmp_path, "hub", monkeypatch)
    with world.network() as network:
        network.run(60.0, lambda: all(one.machine is not None for one in network.machines.values())
                    and len(network.machines) == 5)  # type: ignore[attr-defined]  # fmt: skip
        before = basis(network.machines["owner-0"])
        network.crash("owner-1")
        for file in (tmp_path / "owner-1").glob("journal-*"):
            file.unlink()
        network.restart("owner-1")
        network.run(network.now + 60.0)
        assert network.machines["owner-1"].done
        assert basis(network.machines["owner-1"]) == before
    assert world.drawn["owner-1"] == 1
    world.check(network)


def test_an_owner_put_back_to_where_it_had_its_sums_alone_draws_nothing_more(tmp_path, monkeypatch):
    """Sums have the highest number and come first: they must not pass for the last that others hold of it."""
    world = World(tmp_path, "rounds", monkeypatch)
    world.injected, world.witnessed, me = None, True, tmp_path / "owner-1"

    def released() -> int:
        machine = network.machines.get("owner-1")
        return len(machine._releases.steps) if machine else 0  # type: ignore[attr-defined]

    with world.network() as network:
        network.run(60.0, lambda: released() == 1)
        network.crash("owner-1")
        old = {file.name: file.read_bytes() for file in me.iterdir()}
        network.restart("owner-1")
        network.run(60.0, lambda: released() >= 3)
        network.crash("owner-1")
        for file in me.iterdir():
            file.unlink()
        for name, body in old.items():
            (me / name).write_bytes(body)
        said = len(network.sent)
        network.restart("owner-1")
        network.run(network.now + 30.0)
        assert isinstance(network.stopped["owner-1"], LedgerError)
    assert not any(
        frame.message.kind in TRAINING and frame.sender == "owner-1" for frame in network.sent[said:]
    )


@pytest.mark.parametrize(
    ("kind", "sub", "body", "reason"),
    [
        (Kind.HAVE, 1, b"short", "wrong shape: 5 bytes, must be 33"),
        (Kind.HAVE, 1, b"\x01" + bytes(32), "no such owner"),
        (Kind.HAVE, 3, bytes(1), "wrong shape: 1 bytes, must be 1"),
        (Kind.TABLE, 0, bytes(8), "no other owner's table"),
        (Kind.TABLE, 2, bytes(8), "wrong shape: 8 bytes, must be"),
    ],
)
def test_what_are_no_sums_is_refused(tmp_path, monkeypatch, kind, sub, body, reason):
    world = World(tmp_path, "rounds", monkeypatch)
    with world.network() as network:
        network.inject(
            "owner-1", "owner-0", encode(Message(kind, world.step, sub, body), bytes(32)), at=0.001
        )
        network.run(60.0)
        assert any(receiver == "owner-0" and reason in why for receiver, why in network.refused)
        assert all(machine.done for machine in network.machines.values())


def test_a_false_word_that_somebody_releases_none_is_mended_by_its_sums(tmp_path, monkeypatch):
    world = World(tmp_path, "rounds", monkeypatch)
    with world.network() as network:
        lie = encode(Message(Kind.TABLE, world.step, 2, NONE), bytes(32))
        for name, liar in (("owner-0", "owner-1"), ("owner-3", "owner-0"), ("owner-1", "owner-0")):
            network.inject(liar, name, lie, at=0.001)
        network.run(60.0)
        assert all(machine.done for machine in network.machines.values())
        assert {basis(machine).owners for machine in network.machines.values()} == {frozenset(range(4))}


def test_sums_of_records_that_are_all_alike_are_not_too_large(tmp_path, monkeypatch):
    world = World(tmp_path, "rounds", monkeypatch)
    assert table_layout(world.planned.program.plan.centre).bounds[0].high > WHOLE * max(SIZES)


def test_masks_are_bound_to_the_sums_that_features_are_centred_by(tmp_path, monkeypatch):
    """Whoever adds up cannot have owners train together who have different ones."""
    planned = World(tmp_path, "masked hub", monkeypatch).planned
    sums = {owner: np.full(planned.program.plan.centre.width, owner, np.int64) for owner in range(4)}
    one, other = planned.centred(sums), planned.centred(sums | {0: sums[1]})
    assert len({planned.bound, one.bound, other.bound}) == 3
    assert one.sums.agreement == one.bound
    assert planned.bound == planned.agreement.digest
