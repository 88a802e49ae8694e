"""Frames that two parties seal for each other, with the keys that they made at home and the agreement has.

Zenoh tells a program the name in a certificate, not which authority signed it nor which key it is for: whoever holds an
authority that a party trusts can take any name on the wire, and a router takes all of them. A greeting with a signature
would not help, for who stands in between passes it on and then speaks for itself. So every frame is sealed: encrypted
and authenticated (ChaCha20-Poly1305) under a secret of two keys, one of either end, that every party has signed for in
the agreement. Authorities and routers then decide who gets a connection; who speaks, and who can read it, the keys do.

Sound: the secret is Diffie and Hellman's of both keys, drawn apart for the two names, and sender and receiver are
authenticated beside the content, so that no frame passes under another name or comes back to its sender. Who stands in
between can lose, delay and repeat frames of this pair, which machines bear from any network; those of another run
have another agreement in them. 96 random bits a frame: two alike among 2³² frames with a chance of 2⁻³³.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ec import ECDH
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key

NONCE, TAG = 12, 16  # bytes that a sealed frame has beside the frame
FORGED = "under its name, but not its own: somebody else has a certificate of that name, or it runs another version"


class Seal:
    """Seals and opens the frames between one party and one peer."""

    def __init__(self, own: Any, public: Any, me: str, peer: str) -> None:
        """`own`: this party's private key; `public`: the peer's, both of the curve P-256."""
        pair = "\0".join(("coterie frames 1", *sorted((me, peer)))).encode()  # names hold no zero byte
        secret = HKDF(SHA256(), 32, None, pair).derive(own.exchange(ECDH(), public))
        self._cipher = ChaCha20Poly1305(secret)
        self._out, self._in = f"{me}\0{peer}".encode(), f"{peer}\0{me}".encode()

    def sealed(self, frame: bytes) -> bytes:
        """The frame, encrypted and authenticated."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, frame, self._out)

    def opened(self, sealed: bytes) -> bytes | None:
        """The frame; None where the peer has not sealed it for this party."""
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], self._in)
        except (InvalidTag, ValueError):
            return None


def private_key(path: Path) -> Any:
    """The private key of a file that `trust.identity` has checked."""
    return load_pem_private_key(path.read_bytes(), password=None)
