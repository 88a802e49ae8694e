"""What all parties know of masked sums: tickets, rolls and sums as frames carry them, checked before they are used.

Whoever calls rolls, the aggregator or the root of a tree, also keeps a `Bench`: the owners left out, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from coterie.federation.releases.journal import Journal
from coterie.federation.transport.wire import Refused
from coterie.mechanisms.masks import LABEL, PROCESS, Roll, bitmap, members_of

SPENT = "nothing more is released"  # a refusal that is for the rest of the run
OUTSIDE = "a sum outside its range, so somebody sent no honest message; made anew"
_ROLL = "roll"  # the journal's key
_MOST_LEFT_OUT = 16  # doublings of the rounds that an owner is left out for


@dataclass(frozen=True, kw_only=True)
class SumTerms:
    """What all parties know of the sums: from the agreement alone."""

    names: Sequence[str]
    rounds: int
    spare: int  # attempts that may be void
    quorum: int  # the fewest owners of a sum that an owner answers for: its charge relies on them
    degree: int  # of the graph of masks; 0: complete graph
    weights: np.ndarray  # (owners,) of everybody's records in the sum
    limit: float  # the largest absolute value of a sum's numbers
    count: int  # numbers of a message
    agreement: bytes

    @property
    def attempts(self) -> int:
        """The highest number that an attempt can have."""
        return self.rounds + self.spare

    @property
    def tickets(self) -> int:
        """The largest ticket."""
        return self.rounds * (self.attempts + 1)

    @property
    def wide(self) -> int:
        """Bytes of a bitmap of owners."""
        return -(-len(self.names) // 8)

    @property
    def longest(self) -> int:
        """The most bytes of a frame's body."""
        return LABEL + self.wide + max(8 * self.count, PROCESS * len(self.names))

    def ticket(self, round: int, attempt: int) -> int:
        """The number of a release; tickets grow with rounds, and with the attempts of a round."""
        return (round - 1) * (self.attempts + 1) + attempt + 1

    def place(self, ticket: int) -> tuple[int, int]:
        """Round and attempt of a ticket."""
        round, attempt = divmod(ticket - 1, self.attempts + 1)
        return round + 1, attempt

    def written(self, roll: Roll, label: bytes) -> bytes:
        """A roll as a frame's body."""
        return label + bitmap(roll.members, len(self.names)) + b"".join(roll.processes)

    def read(self, ticket: int, body: bytes) -> tuple[Roll, bytes]:
        """The roll of a frame, and its label; Refused where it is not valid."""
        wide = self.wide
        members = members_of(body[LABEL : LABEL + wide], len(self.names))
        rest = body[LABEL + wide :]
        if not 1 <= ticket <= self.tickets or members is None or len(rest) != PROCESS * len(members):
            raise Refused("no roll")
        processes = tuple(rest[at : at + PROCESS] for at in range(0, len(rest), PROCESS))
        return Roll(*self.place(ticket), members, processes), body[:LABEL]

    def keep(self, journal: Journal, roll: Roll, label: bytes) -> None:
        """Write down the roll that is called from here, before anybody hears of it."""
        ticket = self.ticket(roll.round, roll.attempt)
        journal.put({_ROLL: ticket.to_bytes(8) + self.written(roll, label)})

    def called(self, journal: Journal) -> tuple[Roll, bytes] | None:
        """The roll that was called last from here, and its label."""
        stored = journal.get(_ROLL)
        return None if stored is None else self.read(int.from_bytes(stored[:8]), stored[8:])

    def total(self, body: bytes) -> tuple[tuple[int, ...], np.ndarray]:
        """Members and numbers of a sum; Refused where it has too few, or numbers that no honest sum has."""
        wide = self.wide
        members = members_of(body[:wide], len(self.names))
        if members is None or len(body) != wide + 8 * self.count:
            raise Refused(f"wrong shape: {len(body)} bytes")
        if len(members) < self.quorum:
            raise Refused(f"a sum of {len(members)} owners, must be at least {self.quorum}")
        total = np.frombuffer(body[wide:], "<i8")
        if not self.fits(total):
            raise Refused("a sum outside its range: masks did not cancel")
        return members, total

    def fits(self, total: np.ndarray) -> bool:
        """Whether these can be the numbers of a sum: masks that are left pass with a chance below 2^-20 a number."""
        return bool(np.all(total >= -self.limit) and np.all(total <= self.limit))

    def scaled(self, members: Sequence[int], total: np.ndarray) -> np.ndarray:
        """The sum, scaled up to the weight of all owners."""
        part = self.weights[list(members)].sum() / self.weights.sum()
        real = total.astype(np.float64)
        return (real if len(members) == len(self.names) else real / part).astype(np.float32)


@dataclass(kw_only=True)
class Attempt:
    """A roll that was called, and the messages that came for it."""

    terms: SumTerms
    roll: Roll
    label: bytes
    awaited: tuple[int, ...]  # whose messages are added up here
    parts: dict[int, bytes] = field(default_factory=dict)  # these messages, behind their label

    @property
    def ticket(self) -> int:
        return self.terms.ticket(self.roll.round, self.roll.attempt)

    @property
    def body(self) -> bytes:
        """The roll as a frame's body."""
        return self.terms.written(self.roll, self.label)

    @property
    def silent(self) -> list[int]:
        """Who has not answered."""
        return [owner for owner in self.awaited if owner not in self.parts]

    def take(self, owner: int, body: bytes) -> None:
        """Take a message; Refused where it is none for this roll."""
        if len(body) != LABEL + 8 * self.terms.count or body[:LABEL] != self.label:
            raise Refused("not a message of this roll")
        if self.parts.setdefault(owner, body) != body:
            raise Refused("a second version of a value")

    def added(self) -> bytes:
        """The sum of the messages."""
        numbers = [np.frombuffer(body[LABEL:], "<u8") for body in self.parts.values()]
        return np.sum(numbers, axis=0, dtype=np.uint64).astype("<u8").tobytes()


class Bench:
    """The owners that are left out of rolls. Kept in memory only."""

    def __init__(self) -> None:
        self.spent: set[int] = set()  # owners that release nothing any more
        self._voids: dict[int, int] = {}  # attempts that an owner made void
        self._until: dict[int, int] = {}  # the round before which an owner is left out

    def blame(self, owners: Iterable[int], round: int) -> None:
        """Leave out owners that made an attempt at this round void: the k-th time for 2^k rounds."""
        for owner in owners:
            self._voids[owner] = min(self._voids.get(owner, 0) + 1, _MOST_LEFT_OUT)
            self._until[owner] = round + 2 ** self._voids[owner]

    def free(self, owner: int, round: int) -> bool:
        """Whether the owner may be called again."""
        return self._until.get(owner, 0) <= round
