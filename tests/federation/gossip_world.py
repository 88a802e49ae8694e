"""A run in rounds among owners in memory, with everything a test wants to look at afterwards."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import worlds
from in_memory import Killed, Network, Process
from joined import copied, joined, named

from coterie import topologies
from coterie.accounting.ledger import Ledger, data_hash
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.randomness import NoiseSource, injected
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import OwnRecords, RoundsSide
from coterie.federation.shapes.hub import Aggregator, HubOwner, Weighted, weights_of
from coterie.federation.shapes.rounds import RoundsOwner, RoundsTerms
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Patience
from coterie.federation.transport.wire import Kind
from coterie.program import Program
from coterie.protocols import build
from coterie.protocols.task import Task
from coterie.topologies.neighbourhood import neighbourhood

DIM, SEED, DELTA = 3, 5, 1e-4
EPSILON, ALLOWED = 2.0, 2.002
PATIENCE = Patience(wait=5.0, retry=0.5)
RUN = "run"
_PROGRAMS: dict[tuple, Program] = {}  # calibrating and compiling take longer than the runs
_SIMULATED: dict[tuple, np.ndarray] = {}


class SpySide:
    """An owner's side that notes what each round was made of."""

    def __init__(self, side: RoundsSide, notes: dict[int, tuple[Any, Any]]) -> None:
        self._side, self._notes = side, notes
        self.layout, self.private_layout = side.layout, side.private_layout
        self.public_layout, self.start, self.emit = side.public_layout, side.start, side.emit
        self.idle, self.model = side.idle, side.model

    def absorb(self, public: Any, own: Any, mixed: Any, step: int) -> Any:
        self._notes[step] = (own, mixed)
        return self._side.absorb(public, own, mixed, step)


