"""Runs a party's state machine on a transport and the wall clock: one thread, one step after the other.

A frame is decoded within its bounds, its sender must have shown the whole hash of this agreement (HELLO), and only
then the machine sees it. What is refused is counted by sender and reason, and the log has at most one line a
second for each, so that nobody can fill a disk or hide among noise. Log and status hold names, counts and public
values: no parameter, no message's content, no path of a key.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coterie import _files
from coterie.federation.transport import greeting, wire
from coterie.federation.transport.inbox import Inbox
from coterie.federation.transport.lines import warning
from coterie.federation.transport.machine import Machine, Out
from coterie.federation.transport.refusals import ANOTHER, Log, Refusals
from coterie.federation.transport.sealing import FORGED
from coterie.federation.transport.wire import Kind, Message, Refused

FINISHED, LEAVES = b"finished", b"leaves"  # why a party says BYE
_TICK = 0.05  # seconds
_SECOND = 1.0  # between two status files, two farewells, two questions for a greeting
_WAITING = 256  # frames of one sender
# Goes on while the machine sleeps: its peers may have believed another process meanwhile, so that it asks them again.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Transport(Protocol):
    """Carries frames: with best effort, and with their true senders."""

    name: str
    admitted: tuple[str, ...]

    def open(self, deliver: Callable[[str, bytes], None], changed: Callable[[], None]) -> None:
        """Begin; `deliver` gets (sender, frame) and `changed` is called when somebody came or went."""
        ...

    def send(self, peer: str, frame: bytes) -> None:
        """Send it, or lose it."""
        ...

    def alive(self) -> frozenset[str]:
        """Peers that are there."""
        ...

    def connected(self) -> frozenset[str]:
        """Names at the other ends of connections."""
        ...

    def forged(self) -> dict[str, int]:
        """How many frames came under a forged name, by that name; none was delivered."""
        ...

    def close(self) -> None:
        """Send what waits, and leave."""
        ...


class FrameTerms(NamedTuple):
    """What the agreement says about frames."""

    agreement: bytes  # its whole hash
    longest: int  # bytes of a frame
    linger: float = 60.0  # seconds for which a finished party still answers the others


class Hooks(NamedTuple):
    """Whom a driver tells what it sees, and asks."""

    log: Log
    status: Path | None = None  # where the last snapshot is kept
    public: Callable[[], Mapping[str, Any]] = dict  # what is added to snapshots
    stop: Callable[[], bool] = lambda: False  # whether to stop; asked between two steps
    left: Callable[[str], None] = lambda peer: None  # told of each peer that leaves
    shown: Callable[[Mapping[str, Any]], None] = lambda snapshot: (
        None
    )  # told every snapshot, about one a second


class Driver:
    """Runs one party; `run` returns when the party has finished or was told to stop."""

    def __init__(self, machine: Machine, transport: Transport, terms: FrameTerms, hooks: Hooks) -> None:
        self._machine, self._transport, self._terms = machine, transport, terms
        self._hooks, self._log = hooks, hooks.log
        size = 2 * terms.longest + (1 << 20)
        self._inbox = Inbox(transport.admitted, count=_WAITING, size=size)
        self._began = time.clock_gettime(_CLOCK)
        self._next_tick = self._next_second = 0.0
        self._greeted: set[str] = set()
        self._changed = False
        self._here: frozenset[str] = frozenset()
        self._finished: set[str] = set()
        self._heard: dict[str, float] = {}
        self._greeting: dict[str, float] = {}
        self._clocks: dict[str, float] = {}
        self._versions: set[str] = set()  # peers of another version, who were named once
        self._done_at: float | None = None
        self._forged: Counter[str] = Counter()  # frames that were logged
        self.refusals = Refusals(hooks.log)
        self.traffic: Counter[str] = Counter()

    def run(self) -> bool:
        """Take part until the end; True if the party has finished, False if it was stopped before."""
        self._transport.open(self._inbox.put, self._came_or_went)
        state = "stopped"
        try:
            self._greet(self._transport.admitted)  # ahead of the machine's messages, for who is there already
            self._send(self._machine.start(self._now()))
            while not self._over():
                self._turn()
            self._farewell(FINISHED if self._machine.done else LEAVES)
            state = "finished" if self._machine.done else "stopped"
        finally:
            self._write(state)
            self._transport.close()
        return self._machine.done

    def refuse(self, sender: str, reason: str) -> None:
        """Count and log what was refused elsewhere (`door.watched`). From any thread."""
        self.refusals.add(sender, reason, self._now())

    def snapshot(self, state: str) -> dict[str, Any]:
        """Where the party stands, in public values."""
        return {
            "name": self._transport.name,
            "state": state,
            "time": time.time(),
            **asdict(self._machine.status),
            "peers": list(self._transport.admitted),
            "alive": sorted(self._transport.alive()),
            "connected": sorted(self._transport.connected()),
            "silent": {peer: round(self._now() - last, 1) for peer, last in sorted(self._heard.items())},
            "clocks": dict(sorted(self._clocks.items())),
            "finished": sorted(self._finished),
            "refusals": self.refusals.shown(),
            "dropped": self._inbox.dropped,
            "forged": self._transport.forged(),
            "traffic": dict(self.traffic),
            **self._hooks.public(),
        }

    def _now(self) -> float:
        return time.clock_gettime(_CLOCK) - self._began

    def _over(self) -> bool:
        if self._hooks.stop():
            return True
        if self._done_at is None:
            return False
        return (
            self._finished >= set(self._transport.admitted)
            or self._now() > self._done_at + self._terms.linger
        )

    def _came_or_went(self) -> None:
        """Called in the transport's thread."""
        self._changed = True
        self._inbox.wake()

    def _welcome(self) -> None:
        """Greet new peers before anything else is sent to them."""
        if self._changed:
            self._changed = False
            here = self._transport.alive()
            for peer in self._here - here:
                self._hooks.left(peer)
            self._greet(sorted(here - self._here))
            self._here = here

    def _turn(self) -> None:
        self._welcome()
        arrived = self._inbox.take(max(0.0, self._next_tick - self._now()))
        if arrived is not None:
            self._receive(*arrived)
        if self._now() >= self._next_tick:
            self._tick()
        if self._machine.done and self._done_at is None:
            self._done_at = self._now()
            self._log("finished; answering those who are behind")
            self._farewell(FINISHED)

    def _tick(self) -> None:
        now = self._now()
        self._next_tick = now + _TICK
        self._send(self._machine.tick(now))
        if now >= self._next_second:
            self._next_second = now + _SECOND
            self._note_forged()
            self._write("running" if self._done_at is None else "lingering")
            if self._done_at is not None:
                self._farewell(FINISHED)

    def _note_forged(self) -> None:
        """Log frames that came under a peer's name but are not the peer's, as the transport found."""
        for peer, count in self._transport.forged().items():
            if count > self._forged[peer]:
                self._forged[peer] = count
                self.refusals.add(peer, FORGED, self._now())

    def _receive(self, sender: str, frame: bytes) -> None:
        now = self._now()
        self._heard[sender] = now
        self.traffic["frames in"] += 1
        self.traffic["bytes in"] += len(frame)
        try:
            message = wire.decode(frame, self._terms.agreement, self._terms.longest)
            outs = [] if self._courtesy(sender, message) else self._machine.receive(sender, message, now)
        except Refused as refused:
            self.refusals.add(sender, str(refused), now)
            if str(refused).startswith(ANOTHER):
                self._ask(sender)  # so that the other end can say so, too
            return
        self._send(outs)

    def _courtesy(self, sender: str, message: Message) -> bool:
        """Handle greetings and farewells. Anything else is refused until the peer has shown its agreement."""
        if message.kind == Kind.HELLO:
            if message.body != self._terms.agreement:
                self._greeted.discard(sender)
                raise wire.another(message.body, self._terms.agreement)
            self._greeted.add(sender)
            self._compare(sender, message)
            if message.sub == 0:
                self._say(sender, greeting.hello(self._terms.agreement, time.time(), answer=True))
            return True
        if sender not in self._greeted:
            self._ask(sender)
            raise Refused("before its greeting")
        if message.kind == Kind.BYE and message.body in (FINISHED, LEAVES):
            (self._finished.add if message.body == FINISHED else self._finished.discard)(sender)
            return True
        return False

    def _compare(self, sender: str, message: Message) -> None:
        """Note a peer's clock; log once if its clock or its version differs from this party's."""
        difference = greeting.differs(sender, message)
        if difference is not None and sender not in self._versions:
            self._versions.add(sender)
            self._log(warning(difference))
        ahead = greeting.ahead(message, time.time())
        if ahead is None:
            return
        if sender not in self._clocks and abs(ahead) >= greeting.APART:
            self._log(warning(greeting.apart(sender, ahead)))
        self._clocks[sender] = round(ahead, 1)

    def _ask(self, sender: str) -> None:
        """Greet a peer whose own greeting was lost, so that it answers with another."""
        if self._now() - self._greeting.get(sender, -_SECOND) >= _SECOND:
            self._greeting[sender] = self._now()
            self._greet([sender])

    def _greet(self, peers: Iterable[str]) -> None:
        for peer in peers:
            self._say(peer, greeting.hello(self._terms.agreement, time.time()))

    def _farewell(self, why: bytes) -> None:
        for peer in self._transport.admitted:
            self._say(peer, Message(Kind.BYE, body=why))

    def _send(self, outs: list[Out]) -> None:
        self._welcome()  # somebody may have come while the machine was at work
        for out in outs:
            self._say(out.peer, out.message)

    def _say(self, peer: str, message: Message) -> None:
        frame = wire.encode(message, self._terms.agreement)
        self.traffic["frames out"] += 1
        self.traffic["bytes out"] += len(frame)
        self._transport.send(peer, frame)

    def _write(self, state: str) -> None:
        """Write the snapshot atomically. A full disk does not stop the party here: the ledger reports it."""
        snapshot = self.snapshot(state)
        self._hooks.shown(snapshot)
        status = self._hooks.status
        if status is None:
            return
        try:
            _files.put(status, json.dumps(snapshot).encode())
        except OSError as error:
            self._log(warning(f"status not written: {error.strerror}"))


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or SIGINT came: the current step is finished first. A second signal ends the process at once.

    A signal that was ignored stays so: a shell's background job is not meant to hear the terminal's Ctrl-C.
    """
    came: list[int] = []

    def note(number: int, _: Any) -> None:
        came.append(number)
        signal.signal(number, before[number])

    handlers = {int(number): signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
