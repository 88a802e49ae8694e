"""Masked sums among toy owners in memory: one message for a ticket, whatever fails; liars gain nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gossip_world import trips
from in_memory import Link
from masked_world import AGREEMENT, DIM, NAMES, PATIENCE, ROUNDS, SPARE, WEIGHTS, World

from coterie.federation.shapes.rolls import SumTerms
from coterie.federation.shapes.summing import AGGREGATOR
from coterie.federation.transport import wire
from coterie.federation.transport.wire import Kind, Message
from coterie.mechanisms import masks
from coterie.mechanisms.masks import LABEL, Roll


def test_a_run_without_faults_takes_one_attempt_a_round(tmp_path):
    world = World(tmp_path, witnessed=True)
    with world.network() as network:
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert {attempt for attempt, _ in world.sums(network).values()} == {0}
        assert all(len(ledger) == ROUNDS for ledger in world.ledgers.values())
        assert not network.refused


@pytest.mark.parametrize("degree", [0, 2])
def test_an_owner_lost_for_good_costs_one_attempt(tmp_path, degree):
    world = World(tmp_path, degree=degree)
    with world.network() as network:
        network.run(1.03)
        network.crash(NAMES[2])
        left = [name for name in NAMES if name != NAMES[2]]
        end = network.run(60.0, lambda: all(network.machines[name].done for name in left))
        assert end < 1.03 + 2 * PATIENCE.wait + 0.5 * ROUNDS  # waited for once, and not in every round
        world.check(network)
        assert all(network.machines[name].done for name in left)
        assert all(len(world.ledgers[name]) <= ROUNDS + 1 for name in left)


@pytest.mark.parametrize("seed", range(4))
def test_owners_and_aggregator_that_die_at_any_write_never_make_two_messages_under_one_label(tmp_path, seed):
    world = World(tmp_path, witnessed=bool(seed % 2), spare=60)
    world.trip = trips((17, 23, 29, 7)[seed])
    link = Link(delay=0.03, jitter=0.2, loss=0.05, twice=0.1)
    with world.network(link=link, seed=seed, revive=0.4) as network:
        network.run(400.0)
        assert network.crashes > (5, 5, 5, 50)[seed]
        world.trip = lambda name: None
        network.run(500.0)
        assert all(machine.done for machine in network.machines.values()), world.log
        world.check(network)


def test_messages_of_void_attempts_say_nothing_together_with_later_ones(tmp_path):
    """One owner is silent in an attempt. Its late message completes a sum that was charged; no difference of sums
    shows anybody alone, since everybody drew anew."""
    world = World(tmp_path)
    with world.network() as network:
        network.freeze(NAMES[1], at=0.48, until=3.0)
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert any(attempt for attempt, _ in world.sums(network).values())
        for drawn in world.drawn.values():
            numbers = [tuple(one) for _, _, one in drawn]
            assert len(set(numbers)) == len(numbers)


def test_a_spent_owner_is_called_no_more_and_follows(tmp_path):
    world = World(tmp_path)
    world.limits[NAMES[0]] = 3
    with world.network() as network:
        network.run(60.0)
        assert network._all_done()
        world.check(network)
        assert len(world.ledgers[NAMES[0]]) == 3
        assert "follows without releasing: budget spent" in network.machines[NAMES[0]].status.note
        said = [frame.message.body for frame in network.sent if frame.sender == NAMES[0]]
        assert not any(b"budget" in body for body in said)  # what its ledger holds is its own affair


def test_too_few_owners_pause_and_go_on_when_one_returns(tmp_path):
    world = World(tmp_path, quorum=5)
    with world.network() as network:
        for name in NAMES[:2]:
            network.crash(name, at=1.03)
        network.run(15.0)
        assert "a sum needs 5" in network.machines[AGGREGATOR].status.note
        network.restart(NAMES[0])
        network.run(60.0)
        world.check(network)
        assert network.machines[NAMES[0]].done


def test_tables_of_scores_have_a_step_that_no_ticket_has(tmp_path):
    """Each owner's table lies in its ledger once, beside one message for each ticket, and everybody has all of them."""
    world = World(tmp_path, witnessed=True, spare=60, tables=True)
    world.trip = trips(19)
    with world.network(link=Link(delay=0.03, jitter=0.1, loss=0.05), revive=0.4) as network:
        network.run(400.0)
        assert network.crashes > 5
        world.trip = lambda name: None
        network.run(500.0)
        assert network._all_done(), world.log
        world.check(network)
        tables = [network.machines[name].machine.tables() for name in (*NAMES, AGGREGATOR)]
        for at, name in enumerate(NAMES):
            *tickets, last = world.ledgers[name].items()
            assert last[0] == world.terms.tickets + 1
            assert all(1 <= ticket <= world.terms.tickets for ticket, _ in tickets)
            assert all(len(body) == LABEL + 8 * DIM for _, body in tickets)
            assert all(np.array_equal(one[at], np.frombuffer(last[1], "<i8")) for one in tables)


