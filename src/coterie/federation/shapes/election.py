"""Who may open a walk's next epoch, and from which register: one owner's book-keeping of it.

An owner that proposes without end cannot stop the walk: a proposal is heard only where nothing has moved for a while,
and a proposer whose epochs come to nothing is trusted again only after twice as long each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Kind, Message, Refused

_LEAP = 1 << 20  # the most that one proposal may raise the epoch: frames can count far more than a run sees
_DOUBLINGS = 4  # of the time until a proposer is trusted again
_EPOCH = 8  # bytes

Rank: TypeAlias = tuple[int, int]  # a register's epoch and step: later epochs come first, then later steps


@dataclass
class Proposal:
    """An epoch that I try to open."""

    epoch: int
    since: float
    promises: dict[int, Rank] = field(default_factory=dict)
    source: int | None = None  # who holds the best register, once that is decided


class Election:
    """This owner's proposals, and what it granted to others. A crash may lose all of it."""

    def __init__(self, owners: int, me: int, patience: Patience) -> None:
        self.proposal: Proposal | None = None
        self._owners, self._me, self._patience = owners, me, patience
        self._hint = 0  # the highest epoch that a refusal named
        self._grants: Counter[int] = Counter()  # to each proposer, since anything moved
        self._granted: dict[int, float] = {}
        self._opened: Counter[int] = Counter()  # how many epochs were opened at this step
        self._faulty: set[int] = set()  # owners that reported a register and did not deliver it

    def moved(self) -> None:
        """Note that the walk goes on: no proposal counts as failed."""
        self._grants.clear()
        self._granted.clear()

    def opened(self, step: int) -> None:
        """An epoch begins at the register after this step."""
        self._opened[step] += 1

    def stuck(self, step: int) -> bool:
        """Whether an epoch that began at this step failed: the next owner is then passed over, though it is present."""
        return self._opened[step] > 1

    def hint(self, epoch: int, promised: int) -> bool:
        """Note the epoch that a peer has promised; return whether that makes the own proposal useless."""
        self._hint = max(self._hint, min(epoch, promised + _LEAP))
        return self.proposal is not None and self.proposal.epoch < self._hint

    def propose(self, promised: int, own: Rank, now: float) -> Proposal:
        """Propose the first epoch of this owner's after all known ones."""
        after = max(promised, self._hint)
        epoch = after + 1 + (self._me - after - 1) % self._owners
        self.proposal = Proposal(epoch, now, {self._me: own})
        return self.proposal

    def overtaken(self, epoch: int) -> None:
        """Note that a later epoch of another owner was promised."""
        if self.proposal is not None and self.proposal.epoch < epoch:
            self.proposal = None

    def expired(self, now: float) -> bool:
        """Whether the own proposal failed; it is dropped, and a source that did not deliver is left out of the next."""
        proposal = self.proposal
        if proposal is None or now - proposal.since <= self._patience.wait:
            return False
        if proposal.source is not None:
            self._faulty.add(proposal.source)
        self.proposal = None
        return True

    def grant(self, peer: int, epoch: int, promised: int, idle: float, now: float) -> None:
        """Allow the promise of a peer's later epoch; Refused where it comes too soon or is too high."""
        if epoch - promised > _LEAP:
            raise Refused("proposed an epoch too far ahead")
        tries = self._grants[peer]
        again = self._patience.wait * (1 << min(tries, _DOUBLINGS)) / 2
        if idle < self._patience.wait / 2 or (tries and now - self._granted[peer] < again):
            raise Refused("proposed too soon")
        self._grants[peer], self._granted[peer] = tries + 1, now
        self.overtaken(epoch)

    def promise(self, peer: int, message: Message) -> None:
        """Note a peer's promise of an epoch of this owner's."""
        if len(message.body) != _EPOCH:
            raise Refused(f"wrong shape: {len(message.body)} bytes, must be {_EPOCH}")
        rank = int.from_bytes(message.body, "little"), message.step
        proposal = self.proposal
        if proposal is None or message.sub != proposal.epoch or proposal.source is not None:
            return
        if rank[0] >= proposal.epoch:
            raise Refused("a promise whose register is of a later epoch")
        proposal.promises[peer] = rank

    def decided(self, majority: int, here: set[int], now: float) -> bool:
        """Whether the best register is known: a majority has promised, and so has every owner that is present.

        Owners that failed to deliver are left out, unless there is no majority without them. Any majority will do.
        """
        proposal = self.proposal
        if proposal is None or proposal.source is not None:
            return proposal is not None
        waited = now - proposal.since >= self._patience.wait / 2
        good = set(proposal.promises) - self._faulty
        if len(good) < majority and waited:
            good = set(proposal.promises)
        if len(good) < majority or (here - good - self._faulty and not waited):
            return False
        proposal.source = max(good, key=lambda peer: (proposal.promises[peer], peer == self._me))
        proposal.since = now  # the source has its own time to deliver
        return True

    def place(self, coming: Sequence[int]) -> int:
        """How many owners should propose before this one: those whose turn comes earlier after the missing one."""
        order = list(dict.fromkeys(coming))
        return order.index(self._me) if self._me in order else len(order) + self._me


def promise_of(epoch: int, rank: Rank) -> Message:
    """The promise to follow this epoch, with the rank of the own register."""
    return Message(Kind.PROMISE, rank[1], epoch, rank[0].to_bytes(_EPOCH, "little"))
