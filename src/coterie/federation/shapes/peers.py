"""What an owner of a walk knows of the others: when each was last heard, and its claims.

Nothing here is believed further than it must be. One owner's word moves no clock beyond its own steps, and an epoch
that only others know of is followed once a majority has named it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Refused

_BODY = struct.Struct("<QB32s")
_ASKING, _DONE = 1, 2


class PeerClaim(NamedTuple):
    """The content of an ANNOUNCE: the register held, the epoch promised, and (done) whether it is final."""

    step: int
    epoch: int
    promised: int
    digest: bytes  # of the register
    done: bool
    asking: bool = False  # asks the peer for its own

    def body(self) -> bytes:
        """The claim as a frame's body, without step and epoch."""
        return _BODY.pack(self.promised, _ASKING * self.asking + _DONE * self.done, self.digest)


def claim_of(step: int, epoch: int, body: bytes) -> PeerClaim:
    """Read an ANNOUNCE; Refused where it makes no sense."""
    if len(body) != _BODY.size:
        raise Refused(f"wrong shape: {len(body)} bytes, must be {_BODY.size}")
    promised, flags, digest = _BODY.unpack(body)
    if promised < epoch:
        raise Refused("a register of an epoch that its holder did not promise")
    return PeerClaim(step, epoch, promised, digest, bool(flags & _DONE), bool(flags & _ASKING))


class Peers:
    """The others as one owner sees them. `schedule[t]` is the owner of step t + 1."""

    def __init__(self, owners: int, me: int, schedule: Sequence[int], patience: Patience, now: float) -> None:
        self.majority = owners // 2 + 1
        self._owners, self._me, self._schedule, self._patience = owners, me, schedule, patience
        self._heard = dict.fromkeys(self.others, now)
        self._since = dict.fromkeys(self.others, now)  # when it was first heard after its last absence
        self._met: set[int] = set()
        self._claims: dict[int, tuple[float, PeerClaim]] = {}

    @property
    def others(self) -> tuple[int, ...]:
        """All owners but this one."""
        return tuple(owner for owner in range(self._owners) if owner != self._me)

    def heard(self, peer: int, now: float) -> None:
        """Note that a message of the peer came."""
        if not self.fresh(peer, now):
            self._since[peer] = now
        self._heard[peer] = now
        self._met.add(peer)

    def claimed(self, peer: int, claim: PeerClaim, now: float) -> None:
        """Take a peer's announcement. Promises only grow, so one that arrives late changes nothing."""
        known = self._claims.get(peer)
        if known is None or _rank(claim) >= _rank(known[1]):
            self._claims[peer] = (now, claim)

    def awoke(self, now: float) -> None:
        """Note that this process stood still: peers were not silent meanwhile, and what it heard before is old."""
        self._heard = dict.fromkeys(self.others, now)

    def fresh(self, peer: int, now: float) -> bool:
        """Whether a peer was heard lately, so that a register handed to it should arrive."""
        return peer in self._met and now - self._heard[peer] <= self._patience.wait / 2

    def absent(self, peer: int, now: float) -> bool:
        """Whether a peer was silent for the agreed time, so that its turn may be passed over."""
        return now - self._heard[peer] > self._patience.wait

    def reached(self, now: float) -> int:
        """How many owners are not absent, this one included."""
        return 1 + sum(not self.absent(peer, now) for peer in self.others)

    def too_few(self, here: int) -> str:
        """The words for a status that waits for a majority."""
        return f"paused: {here} of {self._owners} owners are heard of, {self.majority} are needed"

    def following(self, epoch: int, now: float) -> int:
        """How many owners, this one included, said lately that they promised no later epoch."""
        recent = (claim for time, claim in self._claims.values() if now - time <= self._patience.wait)
        return 1 + sum(claim.promised <= epoch for claim in recent)

    def promised(self, own: int) -> int:
        """The highest epoch that a majority has promised, by their claims and `own`."""
        known = sorted((own, *(claim.promised for _, claim in self._claims.values())), reverse=True)
        return known[self.majority - 1] if len(known) >= self.majority else 0

    def holding(self, step: int, epoch: int, digest: bytes) -> int:
        """How many others hold this same register, in this epoch or as the final one."""
        return sum(
            (claim.step, claim.digest) == (step, digest) and (claim.epoch == epoch or claim.done)
            for _, claim in self._claims.values()
        )

    def is_result(self, step: int, epoch: int, digest: bytes) -> bool:
        """Whether the last register is known to be final: a majority holds it, or one of nearly a majority says so."""
        holders, claims = self.holding(step, epoch, digest), (claim for _, claim in self._claims.values())
        known = any(claim.done and (claim.step, claim.digest) == (step, digest) for claim in claims)
        return holders >= self.majority or (known and holders + 1 >= self.majority)

    def holders(self, step: int) -> list[tuple[int, int]]:
        """Peers that hold the register after this step, and its epoch; the latest heard first."""
        heard = [(time, peer, claim) for peer, (time, claim) in self._claims.items() if claim.step == step]
        return [(peer, claim.epoch) for _, peer, claim in sorted(heard, key=lambda holder: -holder[0])]

    def plausible(self, peer: int, step: int, epoch: int, own: int | None, now: float) -> bool:
        """Whether `peer` can hold the register after `step`: all steps on the way there are its own, or missed.

        The way starts at the last step that somebody else (or I, `own`) is known to hold in this epoch. A step may have
        been passed over while its owner was silent. Whoever opened the epoch says where it starts.
        """
        if epoch and epoch % self._owners == peer:
            return True
        others = (claim for holder, (_, claim) in self._claims.items() if holder != peer)
        known = [claim.step for claim in others if claim.epoch == epoch]
        start = max(known + ([] if own is None else [own]), default=None)
        if start is None:
            return False
        return not any(self._present(owner, now) for owner in self._schedule[start:step] if owner != peer)

    def _present(self, owner: int, now: float) -> bool:
        """Whether an owner has been present for long enough that nobody can have passed it over."""
        if owner == self._me:
            return False
        return self.fresh(owner, now) and now - self._since[owner] > self._patience.wait / 2


def _rank(claim: PeerClaim) -> tuple[int, int, int]:
    return claim.promised, claim.epoch, claim.step
