"""Owners with a valid certificate and bad intentions: refused, counted, and unable to stop the walk."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
import pytest
from in_memory import Link, Network
from visit_world import PATIENCE, World, frame

from coterie.federation.shapes.peers import PeerClaim
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Out, Status
from coterie.federation.transport.wire import Kind, Message

WAIT = PATIENCE.wait
BAD = "owner-3"
SETTINGS: dict[str, Any] = {"settings": {"batch": 1}}
SLOW = Link(delay=0.2)


class Rogue(Machine):
    """Does to an owner's messages whatever the test wants, and may add its own on every tick."""

    def __init__(self, machine: Machine, change=lambda out: [out], add=lambda now: []) -> None:
        self._machine, self._change, self._add = machine, change, add

    def start(self, now: float) -> list[Out]:
        return self._changed(self._machine.start(now))

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        return self._changed(self._machine.receive(sender, message, now))

    def tick(self, now: float) -> list[Out]:
        return self._changed(self._machine.tick(now)) + self._add(now)

    def _changed(self, outs: list[Out]) -> list[Out]:
        return [other for out in outs for other in self._change(out)]

    def model(self) -> Any:
        return self._machine.model()

    @property
    def done(self) -> bool:
        return True

    @property
    def status(self) -> Status:
        return self._machine.status


def with_rogue(world: World, **behaviour) -> Network:
    """A walk in which one owner is not honest."""
    from contextlib import contextmanager

    @contextmanager
    def rogue():
        with world.walker(BAD) as machine:
            yield Rogue(machine, **behaviour)

    parties = {name: lambda name=name: world.walker(name) for name in world.names}
    return Network(parties | {BAD: rogue}, link=SLOW)


def honest(world: World, network: Network) -> set[int]:
    """Everybody else comes to one result, of which all they sent is part; which steps it has."""
    ends = world.play(network)
    ends.pop(BAD)
    assert all(end.done for end in ends.values()), {name: end.status for name, end in ends.items()}
    network.sent = [one for one in network.sent if one.sender != BAD]
    return world.check_walk(network, ends)


def others(world: World) -> set[int]:
    return {t for t in range(1, world.last + 1) if world.names[world.schedule[t - 1]] != BAD}


def reasons(network: Network) -> set[str]:
    return {reason.partition(":")[0] for _, reason in network.refused}


def test_endless_proposals_do_not_stop_the_walk(tmp_path):
    world, epoch = World(tmp_path, **SETTINGS), 3

    def flood(now: float) -> list[Out]:
        nonlocal epoch
        epoch += 4 * 1000
        return [Out(name, Message(Kind.PREPARE, 0, epoch)) for name in world.names if name != BAD]

    network = with_rogue(world, add=flood)
    assert honest(world, network) == set(range(1, world.last + 1))  # not even a turn is lost
    assert "proposed too soon" in reasons(network)
    assert network.now < 20.0


def test_a_proposer_that_never_resumes_only_delays_a_walk_whose_holder_died(tmp_path):
    world, epoch = World(tmp_path, owners=5, **SETTINGS), 3

    def flood(now: float) -> list[Out]:
        nonlocal epoch
        epoch += 5
        return [Out(name, Message(Kind.PREPARE, 0, epoch)) for name in world.names if name != BAD]

    network = with_rogue(world, add=flood, change=lambda out: [])
    network.crash("owner-0", at=1.0)
    applied = honest(world, network)
    assert applied >= {t for t in others(world) if world.schedule[t - 1] != 0}


def test_epochs_of_another_and_epochs_without_end_are_refused(tmp_path):
    world = World(tmp_path, **SETTINGS)
    network = world.walk(link=SLOW)
    for name in set(world.names) - {"owner-2"}:
        network.crash(name, at=0.5)  # so that nothing moves
    network.inject(BAD, "owner-2", frame(Kind.PREPARE, 0, 4), at=WAIT)
    network.inject(BAD, "owner-2", frame(Kind.PREPARE, 0, 2**52 + 3), at=WAIT)
    with network:
        network.run(2 * WAIT, lambda: False)
        assert network.machines["owner-2"].held.promised == 0  # type: ignore[attr-defined]
    assert {"an epoch that is another owner's to open", "proposed an epoch too far ahead"} <= reasons(network)


def handover(step: int, epoch: int, body: bytes) -> Message:
    return Message(Kind.HANDOVER, step, epoch, body)


