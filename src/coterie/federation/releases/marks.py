"""What parties remember of each other's releases, sealed by the owner that made them.

A *mark* says: this owner made a release at this step, and its message has this hash. The owner tells it to its peers
before the message itself, and they write it down. A mark of an owner's own that its ledger lacks proves to the owner
that the ledger is incomplete. The seal is made with the owner's private key, which peers do not have: nobody can stop
an owner by claiming what it never released. A mark tells nothing that was not charged: it is computed from a message
that lies in the ledger.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from coterie.federation.releases.journal import Journal, numbered
from coterie.federation.transport.sealing import private_key
from coterie.federation.transport.wire import Refused

HASH = 32  # bytes
_REMEMBERED = 1000  # latest steps of an owner whose marks are kept; the last mark always is
_TIDY = 64  # marks between two prunings
_NONE = bytes(8)  # behind a step where seals are made, and ahead of a mark in the journal
_WITNESS, _BARRED = "witness", "barred"  # keys of the journal


class Mark(NamedTuple):
    """One release."""

    step: int
    digest: bytes  # SHA-256 of the message
    seal: bytes

    def body(self) -> bytes:
        """The mark as a frame's body, without its step."""
        return self.digest + self.seal


def mark_of(step: int, body: bytes) -> Mark:
    """Read a mark; Refused where it cannot be one."""
    if len(body) != 2 * HASH:
        raise Refused(f"wrong shape: {len(body)} bytes, must be {2 * HASH}")
    return Mark(step, body[:HASH], body[HASH:])


class Hand:
    """The key with which a party seals in one run; a copy of the party on another machine has the same one."""

    def __init__(self, private_key: bytes, agreement: bytes) -> None:
        """`private_key`: of the party's certificate; it must be kept as long as ledger and journal."""
        self._key = hmac.digest(sha256(b"coterie hand 1\0" + private_key).digest(), agreement, "sha256")

    @classmethod
    def of(cls, key: Path, agreement: bytes) -> Hand:
        """From the file of the party's private key, in any encoding."""
        from cryptography.hazmat.primitives import serialization as forms

        written = forms.Encoding.DER, forms.PrivateFormat.PKCS8, forms.NoEncryption()
        return cls(private_key(key).private_bytes(*written), agreement)

    def mark(self, step: int, message: bytes) -> Mark:
        """The mark of a release."""
        digest = sha256(message).digest()
        return Mark(step, digest, self._release(step, digest))

    def made(self, mark: Mark) -> bool:
        """Whether this party made the mark."""
        return hmac.compare_digest(mark.seal, self._release(mark.step, mark.digest))

    def alive(self, process: bytes, peer_process: bytes) -> bytes:
        """Proof that `process` runs under this party's name now: it covers `peer_process`, a fresh random number."""
        return hmac.digest(self._key, b"alive\0" + process + peer_process, "sha256")

    def _release(self, step: int, digest: bytes) -> bytes:
        return hmac.digest(self._key, b"release\0" + step.to_bytes(8, "little") + _NONE + digest, "sha256")


class Marks:
    """The marks of others' releases that a party keeps in its journal."""

    def __init__(self, journal: Journal, first: int = 0) -> None:
        """`first`: the step whose release is every owner's first, whatever its number; 0: steps are made in order."""
        self._journal, self._first, self._kept = journal, first, 0

    def last(self, peer: str) -> Mark | None:
        """The latest mark of a peer."""
        entry = self._journal.last(f"{_WITNESS}/{peer}")
        return None if entry is None else _read(entry[0] or self._first, entry[1])

    def of(self, peer: str, step: int) -> Mark | None:
        """The mark of one step, while it is kept."""
        body = self._journal.get(numbered(f"{_WITNESS}/{peer}", self._place(step)))
        return None if body is None else _read(step, body)

    def keep(self, peer: str, mark: Mark) -> None:
        """Write a mark down; only then may its message be acted on."""
        place, at = f"{_WITNESS}/{peer}", self._place(mark.step)
        self._journal.put({numbered(place, at): _written(mark)})
        self._kept += 1
        if self._kept % _TIDY == 0:
            self._journal.prune(place, at - _REMEMBERED)

    def _place(self, step: int) -> int:
        """Marks sort as releases are made: the last one shows that all before it were."""
        return 0 if step == self._first else step

    def bar(self, peer: str, first: Mark, second: Mark) -> None:
        """Write down that a peer has released two messages for one step."""
        entry = first.step.to_bytes(8) + _written(first) + _written(second)
        self._journal.put({f"{_BARRED}/{peer}": entry})

    def barred(self, peer: str) -> tuple[Mark, Mark] | None:
        """The two marks of a peer that released two messages for one step; None for any other peer."""
        body = self._journal.get(f"{_BARRED}/{peer}")
        if body is None:
            return None
        step, size = int.from_bytes(body[:8]), len(_NONE) + 2 * HASH
        return _read(step, body[8 : 8 + size]), _read(step, body[8 + size :])


def _written(mark: Mark) -> bytes:
    return _NONE + mark.body()


def _read(step: int, entry: bytes) -> Mark:
    return mark_of(step, entry[len(_NONE) :])
