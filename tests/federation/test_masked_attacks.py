"""Attacks on masked sums, with the messages that owners really send: each of a message's numbers is one game.

Six owners share the noise of a sum for one colluder and one who may be away. In one world a record moves every number
of the attacked owner's message by as much as it may, in the other by nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from gossip_world import trips
from in_memory import Link
from masked_world import AGREEMENT, NAMES, PUBLICS, ROUNDS, SECRETS, WEIGHTS, World
from toy_world import ToyOutlet

from coterie.accounting import certify
from coterie.accounting.exposure import complete, exposure
from coterie.audit.bounds import gaussian
from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.member import Declined, Member
from coterie.federation.shapes.rolls import SumTerms
from coterie.federation.shapes.tree import graph_of
from coterie.federation.transport import wire
from coterie.federation.transport.wire import Kind
from coterie.mechanisms.masks import LABEL, Masks, Roll
from coterie.program import State
from coterie.relations import ADD_OR_REMOVE_ONE

GAMES, NOISE, DELTA, SURE = 20_000, 2**16, 0.01, 1 - 1e-7
ATTACKED, COLLUDER, AWAY = 0, 1, 5
EVERYONE, FEWEST = tuple(range(6)), tuple(range(5))
SHIFT = 2.0 * NOISE  # cells that a record moves the attacked owner's message by
ONE_MISSING = 1 / np.sqrt(
    exposure(np.full(5, float(NOISE) ** 2), complete(5), 1)[0]
)  # noise in the smallest sum


def epsilon(noise: float, releases: int = 1) -> float:
    """Certified, where so much noise is left in each release."""
    event = GaussianDpEvent(noise / SHIFT / np.sqrt(releases))
    return certify(event, delta=DELTA, relation=ADD_OR_REMOVE_ONE).epsilon


CERTIFIED, SECOND = epsilon(ONE_MISSING), epsilon(NOISE)


class Side:
    """Noise, and the attacked owner's record. `again`: what must not be, the same value for every attempt."""

    def __init__(self, value: float, again: bool) -> None:
        self.layout = wire.foreign(np.zeros(GAMES, np.int32))
        self.public_layout = wire.layout(np.zeros(1, np.float32))
        self.drawn: dict[tuple[int, int], np.ndarray] = {}
        self._value, self._again, self._random = value, again, np.random.default_rng()

    def start(self) -> State:
        return State(np.zeros(1, np.float32), ())

    def emit(self, state: State, step: int, turn: int, attempt: int = 0) -> tuple[Any, Any]:
        numbers = np.rint(self._value + NOISE * self._random.standard_normal(GAMES)).astype(np.int32)
        drawn = self.drawn.setdefault((step, 0 if self._again else attempt), numbers)
        return drawn, ()

    def absorb(self, public: Any, own: Any, mixed: Any, step: int) -> Any:
        return public

    def model(self, public: Any) -> Any:
        return public


class Owners:
    """All six, ready for rolls."""

    def __init__(self, folder, world: bool, again: bool = False) -> None:
        folder.mkdir()
        terms = SumTerms(
            names=NAMES, rounds=2, spare=4, quorum=5, degree=0, weights=WEIGHTS, limit=2.0**40, count=GAMES,
            agreement=AGREEMENT,
        )  # fmt: skip
        self.terms, self.journals, self.masks = terms, [], []
        self.sides = [Side(SHIFT if world and owner == ATTACKED else 0.0, again) for owner in EVERYONE]
        self.members = []
        for owner, name in enumerate(NAMES):
            journal = Journal.open(folder / name)
            masks = Masks(name, SECRETS[name], PUBLICS, AGREEMENT)
            outlet: Any = ToyOutlet({}, 6, journal)
            self.members.append(Member(terms, self.sides[owner], outlet, masks, owner))
            self.members[-1].process = bytes([owner]) * 16
            self.journals.append(journal)
            self.masks.append(masks)

    def roll(self, members, attempt: int) -> Roll:
        return Roll(1, attempt, members, tuple(bytes([owner]) * 16 for owner in members))

    def said(self, owner: int, members, attempt: int) -> np.ndarray:
        """An owner's message for a roll, masked."""
        roll = self.roll(members, attempt)
        member = self.members[owner]
        stored = member.answer(roll, member.label(roll))
        return np.frombuffer(stored[LABEL:], "<u8")

    def total(self, members, attempt: int) -> np.ndarray:
        """The sum of a roll, as everybody sees it, less what the colluder knows to be its own."""
        parts = [self.said(owner, members, attempt) for owner in members]
        whole = np.sum(parts, axis=0, dtype=np.uint64).view(np.int64)
        return whole - self.sides[COLLUDER].emit(State((), ()), 1, 0, attempt)[0]

    def close(self) -> None:
        for journal in self.journals:
            journal.close()


def audited(tmp_path, attack: Callable[[Owners], np.ndarray], again: bool = False) -> float:
    """A lower bound on ε by an attack that gives every game a score."""
    scores = []
    for world in (False, True):
        owners = Owners(tmp_path / str(world), world, again)
        try:
            scores.append(attack(owners).astype(float))
        finally:
            owners.close()
    return gaussian(*scores, delta=DELTA, confidence=SURE)


