"""Masked sums among toy owners in memory without anybody in the middle: neighbours alone, whatever fails."""

from __future__ import annotations

import os
import random

import networkx as nx
import numpy as np
import pytest
from gossip_world import trips
from in_memory import Killed, Link
from masked_world import AGREEMENT, DIM, NAMES, PATIENCE, ROUNDS, SPARE, World

from coterie.federation.shapes.chain import TIP
from coterie.federation.shapes.tree import graph_of
from coterie.federation.transport import wire
from coterie.federation.transport.wire import Kind, Message
from coterie.mechanisms import masks
from coterie.mechanisms.masks import HISTORY, LABEL, Roll

GRAPHS = {
    "ring": nx.cycle_graph(6),
    "path": nx.path_graph(6),
    "star": nx.star_graph(5),
    "complete": nx.complete_graph(6),
    "lollipop": nx.lollipop_graph(4, 2),
}


PEER = NAMES[1]


def graph(name: str):
    return graph_of(GRAPHS[name].edges, 6)


@pytest.fixture
def owner(tmp_path):
    """The first owner of a complete graph before its first round, and its journal."""
    world = World(tmp_path, graph=graph("complete"))
    with world.process(NAMES[0]) as machine:
        machine.start(0.0)
        yield world, machine, machine._member.journal


def roll_of(machine, members=(0, 1, 2, 3), attempt=0, round=1, own=None, at=0) -> Roll:
    own = own or machine._member.process
    return Roll(round, attempt, members, tuple(own if one == at else bytes([one]) * 16 for one in members))


def called(world, machine, roll, history=masks.START, agreement=AGREEMENT, root=1, peer=PEER):
    """What the owner says to who calls it, for a tree of this root."""
    body = world.terms.written(roll, masks.label(agreement, history, roll, len(NAMES)))
    ticket = world.terms.ticket(roll.round, roll.attempt)
    outs = machine.receive(peer, Message(Kind.ROLL, ticket, root, body), 1.0)
    return [out.message for out in outs if out.peer == peer]


def tip(step: int, attempt: int) -> bytes:
    return step.to_bytes(8) + attempt.to_bytes(8) + bytes(HISTORY)


def summed(machine, round: int, attempt: int, value: int, before: bytes = masks.START) -> Message:
    """A sum of this value, as of somebody who has no more than it."""
    body = masks.bitmap(range(6), 6) + np.full(DIM, value, "<i8").tobytes()
    return Message(Kind.SUM, round, attempt, tip(round, attempt) + before + body)


def after(message: Message) -> bytes:
    """The history after a first sum."""
    body = message.body[TIP + HISTORY :]
    return masks.extended(masks.START, message.step, message.sub, body[:1], body[1:])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_run_without_faults_takes_one_attempt_a_round_between_neighbours_alone(tmp_path, name):
    world = World(tmp_path, witnessed=name == "ring", graph=graph(name))
    with world.network() as network:
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert {attempt for attempt, _ in world.sums(network).values()} == {0}
        assert all(len(ledger) == ROUNDS for ledger in world.ledgers.values())
        assert not network.refused
        links = {frozenset((NAMES[low], NAMES[high])) for low, high in GRAPHS[name].edges}
        assert {frozenset((frame.sender, frame.receiver)) for frame in network.sent} <= links
        rolls = [frame for frame in network.sent if frame.message.kind == Kind.ROLL]
        assert {frame.message.sub for frame in rolls} == {0}


@pytest.mark.parametrize(("lost", "degree"), [(2, 0), (2, 2), (0, 0)])
def test_an_owner_lost_for_good_costs_one_attempt(tmp_path, lost, degree):
    world = World(tmp_path, degree=degree, graph=graph("ring"))
    with world.network() as network:
        network.run(1.03)
        network.crash(NAMES[lost])
        left = [name for name in NAMES if name != NAMES[lost]]
        end = network.run(60.0, lambda: all(network.machines[name].done for name in left))
        assert end < 1.03 + 3 * PATIENCE.wait + 0.5 * ROUNDS  # waited for once, and not in every round
        world.check(network)
        assert all(network.machines[name].done for name in left)
        assert all(len(world.ledgers[name]) <= ROUNDS + 1 for name in left)


def test_who_was_root_for_a_while_does_not_call_beside_the_root(tmp_path):
    """The second owner left the first out when that stood still. It is root again; another one is lost then."""
    world = World(tmp_path, quorum=5, graph=graph("complete"))
    with world.network() as network:
        network.freeze(NAMES[0], at=0.55, until=3.0)
        network.run(3.6)
        network.crash(NAMES[3])
        left = [name for name in NAMES if name != NAMES[3]]
        network.run(60.0, lambda: all(network.machines[name].done for name in left))
        world.check(network)
        assert {frame.message.sub for frame in network.sent if frame.message.kind == Kind.ROLL} == {0, 1}
        assert all(len(world.ledgers[name]) <= ROUNDS + 2 for name in left)


