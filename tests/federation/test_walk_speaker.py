"""An owner's private state over crashes: always the one that belongs to its last release, or none at all."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import jax
import numpy as np
import pytest
from visit_world import RUN, World

from coterie.errors import BudgetError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import RegisterSide
from coterie.federation.shapes.visit import OwnVisits, Speaker
from coterie.federation.transport import wire

BASIS = bytes(32)


class Side:
    """Its private state counts its messages; each message is the state and a number that is never the same twice."""

    def __init__(self) -> None:
        self.drawn = 0
        self.layout = wire.foreign(np.zeros(2, np.int32))
        self.private_layout = wire.layout(np.zeros((), np.int32))

    def start(self) -> np.ndarray:
        return np.zeros((), np.int32)

    def emit(self, private: Any, query: Any, step: int, turn: int) -> tuple[Any, Any]:
        self.drawn += 1
        return np.array([int(private), self.drawn], np.int32), np.asarray(private + 1, np.int32)


class Till:
    """An outlet that may die before or after the charge, or refuse it."""

    journal: Any = None  # of whoever speaks

    def __init__(self) -> None:
        self.charged: dict[int, bytes] = {}
        self.trouble = ""

    def stored(self, step: int) -> bytes | None:
        return self.charged.get(step)

    def turns(self) -> int:
        return len(self.charged)

    def release(self, step: int, turn: int, body: bytes) -> bytes:
        if self.trouble == "spent":
            raise BudgetError("spent")
        if self.trouble == "before":
            raise KeyboardInterrupt
        self.charged[step] = body
        if self.trouble == "after":
            raise KeyboardInterrupt
        return body


class Desk:
    """A speaker that can be killed and started again."""

    def __init__(self, folder) -> None:
        self.side, self.till, self.path = Side(), Till(), folder / "journal"

    def say(self, step: int, trouble: str = "") -> bytes | None:
        self.till.trouble = trouble
        with Journal.open(self.path) as journal:
            self.till.journal = journal
            speaker: Any = Speaker(self.side, self.till)  # type: ignore[arg-type]
            try:
                return speaker.say(np.zeros(1), BASIS, step, step - 1)
            except (KeyboardInterrupt, BudgetError):
                return None

    def states(self) -> list[int]:
        """Which private state each release was made of."""
        return [int(np.frombuffer(self.till.charged[step], "<i4")[0]) for step in sorted(self.till.charged)]


def test_a_state_follows_the_release_that_it_belongs_to(tmp_path):
    desk = Desk(tmp_path)
    for step in (1, 2, 3):
        assert desk.say(step) == desk.till.charged[step]
    assert desk.states() == [0, 1, 2]


@pytest.mark.parametrize(("trouble", "again"), [("before", 4), ("after", 3), ("spent", 4)])
def test_a_crash_around_the_charge_neither_repeats_nor_skips_a_state(trouble, again, tmp_path):
    desk = Desk(tmp_path)
    desk.say(1)
    desk.say(2, trouble)
    first = desk.till.charged.get(2)
    said = desk.say(2)
    assert first in (None, said)  # what was charged is what is said
    desk.say(3)
    assert desk.states() == [0, 1, 2]
    assert desk.side.drawn == again


def test_states_that_a_power_cut_took_are_never_gone_back_to(tmp_path):
    """A state that is older than the last release may hold what was released with it: that would leave twice."""
    desk = Desk(tmp_path)
    desk.say(1)
    old = desk.path.read_bytes()
    for later in (2, 3):
        desk.say(later)
    desk.path.write_bytes(old)
    desk.say(4)
    desk.path.unlink()
    desk.say(5)
    desk.say(6)
    assert desk.states() == [0, 1, 2, 0, 0, 1]


def test_what_a_release_was_computed_from_is_known_after_a_restart(tmp_path):
    desk = Desk(tmp_path)
    desk.say(7)
    with Journal.open(desk.path) as journal:
        desk.till.journal = journal
        speaker: Any = Speaker(desk.side, desk.till)  # type: ignore[arg-type]
        assert speaker.memory.based_on(7, BASIS)
        assert not speaker.memory.based_on(7, bytes(31) + b"1")
        assert not speaker.memory.based_on(6, BASIS)
        assert speaker.memory.last == 7


def test_a_message_is_settled_on_the_register_it_was_computed_from_and_on_no_other(tmp_path):
    world = World(tmp_path, settings={"batch": 2})
    owner = world.schedule[0]
    plan, side = world.program.plan, world.side(owner)
    start = wire.pack(world.register.open())
    other = wire.pack(jax.tree.map(lambda leaf: leaf + np.float32(1.0), world.register.open()))
    with world.ledger(world.names[owner]) as ledger, Journal.open(tmp_path / "journal") as journal:
        outlet = Outlet(ledger, journal, OwnRun(RUN, plan, owner, plan.releases[owner]))
        speaker = Speaker(side, outlet)
        steps = OwnVisits(speaker, world.register, owner)
        settled = steps.after(start, sha256(start).digest(), 1)
        assert settled != start
        assert steps.after(other, sha256(other).digest(), 1) == other  # charged, and unused there
        assert steps.after(start, sha256(start).digest(), 1) == settled  # the same message again
        assert outlet.turns() == 1
        once = tuple(1 for _ in plan.releases)
        silent = RegisterSide(world.program._replace(plan=replace(plan, releases=once)))
        spent = OwnVisits(speaker, silent, owner)
        assert spent.after(settled, sha256(settled).digest(), world.schedule.index(owner, 1) + 1) == settled
        assert outlet.turns() == 1
