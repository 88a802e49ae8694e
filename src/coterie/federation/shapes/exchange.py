"""The arithmetic of gossip over links that fail: what a step makes of the values that came, in time or late.

Values are flat vectors, a message's leaves one after the other. A neighbour's value that did not come in time is
a debt: its flow is computed when it comes and added to the mixed value of the round that is then under way. Each
end that missed an exchange makes it up once, so that the owners' sum is what it would have been (`neighbourhood`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from coterie._types import PyTree
from coterie.errors import InputError
from coterie.federation.transport import wire
from coterie.topologies.neighbourhood import Hop

WINDOW = 1000  # gossip steps after which an exchange that was never completed is forgotten; part of every agreement


def vector_type(layout: wire.Layout) -> np.dtype:
    """The one type of all numbers in a message."""
    kinds = {np.dtype(kind) for kind, _ in layout.leaves}
    if len(kinds) != 1 or next(iter(kinds)).kind != "f":
        raise InputError(
            f"message of {sorted(map(str, kinds))}: real owners mix one floating type. Use that."
        )
    return kinds.pop().newbyteorder("<")


def vector(body: bytes, layout: wire.Layout, kind: np.dtype) -> np.ndarray:
    """A value that a peer sent; Refused unless it has the layout's length and is within its bounds."""
    wire.unpack(body, layout)
    return np.frombuffer(body, kind)


def tree(value: np.ndarray, layout: wire.Layout, blame: Callable[[], str] = str) -> PyTree:
    """An own value as the program takes it; InputError where it is not finite."""
    try:
        return wire.unpack(value.tobytes(), layout)
    except wire.Refused as reason:
        raise diverged(f"mixed value: {reason}", blame()) from reason


def sum_layout(message: wire.Layout) -> wire.Layout:
    """What a sum of such messages looks like: real numbers in any case."""
    if not is_whole(message):
        return message
    import jax

    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for _, shape in message.leaves]
    return wire.foreign(jax.tree.unflatten(message.tree, shapes))


def is_whole(message: wire.Layout) -> bool:
    """Whether such messages are whole numbers."""
    return all(kind == "int32" for kind, _ in message.leaves)


def body_of(public: PyTree, layout: wire.Layout, blame: Callable[[], str]) -> bytes:
    """A public state as bytes for the journal; InputError, before anything is written, where it is not finite."""
    body = wire.pack(public)
    try:
        wire.unpack(body, layout)
    except wire.Refused as reason:
        raise diverged(f"state: {reason}", blame()) from reason
    return body


def diverged(what: str, blame: str) -> InputError:
    """The error of an owner that diverged: it can be started again from the round before."""
    return InputError(
        f"{what}: training diverged{f' ({blame})' if blame else ''}. Start again to go on from the round before; "
        "revoke an owner whose values are no honest ones, or agree on smaller steps."
    )


def step(
    hop: Hop,
    balanced: bool,
    x: np.ndarray,
    before: np.ndarray,
    heard: Mapping[int, np.ndarray],
    layout: wire.Layout,
) -> tuple[np.ndarray, list[int]]:
    """The value after a gossip step over the neighbours that were heard, and the owners whose values were left out.

    Where the new value would be beyond what this owner may send, values are left out, the heaviest first, until it
    fits. So neighbours cannot, with values that are each allowed, make an owner send what nobody accepts.
    """
    used = dict(heard)
    while True:
        new = _mixed(hop, balanced, x, before, used)
        beyond = outside(new, layout)
        if not used or not beyond.any():
            return new, [source for source in heard if source not in used]
        del used[heaviest(hop, used, beyond)]


def outside(value: np.ndarray, layout: wire.Layout) -> np.ndarray:
    """Which numbers of a value other owners would refuse."""
    low, high = wire.ends(layout)
    return ~((value >= low) & (value <= high))  # NaN too


