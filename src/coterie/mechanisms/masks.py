"""Masks of a sum: random numbers that two owners share and nobody else can make, and that cancel in the sum.

    label = SHA-256("coterie roll 2\\0" ‖ agreement ‖ history ‖ round ‖ attempt ‖ roll ‖ e_1 ‖ e_2 …)
    K_ij  = HKDF-SHA256(X25519(i, j), salt = agreement, info = "coterie mask 1\\0" ‖ lower name ‖ 0 ‖ higher name)
    mask  = ChaCha20(HKDF-Expand(K_ij, "coterie sum 1\\0" ‖ label), nonce 0) as u64: the lower name adds it

The higher name subtracts it. A label is used for one message. It names everybody in the sum (the roll, a bitmap in the
agreement's order), all sums so far (the history), and the running process of every member (e_k, 16 bytes that it drew
when it started): owners who were told different things share no mask, and an owner that begins anew over other
records never meets an old one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.mechanisms.discrete import key_stream

KEY = LABEL = HISTORY = 32  # bytes
PROCESS = 16  # bytes of a process's own number
START = bytes(HISTORY)  # the history before the first sum
_PRIME = 2**255 - 19
# Points of low order on Curve25519, by their u coordinate: with one of them every shared secret is the same.
_LOW = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    _PRIME - 1,
)


class Roll(NamedTuple):
    """Who is in a sum, in the agreement's order, and which attempt at which round it is."""

    round: int
    attempt: int
    members: tuple[int, ...]
    processes: tuple[bytes, ...]  # of each member


def bitmap(members: Sequence[int], owners: int) -> bytes:
    """The k-th owner of the agreement is bit k % 8 of byte k // 8.

    >>> bitmap((0, 1, 2), 3), bitmap((8,), 9)
    (b'\\x07', b'\\x00\\x01')
    """
    bits = np.zeros(-(-owners // 8) * 8, bool)
    bits[list(members)] = True
    return np.packbits(bits, bitorder="little").tobytes()


def members_of(roll: bytes, owners: int) -> tuple[int, ...] | None:
    """The owners that a bitmap names; None where it is no bitmap of so many owners, spare bits included."""
    if len(roll) != -(-owners // 8):
        return None
    members = np.flatnonzero(np.unpackbits(np.frombuffer(roll, np.uint8), bitorder="little"))
    return None if len(members) and members[-1] >= owners else tuple(map(int, members))


def label(agreement: bytes, history: bytes, roll: Roll, owners: int) -> bytes:
    """What the masks of one sum are bound to."""
    head = b"coterie roll 2\0" + agreement + history
    numbers = roll.round.to_bytes(8, "little") + roll.attempt.to_bytes(8, "little")
    return hashlib.sha256(head + numbers + bitmap(roll.members, owners) + b"".join(roll.processes)).digest()


def extended(history: bytes, round: int, attempt: int, roll: bytes, total: bytes) -> bytes:
    """The history after a sum, of which `total` are the raw bytes."""
    numbers = round.to_bytes(8, "little") + attempt.to_bytes(8, "little")
    return hashlib.sha256(history + numbers + roll + total).digest()


def make_key(file: Path) -> bytes:
    """A new secret key in a file that its owner alone may read; returns the public key. InputError where one exists."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"mask key={str(file)!r}: is there already, and is not replaced.") from None
    with os.fdopen(handle, "wb") as out:
        out.write(os.urandom(KEY))
    return public_key(read_key(file))


def read_key(file: Path) -> bytes:
    """The secret key of a file."""
    try:
        key = file.read_bytes()
    except OSError as error:
        raise InputError(
            f"mask key={str(file)!r}: cannot be read ({error.strerror}). Make one with coterie node --mask-key."
        ) from error
    if len(key) != KEY:
        raise InputError(f"mask key={str(file)!r}: has {len(key)} bytes, must have {KEY}.")
    return key


def public_key(secret: bytes) -> bytes:
    """The public key of a secret one: what the others are told."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def fingerprint(public: bytes) -> str:
    """A short form of a public key, which owners read to each other.

    >>> fingerprint(bytes(32))[:9]
    '66687aad-'
    """
    text = hashlib.sha256(public).hexdigest()[:32]
    return "-".join(text[at : at + 8] for at in range(0, 32, 8))


def check_public(name: str, public: bytes) -> None:
    """InputError unless this can be somebody's public key: canonical, and of no low order."""
    u = int.from_bytes(public, "little")
    if len(public) != KEY or u >= _PRIME or u in _LOW:
        raise InputError(
            f"mask key of {name!r}: {public.hex()[:16]}… is no key. Ask its owner for the right one."
        )


class Masks:
    """One owner's side: its secret key, and everybody's public ones."""

    def __init__(self, name: str, secret: bytes, publics: dict[str, bytes], agreement: bytes) -> None:
        """`publics` in the agreement's order. InputError where the own key is not the agreement's."""
        if public_key(secret) != publics.get(name):
            raise InputError(
                f"mask key of {name!r}: is not the one in the agreement. Tell the founder the right one, or put the "
                "old file back."
            )
        self._name, self._agreement, self._names = name, agreement, tuple(publics)
        self._pairs = {
            peer: self._pair(secret, public, peer) for peer, public in publics.items() if peer != name
        }

    def _pair(self, secret: bytes, public: bytes, peer: str) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        shared = X25519PrivateKey.from_private_bytes(secret).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
        low, high = sorted((self._name.encode(), peer.encode()))
        info = b"coterie mask 1\0" + low + b"\0" + high
        return HKDF(hashes.SHA256(), KEY, self._agreement, info).derive(shared)

    def label(self, history: bytes, roll: Roll) -> bytes:
        """`label`, under the agreement."""
        return label(self._agreement, history, roll, len(self._names))

    def masked(self, numbers: np.ndarray, label: bytes, members: Sequence[int], degree: int) -> bytes:
        """Whole numbers under the masks of one sum, modulo 2^64, as little-endian bytes."""
        hidden = numbers.astype("<i8").view("<u8").copy()
        for peer in self._sharing(members, degree):
            mask = self._mask(peer, label, len(hidden))
            hidden = hidden + mask if self._name.encode() < peer.encode() else hidden - mask
        return hidden.astype("<u8").tobytes()

    def _sharing(self, members: Sequence[int], degree: int) -> list[str]:
        """The names to share masks with: everybody, or the next degree/2 on either side in the order of names."""
        names = sorted((self._names[member] for member in members), key=str.encode)
        if not degree or degree >= len(names) - 1:
            return [name for name in names if name != self._name]
        own = names.index(self._name)
        offsets = [*range(-(degree // 2), 0), *range(1, degree // 2 + 1)]
        return [names[(own + offset) % len(names)] for offset in offsets]

    def _mask(self, peer: str, label: bytes, count: int) -> np.ndarray:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

        key = HKDFExpand(hashes.SHA256(), KEY, b"coterie sum 1\0" + label).derive(self._pairs[peer])
        return key_stream(key, count)