@pytest.mark.parametrize("seed", range(6))
def test_owners_that_die_at_any_write_never_make_two_messages_under_one_label(tmp_path, seed):
    world = World(tmp_path, witnessed=bool(seed % 2), spare=200, graph=graph([*GRAPHS][seed % len(GRAPHS)]))
    world.trip = trips((17, 41, 29, 67, 23, 53)[seed])
    link = Link(delay=0.03, jitter=0.2, loss=0.05, twice=0.1)
    with world.network(link=link, seed=seed, revive=0.4) as network:
        network.run(400.0)
        assert network.crashes > 5
        world.trip = lambda name: None
        network.run(600.0)
        assert all(machine.done for machine in network.machines.values()), world.log
        world.check(network)


def test_two_parts_that_no_member_connects_pause_and_go_on_when_one_returns(tmp_path):
    world = World(tmp_path, quorum=4, graph=graph("path"))
    with world.network() as network:
        network.crash(NAMES[2], at=1.03)
        network.run(12.0)
        note = network.machines[NAMES[4]].status.note
        assert "paused: 3 owners are there and connected, a sum needs 4" in note
        before = {name: len(ledger) for name, ledger in world.ledgers.items()}
        network.run(20.0)
        assert before == {
            name: len(ledger) for name, ledger in world.ledgers.items()
        }  # waiting costs nothing
        network.restart(NAMES[2])
        network.run(80.0)
        assert network._all_done()
        world.check(network)


def test_a_link_that_fails_is_gone_round_where_there_is_another_way(tmp_path):
    world = World(tmp_path, graph=graph("ring"))
    with world.network() as network:
        network.cut([(NAMES[0], NAMES[1])], at=1.03)
        network.run(120.0)
        assert network._all_done()
        world.check(network)
        assert max(map(len, world.ledgers.values())) <= ROUNDS + SPARE


def test_an_owner_that_was_away_follows_and_is_called_again(tmp_path):
    world = World(tmp_path, graph=graph("ring"))
    with world.network() as network:
        network.crash(NAMES[3], at=0.9)
        network.restart(NAMES[3], at=1.2)
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert world.ledgers[NAMES[3]].keys() & {
            world.terms.ticket(ROUNDS, 0),
            world.terms.ticket(ROUNDS - 1, 0),
        }


def test_a_root_that_dies_with_a_sum_that_nobody_has_comes_back_to_the_others_chain(tmp_path):
    """It took the sum in and died before anybody heard of it; the others made the round anew and went on."""
    world = World(tmp_path, graph=graph("complete"))
    root = NAMES[0]
    taken = []

    def trip(name: str) -> None:
        machine = network.machines.get(root)
        if name == root and machine is not None and not taken and machine._member.step == 3:
            taken.append(network.now)
            raise Killed

    with world.network() as network:
        world.trip = trip
        network.run(2.0)
        world.trip = lambda name: None
        assert taken
        network.run(30.0)
        others = [network.machines[name] for name in NAMES[1:]]
        assert all(machine.done for machine in others)
        network.restart(root)
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert world.sums(network)[3][0] == 1


def test_of_two_chains_the_longer_counts_and_of_equal_ones_the_later_attempt(owner):
    world, machine, _ = owner
    first, second = summed(machine, 1, 0, 1), summed(machine, 1, 2, 2)
    for said, step, value in ((first, 1, 1), (second, 1, 2), (first, 1, 2)):
        machine.receive(PEER, said, 1.0)
        assert (machine.status.step, machine.model()[0]) == (step, value)
    longer = [
        first._replace(body=tip(5, 0) + first.body[TIP:]),
        summed(machine, 2, 0, 7, before=after(first)),
    ]
    for said, step, value in zip(longer, (1, 2), (1, 8)):
        machine.receive(PEER, said, 1.0)
        assert (machine.status.step, machine.model()[0]) == (step, value)
    machine.receive(PEER, second, 1.0)
    assert (machine.status.step, machine.model()[0]) == (2, 8)
    assert not world.ledgers[NAMES[0]]


def test_after_a_restart_the_chain_that_was_adopted_is_there(owner):
    world, machine, journal = owner
    for said in (summed(machine, 1, 0, 1), summed(machine, 1, 2, 2)):
        machine.receive(PEER, said, 1.0)
    journal.close()
    with world.process(NAMES[0]) as again:
        assert (again.status.step, again.model()[0]) == (1, 2)
        assert again._chain.tip == machine._chain.tip


