"""Peers in one process under a virtual clock, with faults injected: the same run every time for a seed.

Frames go through the wire format, may be late, lost, doubled and out of order, and stop at a partition. A party
is a context manager that opens its files and gives its machine: a crash leaves it, a restart enters it again,
so that nothing survives but what is on the disk. Every frame is kept for the test to look at.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import count
from random import Random
from typing import NamedTuple, TypeAlias

from coterie.errors import CoterieError
from coterie.federation.releases.witness import Witnessed
from coterie.federation.transport import wire
from coterie.federation.transport.machine import Machine, Out

Process: TypeAlias = Callable[[], AbstractContextManager[Machine]]


class Killed(BaseException):
    """Raised inside a party, from a file that a test tampered with: it dies at that very moment."""


class Link(NamedTuple):
    """What happens to a frame between any two parties."""

    delay: float = 0.01  # seconds, at least
    jitter: float = 0.0  # and up to this much more: frames overtake each other
    loss: float = 0.0  # probability
    twice: float = 0.0  # probability that it arrives a second time


_PLAIN = Link()


class Frame(NamedTuple):
    """One frame that a party sent, whether or not it arrived."""

    time: float
    sender: str
    receiver: str
    message: wire.Message


class Network:
    """Parties by name. `now` is the virtual clock; faults take an `at`, and happen at once without it."""

    def __init__(
        self,
        parties: Mapping[str, Process],
        *,
        agreement: bytes = bytes(32),
        longest: int = 1 << 20,
        link: Link = _PLAIN,
        seed: int = 0,
        tick: float = 0.1,
        revive: float | None = None,  # seconds after which a `Killed` party comes back by itself
        twins: Mapping[str, str]
        | None = None,  # processes that speak under another's name; `restart` starts them
    ) -> None:
        self.now = 0.0
        self.sent: list[Frame] = []
        self.refused: Counter[tuple[str, str]] = Counter()  # (receiver, reason)
        self.stopped: dict[str, CoterieError] = {}  # parties that gave up, and why
        self.machines: dict[str, Machine] = {}  # of the parties that run
        self.crashes = 0
        self.link = link
        self._parties = dict(parties)
        self._agreement, self._longest, self._tick, self._revive = agreement, longest, tick, revive
        self._open: dict[str, AbstractContextManager[Machine]] = {}
        self._frozen: dict[str, list[tuple[str, bytes]]] = {}
        self._cut: set[frozenset[str]] = set()
        self._coming: Counter[str] = Counter()  # restarts that are still to happen
        self._twins = dict(twins or {})
        self._random = Random(seed)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        for name in self._parties:
            if name not in self._twins:
                self.restart(name, at=0.0)
            self._schedule(self._random.random() * tick, lambda name=name: self._beat(name))

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._open):
            self._leave(name)

    def run(self, until: float, done: Callable[[], bool] | None = None) -> float:
        """Let time pass until everyone that runs or will is done (or `done()` says so), but not beyond `until`."""
        finished = done or self._all_done
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            if finished():
                return self.now
        self.now = until
        return until

    def crash(self, name: str, at: float | None = None) -> None:
        """`kill -9`: what the machine did not write is gone, and so are frames on their way to it."""
        self._when(at, lambda: self._crash(name))

    def restart(self, name: str, at: float | None = None) -> None:
        """Start the party, or start it again, from its files."""
        self._coming[name] += 1
        self._when(at, lambda: self._restart(name))

    def freeze(self, name: str, at: float | None = None, until: float | None = None) -> None:
        """SIGSTOP, until SIGCONT: frames wait for it meanwhile."""
        self._when(at, lambda: self._frozen.update({name: self._frozen.get(name, [])}))
        if until is not None:
            self._when(until, lambda: self._thaw(name))

    def cut(
        self, pairs: Iterable[tuple[str, str]], at: float | None = None, until: float | None = None
    ) -> None:
        """A partition: nothing passes between these pairs, either way."""
        links = {frozenset(pair) for pair in pairs}
        self._when(at, lambda: self._cut.update(links))
        if until is not None:
            self._when(until, lambda: self._cut.difference_update(links))

    def inject(self, sender: str, receiver: str, frame: bytes, at: float | None = None) -> None:
        """Deliver any bytes at all, as from `sender`."""
        self._when(at, lambda: self._deliver(sender, receiver, frame))

    def _when(self, at: float | None, action: Callable[[], None]) -> None:
        if at is None:
            action()
        else:
            self._schedule(at, action)

    def _schedule(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(at, self.now), next(self._order), action))

    def _all_done(self) -> bool:
        if any(self._coming.values()) or not self.machines:
            return False
        return all(machine.done for machine in self.machines.values())

    def _restart(self, name: str) -> None:
        self._coming[name] -= 1
        if name in self._open:
            return
        self.stopped.pop(name, None)
        process = self._parties[name]()
        self._open[name] = process

        def begin() -> list[Out]:
            self.machines[name] = process.__enter__()
            return self.machines[name].start(self.now)

        self._act(name, begin)

    def _crash(self, name: str) -> None:
        if name in self._open:
            self.crashes += 1
            self._leave(name)

    def _leave(self, name: str) -> None:
        self._frozen.pop(name, None)
        process = self._open.pop(name)
        if self.machines.pop(name, None) is not None:
            process.__exit__(None, None, None)
        for machine in self.machines.values():
            if isinstance(machine, Witnessed):
                machine.left(self._twins.get(name, name))

    def _beat(self, name: str) -> None:
        if name in self.machines and name not in self._frozen:
            self._act(name, lambda: self.machines[name].tick(self.now))
        self._schedule(self.now + self._tick, lambda: self._beat(name))

    def _act(self, name: str, call: Callable[[], list[Out]]) -> None:
        """Let a party compute, and send what it says."""
        try:
            for out in call():
                self._send(name, out)
        except Killed:
            self._crash(name)
            if self._revive is not None:
                self.restart(name, at=self.now + self._revive)
        except CoterieError as error:
            self.stopped[name] = error
            self._leave(name)

    def _send(self, sender: str, out: Out) -> None:
        self.sent.append(Frame(self.now, sender, out.peer, out.message))
        frame = wire.encode(out.message, self._agreement)
        for _ in range(1 + (self._random.random() < self.link.twice)):
            if self._random.random() >= self.link.loss:
                at = self.now + self.link.delay + self._random.random() * self.link.jitter
                for receiver in self._under(out.peer):
                    self._schedule(
                        at, lambda to=receiver: self._deliver(self._twins.get(sender, sender), to, frame)
                    )

    def _under(self, name: str) -> list[str]:
        """All processes that hear what is said to this name."""
        return [name, *(twin for twin, other in self._twins.items() if other == name)]

    def _deliver(self, sender: str, receiver: str, frame: bytes) -> None:
        if receiver not in self.machines or frozenset((sender, receiver)) in self._cut:
            return
        if receiver in self._frozen:
            self._frozen[receiver].append((sender, frame))
            return
        self._act(receiver, lambda: self._received(sender, receiver, frame))

    def _received(self, sender: str, receiver: str, frame: bytes) -> list[Out]:
        try:
            message = wire.decode(frame, self._agreement, self._longest)
            return self.machines[receiver].receive(sender, message, self.now)
        except wire.Refused as reason:
            self.refused[receiver, str(reason)] += 1
            return []

    def _thaw(self, name: str) -> None:
        for sender, frame in self._frozen.pop(name, []):
            self._deliver(sender, name, frame)