def heaviest(hop: Hop, heard: Mapping[int, np.ndarray], where: np.ndarray | None = None) -> int:
    """Whose value weighs most in a step, among some of its numbers."""
    part = slice(None) if where is None else where
    return max(heard, key=lambda source: hop.hears[source] * np.abs(heard[source][part]).max(initial=0.0))


def _mixed(
    hop: Hop, balanced: bool, x: np.ndarray, before: np.ndarray, heard: Mapping[int, np.ndarray]
) -> np.ndarray:
    if not balanced:
        new = np.multiply(x, hop.keep, dtype=x.dtype)
        for source, value in heard.items():
            new += np.multiply(value, hop.hears[source], dtype=x.dtype)
        return new
    flow = np.zeros_like(x)
    for source, value in heard.items():
        flow += np.multiply(value - x, hop.hears[source], dtype=x.dtype)
    new = x + np.multiply(flow, hop.pull, dtype=x.dtype)
    if hop.momentum:
        new += np.multiply(x - before, hop.momentum, dtype=x.dtype)
    return new


def made_up(hop: Hop, balanced: bool, own: np.ndarray | None, source: int, value: np.ndarray) -> np.ndarray:
    """What a late value adds to the mixed value; `own` is the value that this owner had in that step."""
    if not balanced:
        return np.multiply(value, hop.hears[source], dtype=value.dtype)
    assert own is not None
    return np.multiply(value - own, hop.gain * hop.pull * hop.hears[source], dtype=value.dtype)


class Debts:
    """Exchanges that this owner missed: (place, owner) of values it waits for, and the values that came late."""

    def __init__(self, stored: bytes | None, peers: Collection[int]) -> None:
        """`peers`: the owners from which values may still come."""
        pairs = np.frombuffer(stored or b"", "<i8").reshape(-1, 2)
        self._owed: dict[int, list[int]] = {}  # owner -> places, in order
        for place, source in pairs.tolist():
            self._owed.setdefault(source, []).append(place)
        self._came: dict[tuple[int, int], np.ndarray] = {}
        self.forgotten = sum(len(self._owed.pop(peer)) for peer in set(self._owed) - set(peers))

    def add(self, place: int, source: int) -> None:
        """The value of `source` at this place was missed."""
        self._owed.setdefault(source, []).append(place)

    def open(self, place: int, source: int) -> bool:
        """Whether this value is still to come."""
        return place in self._owed.get(source, ()) and (place, source) not in self._came

    def came(self, place: int, source: int, flow: np.ndarray) -> None:
        """Note a late value: its `flow` enters at the end of the round."""
        self._came[place, source] = flow

    def drop(self, place: int, source: int) -> None:
        """Drop a value that will never come."""
        self._owed[source].remove(place)
        self.forgotten += 1

    def of(self, source: int) -> list[int]:
        """The places of this owner's values that are still to come."""
        return [place for place in self._owed.get(source, ()) if (place, source) not in self._came]

    @property
    def sources(self) -> list[int]:
        """Owners from which values are still to come."""
        return [source for source in self._owed if self.of(source)]

    def settle(self, mixed: np.ndarray, layout: wire.Layout) -> tuple[np.ndarray, list[int]]:
        """The mixed value with all late values, which are then settled; and whose were left out, as in `step`."""
        unused: list[int] = []
        for (place, source), flow in self._came.items():
            fits = not outside(mixed + flow, layout).any()
            mixed = mixed + flow if fits else mixed
            unused += [] if fits else [source]
            self._owed[source].remove(place)
        self._came.clear()
        return mixed, unused

    def expire(self, below: int) -> None:
        """Forget what is older than the window."""
        for source, places in self._owed.items():
            for place in [place for place in places if place < below]:
                self._came.pop((place, source), None)
                self.drop(place, source)

    def stored(self) -> bytes:
        """The debts as bytes; values that came but have not entered are owed again after a restart."""
        pairs = [(place, source) for source, places in self._owed.items() for place in places]
        return np.array(pairs, "<i8").tobytes()

    def __len__(self) -> int:
        return sum(map(len, self._owed.values()))
