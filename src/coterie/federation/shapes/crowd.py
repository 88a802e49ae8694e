"""Who is present, where nobody hears everybody: each owner's sign of life, passed on by neighbours.

An owner's sign has a beat that grows while it lives, and its age. Neighbours tell each other all signs that they have;
of two signs of one owner the later beat counts, and who has none that is young enough is away. A neighbour who lies
here can make attempts fail, which costs attempts, and never privacy: what an owner releases, and what for, does not
depend on signs (`member`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Refused

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
