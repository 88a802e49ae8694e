"""Who is present, where nobody hears everybody, and so whom the root of a tree calls, and whose turn it is to be root.

Each owner has a sign of life, with a beat that grows while it lives, and its age. Neighbours tell each other all signs
that they have; of two signs of one owner the later beat counts, and who has none that is young enough is away. A
neighbour who lies here can make attempts fail, which costs attempts, and never privacy: what an owner releases, and
what for, does not depend on signs (`member`).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from coterie.federation.shapes.chain import Chain
from coterie.federation.shapes.member import Member
from coterie.federation.shapes.rolls import Bench
from coterie.federation.shapes.tree import Graph, spanning
from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Refused
from coterie.mechanisms.masks import Roll

SHORT = 8  # bytes of a history, to tell two apart
_FORM = struct.Struct(f"<QI16sQ{SHORT}sQ?")
_MOST = 2**32 - 1  # milliseconds of an age
_LAST = 2**53  # beats: later ones are not believed, or a liar's could never be exceeded


class Sign(NamedTuple):
    """What an owner says of itself."""

    beat: int
    process: bytes
    step: int  # rounds completed
    history: bytes  # the beginning of it
    attempt: int  # the next one of the round under way that it could answer
    spent: bool  # it releases nothing any more


class Crowd:
    """The signs that one owner has."""

    def __init__(self, own: int, hops: Mapping[int, int], owners: int, patience: Patience) -> None:
        """`hops`: links to everybody else: a sign takes up to `patience.retry` over each."""
        self._own, self._hops, self._patience = own, hops, patience
        self._owners = owners
        self._signs: dict[int, Sign] = {}
        self._seen: dict[int, float] = {}  # when each was made, by this owner's clock
        self._beat = 1

    @property
    def size(self) -> int:
        """Bytes of all signs."""
        return _FORM.size * self._owners

    def beat(self) -> None:
        """Raise the own sign's beat."""
        self._beat += 1

    def sign(self, process: bytes, step: int, history: bytes, attempt: int, spent: bool, now: float) -> None:
        """What this owner says of itself from now on."""
        self._signs[self._own] = Sign(self._beat, process, step, history[:SHORT], attempt, spent)
        self._seen[self._own] = now

    def present(self, now: float) -> dict[int, Sign]:
        """The signs of others who are there."""
        young = {
            owner: sign for owner, sign in self._signs.items() if now - self._seen[owner] < self._life(owner)
        }
        return {owner: sign for owner, sign in sorted(young.items()) if owner != self._own}

    def made(self, owner: int) -> float:
        """When an owner's last sign was made, by this owner's clock."""
        return self._seen[owner]

    def written(self, now: float) -> bytes:
        """All signs of those who are there, as part of a frame's body."""
        empty, known = bytes(_FORM.size), {self._own: self._signs[self._own], **self.present(now)}
        return b"".join(
            self._packed(owner, known[owner], now) if owner in known else empty
            for owner in range(self._owners)
        )

    def hear(self, body: bytes, now: float) -> bool:
        """Take another owner's signs; return whether anybody new is present."""
        if len(body) != self.size:
            raise Refused(f"wrong shape: {len(body)} bytes, must be {self.size}")
        before = self.present(now)
        for owner in range(self._owners):
            beat, age, *rest = _FORM.unpack_from(body, owner * _FORM.size)
            if beat > _LAST:
                raise Refused("a beat that nobody lives to")
            if owner == self._own:
                self._outlive(beat, rest[0])
            elif beat > (self._signs[owner].beat if owner in self._signs else 0):
                self._signs[owner], self._seen[owner] = Sign(beat, *rest), now - age / 1000
        after = self.present(now)
        return any(
            owner not in before or before[owner].process != sign.process for owner, sign in after.items()
        )

    def _outlive(self, beat: int, process: bytes) -> None:
        """Go beyond the beat of an earlier process of this owner, so that its own later signs count."""
        own = self._signs.get(self._own)
        if beat >= self._beat and (own is None or process != own.process):
            self._beat = beat + 1

    def _packed(self, owner: int, sign: Sign, now: float) -> bytes:
        age = min(int(1000 * (now - self._seen[owner])), _MOST)
        return _FORM.pack(sign.beat, age, *sign[1:])

    def _life(self, owner: int) -> float:
        """Seconds for which a sign is valid: the agreed wait, and the time of its way here."""
        return self._patience.wait + 2 * (1 + self._hops.get(owner, self._owners)) * self._patience.retry


