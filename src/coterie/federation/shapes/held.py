"""The state of an owner of a walk on its disk: its promise, the register it holds, and its role with that."""

from __future__ import annotations

from enum import IntEnum
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgpack

from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.election import Rank
from coterie.federation.shapes.peers import PeerClaim
from coterie.federation.transport.wire import Kind, Message

_KEY = "walk"


class Role(IntEnum):
    """What an owner may do with the register it holds."""

    COPY = 0  # keep it
    MINE = 1  # go on from it
    HANDED = 2  # send it to the next owner, who may go on from it
    FINAL = 3  # take it for the result


class Held(NamedTuple):
    """An owner's promise and register."""

    promised: int
    step: int
    epoch: int
    role: Role
    body: bytes

    @property
    def rank(self) -> Rank:
        """The register's rank: a higher one is better to start from."""
        return self.epoch, self.step


class Shelf:
    """Keeps `Held` in the journal: every change is on the disk before it counts."""

    def __init__(self, journal: Journal, empty: Held) -> None:
        self._journal = journal
        stored = journal.get(_KEY)
        self.held = empty if stored is None else _read(stored)
        self.digest = sha256(self.held.body).digest()

    def claim(self, asking: bool = False) -> Message:
        """The announcement of the register."""
        held = self.held
        done = held.role == Role.FINAL
        claim = PeerClaim(held.step, held.epoch, held.promised, self.digest, done, asking)
        return Message(Kind.ANNOUNCE, held.step, held.epoch, claim.body())

    def keep(self, **changes: Any) -> None:
        """Change it, first on the disk and then in memory."""
        held = self.held._replace(**changes)
        self._journal.put({_KEY: cast("bytes", msgpack.packb([*held[:3], int(held.role), held.body]))})
        self.held, self.digest = held, sha256(held.body).digest()


def _read(entry: bytes) -> Held:
    promised, step, epoch, role, body = msgpack.unpackb(entry)
    return Held(promised, step, epoch, Role(role), body)
