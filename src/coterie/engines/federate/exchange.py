"""The arithmetic of gossip over links that fail: what a step makes of the values that came, in time or late.

Values are flat vectors, a message's leaves one after the other. A neighbour's value that did not come in time is
a debt: its flow is computed when it comes and added to the mixed value of the round that is then under way. Each
end that missed an exchange makes it up once, so that the owners' sum is what it would have been (`neighbourhood`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie._types import PyTree
from coterie.engines.federate import wire
from coterie.errors import InputError
from coterie.topologies.neighbourhood import Hop

WINDOW = 1000  # gossip steps after which an exchange that was never completed is forgotten; part of every agreement
_LARGEST = 1e-8  # of the largest number: sums of neighbours' values stay finite


def vector_type(layout: wire.Layout) -> np.dtype:
    """The one type of all numbers in a message."""
    kinds = {np.dtype(kind) for kind, _ in layout.leaves}
    if len(kinds) != 1 or next(iter(kinds)).kind != "f":
        raise InputError(
            f"message of {sorted(map(str, kinds))}: real owners mix one floating type. Use that."
        )
    return kinds.pop().newbyteorder("<")


def vector(body: bytes, layout: wire.Layout, kind: np.dtype) -> np.ndarray:
    """A value that a peer sent; Refused unless it has the right length, is finite, and leaves room to add others."""
    wire.unpack(body, layout)
    value = np.frombuffer(body, kind)
    if np.abs(value).max(initial=0.0) > _LARGEST * np.finfo(kind).max:
        raise wire.Refused("too large")
    return value


def tree(value: np.ndarray, layout: wire.Layout) -> PyTree:
    """An own value as the program takes it; InputError where it has grown beyond all bounds."""
    try:
        return wire.unpack(value.tobytes(), layout)
    except wire.Refused as reason:
        raise InputError(f"mixed value: {reason}: training diverged. Agree on smaller steps.") from reason


def step(
    hop: Hop, balanced: bool, x: np.ndarray, before: np.ndarray, heard: Mapping[int, np.ndarray]
) -> np.ndarray:
    """The value after a gossip step, from those of the neighbours that were heard."""
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
    """What a value that was missed adds to a later mixed value; `own` is what this owner had in that step."""
    if not balanced:
        return np.multiply(value, hop.hears[source], dtype=value.dtype)
    assert own is not None
    return np.multiply(value - own, hop.gain * hop.pull * hop.hears[source], dtype=value.dtype)


class Debts:
    """Exchanges that this owner missed: (place, owner) of values that it waits for, and those that came since."""

    def __init__(self, stored: bytes | None) -> None:
        pairs = np.frombuffer(stored or b"", "<i8").reshape(-1, 2)
        self._owed: dict[int, list[int]] = {}  # owner -> places, in order
        for place, source in pairs.tolist():
            self._owed.setdefault(source, []).append(place)
        self._came: dict[tuple[int, int], np.ndarray] = {}
        self.forgotten = 0

    def add(self, place: int, source: int) -> None:
        """The value of `source` at this place was missed."""
        self._owed.setdefault(source, []).append(place)

    def open(self, place: int, source: int) -> bool:
        """Whether this value is still to come."""
        return place in self._owed.get(source, ()) and (place, source) not in self._came

    def came(self, place: int, source: int, flow: np.ndarray) -> None:
        """It has come: `flow` enters when the round ends."""
        self._came[place, source] = flow

    def drop(self, place: int, source: int) -> None:
        """It will never come."""
        self._owed[source].remove(place)
        self.forgotten += 1

    def of(self, source: int) -> list[int]:
        """Places of what is still to come from this owner."""
        return [place for place in self._owed.get(source, ()) if (place, source) not in self._came]

    @property
    def sources(self) -> list[int]:
        """Owners of whom something is still to come."""
        return [source for source in self._owed if self.of(source)]

    def settle(self, mixed: np.ndarray) -> np.ndarray:
        """The mixed value with everything that came; it is owed no more."""
        for (place, source), flow in self._came.items():
            mixed = mixed + flow
            self._owed[source].remove(place)
        self._came.clear()
        return mixed

    def expire(self, below: int) -> None:
        """Forget what is older than the window."""
        for source, places in self._owed.items():
            for place in [place for place in places if place < below]:
                self._came.pop((place, source), None)
                self.drop(place, source)

    def stored(self) -> bytes:
        """All of it as bytes: what came and has not entered is owed again after a restart."""
        pairs = [(place, source) for source, places in self._owed.items() for place in places]
        return np.array(pairs, "<i8").tobytes()

    def __len__(self) -> int:
        return sum(map(len, self._owed.values()))