def test_a_roll_for_the_tables_step_is_refused_and_nothing_is_charged(owner):
    world, machine = owner
    roll = roll_of(machine, round=ROUNDS + 1)
    assert world.terms.ticket(roll.round, 0) == world.terms.tickets + 1
    with pytest.raises(wire.Refused, match="no roll"):
        called(world, machine, roll)
    assert not world.ledgers[NAMES[0]]


# A lying aggregator: it may say anything to a single owner.


@pytest.fixture
def owner(tmp_path):
    """An owner before its first round, its ledger, and a way to call it."""
    world = World(tmp_path)
    with world.process(NAMES[0]) as machine:
        machine.start(0.0)
        yield world, machine


def called(
    world: World, machine: Any, roll: Roll, history: bytes = masks.START, agreement: bytes = AGREEMENT
):
    label = masks.label(agreement, history, roll, len(NAMES))
    ticket = world.terms.ticket(roll.round, roll.attempt)
    outs = machine.receive(AGGREGATOR, Message(Kind.ROLL, ticket, 0, world.terms.written(roll, label)), 1.0)
    return outs[0].message


def roll_of(machine: Any, members=(0, 1, 2, 3), attempt: int = 0, round: int = 1) -> Roll:
    own = machine._member.process
    return Roll(round, attempt, members, tuple(own if one == 0 else bytes([one]) * 16 for one in members))


def test_honest_rolls_are_answered_once_and_said_again_under_the_same_label_alone(owner):
    world, machine = owner
    roll = roll_of(machine)
    first = called(world, machine, roll)
    assert first.kind == Kind.VALUE
    assert called(world, machine, roll) == first
    other = called(world, machine, roll_of(machine, (0, 1, 2, 4)))
    assert (other.kind, other.body) == (Kind.REFUSAL, b"answered under another roll")
    assert len(world.ledgers[NAMES[0]]) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda roll: {"roll": roll._replace(members=(0, 1, 2), processes=roll.processes[:3])},
            b"a roll of 3 owners",
        ),
        (lambda roll: {"roll": roll._replace(members=(1, 2, 3, 4))}, b"not in the roll"),
        (lambda roll: {"roll": roll._replace(round=2)}, b"round 2 is not the next one"),
        (
            lambda roll: {"roll": roll._replace(processes=(b"x" * 16, *roll.processes[1:]))},
            b"a process that is gone",
        ),
        (lambda roll: {"roll": roll, "history": b"h" * 32}, b"another history"),
        (lambda roll: {"roll": roll, "agreement": b"a" * 32}, b"another history"),
    ],
)
def test_lies_are_refused_and_nothing_is_charged(owner, change, words):
    world, machine = owner
    said = called(world, machine, **change(roll_of(machine)))
    assert (said.kind, words in said.body) == (Kind.REFUSAL, True)
    assert not world.ledgers[NAMES[0]]
    assert not world.drawn[NAMES[0]]


