"""A learner and owners with bad intentions: refused, counted, and nobody says more than its plan allows."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from in_memory import Link, Network
from visit_world import RUN, World, close, frame

from coterie.federation.transport import wire
from coterie.federation.transport.wire import Kind

SETTINGS = {"ticks": 14}
VICTIM = "owner-1"


def reasons(network: Network) -> set[str]:
    return {reason.partition(":")[0] for _, reason in network.refused}


def query(world: World) -> bytes:
    return wire.pack(world.register.ask(world.register.open(), 1, 1, 0))


def released(world: World, name: str = VICTIM) -> int:
    with world.ledger(name) as ledger:
        return len(ledger.rounds(RUN))


def alone(world: World) -> Network:
    """An owner whose learner is the test."""
    return Network({VICTIM: lambda: world.visitor(VICTIM)})


def asked(world: World, *frames: bytes, apart: float = 0.2) -> Network:
    """What an owner makes of a learner's frames, one after the other."""
    network = alone(world)
    for number, one in enumerate(frames):
        network.inject("learner", VICTIM, one, at=1.0 + apart * number)
    with network:
        network.run(2.0 + apart * len(frames), lambda: False)
    return network


def kinds(network: Network, kind: Kind) -> list[wire.Message]:
    return [one.message for one in network.sent if one.message.kind == kind]


def test_ticks_beyond_the_agreed_get_a_refusal_and_no_release(tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS)
    network = asked(world, frame(Kind.QUERY, 15, 0, query(world)), frame(Kind.QUERY, 0, 0, query(world)))
    assert [one.body for one in kinds(network, Kind.REFUSAL)] == [b"beyond the agreed ticks"] * 2
    assert released(world) == 0


def test_a_learner_that_asks_without_end_gets_one_answer_a_turn_and_no_more_than_the_plan(tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS | {"cap": 3})
    frames = []
    for turn in range(8):
        other = wire.pack(np.full((3, 1), turn, np.float32))
        frames += [frame(Kind.QUERY, turn + 1, turn, query(world)), frame(Kind.QUERY, turn + 1, turn, other)]
        frames += [frame(Kind.QUERY, turn + 2, turn, other), frame(Kind.SETTLED, turn + 1, turn)]
    network = asked(world, *frames)
    answers = {(one.step, one.sub, one.body) for one in kinds(network, Kind.ANSWER)}
    assert sorted((step, turn) for step, turn, _ in answers) == [(1, 0), (2, 1), (3, 2)]
    assert released(world) == 3
    assert {"turn 0", "turn 1", "turn 2"} <= reasons(network)
    world.check_ledgers()


def test_turns_out_of_order_and_queries_to_a_sleeping_owner_are_refused(tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS)
    network = asked(world, frame(Kind.QUERY, 3, 2, query(world)))
    assert (released(world), reasons(network)) == (0, {"turn 2"})
    world.clocks[VICTIM] = lambda: 1e6
    network = asked(world, frame(Kind.QUERY, 1, 0, query(world)))
    assert (released(world), reasons(network)) == (0, {"asked while asleep"})


def spoilt(how: str, body: bytes) -> bytes:
    return {"nan": struct.pack("<f", np.nan) + body[4:], "short": body[:-1], "long": body + bytes(99)}[how]


@pytest.mark.parametrize("how", ["nan", "short", "long"])
def test_queries_and_answers_of_no_use_are_refused(how, tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS)
    network = asked(world, frame(Kind.QUERY, 1, 0, spoilt(how, query(world))))
    assert released(world) == 0
    assert reasons(network) <= {"not finite", "wrong shape"} != set()
    network = world.visits(link=Link(delay=0.2))
    first = world.names[world.schedule[0]]
    network.inject(first, "learner", frame(Kind.ANSWER, 1, 0, spoilt(how, query(world))), at=0.4)
    ends = world.play(network)
    close(ends["learner"].model, world.simulated)
    assert sum(network.refused.values()) == 1


def test_answers_that_nobody_asked_for_are_refused_and_replays_settle_nothing(tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS)
    network = world.visits(link=Link(delay=0.1))
    body = wire.pack(np.ones((3, 1), np.float32))
    for number, name in enumerate(world.names):
        at = 0.15 + 0.01 * number  # after the first query went out, to another
        if name != world.names[world.schedule[0]]:
            network.inject(name, "learner", frame(Kind.ANSWER, 1, 0, body), at=at)
        network.inject(name, "learner", frame(Kind.ANSWER, 9, 4, body), at=at)
    with network:
        network.run(1.5, lambda: False)
        for one in [one for one in network.sent if one.message.kind in (Kind.ANSWER, Kind.AWAKE)]:
            network.inject(one.sender, "learner", wire.encode(one.message, bytes(32)))
        network.run(100.0)
        model = network.machines["learner"].model()
    close(model, world.simulated)
    world.check_answers(network)
    assert reasons(network) == {"an answer to nothing that was asked"}
    assert sum(network.refused.values()) == 7


def test_an_owner_that_wakes_without_end_and_never_answers_holds_up_nobody(tmp_path):
    world = World(tmp_path, "async_learner", settings={"ticks": 12, "cap": 12})
    world.follow = False
    source = np.random.default_rng(1)
    world.clocks = dict.fromkeys(world.names, lambda: float(source.exponential(0.5)))
    parties = {name: lambda name=name: world.visitor(name) for name in world.names if name != VICTIM}
    network = Network(parties | {"learner": world.learner})
    for number in range(2000):
        network.inject(VICTIM, "learner", frame(Kind.AWAKE, number), at=0.005 * number)
    ends = world.play(network)
    assert all(end.done for end in ends.values())
    assert ends["learner"].status.step == 12
    shown = [one for one in network.sent if one.receiver == VICTIM and one.message.kind == Kind.QUERY]
    assert len(shown) <= 1 + network.now / (
        world.patience.retry / 2
    )  # no more of the wire than an honest one's


def test_strangers_and_frames_of_other_protocols_are_refused(tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS)
    network = world.visits(link=Link(delay=0.1))
    network.inject("stranger", "learner", frame(Kind.AWAKE, 1), at=0.1)
    network.inject(VICTIM, "learner", frame(Kind.HANDOVER, 1), at=0.1)
    network.inject("owner-0", VICTIM, frame(Kind.QUERY, 1, 0, query(world)), at=0.1)
    network.inject("learner", VICTIM, frame(Kind.VALUE, 1), at=0.1)
    network.inject("learner", VICTIM, frame(Kind.SETTLED, 5, 9), at=0.1)  # of nothing: without effect
    ends = world.play(network)
    close(ends["learner"].model, world.simulated)
    assert reasons(network) == {"not an owner", "HANDOVER", "not the learner", "VALUE"}


def test_an_owner_can_leave_only_for_itself(tmp_path):
    world = World(tmp_path, "async_learner", settings=SETTINGS)
    network = world.visits(link=Link(delay=0.1))
    network.inject(VICTIM, "learner", frame(Kind.REFUSAL, 1, 0, b"no more answers"), at=0.05)
    ends = world.play(network)
    assert ends["learner"].done
    world.check_answers(network)
    held = world.check_ledgers()
    assert not held[VICTIM]
    assert sum(len(steps) for steps in held.values()) == sum(owner != 1 for owner in world.schedule)