class World:
    """Owners of one program on a topology, each with ledger and journal in a folder."""

    def __init__(
        self,
        folder: Path,
        protocol: str = "dual_averaging",
        topology: str = "ring",
        owners: int = 4,
        rounds: int = 4,
        gossip: int = 1,
        settings: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        patience: Patience = PATIENCE,
        careful: bool = False,
    ) -> None:
        """`careful`: sums are as real owners make them, and messages that rest on others' noise are whole numbers."""
        self.folder, self.patience, self.gossip, self.careful = folder, patience, gossip, careful
        self.sizes = tuple(6 + i for i in range(owners))
        self.names = [f"owner-{i}" for i in range(owners)]
        self.shards = worlds.shards(self.sizes, DIM)
        self.topology = topologies.build(topology, owners, **(options or {}))
        given = {"rounds": rounds} if protocol in ("dual_averaging", "push_sum") else {}
        self._built = (
            protocol,
            owners,
            topology,
            careful,
            *_pairs(options),
            "|",
            *_pairs(given | (settings or {})),
        )
        self.program = _PROGRAMS.get(self._built) or _PROGRAMS.setdefault(
            self._built, build(protocol, self._task(), given | (settings or {}), "certified")
        )
        self.rounds = int(self.program.schedule)
        self.notes: dict[str, dict[int, tuple[Any, Any]]] = {name: {} for name in self.names}
        self._sides: dict[int, RoundsSide] = {}
        self.epsilon: dict[str, float] = {}  # budgets of owners that allow less than the plan takes
        self.full: dict[str, int] = {}  # writes after which an owner's disk is full
        self.trip: Callable[[str], None] = lambda name: None  # called around every durable write
        self.keys: Callable[..., NoiseSource] = injected
        self.witnessed = False  # whether parties ask each other, before they speak, what they have of them
        self.log: list[tuple[str, str]] = []  # who said what to its administrator

    def _task(self) -> Task:
        plain = worlds.task(self.sizes, DIM, epsilon=EPSILON, delta=DELTA, topology="complete")
        problem = plain.problem._replace(careful=self.careful)
        return replace(plain, topology=self.topology, problem=problem)

    def simulated(self) -> np.ndarray:
        """The owners' models, as `simulate` has them."""
        key = (*self._built, self.gossip)
        if key not in _SIMULATED:
            _SIMULATED[key] = np.asarray(self._simulated())
        return _SIMULATED[key]

    def _simulated(self) -> Any:
        if self.program.aggregate is not None:
            mixer = topologies.aggregate(self.program.aggregate)
        else:
            mixer = topologies.mixer(self.topology, self.gossip)
        return simulate(self.program, self.shards, mixer, seed=SEED).model

    @contextmanager
    def ledger(self, name: str) -> Iterator[Ledger]:
        records = data_hash(np.array([self.names.index(named(name))]))
        path, epsilon = self.folder / f"{name}.ledger", self.epsilon.get(name, ALLOWED)
        relation = self.program.plan.relation
        with Ledger.open(path, data_hash=records, epsilon=epsilon, delta=DELTA, relation=relation) as ledger:
            yield ledger

    @contextmanager
    def process(self, name: str) -> Iterator[Machine]:
        owner = self.names.index(named(name))
        copied(self.folder, name)
        with self.ledger(name) as ledger, Journal.open(self.folder / f"{name}.journal") as journal:
            side = SpySide(self.side(owner), self.notes[named(name)])
            outlet = Outlet(ledger, journal, OwnRun(RUN, self.program.plan, owner, self.rounds))
            self._fail(name, outlet, journal)
            if self.program.aggregate is not None:
                machine: Machine = HubOwner(self.rounds, side, outlet, self.patience)
                yield self._among(name, ["aggregator"], machine, outlet, journal)
            else:
                setting = RoundsTerms(
                    names=self.names,
                    view=neighbourhood(self.topology, owner, self.gossip),
                    rounds=self.rounds,
                    debiased=self.program.debiased,
                    patience=self.patience,
                )
                peers = [self.names[one] for one in setting.view.peers]
                yield self._among(name, peers, RoundsOwner(setting, side, outlet), outlet, journal)

    def _among(
        self, name: str, peers: list[str], machine: Machine, outlet: Outlet | None, journal: Journal
    ) -> Machine:
        if not self.witnessed:
            return machine
        first = 1 if self.program.aggregate is not None else len(peers)
        terms: Any = {"steps": self.rounds, "first": first, "again": 1, "patience": self.patience}
        log = lambda line: self.log.append((name, line))
        return joined(machine, named(name), peers, journal, outlet, log=log, **terms)

    @contextmanager
    def aggregator(self) -> Iterator[Machine]:
        assert self.program.aggregate is not None
        with Journal.open(self.folder / "aggregator.journal") as journal:
            quorum, weights = self.program.plan.quorum, weights_of(self.program)
            terms = Weighted(self.names, self.rounds, quorum, weights, self.side(0).layout)
            machine = Aggregator(terms, journal, self.patience)
            yield self._among("aggregator", self.names, machine, None, journal)

    def side(self, owner: int) -> RoundsSide:
        """It holds nothing of a run, so that a restarted owner may have it again."""
        if owner not in self._sides:
            self._sides[owner] = self._side(owner)
        return self._sides[owner]

    def _side(self, owner: int) -> RoundsSide:
        count = self.sizes[owner]
        records = OwnRecords(*(np.asarray(leaf)[owner, :count] for leaf in self.shards[:2]))
        return RoundsSide(self.program, owner, records, self.keys(self.program.plan, SEED, owner))

    def network(self, **options: Any) -> Network:
        parties: dict[str, Process] = {name: lambda name=name: self.process(name) for name in self.names}
        if self.program.aggregate is not None:
            parties["aggregator"] = self.aggregator
        parties |= {twin: lambda twin=twin: self.process(twin) for twin in options.get("twins", ())}
        return Network(parties, **options)

    def _fail(self, name: str, outlet: Outlet, journal: Journal) -> None:
        """Make the owner's files and budget misbehave as the test wants."""
        release, put = outlet.release, journal.put

        def released(step: int, turn: int, body: bytes) -> bytes:
            if outlet.turns() >= self.full.get(name, step):
                raise InputError("ledger: cannot be written (disk full)")
            self.trip(name)
            stored = release(step, turn, body)
            self.trip(name)
            return stored

        def written(entries: Any, drop: tuple[str, ...] = ()) -> None:
            self.trip(name)
            put(entries, drop)
            self.trip(name)

        outlet.release, journal.put = released, written  # type: ignore[method-assign]

    # What must hold after any run.

    def models(self, network: Network) -> np.ndarray:
        return np.stack([np.asarray(network.machines[name].model()) for name in self.names])  # type: ignore[attr-defined]

    def moved(self, leaf: Callable[[Any], Any] = lambda tree: tree) -> tuple[float, float]:
        """How far all rounds together moved the sum over owners, and how large the parts of it are."""
        drift, size = 0.0, 0.0
        for rounds in self.notes.values():
            for own, mixed in rounds.values():
                difference = _flat(leaf(mixed)) - _flat(leaf(own))
                drift, size = drift + difference, size + np.abs(difference).max()
        return float(np.abs(drift).max()), size

    def check(self, network: Network) -> None:
        """One version of every message; every release charged in its ledger; nobody beyond its budget."""
        versions: dict[tuple, set[str]] = defaultdict(set)
        for frame in network.sent:
            message = frame.message
            if message.kind in (Kind.VALUE, Kind.SUM):
                key = (frame.sender, message.kind, message.step, message.sub)
                versions[key].add(hashlib.sha256(message.body).hexdigest())
        assert all(len(found) == 1 for found in versions.values())
        for name in self.names:
            sent = {key[2]: found for key, found in versions.items() if key[0] == name and key[3] == 0}
            with self.ledger(name) as ledger:
                self._charged(ledger, sent)
                assert ledger.spent().epsilon <= self.epsilon.get(name, ALLOWED)

    def _charged(self, ledger: Ledger, sent: dict[int, set[str]]) -> None:
        """What was sent is what the ledger has, up to where its budget ended; then nothing is charged any more."""
        rounds = ledger.rounds(RUN)
        assert len(rounds) == len(set(rounds)) <= self.rounds
        assert rounds == list(range(1, len(rounds) + 1)) or self.program.aggregate is not None
        for step, found in sent.items():
            stored = ledger.stored(RUN, step)
            assert stored is not None or (step > len(rounds) and self.epsilon)
            assert stored is None or found == {hashlib.sha256(stored).hexdigest()}


def _pairs(options: dict[str, Any] | None) -> tuple:
    return tuple(sorted((options or {}).items()))


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(tree)])


def trips(every: int) -> Callable[[str], None]:
    """Die at every so-many-th moment before or after a durable write."""
    count = 0

    def trip(name: str) -> None:
        nonlocal count
        count += 1
        if count % every == 0:
            raise Killed

    return trip


def frame(kind: Kind, step: int, sub: int = 0, body: bytes = b"") -> bytes:
    return wire.encode(wire.Message(kind, step, sub, body), bytes(32))
