"""After training: every owner's table reaches everybody, once, in all four shapes and under faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from in_memory import Killed, Link, Network

from coterie.accounting.ledger import Ledger, data_hash
from coterie.evaluation.budget import with_table
from coterie.evaluation.sheet import Sheet
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import table_layout
from coterie.federation.shapes.evaluation import Evaluated
from coterie.federation.shapes.tables import NONE, OwnTable, TableTerms
from coterie.federation.transport.machine import Out, Patience, Status
from coterie.federation.transport.wire import Kind, Message, encode, pack
from coterie.mechanisms import FullBatch, Gaussian, ReleasePlan

SHEET = Sheet("binary", "logistic", 2, True)
STEP, DELTA = 2, 1e-5
QUICK = Patience(wait=2.0, retry=0.3)
ROUGH = Link(delay=0.05, jitter=0.3, loss=0.3, twice=0.3)


class Trained:
    """A party whose training is over at once, or at a given time."""

    def __init__(self, at: float = 0.0) -> None:
        self._at, self._now = at, 0.0

    def start(self, now: float) -> list[Out]:
        return self.tick(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        raise AssertionError("only tables are sent here")

    def tick(self, now: float) -> list[Out]:
        self._now = now
        return []

    @property
    def done(self) -> bool:
        return self._now >= self._at

    @property
    def status(self) -> Status:
        return Status(1, 1)

    def model(self) -> np.ndarray:
        return np.arange(7.0)


class World:
    """Owners on links, `(owner, owner)`; the last of `names` may have no records."""

    def __init__(
        self, folder: Path, links: list[tuple[int, int]], owners: int, parties: int | None = None
    ) -> None:
        self.folder, self.owners = folder, owners
        self.names = [f"owner-{at}" for at in range(owners)]
        everyone = [*self.names, *(["hub"] if (parties or owners) > owners else [])]
        self.peers = defaultdict[str, list[str]](list)
        for one, other in links:
            self.peers[everyone[one]].append(everyone[other])
            self.peers[everyone[other]].append(everyone[one])
        plain = ReleasePlan(
            sampler=FullBatch(), clip_norm=1.0, noise=Gaussian(), noise_multiplier=(30.0,) * owners,
            releases=(1,) * owners, sizes=(5_000,) * owners, noise_like=None,
        )  # fmt: skip
        self.plan = with_table(plain, SHEET, (1.0,) * owners, DELTA, 0.05, certified=True)
        self.parties, self.epsilon, self.drawn = (
            everyone,
            defaultdict[str, float](lambda: 1.0),
            defaultdict[str, int](int),
        )
        self.trip = lambda name: None
        self.choose = None

    @contextmanager
    def process(self, name: str) -> Iterator[Evaluated]:
        terms = TableTerms(
            "evaluation",
            self.names,
            STEP,
            table_layout(self.plan.evaluation),
            self.peers[name],
            QUICK,
            self.choose,
        )
        with Journal.open(self.folder / f"{name}.journal") as journal:
            if name == "hub":
                yield Evaluated(Trained(), terms, None, journal)
                return
            owner = self.names.index(name)
            with self.ledger(name) as ledger:
                outlet = Outlet(ledger, journal, OwnRun("run", self.plan, owner, 1, tables=(STEP,)))
                outlet.release(1, 0, b"trained")
                release, put = outlet.release, journal.put

                def released(step: int, turn: int, body: bytes) -> bytes:
                    self.trip(name)
                    stored = release(step, turn, body)
                    self.trip(name)
                    return stored

                def written(entries: Any, drop: tuple[str, ...] = ()) -> None:
                    self.trip(name)
                    put(entries, drop)
                    self.trip(name)

                outlet.release, journal.put = released, written  # type: ignore[method-assign]
                yield Evaluated(Trained(), terms, OwnTable(owner, lambda _: self.emit(name), outlet), journal)

    def emit(self, name: str) -> bytes:
        """Another table at every call, as noise is drawn anew."""
        self.drawn[name] += 1
        return pack(np.full(SHEET.width, 1_000 * self.names.index(name) + self.drawn[name], np.int64))

    @contextmanager
    def ledger(self, name: str) -> Iterator[Ledger]:
        records, path = data_hash(np.array([self.names.index(name)])), self.folder / f"{name}.ledger"
        with Ledger.open(path, data_hash=records, epsilon=self.epsilon[name], delta=DELTA) as ledger:
            yield ledger

    def network(self, **options: Any) -> Network:
        return Network({name: lambda name=name: self.process(name) for name in self.parties}, **options)

    def check(self, network: Network) -> None:
        """One version of every owner's table, which its ledger holds and was charged for once."""
        versions = defaultdict[int, set[bytes]](set)
        for frame in network.sent:
            if frame.message.kind == Kind.TABLE:
                versions[frame.message.sub].add(frame.message.body)
        assert all(len(found) == 1 for found in versions.values())
        for owner, found in versions.items():
            with self.ledger(self.names[owner]) as ledger:
                assert found == {ledger.stored("run", STEP) or NONE}
                assert ledger.spent().epsilon <= self.epsilon[self.names[owner]]