def test_whoever_adds_up_and_a_colluder_stay_below_the_certificate(tmp_path):
    found = audited(tmp_path, lambda owners: owners.total(FEWEST, 0))
    assert 0.7 * CERTIFIED < found <= CERTIFIED


def test_all_others_together_stay_below_the_second_number_and_above_the_first(tmp_path):
    def attack(owners: Owners) -> np.ndarray:
        known = [owners.sides[other] for other in FEWEST[2:]]
        return owners.total(FEWEST, 0) - sum(side.drawn[1, 0] for side in known)

    found = audited(tmp_path, attack)
    assert CERTIFIED < 0.7 * SECOND < found <= SECOND


def test_two_rolls_of_one_round_cost_two_releases_and_no_more(tmp_path):
    """The aggregator says that one owner was away, though its message came: late delivery. Both sums can be read."""

    def attack(owners: Owners) -> np.ndarray:
        first, second = owners.total(EVERYONE, 0), owners.total(FEWEST, 1)
        return first / 5 + second / 4  # each by its noise: the likelihood ratio of the two

    found = audited(tmp_path, attack)
    assert CERTIFIED < found <= epsilon(ONE_MISSING, releases=2)


def test_a_difference_of_two_sums_shows_nobody_alone(tmp_path):
    def attack(owners: Owners) -> np.ndarray:
        return owners.total((0, 1, 2, 3, 4), 0) - owners.total((1, 2, 3, 4, 5), 1)

    assert audited(tmp_path, attack) <= CERTIFIED


def test_the_same_value_again_under_a_smaller_roll_is_caught(tmp_path):
    """Forbidden: everybody's noise but the absent owner's own goes out of the difference."""

    def attack(owners: Owners) -> np.ndarray:
        return owners.total(EVERYONE, 0) - owners.total((1, 2, 3, 4, 5), 1)

    found = audited(tmp_path, attack, again=True)
    assert 1.5 * CERTIFIED < found <= SECOND


def test_revealed_seeds_of_an_absent_owner_are_caught(tmp_path):
    """Forbidden: the others tell what they share with one who fell silent, and then its message comes after all."""

    def attack(owners: Owners) -> np.ndarray:
        roll = owners.roll(EVERYONE, 0)
        label, shown = owners.members[ATTACKED].label(roll), owners.said(ATTACKED, EVERYONE, 0)
        for other in EVERYONE[1:]:  # what each adds for a sum with the attacked owner, and it takes off
            pair = Masks._mask(owners.masks[other], NAMES[ATTACKED], label, GAMES)
            shown = shown - pair  # the lowest name added them
        return shown.view(np.int64)

    found = audited(tmp_path, attack)
    assert 1.5 * CERTIFIED < found <= SECOND


def test_messages_under_different_rolls_or_alone_say_nothing(tmp_path):
    """Two rolls for one attempt: whoever was told another one shares no mask, and the sum is random numbers."""

    def attack(owners: Owners) -> np.ndarray:
        others = sum(owners.said(owner, (1, 2, 3, 4, 5), 0) for owner in (1, 2, 3, 4))
        return (owners.said(ATTACKED, FEWEST, 0) + others).view(np.int64)

    assert audited(tmp_path, attack) < 0.1


# An owner whose files are not what they were: everything that was ever said to it is said again.


@pytest.mark.parametrize("shape", ["hub", "tree"])
@pytest.mark.parametrize("loss", ["anew", "restored"])
def test_all_rolls_replayed_to_a_lost_folder_re_use_no_label(tmp_path, shape, loss):
    """`anew`: no file is left, and a record was corrected. `restored`: the ledger's first three rows."""
    graph = graph_of([(at, (at + 1) % 6) for at in range(6)], 6) if shape == "tree" else None
    world, victim = World(tmp_path, spare=60, graph=graph), NAMES[2]
    world.trip = trips(43)
    with world.network(link=Link(delay=0.03, jitter=0.1), revive=0.4) as network:
        network.run(400.0)
        world.trip = lambda name: None
        network.run(500.0)
        said = [frame for frame in network.sent if frame.receiver == victim]
    first = dict(world.ledgers[victim])
    kept = sorted(first)[:3] if loss == "restored" else []
    world.ledgers[victim].clear()
    world.ledgers[victim].update({ticket: first[ticket] for ticket in kept})
    (tmp_path / f"{victim}.journal").unlink()
    with world.process(victim) as machine:
        machine.start(0.0)
        for frame in said:
            if frame.message.kind in (Kind.ROLL, Kind.SUM, Kind.VALUE):
                with suppress(wire.Refused):
                    machine.receive(frame.sender, frame.message, frame.time)
        assert len(said) > 3 * ROUNDS
        assert machine.done
    assert world.ledgers[victim] == {ticket: first[ticket] for ticket in kept}


def test_an_owner_that_began_anew_makes_other_messages_for_the_same_round(tmp_path):
    """Not the masks of before over other records: it answers under its own process's label, or not at all."""
    owners, again = Owners(tmp_path / "before", False), Owners(tmp_path / "after", True)
    try:
        again.members[ATTACKED].process = os.urandom(16)
        with pytest.raises(Declined, match="a process that is gone"):
            again.said(ATTACKED, EVERYONE, 0)
        assert owners.said(ATTACKED, EVERYONE, 0).any()
    finally:
        owners.close()
        again.close()