def test_a_spent_owner_is_called_no_more_and_follows(tmp_path):
    world = World(tmp_path, graph=graph("ring"))
    world.limits[NAMES[0]] = 3  # the root
    with world.network() as network:
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert len(world.ledgers[NAMES[0]]) == 3
        assert "follows without releasing: budget spent" in network.machines[NAMES[0]].status.note
        said = [frame.message.body for frame in network.sent if frame.sender == NAMES[0]]
        assert not any(b"budget" in body for body in said)  # what its ledger holds is its own affair


def test_one_who_sends_garbage_ends_the_run_and_everybody_says_so(tmp_path):
    world = World(tmp_path, spare=3, graph=graph("ring"))
    with world.network() as network:
        machine = network.machines.get
        network.run(0.6, done=lambda: bool(machine(NAMES[4]) and machine(NAMES[4])._attempt))
        liar = machine(NAMES[4])
        member = liar._member
        honest = member.answer
        member.answer = lambda *given: honest(*given)[:LABEL] + os.urandom(8 * DIM)
        network.run(60.0)
        root = network.machines[NAMES[0]]
        assert not root.done
        assert "a sum outside its range" in root.status.note
        assert "follows without releasing: all 3 spare attempts were void" in root.status.note
        assert all(len(ledger) <= ROUNDS + 3 for ledger in world.ledgers.values())


def test_tables_of_scores_go_round_by_neighbours(tmp_path):
    world = World(tmp_path, witnessed=True, tables=True, graph=graph("path"))
    with world.network() as network:
        network.run(100.0)
        assert network._all_done(), world.log
        tables = [network.machines[name].machine.tables() for name in NAMES]
        assert all(len(table) == len(NAMES) for table in tables)


# A lying neighbour: it may say anything.


def test_an_honest_roll_is_answered_once_and_said_again_under_the_same_label_alone(owner):
    world, machine, _ = owner
    roll = roll_of(machine)
    first = called(world, machine, roll)
    assert [message.kind for message in first] == [Kind.VALUE]
    assert called(world, machine, roll) == first
    (other,) = called(world, machine, roll_of(machine, (0, 1, 2, 4)))
    assert (other.kind, b"answered under another roll" in other.body) == (Kind.REFUSAL, True)
    assert len(world.ledgers[NAMES[0]]) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"members": (0, 1, 2)}, b"a roll of 3 owners, must be at least 4"),
        ({"round": 1, "attempt": 0, "own": b"x" * 16}, b"a process that is gone"),
        ({"history": b"h" * 32}, b"another history"),
        ({"agreement": b"a" * 32}, b"another history"),
    ],
)
def test_lies_are_refused_and_nothing_is_charged(owner, change, words):
    world, machine, _ = owner
    given = {key: change.pop(key) for key in ("history", "agreement") if key in change}
    (said,) = called(world, machine, roll_of(machine, **change), **given)
    assert (said.kind, words in said.body) == (Kind.REFUSAL, True)
    assert not world.ledgers[NAMES[0]]
    assert not world.drawn[NAMES[0]]


@pytest.mark.parametrize(
    ("change", "root", "words"),
    [
        ({}, 0, "not the parent"),
        ({"members": (1, 2, 3, 4)}, 1, "not the parent"),
        ({"members": (0, 1, 2, 4)}, 5, "root is not in it"),
        ({"members": (0, 1, 2, 4)}, 2**40, "root is not in it"),
        ({"members": (0, 1, 3, 4)}, 1, "not connected"),
        ({"round": ROUNDS + 1}, 1, "no roll"),
        ({"round": 0}, 1, "no roll"),
    ],
)
def test_rolls_that_cannot_be_are_no_rolls(tmp_path, change, root, words):
    world = World(tmp_path, graph=graph("ring"))
    with world.process(NAMES[0]) as machine:
        machine.start(0.0)
        with pytest.raises(wire.Refused, match=words):
            called(world, machine, roll_of(machine, **change), root=root)
        assert not world.ledgers[NAMES[0]]


def test_a_stranger_in_a_roll_and_a_stranger_who_calls_are_refused(owner):
    world, machine, _ = owner
    roll = roll_of(machine)
    body = bytearray(world.terms.written(roll, masks.label(AGREEMENT, masks.START, roll, 6)))
    body[LABEL] |= 0x80  # an eighth owner of six
    with pytest.raises(wire.Refused, match="no roll"):
        machine.receive(PEER, Message(Kind.ROLL, 1, 1, bytes(body)), 1.0)
    with pytest.raises(wire.Refused, match="not a neighbour"):
        machine.receive("mallory", Message(Kind.ROLL, 1, 1, bytes(body)), 1.0)
    assert not world.ledgers[NAMES[0]]


def test_a_roll_of_a_later_round_waits_for_the_sum_before_it(owner):
    world, machine, _ = owner
    said = summed(machine, 1, 0, 1)
    (asked,) = called(world, machine, roll_of(machine, round=2), history=after(said))
    assert (asked.kind, asked.step) == (Kind.WANT, 1)
    assert not world.ledgers[NAMES[0]]
    outs = machine.receive(PEER, said, 1.0)
    assert [out.message.kind for out in outs if out.peer == PEER] == [Kind.VALUE]
    assert list(world.ledgers[NAMES[0]]) == [world.terms.ticket(2, 0)]