class Caller:
    """One owner's view of who is there and could be called."""

    def __init__(self, member: Member, chain: Chain, crowd: Crowd, graph: Graph, patience: Patience) -> None:
        self._member, self._chain, self._crowd = member, chain, crowd
        self._graph, self._wait = graph, patience.wait
        self._terms, self._own = member.terms, member.owner
        self._bench = Bench()
        self._blamed = dict[int, float]()  # owner -> when it was blamed: only a later sign of life counts

    def blame(self, owners: Collection[int], now: float, spent: bool = False) -> None:
        """Leave out owners that made an attempt void; `spent`: for the rest of the run."""
        culprits = [owner for owner in owners if owner != self._own]
        self._bench.blame(culprits, self._member.step + 1)
        self._blamed |= dict.fromkeys(culprits, now)
        if spent:
            self._bench.spent |= set(culprits)

    def due(self, now: float, quiet: float, going_on: bool) -> Collection[int]:
        """The owners to call now; none where another owner is root, or too few are there.

        `quiet`: since when nothing happened. `going_on`: an attempt of another root is under way.
        """
        here = self._crowd.present(now)
        willing = {owner for owner, sign in here.items() if self._willing(owner, sign)}
        members = self._members(willing, now)
        if self._member.spent or len(members) < self._terms.quorum:
            return ()
        # The root does not depend on whom this owner would leave out, so that everybody finds the same one.
        last, names = self._chain.last, self._terms.names
        order = sorted(self._reached(willing), key=lambda owner: (owner not in last, names[owner].encode()))
        rank = order.index(self._own)
        ahead = any(sign.step > self._member.step for sign in here.values())
        at_once = rank == 0 and not going_on and not ahead
        return members if now - quiet >= (0 if at_once else (2 + rank) * self._wait) else ()

    def roll(self, members: Collection[int], least: int, now: float) -> Roll | None:
        """The next roll, of an attempt that no known owner has answered; None where attempts are used up."""
        member, here = self._member, self._crowd.present(now)
        signs = [here[owner] for owner in members if owner in here]
        answered = [sign.attempt for sign in signs if sign.step == member.step]
        believed = [attempt for attempt in answered if attempt <= self._terms.attempts]
        number = max(least, member.next_attempt(member.step + 1), *believed)
        if number > self._terms.attempts:
            return None
        processes = {owner: sign.process for owner, sign in here.items()} | {self._own: member.process}
        called = tuple(sorted(members))
        return Roll(member.step + 1, number, called, tuple(processes[owner] for owner in called))

    def paused(self, now: float) -> str:
        """Why no roll can be called, where too few are there or connected."""
        here = self._crowd.present(now)
        reached = self._reached({owner for owner, sign in here.items() if not sign.spent})
        if len(reached) >= self._terms.quorum:
            return ""
        apart = "" if len(here) + 1 < self._terms.quorum else ", and the others are not connected with them"
        needed = f"a sum needs {self._terms.quorum}{apart}"
        return f"paused: {len(reached)} owners are there and connected, {needed}"

    def _members(self, willing: set[int], now: float) -> Collection[int]:
        """Owners that can be called and are connected; left-out ones only where there are too few without them."""
        free = {owner for owner in willing if self._bench.free(owner, self._member.step + 1)}
        if len(self._reached(free)) >= self._terms.quorum:
            return self._reached(free)
        long_ago = {owner for owner in willing - free if now - self._blamed[owner] >= self._wait}
        return self._reached(free | long_ago)

    def _willing(self, owner: int, sign: Sign) -> bool:
        """Whether an owner releases, and follows the same chain as far as is known."""
        known = self._chain.history(sign.step) if sign.step <= self._member.step else b""
        same = known is None or known.startswith(sign.history)
        back = self._crowd.made(owner) > self._blamed.get(owner, -np.inf)
        return same and back and not sign.spent and owner not in self._bench.spent

    def _reached(self, owners: Collection[int]) -> Collection[int]:
        return spanning(self._graph, {*owners, self._own}, self._own).height.keys()
