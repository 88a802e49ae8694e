"""An aggregator and its owners under random faults and any message: one sum a round, and everyone has the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gossip_world import trips
from hypothesis import given, settings
from hypothesis import strategies as st
from in_memory import Link, Network
from toy_world import ToyOutlet, ToySide

from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.hub import Aggregator, HubOwner, Weighted
from coterie.federation.shapes.summing import AGGREGATOR
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Patience
from coterie.federation.transport.wire import Kind, Message

NAMES = [f"owner-{i}" for i in range(5)]
ROUNDS = 12
PATIENCE = Patience(wait=1.0, retry=0.2)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.2, 0.2])


class Hub:
    """Toy owners and their aggregator."""

    def __init__(self, folder: Path, quorum: int = 0) -> None:
        self.folder, self.quorum = folder, quorum
        self.trip: Any = lambda name: None
        self.ledgers: dict[str, dict[int, bytes]] = {name: {} for name in NAMES}
        self.layout = ToySide({}).layout

    @contextmanager
    def process(self, name: str) -> Iterator[Machine]:
        with Journal.open(self.folder / f"{name}.journal") as journal:
            journal._connection.execute("PRAGMA synchronous = OFF")  # no power is cut here: quicker
            put = journal.put

            def written(*given: Any) -> None:
                self.trip(name)
                put(*given)
                self.trip(name)

            journal.put = written  # type: ignore[method-assign]
            if name == AGGREGATOR:
                terms = Weighted(NAMES, ROUNDS, self.quorum, WEIGHTS, self.layout)
                yield Aggregator(terms, journal, PATIENCE)
            else:
                outlet: Any = ToyOutlet(self.ledgers[name], ROUNDS, journal)
                yield HubOwner(ROUNDS, ToySide({}), outlet, PATIENCE)

    def network(self, **options: Any) -> Network:
        parties = {name: lambda name=name: self.process(name) for name in [*NAMES, AGGREGATOR]}
        return Network(parties, **{"link": Link(delay=0.1)} | options)

    def check(self, network: Network) -> None:
        """Each sum and each message once; a sum is the weighted one of enough messages that were charged."""
        versions: dict[tuple, set[bytes]] = defaultdict(set)
        for frame in network.sent:
            message = frame.message
            if message.kind in (Kind.SUM, Kind.VALUE):
                versions[frame.sender, message.step].add(message.body)
        assert all(len(found) == 1 for found in versions.values())
        for (sender, step), (body,) in versions.items():
            assert sender == AGGREGATOR or self.ledgers[sender][step] == body
        for step in range(1, ROUNDS + 1):
            (body,) = versions[AGGREGATOR, step]
            bodies = {i: self.ledgers[name].get(step) for i, name in enumerate(NAMES)}
            self._is_a_sum(
                np.frombuffer(body), {i: np.frombuffer(b) for i, b in bodies.items() if b is not None}
            )

    def _is_a_sum(self, total: np.ndarray, values: dict[int, np.ndarray]) -> None:
        """Of some of the messages, at least a majority and a quorum: which ones, nobody else can know."""
        for chosen in range(1, 2 ** len(NAMES)):
            some = [i for i in range(len(NAMES)) if chosen >> i & 1]
            if len(some) >= max(3, self.quorum) and values.keys() >= set(some):
                wanted = sum(WEIGHTS[i] * values[i] for i in some) / WEIGHTS[some].sum()
                if np.allclose(total, wanted, rtol=1e-12):
                    return
        raise AssertionError("a sum of too few, or of something else")


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["crash", "freeze", "cut", "noise"]),
        st.integers(0, 5),
        st.floats(0.0, 5.0),
        st.floats(0.05, 4.0),
    ),
    max_size=8,
)


@settings(max_examples=10, deadline=None)
@given(faults=FAULTS, quorum=st.sampled_from([0, 4]), seed=st.integers(0, 999), every=st.integers(5, 100))
def test_everyone_ends_with_the_same_sums_under_any_faults(tmp_path_factory, faults, quorum, seed, every):
    hub = Hub(tmp_path_factory.mktemp("hub"), quorum)
    with hub.network(seed=seed, revive=0.4) as network:
        hub.trip = trips(every)
        for fault, number, at, long in faults:
            name = [*NAMES, AGGREGATOR][number]
            match fault:
                case "crash":
                    network.crash(name, at=at)
                    network.restart(name, at=at + long)
                case "freeze":
                    network.freeze(name, at=at, until=at + long)
                case "cut":
                    network.cut([(NAMES[number % 5], AGGREGATOR)], at=at, until=at + long)
                case "noise":
                    network.link = Link(delay=0.05, jitter=0.3, loss=0.2, twice=0.2)
        network.run(2000.0)
        machines: Any = network.machines
        assert len(machines) == 6
        assert all(machine.done for machine in machines.values())
        models = [machines[name].model() for name in NAMES]
    np.testing.assert_array_equal(models, [models[0]] * 5)
    hub.check(network)


BODIES = st.sampled_from(
    [b"", bytes(8 * 4), np.full(4, np.nan).tobytes(), np.full(4, 1e308).tobytes(), bytes(33)]
)
JUNK = st.tuples(
    st.sampled_from(["owner-1", "owner-2", "stranger", AGGREGATOR]),
    st.sampled_from(["owner-0", AGGREGATOR]),
    st.builds(Message, st.sampled_from(Kind), st.integers(0, 14), st.integers(0, 1), BODIES),
)


@settings(max_examples=10, deadline=None)
@given(junk=st.lists(JUNK, max_size=60), seed=st.integers(0, 99))
def test_no_message_crashes_or_stalls_an_owner_or_the_aggregator(tmp_path_factory, junk, seed):
    hub = Hub(tmp_path_factory.mktemp("hub"))
    with hub.network(seed=seed) as network:
        for number, (sender, receiver, message) in enumerate(junk):
            network.inject(sender, receiver, wire.encode(message, bytes(32)), at=0.05 * number)
        network.run(200.0)
        assert not network.stopped
        assert all(machine.done for machine in network.machines.values())
    assert all(len(ledger) <= ROUNDS for ledger in hub.ledgers.values())