def test_attempts_go_forward_alone_and_void_ones_are_limited(owner):
    world, machine, _ = owner
    assert called(world, machine, roll_of(machine, attempt=3))[0].kind == Kind.VALUE
    (before,) = called(world, machine, roll_of(machine, attempt=2))
    assert (before.kind, before.sub) == (Kind.REFUSAL, 1 + 4)
    for attempt in range(4, 4 + SPARE):
        assert called(world, machine, roll_of(machine, attempt=attempt))[0].kind == Kind.VALUE
    (over,) = called(world, machine, roll_of(machine, attempt=4 + SPARE))
    assert (over.kind, b"nothing more is released" in over.body) == (Kind.REFUSAL, True)
    assert "all 6 spare attempts were void" in machine.status.note
    assert len(world.ledgers[NAMES[0]]) == 1 + SPARE


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (masks.bitmap((0, 1, 2, 3), 6) + np.array([10**9, 0, 0], "<i8").tobytes(), "outside its range"),
        (masks.bitmap((0, 1, 2), 6) + np.zeros(3, "<i8").tobytes(), "a sum of 3 owners"),
        (masks.bitmap((0, 1, 2, 3), 6) + bytes(8), "wrong shape"),
    ],
)
def test_a_sum_that_cannot_be_one_is_refused_and_the_state_stays(owner, body, words):
    _, machine, _ = owner
    with pytest.raises(wire.Refused, match=words):
        machine.receive(PEER, Message(Kind.SUM, 1, 0, tip(9, 0) + masks.START + body), 1.0)
    assert machine.status.step == 0


def test_a_part_that_is_no_child_s_or_of_another_roll_is_refused(tmp_path):
    world = World(tmp_path, graph=graph("ring"))
    with world.process(NAMES[1]) as machine:
        machine.start(0.0)
        roll = roll_of(machine, (0, 1, 2, 3), at=1)
        called(world, machine, roll, root=0, peer=NAMES[0])
        ticket, label = machine._attempt.ticket, machine._attempt.label
        part = Message(Kind.VALUE, ticket, 1, label + bytes(8 * DIM))
        with pytest.raises(wire.Refused, match="not a child"):
            machine.receive(NAMES[0], part, 1.0)
        with pytest.raises(wire.Refused, match="not a message of this roll"):
            machine.receive(NAMES[2], part._replace(body=bytes(LABEL + 8 * DIM)), 1.0)
        machine.receive(NAMES[2], part, 1.0)
        with pytest.raises(wire.Refused, match="a second version"):
            machine.receive(NAMES[2], part._replace(body=label + b"\1" * 8 * DIM), 1.0)


def test_a_root_that_is_there_and_calls_nobody_is_followed_by_the_next_name(tmp_path):
    world = World(tmp_path, graph=graph("ring"))
    with world.network() as network:
        network.run(0.5)
        network.machines[NAMES[0]]._begin = lambda: []
        network.run(120.0)
        assert network._all_done()
        world.check(network)
        assert max(map(len, world.ledgers.values())) <= ROUNDS + SPARE


def test_whatever_a_neighbour_says_an_owner_refuses_or_answers(tmp_path):
    """Frames of a run, changed at random: nothing but a refusal, no charge below quorum, one message for a ticket."""
    world, chance = World(tmp_path, graph=graph("complete")), random.Random(3)
    with world.network() as network:
        network.run(60.0)
        frames = [frame for frame in network.sent if frame.receiver == NAMES[0]]
    world.ledgers[NAMES[0]].clear()
    (tmp_path / f"{NAMES[0]}.journal").unlink()
    refused = 0
    with world.process(NAMES[0]) as machine:
        machine.start(0.0)
        for at in range(4000):
            frame = chance.choice(frames)
            kind, step, sub, body = frame.message
            body = bytearray(body)
            for _ in range(chance.choice((0, 1, 1, 20))):
                if body:
                    body[chance.randrange(len(body))] = chance.randrange(256)
            step, sub = chance.choice((step, step, 0, 1, 2**50)), chance.choice((sub, sub, 0, 3, 2**50))
            message = Message(kind, step, sub, bytes(body)[: chance.choice((None, None, 7))])
            try:
                machine.receive(frame.sender, message, at / 100)
                machine.tick(at / 100)
            except wire.Refused:
                refused += 1
        assert isinstance(machine.status.note, str)
    assert refused > 500
    labels = [body[:LABEL] for body in world.ledgers[NAMES[0]].values()]
    assert len(set(labels)) == len(labels) <= ROUNDS + SPARE
