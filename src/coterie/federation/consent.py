"""Consent: a party that made its key at home signs the agreement with it, so that no founder can forge its consent.

The agreement has the keys' fingerprints, and every node looks for the signatures before it starts. A founder could
still invent a party with a key of its own making: parties read their keys' fingerprints to each other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from msgspec import Struct
from msgspec.structs import asdict

from coterie.errors import InputError
from coterie.federation.agreement import Agreement
from coterie.federation.transport import keeping, requests, trust
from coterie.federation.transport.sealing import private_key

FOLDER = "consents"  # beside node.toml: a file for each party that signs
_SAID = b"coterie consent 1\0"


class Consent(Struct, frozen=True, forbid_unknown_fields=True):
    """One party's signature under one agreement. Public."""

    agreement: str  # its SHA-256
    party: str
    key: str  # the party's public key, PEM
    signature: str  # hexadecimal


def sign(folder: Path, name: str, agreement: Agreement) -> Path:
    """The party's consent, written to its own folder. InputError where the agreement has another key of it, or none."""
    if name not in agreement.keys:
        raise InputError(
            f"sign: the agreement has no key that {name!r} made at home, and so nobody asks for its signature. Make "
            f"one (coterie network request FOLDER {name}), and ask the founder to enter it (coterie network rotate)."
        )
    key = private_key(trust.identity(folder, name).key)
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    signature = key.sign(_signed_text(agreement.digest, name), ECDSA(SHA256()))
    consent = Consent(agreement.digest.hex(), name, pem, signature.hex())
    _refuse_false(consent, agreement)
    return keep(folder, consent)


def keep(folder: Path, consent: Consent) -> Path:
    """Write a consent into a party's folder."""
    path = folder / FOLDER / f"{consent.party}.json"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(json.dumps(asdict(consent), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from error
    return path


def read(path: Path, agreement: Agreement) -> Consent:
    """A consent to this agreement; InputError where it is none, or the signature is false."""
    fault = "must have agreement, party, key and signature, texts alone. Ask for it again."
    consent = keeping.read_json(path, Consent, fault, "consent")
    _refuse_false(consent, agreement)
    return consent


def public_key(folder: Path, name: str, agreement: Agreement) -> Any:
    """The key with which a party signed this agreement, which has its fingerprint."""
    return load_pem_public_key(read(folder / FOLDER / f"{name}.json", agreement).key.encode())


def missing(folder: Path, agreement: Agreement) -> list[str]:
    """Parties whose signatures are not in the folder yet; InputError where a signature is false."""
    there = [name for name in agreement.keys if (folder / FOLDER / f"{name}.json").exists()]
    for name in there:
        if read(folder / FOLDER / f"{name}.json", agreement).party != name:
            raise InputError(f"consent of {name!r}: its file has another party's. Ask the founder again.")
    return [name for name in agreement.keys if name not in there]


def given(folder: Path, name: str, agreement: Agreement) -> None:
    """InputError unless every party with a key made at home has signed, this one with the key in its folder."""
    _refuse_without_own(folder, name, agreement)
    names = missing(folder, agreement)
    if names:
        raise InputError(
            f"agreement: {', '.join(names)} {'has' if len(names) == 1 else 'have'} not signed it, as far as "
            f"{folder / FOLDER} knows. Each signs with  coterie node FOLDER --sign  and sends its file to the founder, "
            "who sends you all of them."
        )


def _refuse_without_own(folder: Path, name: str, agreement: Agreement) -> None:
    """InputError where the agreement has no key of this party, which made one at home, or another one.

    Whoever wrote the agreement could otherwise leave the key out, and nobody would be asked for a signature, or enter
    another one and sign with that.
    """
    if name not in agreement.keys:
        if (folder / requests.REQUEST).exists():
            raise InputError(
                f"agreement: has no key of {name!r}, which made one at home ({requests.REQUEST}): nobody asked for its "
                "signature, and no frame would be sealed. Ask the founder for an agreement that has it; to go without, "
                f"remove {folder / requests.REQUEST}."
            )
        return
    here = requests.fingerprint(private_key(trust.identity(folder, name).key).public_key())
    if here != agreement.keys[name]:
        raise InputError(
            f"agreement: its key of {name!r} is {agreement.keys[name][:16]}…, the one here {here[:16]}…. Nothing "
            f"leaves. Put the right {trust.PRIVATE_KEY} in its place; if it is there, somebody signs for {name}."
        )


def forget_others(folder: Path, agreement: Agreement) -> None:
    """Delete consents to other agreements."""
    for path in (folder / FOLDER).glob("*.json"):
        try:
            read(path, agreement)
        except InputError:
            path.unlink()


def _signed_text(digest: bytes, name: str) -> bytes:
    return _SAID + digest + name.encode()


def _refuse_false(consent: Consent, agreement: Agreement) -> None:
    """InputError unless the party's own key, which the agreement knows, signed this agreement."""
    who = f"consent of {consent.party!r:.80}"
    if consent.agreement != agreement.digest.hex():
        raise InputError(
            f"{who}: is to another agreement ({consent.agreement[:8]}…). Ask it to sign this one."
        )
    if consent.party not in agreement.keys:
        raise InputError(f"{who}: the agreement knows no key of it.")
    try:
        public, signature = load_pem_public_key(consent.key.encode()), bytes.fromhex(consent.signature)
    except ValueError as error:
        raise InputError(f"{who}: has no key, or no signature. Ask for it again.") from error
    known = requests.fingerprint(public) == agreement.keys[consent.party]
    if not known or not isinstance(public, EllipticCurvePublicKey):
        raise InputError(
            f"{who}: was made with another key than the agreement's. Ask {consent.party} for it."
        )
    try:
        public.verify(signature, _signed_text(agreement.digest, consent.party), ECDSA(SHA256()))
    except InvalidSignature as error:
        raise InputError(
            f"{who}: the signature is false. Nothing leaves. Ask {consent.party} for it again."
        ) from error
