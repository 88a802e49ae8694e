"""A run in rounds without JAX or ledgers: thousands of steps, random faults, and the sum over owners kept exactly.

A toy owner adds a random vector of its own, drawn anew at every call, to what it holds, and takes in what was mixed.
Double precision: a sum that is not kept shows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from in_memory import Network
from joined import copied, joined, named

from coterie import topologies
from coterie.errors import BudgetError
from coterie.federation.releases.journal import Journal
from coterie.federation.shapes import exchange
from coterie.federation.shapes.rounds import RoundsOwner, RoundsTerms
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Patience
from coterie.federation.transport.wire import Kind
from coterie.program import State
from coterie.topologies.neighbourhood import neighbourhood

DIM = 3
LINK = 0.1  # seconds that a frame takes, at least


class ToySide:
    """x and the weight w that travels with it; private: how many messages were made."""

    def __init__(self, seen: dict[int, Any], mute: bool = False) -> None:
        zero = {"w": np.ones(1), "x": np.zeros(DIM)}
        self.layout, self.public_layout = wire.foreign(zero), wire.layout(zero)
        self.private_layout = wire.layout(np.zeros(1))
        self._zero, self._seen, self._mute = zero, seen, mute
        self._draw = np.random.default_rng()

    def start(self) -> State:
        return State(self._zero, np.zeros(1))

    def emit(self, state: State, step: int, turn: int) -> tuple[Any, Any]:
        assert state.private[0] == turn  # goes with the last message that was stored, whatever crashed
        public = state.public
        return {"w": public["w"], "x": public["x"] + self._draw.standard_normal(DIM)}, state.private + 1.0

    def idle(self, public: Any, step: int) -> Any:
        return None if self._mute else public

    def absorb(self, public: Any, own: Any, mixed: Any, step: int) -> Any:
        self._seen[step] = (own, mixed)
        return mixed

    def model(self, public: Any) -> Any:
        return public["x"] / public["w"]


class ToyOutlet:
    """A ledger of a dictionary that outlives the process."""

    def __init__(self, stored: dict[int, bytes], limit: int, journal: Journal) -> None:
        self._stored, self._limit, self.journal = stored, limit, journal

    def stored(self, step: int) -> bytes | None:
        return self._stored.get(step)

    def release(self, step: int, turn: int, body: bytes) -> bytes:
        if step not in self._stored and len(self._stored) >= self._limit:
            raise BudgetError("budget spent")
        return self._stored.setdefault(step, body)

    def turns(self) -> int:
        return len(self._stored)

    @property
    def steps(self) -> list[int]:
        return sorted(self._stored)

    where = "ledger"


class Toys:
    """Owners on a topology; `debiased` as push-sum is."""

    def __init__(
        self,
        folder: Path,
        topology: str = "ring",
        owners: int = 5,
        rounds: int = 30,
        gossip: int = 1,
        *,
        debiased: bool = False,
        wait: float = 1.0,
        mute: tuple[int, ...] = (),
        **options: Any,
    ) -> None:
        self.folder, self.rounds, self.gossip, self.debiased = folder, rounds, gossip, debiased
        self.topology = topologies.build(topology, owners, **options)
        self.patience = Patience(wait=wait, retry=0.3)
        self.names = [f"owner-{i}" for i in range(owners)]
        self.mute = mute
        self.limits: dict[int, int] = {}
        self.forgotten: set[int] = set()  # for who starts from now on
        self.trip = lambda name: None
        self.witnessed = False  # whether parties ask each other, before they speak, what they have of them
        self.log: list[tuple[str, str]] = []  # who said what to its administrator
        self.seen: dict[str, dict[int, Any]] = {name: {} for name in self.names}
        self.ledgers: dict[str, dict[int, bytes]] = {name: {} for name in self.names}

    @contextmanager
    def process(self, name: str) -> Iterator[Machine]:
        owner = self.names.index(named(name))
        copied(self.folder, name)
        ledger = self.ledgers.setdefault(name, dict(self.ledgers[named(name)]))
        setting = RoundsTerms(
            names=self.names,
            view=neighbourhood(self.topology, owner, self.gossip).without(self.forgotten),
            rounds=self.rounds,
            debiased=self.debiased,
            patience=self.patience,
        )
        side = ToySide(self.seen[named(name)], owner in self.mute)
        with Journal.open(self.folder / f"{name}.journal") as journal:
            outlet: Any = ToyOutlet(ledger, self.limits.get(owner, self.rounds), journal)
            journal._connection.execute("PRAGMA synchronous = OFF")  # no power is cut here: quicker
            self._tamper(name, outlet, journal)
            machine: Machine = RoundsOwner(setting, side, outlet)
            peers = [self.names[one] for one in setting.view.peers]
            terms: Any = {"steps": self.rounds, "first": len(peers), "again": 1, "patience": self.patience}
            log = lambda line: self.log.append((name, line))
            yield (
                joined(machine, named(name), peers, journal, outlet, log=log, **terms)
                if self.witnessed
                else machine
            )

    def _tamper(self, name: str, outlet: Any, journal: Any) -> None:
        release, put = outlet.release, journal.put

        def around(action: Any) -> Any:
            def call(*given: Any) -> Any:
                self.trip(name)
                result = action(*given)
                self.trip(name)
                return result

            return call

        outlet.release, journal.put = around(release), around(put)

    def network(self, **options: Any) -> Network:
        from in_memory import Link

        names = (*self.names, *options.get("twins", ()))
        parties = {name: lambda name=name: self.process(name) for name in names}
        return Network(parties, **{"link": Link(delay=LINK), "tick": 0.1} | options)

    def drift(self, network: Network) -> float:
        """How far all rounds moved the owners' sum, counting what is still owed; in units of what they moved."""
        total, moved = np.zeros(DIM + 1), 1e-300
        for name in self.names:
            for own, mixed in self.seen[name].values():
                change = _flat(mixed) - _flat(own)
                total, moved = total + change, moved + np.abs(change).max()
            machine: Any = network.machines[name]
            machine = machine.machine if self.witnessed else machine
            for source in machine._debts.sources:
                for place in machine._debts.of(source):
                    hop, balanced = machine._view.hop(place), machine._view.balanced
                    other: Any = network.machines[self.names[source]]
                    value = (other.machine if self.witnessed else other)._value(place)
                    total = total + exchange.made_up(hop, balanced, machine._value(place), source, value)
        return float(np.abs(total).max() / moved)

    def check(self, network: Network) -> None:
        """No message in two versions; no release that the ledger does not have; no more than allowed."""
        versions: dict[tuple, set[str]] = defaultdict(set)
        for frame in network.sent:
            message = frame.message
            if message.kind == Kind.VALUE:
                versions[frame.sender, message.step, message.sub].add(
                    hashlib.sha256(message.body).hexdigest()
                )
        assert all(len(found) == 1 for found in versions.values())
        for owner, name in enumerate(self.names):
            stored = self.ledgers[name]
            assert len(stored) <= self.limits.get(owner, self.rounds)
            for step, body in stored.items():
                sent = versions.get((name, step, 0), set())
                assert sent <= {hashlib.sha256(body).hexdigest()}
            unlimited = owner not in self.limits
            assert not unlimited or {step for one, step, sub in versions if one == name} <= stored.keys()


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([tree["w"], tree["x"]])
