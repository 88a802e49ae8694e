"""Toy owners of masked sums in memory, over an aggregator or a tree, whose messages are known: what may be sent, and
what sums must be."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import contextmanager
from typing import Any

import numpy as np
from in_memory import Link, Network
from joined import joined
from toy_world import ToyOutlet

from coterie.federation.releases.journal import Journal, numbered
from coterie.federation.shapes import evaluation
from coterie.federation.shapes import tables as passed_on
from coterie.federation.shapes.masked_hub import MaskedAggregator, MaskedOwner
from coterie.federation.shapes.masked_tree import KEPT, TreeOwner
from coterie.federation.shapes.member import Member
from coterie.federation.shapes.rolls import SumTerms
from coterie.federation.shapes.summing import AGGREGATOR
from coterie.federation.shapes.tree import Graph, spanning
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Kind
from coterie.mechanisms import masks
from coterie.mechanisms.masks import LABEL, Masks
from coterie.program import State

NAMES = [f"owner-{i}" for i in range(6)]
DIM, ROUNDS, SPARE = 3, 8, 6
PATIENCE = Patience(wait=1.0, retry=0.2)
AGREEMENT = bytes(range(32))
SECRETS = {name: bytes([at + 1]) * 32 for at, name in enumerate(NAMES)}
PUBLICS = {name: masks.public_key(secret) for name, secret in SECRETS.items()}
LIMIT = 1000.0
TABLE = wire.layout(np.zeros(2, np.int64))
WEIGHTS = np.array([0.1, 0.2, 0.2, 0.1, 0.2, 0.2])


class Side:
    """Whole numbers drawn anew for every message; public: everything that was added up."""

    def __init__(self, drawn: list[tuple[int, int, np.ndarray]]) -> None:
        self.layout = wire.foreign(np.zeros(DIM, np.int32))
        self.public_layout = wire.layout(np.zeros(DIM, np.float32))
        self._drawn, self._random = drawn, np.random.default_rng()

    def start(self) -> State:
        return State(np.zeros(DIM, np.float32), ())

    def emit(self, state: State, step: int, turn: int, attempt: int = 0) -> tuple[Any, Any]:
        numbers = self._random.integers(-50, 50, DIM).astype(np.int32)
        self._drawn.append((step, attempt, numbers))
        return numbers, ()

    def absorb(self, public: Any, own: Any, mixed: Any, step: int) -> Any:
        return (public + mixed).astype(np.float32)

    def model(self, public: Any) -> Any:
        return public


class World:
    """Six owners and an aggregator; owners die at any moment around a write."""

    def __init__(
        self,
        folder,
        quorum: int = 4,
        degree: int = 0,
        witnessed: bool = False,
        spare: int = SPARE,
        tables: bool = False,
        graph: Graph | None = None,
    ) -> None:
        """`graph`: whose trees sums go up and down, without an aggregator."""
        self.folder, self.witnessed, self.tables, self.graph = folder, witnessed, tables, graph
        self.terms = SumTerms(
            names=NAMES, rounds=ROUNDS, spare=spare, quorum=quorum, degree=degree, weights=WEIGHTS, limit=LIMIT,
            count=DIM, agreement=AGREEMENT,
        )  # fmt: skip
        self.ledgers: dict[str, dict[int, bytes]] = {name: {} for name in NAMES}
        self.drawn: dict[str, list] = {name: [] for name in NAMES}
        self.limits: dict[str, int] = {}
        self.trip: Any = lambda name: None
        self.log: list[tuple[str, str]] = []

    @contextmanager
    def process(self, name: str):
        with Journal.open(self.folder / f"{name}.journal") as journal:
            journal._connection.execute("PRAGMA synchronous = OFF")  # no power is cut here: quicker
            outlet: Any = None
            if name == AGGREGATOR:
                machine: Any = MaskedAggregator(self.terms, journal, PATIENCE)
            else:
                outlet = ToyOutlet(
                    self.ledgers[name],
                    self.limits.get(name, ROUNDS + self.terms.spare + self.tables),
                    journal,
                )
                member = Member(
                    self.terms, Side(self.drawn[name]), outlet, Masks(name, SECRETS[name], PUBLICS, AGREEMENT),
                    NAMES.index(name), kept=KEPT if self.graph else 1,
                )  # fmt: skip
                machine = (
                    TreeOwner(member, self.graph, PATIENCE) if self.graph else MaskedOwner(member, PATIENCE)
                )
                outlet.release = self._around(name, outlet.release)
            journal.put = self._around(name, journal.put)
            peers = self.peers(name)
            if self.tables:
                own = None if outlet is None else passed_on.OwnTable(NAMES.index(name), self.table_of, outlet)
                told = passed_on.TableTerms(
                    "evaluation", NAMES, self.terms.tickets + 1, TABLE, peers, PATIENCE
                )
                machine = evaluation.Evaluated(machine, told, own, journal)
            terms: Any = {
                "steps": self.terms.tickets + self.tables,
                "first": 1,
                "again": 1,
                "patience": PATIENCE,
            }
            log = lambda line: self.log.append((name, line))
            yield (
                joined(machine, name, peers, journal, outlet, log=log, **terms) if self.witnessed else machine
            )

    def peers(self, name: str) -> list[str]:
        if self.graph:
            return [NAMES[other] for other in self.graph[NAMES.index(name)]]
        return NAMES if name == AGGREGATOR else [AGGREGATOR]

    def table_of(self, model: Any) -> bytes:
        return os.urandom(TABLE.size)

    def _around(self, name: str, action: Any) -> Any:
        def call(*given: Any) -> Any:
            self.trip(name)
            result = action(*given)
            self.trip(name)
            return result

        return call

    @property
    def parties(self) -> list[str]:
        return [*NAMES] if self.graph else [*NAMES, AGGREGATOR]

    def network(self, **options: Any) -> Network:
        parties = {name: lambda name=name: self.process(name) for name in self.parties}
        return Network(parties, **{"link": Link(delay=0.05)} | options)

    def sums(self, network: Network) -> dict[int, tuple[int, bytes]]:
        """The attempt and the body of every round's sum: one version each."""
        if self.graph:
            return self._chain(network)
        found: dict[int, set] = defaultdict(set)
        for frame in network.sent:
            if frame.message.kind == Kind.SUM:
                found[frame.message.step].add((frame.message.sub, frame.message.body))
        assert all(len(versions) == 1 for versions in found.values())
        return {step: versions.pop() for step, versions in found.items()}

    def _chain(self, network: Network) -> dict[int, tuple[int, bytes]]:
        """Of trees: what all who have come to the end have gone through, whatever was left by the way."""
        chains = [
            {
                step: (past.attempt, owner._member.journal.get(numbered("sum", step)))
                for step, past in owner._chain._past.items()
            }
            for owner in map(bare, network.machines.values())
            if owner.done
        ]
        assert chains
        assert all(chain == chains[0] for chain in chains)
        return chains[0]

    def check(self, network: Network) -> None:
        """Every message sent is charged and one for its ticket, every label has one message of an owner, every sum is
        the sum of what its members drew for it, and everybody has the same model."""
        self._check_messages(network)
        for ledger in self.ledgers.values():
            labels = [body[:LABEL] for ticket, body in ledger.items() if ticket <= self.terms.tickets]
            assert len(set(labels)) == len(labels)
        model = np.zeros(DIM, np.float32)
        for step, (attempt, body) in sorted(self.sums(network).items()):
            members, total = self.terms.total(body)
            assert len(members) >= self.terms.quorum
            expected = np.zeros(DIM, np.int64)
            for one in members:
                drawn = [
                    numbers for at, nth, numbers in self.drawn[NAMES[one]] if (at, nth) == (step, attempt)
                ]
                expected += drawn[-1]  # what was drawn before a crash was never charged
            assert np.array_equal(total, expected)
            model = (model + self.terms.scaled(members, total)).astype(np.float32)
        for name in NAMES:
            if name in network.machines and network.machines[name].done:
                assert np.array_equal(network.machines[name].model(), model)

    def _check_messages(self, network: Network) -> None:
        """What was sent at a ticket, less what others below had sent, is the one message that was charged for it."""
        trees = {
            (frame.message.step, frame.message.sub): spanning(
                self.graph, set(roll.members), frame.message.sub
            )
            for frame in network.sent
            if self.graph and frame.message.kind == Kind.ROLL
            for roll, _ in [self.terms.read(frame.message.step, frame.message.body)]
        }
        said: dict[tuple, set] = defaultdict(set)
        for frame in network.sent:
            if frame.message.kind == Kind.VALUE:
                said[frame.sender, frame.message.step, frame.message.sub].add(frame.message.body)
        for (name, ticket, sub), bodies in said.items():
            children = trees[ticket, sub - 1].children[NAMES.index(name)] if self.graph else ()
            below = [said[NAMES[child], ticket, sub] for child in children]
            assert all(len(versions) == 1 for versions in (bodies, *below))
            (body,), charged = bodies, self.ledgers[name][ticket]
            own = np.frombuffer(body[LABEL:], "<u8").copy()
            for (part,) in below:
                own -= np.frombuffer(part[LABEL:], "<u8")
            assert charged == body[:LABEL] + own.tobytes()


def bare(machine: Any) -> Any:
    """A party's own machine, without what stands around it."""
    while hasattr(machine, "machine"):
        machine = machine.machine
    return machine
