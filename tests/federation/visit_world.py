"""Visits among owners in memory, with everything that a test wants to look at afterwards."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import msgpack
import numpy as np
import worlds
from in_memory import Killed, Network
from joined import copied, joined, named

from coterie.accounting.ledger import Ledger, data_hash
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.randomness import NoiseSource, injected
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import OwnRecords, RegisterSide, VisitSide
from coterie.federation.releases.witness import Witnessed
from coterie.federation.shapes.held import Role
from coterie.federation.shapes.learner import Learner, Visitor
from coterie.federation.shapes.walk import Walker
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Patience, Status
from coterie.federation.transport.wire import Kind, Message
from coterie.protocols import build

DIM, SEED, DELTA, EPSILON = 3, 5, 1e-4, 2.0
BUDGET = EPSILON * 1.001
PATIENCE = Patience(wait=3.0, retry=0.3)
RUN = "run"


class Write(NamedTuple):
    """A register that an owner wrote to its journal."""

    owner: int
    promised: int
    step: int
    epoch: int
    role: int
    body: bytes


class End(NamedTuple):
    """Where a party was when the run ended."""

    done: bool
    held: Any  # of a walker: held.Held
    status: Status
    model: Any


class World:
    """Owners of one program of visits, each with ledger and journal in a folder; perhaps a learner."""

    def __init__(
        self,
        folder: Path,
        protocol: str = "wor_sgd",
        owners: int = 4,
        settings: dict[str, Any] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        self.folder, self.patience = folder, patience
        self.sizes = tuple(6 + i % 3 for i in range(owners))
        self.names = tuple(f"owner-{i}" for i in range(owners))
        self.shards = worlds.shards(self.sizes, DIM)
        task = worlds.task(self.sizes, DIM, epsilon=EPSILON, delta=DELTA)
        self.program = build(protocol, task, settings or {}, "certified")
        self.schedule = [int(one) for one in np.asarray(self.program.schedule)]
        self.budgets = dict.fromkeys(self.names, BUDGET)
        self.full: dict[str, int] = {}  # releases after which an owner's disk is full
        self.trip: Callable[[str, str], None] = lambda name, what: None  # called around every durable write
        self.writes: list[Write] = []
        self.books: list[list] = []  # what a learner wrote: tick, turns, asked, gone, register
        self._sides: dict[int, VisitSide] = {}
        self.keys: Callable[..., NoiseSource] = injected
        self.witnessed = False  # whether parties ask each other, before they speak, what they have of them
        self.log: list[tuple[str, str]] = []  # who said what to its administrator
        self.follow = True  # whether a learner follows the program's schedule
        self.clocks: dict[str, Callable[[], float]] = {}

    @property
    def last(self) -> int:
        return len(self.schedule)

    @cached_property
    def register(self) -> RegisterSide:
        return RegisterSide(self.program)

    @cached_property
    def simulated(self) -> Any:
        model = simulate(self.program, self.shards, seed=SEED).model
        return jax.tree.map(lambda leaf: np.asarray(leaf)[0], model)

    def side(self, owner: int) -> VisitSide:
        if owner not in self._sides:  # it keeps nothing of a run, so that a restart may find it again
            count = self.sizes[owner]
            records = OwnRecords(*(np.asarray(leaf)[owner, :count] for leaf in self.shards[:2]))
            keys = self.keys(self.program.plan, SEED, owner)
            self._sides[owner] = VisitSide(self.program, owner, records, keys)
        return self._sides[owner]

    def ledger(self, name: str) -> Ledger:
        owner = self.names.index(named(name))
        terms = {"data_hash": data_hash(np.array([owner])), "delta": DELTA}
        return Ledger.open(self.folder / f"{name}.ledger", epsilon=self.budgets[named(name)], **terms)

    @contextmanager
    def _files(self, name: str) -> Iterator[tuple[Outlet, Journal]]:
        owner = self.names.index(named(name))
        copied(self.folder, name)
        with self.ledger(name) as ledger, Journal.open(self.folder / f"{name}.journal") as journal:
            most = self.program.plan.releases[owner]
            outlet = Outlet(ledger, journal, OwnRun(RUN, self.program.plan, owner, most))
            self._tamper(name, outlet, journal)
            yield outlet, journal

    @contextmanager
    def walker(self, name: str) -> Iterator[Machine]:
        owner = self.names.index(named(name))
        with self._files(name) as (outlet, journal):
            machine = Walker(self.side(owner), self.register, outlet, self.names, owner, self.patience)
            peers = [one for one in self.names if one != named(name)]
            yield self._among(name, peers, machine, outlet, journal)

    @contextmanager
    def visitor(self, name: str) -> Iterator[Machine]:
        clock = self.clocks.get(name, lambda: 0.0)
        with self._files(name) as (outlet, journal):
            side = self.side(self.names.index(named(name)))
            machine = Visitor(side, outlet, clock, self.patience, self.last)
            yield self._among(name, ["learner"], machine, outlet, journal)

    @contextmanager
    def learner(self) -> Iterator[Machine]:
        with Journal.open(self.folder / "learner.journal") as journal:
            self._tamper("learner", None, journal)
            machine = Learner(
                self.register,
                journal,
                self.names,
                self.patience,
                wire.layout(self.program.plan.noise_like),
                follow_schedule=self.follow,
            )
            yield self._among("learner", self.names, machine, None, journal)

    def _among(
        self, name: str, peers: Sequence[str], machine: Machine, outlet: Outlet | None, journal: Journal
    ) -> Machine:
        if not self.witnessed:
            return machine
        enough = 1 if self.program.learner else len(self.names) // 2
        terms: Any = {"steps": self.last, "first": enough, "again": enough, "patience": self.patience}
        log = lambda line: self.log.append((name, line))
        return joined(machine, named(name), peers, journal, outlet, log=log, **terms)

    def walk(self, **options: Any) -> Network:
        names = (*self.names, *options.get("twins", ()))
        return Network({name: lambda name=name: self.walker(name) for name in names}, **options)

    def visits(self, **options: Any) -> Network:
        names = (*self.names, *options.get("twins", ()))
        parties: dict[str, Any] = {name: lambda name=name: self.visitor(name) for name in names}
        return Network(parties | {"learner": self.learner}, **options)

    def _tamper(self, name: str, outlet: Outlet | None, journal: Journal) -> None:
        """Make the party's files misbehave as the test wants, and note the registers it writes."""
        put = journal.put

        def written(entries: Any, drop: tuple[str, ...] = ()) -> None:
            what = "register" if "walk" in entries else "state"
            self.trip(name, f"before {what}")
            put(entries, drop)
            if "walk" in entries:
                self.writes.append(Write(self.names.index(named(name)), *msgpack.unpackb(entries["walk"])))
            if "learner" in entries:
                self.books.append(msgpack.unpackb(entries["learner"]))
            self.trip(name, f"after {what}")

        journal.put = written  # type: ignore[method-assign]
        if outlet is not None:
            outlet.release = self._released(name, outlet)  # type: ignore[method-assign]

    def _released(self, name: str, outlet: Outlet) -> Callable[[int, int, bytes], bytes]:
        release = outlet.release

        def released(step: int, turn: int, body: bytes) -> bytes:
            if outlet.turns() >= self.full.get(name, self.last):
                raise InputError("ledger: cannot be written (disk full)")
            self.trip(name, "before release")
            stored = release(step, turn, body)
            self.trip(name, "after release")
            return stored

        return released

    def play(
        self, network: Network, until: float = 300.0, done: Callable[[], bool] | None = None
    ) -> dict[str, End]:
        """Run the network to its end and close everybody's files; where those stood who still ran."""
        with network:
            network.run(until, done)
            return {name: _end(machine) for name, machine in network.machines.items()}

    # What must hold after any run.

    def check_ledgers(self) -> dict[str, dict[int, bytes]]:
        """What each ledger holds, by step; nobody spent more than its budget or spoke more than its plan says."""
        held = {}
        for owner, name in enumerate(self.names):
            with self.ledger(name) as ledger:
                rounds = ledger.rounds(RUN)
                assert len(rounds) == len(set(rounds)) <= self.program.plan.releases[owner]
                assert ledger.spent().epsilon <= self.budgets[name]
                held[name] = {step: ledger.stored(RUN, step) or b"" for step in rounds}
        return held

    def check_walk(self, network: Network, ends: dict[str, End]) -> set[int]:
        """One history for each epoch, made of the ledgers' messages alone. Which steps the last register has."""
        ledgers = self.check_ledgers()
        bodies: dict[tuple[int, int], set[bytes]] = defaultdict(set)
        bodies[0, 0] = {wire.pack(self.register.open())}
        promised = [0] * len(self.names)
        for write in self.writes:
            bodies[write.epoch, write.step].add(write.body)
            assert write.promised >= promised[write.owner]
            promised[write.owner] = write.promised
            # Who promised a later epoch goes on in no earlier one.
            assert write.epoch == write.promised or write.role in (Role.COPY, Role.FINAL)
        # All who hold step t of an epoch hold the same.
        assert all(len(found) == 1 for found in bodies.values())
        history = {rank: next(iter(found)) for rank, found in bodies.items()}
        applied: dict[tuple[int, int], set[int]] = {(0, 0): set()}
        for epoch, step in sorted(set(history) - {(0, 0)}):
            applied[epoch, step] = self._origin(epoch, step, history, applied, ledgers)
        self._check_sent(network, history)
        finals = [end.held for end in ends.values() if end.done and end.held is not None]
        assert len({held.body for held in finals}) <= 1
        return applied[max(held.rank for held in finals)] if finals else set()

    def _origin(self, epoch: int, step: int, history: dict, applied: dict, ledgers: dict) -> set[int]:
        """Where a register comes from: the same of an earlier epoch, a step passed over, or one that was settled."""
        body, before = history[epoch, step], history.get((epoch, step - 1))
        owner = self.schedule[step - 1] if step else 0
        said = ledgers[self.names[owner]].get(step) if step else None
        if before is not None and said is not None:
            turn = self.schedule[: step - 1].count(owner)
            register = wire.unpack(before, self.register.layout)
            message = wire.unpack(said, self.side(owner).layout)
            if wire.pack(self.register.settle(register, message, owner, step, turn)) == body:
                return applied[epoch, step - 1] | {step}
        if before == body:
            return applied[epoch, step - 1]
        earlier = [e for e, s in history if s == step and e < epoch and history[e, s] == body]
        assert earlier, f"the register after step {step} of epoch {epoch} comes from nowhere"
        return applied[max(earlier), step]

    def _check_sent(self, network: Network, history: dict) -> None:
        """Nobody saw a register that is not of the one history: hence none that is not of the ledgers' messages."""
        for frame in network.sent:
            message = frame.message
            if message.kind == Kind.HANDOVER:
                assert history[message.sub, message.step] == message.body
            if message.kind == Kind.ANNOUNCE:
                digest = hashlib.sha256(history[message.sub, message.step]).digest()
                assert message.body.endswith(digest)

    def check_answers(self, network: Network) -> None:
        """One version of each answer, and that is the ledger's; the register is made of these, each once."""
        ledgers = self.check_ledgers()
        turns: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        for frame in network.sent:
            if frame.message.kind == Kind.ANSWER:
                assert ledgers[frame.sender][frame.message.step] == frame.message.body
                turns[frame.sender, frame.message.sub].add(frame.message.body)
        assert all(len(found) == 1 for found in turns.values())
        start = [0] * len(self.names)
        before = [0, start, start, [False] * len(self.names), wire.pack(self.register.open())]
        for book in self.books:
            assert book[-1] == self._settled(before, book, ledgers)
            before = book

    def _settled(self, before: list, book: list, ledgers: dict[str, dict[int, bytes]]) -> bytes:
        """What the register must be after this write of the learner's."""
        moved = [owner for owner in range(len(self.names)) if book[1][owner] != before[1][owner]]
        if not moved:
            return before[-1]
        (owner,) = moved
        turn, step = before[1][owner], before[2][owner]
        assert (book[0], book[1][owner]) == (before[0] + 1, turn + 1)
        register = wire.unpack(before[-1], self.register.layout)
        answer = wire.unpack(ledgers[self.names[owner]][step], self.side(owner).layout)
        return wire.pack(self.register.settle(register, answer, owner, step, turn))


def _end(machine: Any) -> End:
    machine = machine.machine if isinstance(machine, Witnessed) else machine
    return End(machine.done, getattr(machine, "held", None), machine.status, machine.model())


def close(got: Any, expected: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), got, expected)


def trips(every: int) -> Callable[[str, str], None]:
    """Die at every so-many-th moment before or after a durable write."""
    count = 0

    def trip(name: str, what: str) -> None:
        nonlocal count
        count += 1
        if count % every == 0:
            raise Killed

    return trip


def dies_at(number: int, who: str = "", when: str = "") -> Callable[[str, str], None]:
    """Die once, at the `number`-th of these moments (all of everybody's, unless told otherwise)."""
    count = 0

    def trip(name: str, what: str) -> None:
        nonlocal count
        count += who in name and when in what
        if count == number:
            count += 1
            raise Killed

    return trip


def frame(kind: Kind, step: int, sub: int = 0, body: bytes = b"") -> bytes:
    return wire.encode(Message(kind, step, sub, body), bytes(32))
