"""Before training: every owner's sums of features, whose mean all take off theirs; then the machine that trains on it.

A `Machine` around the one that trains, which is made here when its time has come. Owners' sums are tables, as `tables`
passes them on. Unlike tables after training there is no going on without somebody's: owners around different centres
would train on different features. So training begins

1. when the sums of all owners are here, in the journal; but those of whom this party was told to forget are left out,
   unless a peer counts them in;
2. and when every peer has said (HAVE with a `sub`) that it would begin with the same ones: whose, and their hash. Where
   a hash differs somebody has passed on changed sums, and this party stops before it trains. A party that lies to its
   peers about its hash as well is found where owners compare the one that is in every result.

That this was so is written down, so that after a restart the same centre follows, whoever is there. Until then what
others say of training is dropped, as if it were lost: they ask again. Those who are behind are still told sums and
hash afterwards. An owner whose budget allows no sums says so, and then nobody can begin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coterie._types import PyTree
from coterie.errors import InputError
from coterie.evaluation.told import digest
from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.tables import OwnTable, Tables, TableTerms
from coterie.federation.transport.machine import Machine, Out, Status
from coterie.federation.transport.wire import Kind, Message, Refused

_ASKS, _SAYS = 1, 2  # HAVE's `sub`: with which sums I would begin, and please tell me the same; the answer
_HASH = 32  # bytes
_BEGUN = "begun"  # the journal's key: with which sums


class Basis(NamedTuple):
    """Sums that a party would begin with."""

    owners: frozenset[int]  # whose
    digest: bytes

    def body(self, owners: int) -> bytes:
        """As it travels, and lies in the journal."""
        bits = np.isin(np.arange(owners), list(self.owners))
        return np.packbits(bits).tobytes() + self.digest


def basis_of(body: bytes, owners: int) -> Basis:
    """Read one; Refused where it cannot be one."""
    wide = -(-owners // 8)
    if len(body) != wide + _HASH:
        raise Refused(f"wrong shape: {len(body)} bytes, must be {wide + _HASH}")
    bits = np.unpackbits(np.frombuffer(body[:wide], np.uint8))
    if bits[owners:].any():
        raise Refused("no such owner")
    return Basis(frozenset(np.flatnonzero(bits).tolist()), body[wide:])


class Centring:
    """A party that trains on features around a centre; `own` is None for one without records."""

    def __init__(
        self,
        terms: TableTerms,
        own: OwnTable | None,
        journal: Journal,
        make: Callable[[dict[int, np.ndarray]], Machine],
        *,
        of: int,
        without: frozenset[int] = frozenset(),
    ) -> None:
        """`make`: (sums by owner) -> what trains around their centre, in `of` steps; `without`: who was forgotten."""
        self._terms, self._own, self._journal, self._make, self._of = terms, own, journal, make, of
        self._tables = Tables(terms, own, journal)
        self._wanted = frozenset(range(len(terms.names))) - without
        self._basis: Basis | None = None  # what this party would begin with, or has begun with
        self._said: dict[str, Basis] = {}  # and its peers
        self._asked = -np.inf
        self.machine: Machine | None = None
        kept = journal.get(_BEGUN)
        if kept is not None:
            self._basis = basis_of(kept, len(terms.names))
            self.machine = self._made(self._basis)

    def start(self, now: float) -> list[Out]:
        return self._onward(now) if self.machine is None else self.machine.start(now)

    def receive(self, sender: str, message: Message, now: float) -> list[Out]:
        """Sums, a question for some, or what is the training's."""
        if message.kind in (Kind.TABLE, Kind.HAVE) and message.step == self._terms.step:
            return self._told(sender, message, now) + self._onward(now)
        return [] if self.machine is None else self.machine.receive(sender, message, now)

    def _told(self, sender: str, message: Message, now: float) -> list[Out]:
        if message.kind == Kind.HAVE and message.sub in (_ASKS, _SAYS):
            return self._compared(sender, message)
        return self._tables.receive(sender, message, now)

    def tick(self, now: float) -> list[Out]:
        """Ask for what is missing; then let the training go on."""
        outs = self._onward(now)
        if self.machine is not None:
            return outs + self.machine.tick(now)
        return outs + (self._tables.ask(now) if self._basis is None else self._ask(now))

    @property
    def done(self) -> bool:
        return self.machine is not None and self.machine.done

    @property
    def status(self) -> Status:
        """Where the training stands; before it, whom it waits for and why."""
        if self.machine is not None:
            return self.machine.status
        missing = tuple(self._terms.names[owner] for owner in self._missing)
        waiting = missing or self._undecided
        notes = [f"releases no sums of features: {self._tables.spent}"] if self._tables.spent else []
        if declined := ", ".join(self._terms.names[owner] for owner in self._tables.declined):
            notes.append(
                f"nobody can begin: the budget of {declined} does not allow its sums of features. Found a network with "
                "a smaller run, or with --centre 0"
            )
        elif missing:
            notes.append(
                f"waits for the sums of features of {', '.join(missing)}: training begins with those of all"
            )
        elif waiting:
            notes.append(
                f"waits for {', '.join(waiting)} to have the same sums of features, before it trains"
            )
        return Status(0, self._of, waiting, "; ".join(notes))

    def model(self) -> PyTree | None:
        return None if self.machine is None else self.machine.model()

    @property
    def _missing(self) -> tuple[int, ...]:
        return tuple(owner for owner in self._tables.missing if owner in self._wanted)

    @property
    def _undecided(self) -> tuple[str, ...]:
        """Peers that have not said that they would begin with the same."""
        return tuple(peer for peer in self._terms.peers if self._said.get(peer) != self._basis)

    def _onward(self, now: float) -> list[Out]:
        """The own sums, once; when all are here, the comparison; when that is over, the training."""
        if self.machine is not None:
            return []
        outs = [] if self._tables.declined else self._tables.release(lambda: None, now)
        if self._missing:
            return outs
        if self._basis is None:
            # Said before it is compared, so that both of two that differ hear of it.
            self._basis, self._asked = self._found(self._wanted), -np.inf
            return outs + self._ask(now)
        self._refuse_others(self._basis)
        return outs if self._undecided else outs + self._begin(self._basis, now)

    def _found(self, owners: frozenset[int]) -> Basis:
        return Basis(owners, bytes.fromhex(digest(self._sums(owners))))

    def _sums(self, owners: frozenset[int]) -> dict[int, np.ndarray]:
        return {owner: sums for owner, sums in self._tables.arrays().items() if owner in owners}

    def _begin(self, basis: Basis, now: float) -> list[Out]:
        """Written down first: from now on this party trains around this centre, or not at all."""
        self._journal.put({_BEGUN: basis.body(len(self._terms.names))})
        self.machine = self._made(basis)
        return self.machine.start(now)

    def _made(self, basis: Basis) -> Machine:
        sums = self._sums(basis.owners)
        if self._found(basis.owners) != basis:
            raise InputError(
                f"journal={str(self._journal.path)!r}: lacks sums of features that this run began with. Restore the "
                "newest copy of this folder."
            )
        return self._make(sums)

    def _ask(self, now: float) -> list[Out]:
        if now - self._asked < self._terms.patience.retry:
            return []
        self._asked = now
        return [self._mine(peer, _ASKS) for peer in self._undecided]

    def _mine(self, peer: str, how: int) -> Out:
        assert self._basis is not None
        return Out(peer, Message(Kind.HAVE, self._terms.step, how, self._basis.body(len(self._terms.names))))

    def _compared(self, sender: str, message: Message) -> list[Out]:
        """What a peer would begin with, and the answer to that."""
        if sender not in self._terms.peers:
            raise Refused("not a peer")
        theirs = basis_of(message.body, len(self._terms.names))
        if self.machine is None:
            self._said[sender] = theirs
            if not theirs.owners <= self._wanted:  # it has begun, or will, with one that was forgotten since
                self._wanted, self._basis = self._wanted | theirs.owners, None
        if message.sub == _SAYS or self._basis is None:
            return []
        return [self._mine(sender, _SAYS)]

    def _refuse_others(self, basis: Basis) -> None:
        for peer, theirs in sorted(self._said.items()):
            if theirs.owners == basis.owners and theirs.digest != basis.digest:
                raise InputError(
                    f"centre: {peer} has other sums of features than this party (theirs {theirs.digest.hex()[:16]}…, "
                    f"here {basis.digest.hex()[:16]}…), so somebody passed on changed ones. Nothing was trained. Ask "
                    "the parties between those who differ, then found a new network."
                )