def told(network: Network) -> list[dict[int, bytes]]:
    return [
        {at: one.tobytes() for at, one in machine.tables().items()} for machine in network.machines.values()
    ]


RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
SHAPES = {
    "ring": SimpleNamespace(links=RING, owners=5, parties=None),
    "path": SimpleNamespace(links=RING[:4], owners=5, parties=None),
    "hub": SimpleNamespace(links=[(at, 5) for at in range(5)], owners=5, parties=6),
    "everybody": SimpleNamespace(links=[(a, b) for a in range(5) for b in range(a)], owners=5, parties=None),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_all_end_with_the_same_tables_over_links_that_fail(tmp_path, shape):
    world = World(tmp_path, **vars(SHAPES[shape]))
    with world.network(link=ROUGH, seed=1) as network:
        network.run(100.0)
        found = told(network)
        assert all(machine.done for machine in network.machines.values())
    assert len(found[0]) == 5
    assert all(one == found[0] for one in found)
    assert not network.refused  # nobody gets its own table back, which it would take for a forgery
    world.check(network)


def test_killed_around_every_write_nothing_is_released_twice(tmp_path):
    world = World(tmp_path, **vars(SHAPES["ring"]))
    random = Random(4)

    def trip(name: str) -> None:
        if random.random() < 0.3:
            raise Killed

    world.trip = trip
    with world.network(link=ROUGH, seed=2, revive=0.2) as network:
        network.run(200.0)
        found = told(network)
    assert network.crashes > 5
    assert max(world.drawn.values()) > 1  # somebody drew a table that never left
    assert all(one == found[0] and len(one) == 5 for one in found)
    world.check(network)


def test_killed_around_every_write_all_choose_the_same_once(tmp_path):
    """The choice is written down before anything is made of it, so that nobody changes its mind over a restart."""
    world = World(tmp_path, **vars(SHAPES["ring"]))
    random, chosen = Random(7), defaultdict[str, set[int]](set)
    world.choose = lambda total: 1 + int(total[0]) % 6

    def trip(name: str) -> None:
        if random.random() < 0.3:
            raise Killed

    world.trip = trip
    with world.network(link=ROUGH, seed=3, revive=0.2) as network:

        def done() -> bool:
            for name, machine in network.machines.items():
                if machine.done:
                    chosen[name].add(int(machine.model()))
            everyone = network.machines.values()
            return len(everyone) == 5 and all(machine.done for machine in everyone)

        network.run(200.0, done=done)
        total = sum(machine[0] for machine in network.machines["owner-0"].tables().values())
    assert network.crashes > 5
    assert set.union(*chosen.values()) == {1 + int(total) % 6}
    world.check(network)


def test_who_gave_up_waiting_takes_the_first_model_and_stays_with_it(tmp_path):
    world = World(tmp_path, **vars(SHAPES["everybody"]))
    world.choose = lambda total: 3
    with world.network() as network:
        network.cut([(f"owner-{at}", "owner-4") for at in range(4)], until=60.0)
        network.run(60.0)
        assert [int(machine.model()) for machine in network.machines.values()] == [0] * 5
        network.run(80.0, done=lambda: all(len(one) == 5 for one in told(network)))
        assert [int(machine.model()) for machine in network.machines.values()] == [0] * 5


def test_who_does_not_come_is_left_out_and_enters_when_it_does(tmp_path):
    world = World(tmp_path, **vars(SHAPES["everybody"]))
    with world.network() as network:
        network.cut([(f"owner-{at}", "owner-4") for at in range(4)], until=60.0)
        network.run(60.0)
        assert 12.0 < network.now < 14.0  # six waits after the last table
        assert [len(one) for one in told(network)] == [4, 4, 4, 4, 1]
        note = network.machines["owner-0"].status.note
        assert note == "the table of scores of owner-4 was left out of the evaluation"
        network.run(80.0, done=lambda: all(len(one) == 5 for one in told(network)))
        assert all(len(one) == 5 for one in told(network))
    world.check(network)


def test_an_owner_that_comes_back_after_training_asks_before_it_is_done(tmp_path):
    """Its training is over as soon as it is made, but nobody was asked for tables since."""
    world = World(tmp_path, **vars(SHAPES["ring"]))
    with world.process("owner-0") as machine:
        assert machine.machine.done
        assert not machine.done
        machine.start(100.0)
        assert not machine.done
        machine.tick(105.0)
        assert not machine.done
        machine.tick(113.0)
        assert machine.done


def test_an_owner_without_budget_says_so_and_nobody_waits_for_it(tmp_path):
    world = World(tmp_path, **vars(SHAPES["ring"]))
    world.epsilon["owner-2"] = 0.5
    with world.network() as network:
        network.run(5.0)
        assert network.now < 5.0
        found = told(network)
        assert "releases no table of scores" in network.machines["owner-2"].status.note
    assert all(sorted(one) == [0, 1, 3, 4] for one in found)
    world.check(network)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(Kind.TABLE, STEP, 9, pack(np.zeros(SHEET.width, np.int64))), "no other owner's table"),
        (Message(Kind.TABLE, STEP, 0, pack(np.zeros(SHEET.width, np.int64))), "no other owner's table"),
        (Message(Kind.TABLE, STEP, 3, b"short"), "wrong shape: 5 bytes, must be 208"),
        (Message(Kind.TABLE, STEP, 3, pack(np.full(SHEET.width, 10**15))), "beyond what the protocol allows"),
        (Message(Kind.TABLE, 1, 3, pack(np.zeros(SHEET.width, np.int64))), "no such step"),
        (Message(Kind.HAVE, STEP, 0, bytes(9)), "wrong shape: 9 bytes, must be 1"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, message, reason):
    world = World(tmp_path, **vars(SHAPES["ring"]))
    with world.network() as network:
        network.inject("owner-1", "owner-0", encode(message, bytes(32)), at=0.001)
        network.run(20.0)
        assert any(receiver == "owner-0" and reason in why for receiver, why in network.refused)
        assert all(len(one) == 5 for one in told(network))


def test_a_second_version_of_a_table_is_refused(tmp_path):
    world = World(tmp_path, **vars(SHAPES["ring"]))
    forged = encode(Message(Kind.TABLE, STEP, 3, pack(np.ones(SHEET.width, np.int64))), bytes(32))
    with world.network() as network:
        network.run(20.0)
        network.inject("owner-1", "owner-0", forged)
        assert network.refused["owner-0", "a second version of a table"] == 1
