"""What an admitted party may send: no value of its own stops the others, or spoils what they charge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import visit_world
from gossip_world import RUN, World, frame
from in_memory import Link
from toy_world import Toys, ToySide

from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Out
from coterie.federation.transport.wire import Kind
from coterie.program import State
from coterie.topologies.neighbourhood import neighbourhood

STAR = {"topology": "star", "options": {"weights": "column_stochastic"}}
EDGES = [  # (how the graph is, by what the liar's numbers are filled)
    ({"topology": "one_peer_exponential"}, "high"),
    ({"topology": "one_peer_exponential"}, "low"),
    (STAR, "high"),
    ({"topology": "ring"}, "high"),
]


def with_weight(world: World, weight: float) -> bytes:
    """A message that is all zeros but for the weight that travels with it."""
    zero = jax.tree.unflatten(
        world.side(0).layout.tree, [np.zeros(shape, kind) for kind, shape in world.side(0).layout.leaves]
    )
    return wire.pack(zero._replace(w=np.float32(weight)))


@pytest.mark.parametrize("weight", ["cancelling", 0.0, -2.0, 1e6])
def test_a_weight_that_no_owner_can_have_is_refused_and_the_run_is_the_same(tmp_path, weight):
    """The first one made the mixed weight zero: everybody's model was NaN, charged, and could not be restarted."""
    world = World(tmp_path, "push_sum", "one_peer_exponential", rounds=5)
    hop = neighbourhood(world.topology, 0).hop(1)
    source = next(iter(hop.hears))
    value = -hop.keep / hop.hears[source] if weight == "cancelling" else weight
    with world.network(link=Link(delay=0.1)) as network:
        early = frame(Kind.VALUE, 2, 0, with_weight(world, value))  # ahead of the true one
        network.inject(world.names[source], "owner-0", early, at=0.05)
        network.run(100.0)
        np.testing.assert_allclose(world.models(network), world.simulated(), rtol=1e-4, atol=1e-5)
    ((receiver, reason),) = network.refused
    assert (receiver, reason.partition(":")[0]) == ("owner-0", "beyond what the protocol allows")
    world.check(network)


class Liar:
    """An owner whose every value has all numbers at an end of what is allowed."""

    def __init__(self, machine: Machine, body: bytes) -> None:
        self._machine, self._body = machine, body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def start(self, now: float) -> list[Out]:
        return self._said(self._machine.start(now))

    def receive(self, sender: str, message: wire.Message, now: float) -> list[Out]:
        return self._said(self._machine.receive(sender, message, now))

    def tick(self, now: float) -> list[Out]:
        return self._said(self._machine.tick(now))

    def _said(self, outs: list[Out]) -> list[Out]:
        return [
            out._replace(message=out.message._replace(body=self._body))
            if out.message.kind == Kind.VALUE
            else out
            for out in outs
        ]


@pytest.mark.parametrize(("graph", "end"), EDGES)
def test_values_that_are_just_allowed_stop_nobody(tmp_path, graph, end):
    world = World(tmp_path, "push_sum", rounds=12, **graph)
    layout = world.side(0).layout
    body = dict(zip(("low", "high"), wire.ends(layout), strict=True))[end].tobytes()
    honest = world.process

    @contextmanager
    def process(name: str) -> Iterator[Any]:
        with honest(name) as machine:
            yield Liar(machine, body) if name == "owner-1" else machine

    world.process = process  # type: ignore[method-assign]
    with world.network() as network:
        network.run(300.0)
        assert network.stopped == {}
        assert all(network.machines[name].done for name in world.names)
    for name in world.names:
        with world.ledger(name) as ledger:
            for step in ledger.rounds(RUN):
                wire.unpack(ledger.stored(RUN, step) or b"", layout)  # finite, and what others take


@pytest.mark.parametrize(
    "protocol", ["dual_averaging", "push_sum", "weighted_erm", "average_erm", "central_erm"]
)
def test_what_is_made_of_allowed_values_is_finite(tmp_path, protocol):
    """No function of a program divides by, or takes the root of, what a peer can choose freely."""
    topology = "one_peer_exponential" if protocol == "push_sum" else "ring"
    world = World(tmp_path, protocol, topology)
    side = world.side(0)
    low, high = wire.ends(side.layout)
    mixtures = [low, high, np.where(np.arange(len(low)) % 2, low, high), np.clip(0.0 * low, low, high)]
    for body in (np.asarray(one, low.dtype).tobytes() for one in mixtures):
        taken = wire.unpack(body, side.layout)
        start = side.start()
        public = side.absorb(start.public, taken, taken, 1)
        wire.unpack(wire.pack(public), side.public_layout)
        message, _ = side.emit(State(public, start.private), 2, 1)
        wire.unpack(wire.fitted(message, side.layout)[0], side.layout)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(side.model(public)))


@pytest.mark.parametrize("protocol", ["wor_sgd", "deep_q", "async_learner"])
def test_what_is_made_of_allowed_registers_is_finite(tmp_path, protocol):
    world = visit_world.World(tmp_path, protocol)
    side, register = world.side(0), world.register
    low, high = wire.ends(register.layout)
    for body in (low.tobytes(), high.tobytes()):
        held = wire.unpack(body, register.layout)
        message, _ = side.emit(side.start(), register.ask(held, 0, 1, 0), 1, 0)
        said = wire.unpack(wire.fitted(message, side.layout)[0], side.layout)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(said))
        if protocol != "async_learner":  # a learner's register is its own: nobody sends it one
            after = register.settle(held, said, 0, 1, 0)
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))


class Breaking(ToySide):
    """A side that fails once, at step 3: in what it says, or in what it makes of others' values."""

    broken = ""

    def emit(self, state: State, step: int, turn: int) -> tuple[Any, Any]:
        message, private = super().emit(state, step, turn)
        if step == 3 and self.broken == "emit":
            message = message | {"x": np.full(3, np.nan)}
        return message, private

    def absorb(self, public: Any, own: Any, mixed: Any, step: int) -> Any:
        found = super().absorb(public, own, mixed, step)
        return found | {"x": found["x"] / 0.0} if step == 3 and self.broken == "absorb" else found


@pytest.mark.parametrize("broken", ["emit", "absorb"])
@pytest.mark.filterwarnings("ignore:.*encountered in divide:RuntimeWarning")
def test_an_owner_that_diverges_says_whose_value_weighed_most_and_can_be_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
):
    monkeypatch.setattr("toy_world.ToySide", Breaking)
    toys = Toys(tmp_path, "ring", owners=3, rounds=6)
    with toys.network() as network:
        monkeypatch.setattr(Breaking, "broken", broken)
        network.run(60.0)
        stopped = dict(network.stopped)
        assert stopped
        for name, error in stopped.items():
            others = [f"{one}'s value weighed most" for one in toys.names if one != name]
            assert any(words in str(error) for words in others)
            assert "Start again to go on" in str(error)
        monkeypatch.setattr(Breaking, "broken", "")
        for name in stopped:
            network.restart(name)
        network.run(200.0)
        assert network.stopped == {}
        assert all(network.machines[name].done for name in toys.names)
    toys.check(network)
    for stored in toys.ledgers.values():
        assert all(np.isfinite(np.frombuffer(body)).all() for body in stored.values())