def test_attempts_go_forward_alone_and_void_ones_are_limited(owner):
    world, machine = owner
    assert called(world, machine, roll_of(machine, attempt=3)).kind == Kind.VALUE
    before = called(world, machine, roll_of(machine, attempt=2))
    assert (before.kind, before.sub) == (Kind.REFUSAL, 4)
    for attempt in range(4, 4 + SPARE):
        assert called(world, machine, roll_of(machine, attempt=attempt)).kind == Kind.VALUE
    over = called(world, machine, roll_of(machine, attempt=4 + SPARE))
    assert (over.kind, over.body) == (Kind.REFUSAL, b"nothing more is released")
    assert "all 6 spare attempts were void" in machine.status.note
    assert len(world.ledgers[NAMES[0]]) == 1 + SPARE


def test_every_attempt_draws_anew_and_its_message_is_unlike_the_others(owner):
    world, machine = owner
    said = [called(world, machine, roll_of(machine, attempt=attempt)).body for attempt in range(3)]
    assert len({one[LABEL:] for one in said}) == 3
    assert [at[:2] for at in world.drawn[NAMES[0]]] == [(1, 0), (1, 1), (1, 2)]


def test_a_folder_started_anew_answers_no_recorded_roll(tmp_path):
    """A ledger restored, or records corrected under the same agreement: all rolls replayed re-use no label."""
    world = World(tmp_path)
    with world.process(NAMES[0]) as machine:
        machine.start(0.0)
        roll = roll_of(machine)
        first = called(world, machine, roll)
    world.ledgers[NAMES[0]].clear()
    (tmp_path / f"{NAMES[0]}.journal").unlink()
    with world.process(NAMES[0]) as again:
        again.start(0.0)
        said = called(world, again, roll)
        assert (first.kind, said.kind, b"process that is gone" in said.body) == (
            Kind.VALUE,
            Kind.REFUSAL,
            True,
        )
        assert not world.ledgers[NAMES[0]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            lambda: masks.bitmap((0, 1, 2, 3), 6) + np.array([10**9, 0, 0], "<i8").tobytes(),
            "outside its range",
        ),
        (
            lambda: masks.bitmap((0, 1, 2, 3), 6) + np.array([-(2**63), 0, 0], "<i8").tobytes(),
            "outside its range",
        ),
        (lambda: masks.bitmap((0, 1, 2), 6) + np.zeros(3, "<i8").tobytes(), "a sum of 3 owners"),
        (lambda: b"\xff" + np.zeros(3, "<i8").tobytes(), "wrong shape"),
        (lambda: masks.bitmap((0, 1, 2, 3), 6) + bytes(8), "wrong shape"),
    ],
)
def test_a_sum_that_cannot_be_one_is_refused_and_the_state_stays(owner, body, words):
    _, machine = owner
    with pytest.raises(wire.Refused, match=words):
        machine.receive(AGGREGATOR, Message(Kind.SUM, 1, 0, body()), 1.0)
    assert machine.status.step == 0


def test_owners_who_were_told_different_sums_share_no_mask_any_more(tmp_path):
    world = World(tmp_path)
    with world.process(NAMES[0]) as one, world.process(NAMES[1]) as other:
        for machine, value in ((one, 1), (other, 2)):
            machine.start(0.0)
            body = masks.bitmap((0, 1, 2, 3), 6) + np.full(3, value, "<i8").tobytes()
            machine.receive(AGGREGATOR, Message(Kind.SUM, 1, 0, body), 1.0)
        assert one._member.history != other._member.history
        roll = Roll(2, 0, (0, 1, 2, 3), (one._member.process, other._member.process, b"c" * 16, b"d" * 16))
        said = [called(world, machine, roll, one._member.history) for machine in (one, other)]
        assert [message.kind for message in said] == [Kind.VALUE, Kind.REFUSAL]


def test_tickets_grow_with_rounds_and_attempts():
    terms = SumTerms(names=NAMES, rounds=4, spare=2, quorum=4, degree=0, weights=WEIGHTS, limit=1.0, count=1,
                  agreement=AGREEMENT)  # fmt: skip
    places = [(round, attempt) for round in range(1, 5) for attempt in range(terms.attempts + 1)]
    assert [terms.ticket(*place) for place in places] == list(range(1, terms.tickets + 1))
    assert [terms.place(ticket) for ticket in range(1, terms.tickets + 1)] == places