@pytest.mark.parametrize("ahead", [1, 3, 7])
def test_a_turn_that_is_not_the_senders_is_refused(ahead, tmp_path):
    """A register for a step that others have yet to take, or that is not the next owner's to go on from."""
    world = World(tmp_path, **SETTINGS)
    forged_body = wire.pack(world.register.open())
    sent: list[Message] = []

    def add(now: float) -> list[Out]:
        top = max((write.step for write in world.writes), default=0)
        skipped = {world.names[owner] for owner in world.schedule[top : top + ahead]} - {BAD}
        if not 2 * WAIT < now < 3 * WAIT or top + ahead >= world.last or not skipped:
            return []
        sent.append(handover(top + ahead, 0, forged_body))
        return [Out(name, sent[-1]) for name in world.names if name != BAD]

    world.patience = PATIENCE._replace(wait=3.0)
    network = with_rogue(world, add=add)
    network.link = Link(delay=0.5)
    assert honest(world, network) == set(range(1, world.last + 1))
    assert sent
    assert reasons(network) & {"not the holder's", "not my turn"}


def corrupted(kind: str, body: bytes) -> bytes:
    if kind == "nan":
        return struct.pack("<f", np.nan) + body[4:]
    return body[:-1] if kind == "short" else body + bytes(1000)


@pytest.mark.parametrize("kind", ["nan", "short", "long"])
def test_registers_that_no_one_can_use_cost_their_sender_its_turns(kind, tmp_path):
    world = World(tmp_path, settings={"batch": 4})

    def change(out: Out) -> list[Out]:
        if out.message.kind != Kind.HANDOVER:
            return [out]
        return [Out(out.peer, out.message._replace(body=corrupted(kind, out.message.body)))]

    network = with_rogue(world, change=change)
    assert honest(world, network) >= others(world)
    assert reasons(network) & {"not finite", "wrong shape"}


def test_a_holder_that_keeps_the_register_is_passed_over(tmp_path):
    """It acknowledges, is heard of, and never hands on."""
    world = World(tmp_path, settings={"batch": 4})
    network = with_rogue(world, change=lambda out: [] if out.message.kind == Kind.HANDOVER else [out])
    assert honest(world, network) >= others(world)


def test_false_announcements_neither_hold_up_nor_end_the_walk(tmp_path):
    world, step = World(tmp_path, settings={"batch": 2}), 0

    def lies(now: float) -> list[Out]:
        nonlocal step
        step = step % world.last + 1
        claim = PeerClaim(step, 0, 10**6, hashlib.sha256(b"anything").digest(), True)
        message = Message(Kind.ANNOUNCE, step, 0, claim.body())
        return [Out(name, message) for name in world.names if name != BAD]

    network = with_rogue(world, add=lies, change=lambda out: [])
    network.crash("owner-0", at=0.5)
    network.restart("owner-0", at=2.0)
    assert honest(world, network) >= others(world)


def test_replayed_frames_of_every_kind_change_nothing(tmp_path):
    world = World(tmp_path, settings={"batch": 2})
    network, old = world.walk(link=SLOW), []

    def replay(now: float) -> list[Out]:
        old.extend(network.sent[len(old) :])
        mine = [one for one in old if one.sender == BAD]
        return [Out(one.receiver, one.message) for one in mine[:: max(1, len(mine) // 10)]]

    network.__exit__()
    network = with_rogue(world, add=replay)
    assert honest(world, network) == set(range(1, world.last + 1))


def test_more_steps_than_agreed_and_frames_of_other_protocols_are_refused(tmp_path):
    world = World(tmp_path, **SETTINGS)
    network = world.walk(link=SLOW)
    register = wire.pack(world.register.open())
    network.inject(BAD, "owner-0", frame(Kind.HANDOVER, world.last + 1, 0, register), at=1.0)
    network.inject(BAD, "owner-0", frame(Kind.WANT, world.last + 7, 0), at=1.0)
    network.inject(BAD, "owner-0", frame(Kind.VALUE, 1, 0, b"x"), at=1.0)
    network.inject(BAD, "owner-0", frame(Kind.PROMISE, 1, 3, b"x"), at=1.0)
    network.inject(BAD, "owner-0", frame(Kind.ANNOUNCE, 1, 3, b"x"), at=1.0)
    network.inject("stranger", "owner-0", frame(Kind.ACK, 1), at=1.0)
    ends = world.play(network)
    assert world.check_walk(network, ends) == set(range(1, world.last + 1))
    assert reasons(network) == {
        f"step {world.last + 1}",
        f"step {world.last + 7}",
        "VALUE",
        "wrong shape",
        "not an owner",
    }
    assert sum(network.refused.values()) == 6


def test_a_register_is_not_given_to_who_may_not_ask(tmp_path):
    """Two owners with the right to go on would be two histories."""
    world = World(tmp_path, **SETTINGS)
    network = world.walk(link=SLOW)
    network.inject(BAD, "owner-0", frame(Kind.WANT, 0, 0), at=0.01)
    network.inject(BAD, "owner-1", frame(Kind.WANT, 0, 0), at=0.01)
    with network:
        network.run(0.05, lambda: False)
        answers = [one.message.kind for one in network.sent if one.receiver == BAD and one.time == 0.01]
    assert answers.count(Kind.REFUSAL) == 2
    assert Kind.HANDOVER not in answers
