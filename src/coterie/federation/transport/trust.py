"""Certificates: who a party is, and which of its files may travel.

One authority signs one certificate for each party of a run; its common name is the party's name, and every other
party lets that name write under its own key alone (`zenoh.py`). The authority's key signs new parties: it belongs
to whoever keeps the agreement, apart from what is sent to owners. Who holds it can pretend to be any party,
except between two parties that both made their keys at home (`sealing.py`), and whoever holds a party's private key can
pretend to be that party: neither gives access to records, nor to what an owner has not released, but both can ruin a
model; and to be an aggregator whom owners trust with more than the sums (`honest.py`).

Zenoh checks no revocation lists. A party is revoked by its name: the name leaves the agreement's list of those
admitted, so that every other party's access control denies all it says, and `issue` never gives the name out again
(`revoke`). Until the other parties have restarted with the new agreement, they still listen to it.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID as Use
from cryptography.x509.oid import NameOID

from coterie.errors import InputError
from coterie.federation.transport import keeping

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
CERTIFICATE, PRIVATE_KEY = "certificate.pem", "private.key"
REVOKED = "revoked.json"
_AUTHORITY_DAYS = 5 * 365
_PARTY_DAYS = 397  # a year, and a month to renew in: the longest that public authorities allow
_SKEW = dt.timedelta(hours=1)  # by which owners' clocks may differ
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,62})(\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*\.?")


_Extension = tuple[x509.ExtensionType, bool]


class _Signer(NamedTuple):
    name: x509.Name
    key: EllipticCurvePrivateKey


class Identity(NamedTuple):
    """A party's files. All but the private key are public."""

    name: str
    authority: Path  # the authority's certificate
    certificate: Path
    key: Path


def checked_name(name: str) -> str:
    """The name; InputError unless it is valid for a party."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name={name!r:.80}: must be 1 to 64 of a-z, 0-9 and -, and begin with a letter or digit."
        )
    return name


def create_authority(folder: Path) -> Path:
    """Make a certificate authority in `folder`, whose key never travels; return its certificate's path."""
    key = new_key()
    own = subject("coterie authority")
    signs = _usage(key_cert_sign=True, crl_sign=True)
    extensions = ((x509.BasicConstraints(ca=True, path_length=0), True), (signs, True))
    certificate = _signed(own, key.public_key(), _AUTHORITY_DAYS, extensions, _Signer(own, key))
    keeping.write_new(folder, {AUTHORITY_KEY: secret(key), AUTHORITY: certificate})
    return folder / AUTHORITY


def issue(authority: Path, name: str, addresses: Sequence[str], folder: Path, public: Any = None) -> Identity:
    """Issue a certificate for a new party, into `folder`, which is to be sent to that party alone.

    `addresses` are the host names and IP addresses under which other parties dial it; none if nobody does. `public`:
    the key that the party made at home (`requests`); without it, one is made here and its secret lies in the folder.
    """
    hosts, files = _alternative_names(addresses), {}
    if public is None:
        key = new_key()
        public, files[PRIVATE_KEY] = key.public_key(), secret(key)
    files |= {CERTIFICATE: _of_party(authority, name, public, hosts)}
    files |= {AUTHORITY: (authority / AUTHORITY).read_bytes()}
    keeping.write_new(folder, files)
    return files_of(name, folder)


def files_of(name: str, folder: Path) -> Identity:
    """Where a party's files lie, as they are: nothing is checked."""
    return Identity(name, folder / AUTHORITY, folder / CERTIFICATE, folder / PRIVATE_KEY)


def new_key() -> EllipticCurvePrivateKey:
    """A new private key, of a party or an authority."""
    return generate_private_key(SECP256R1())


def identity(folder: Path, name: str) -> Identity:
    """The party's files, after checks of name, dates, signature, key, and the key file's mode."""
    identity = files_of(checked_name(name), folder)
    _refuse_readable(identity.key)
    certificate = certificate_in(identity.certificate)
    _refuse_outdated(identity.authority, signer(identity))
    _refuse_outdated(identity.certificate, certificate)
    _refuse_another(identity.certificate, certificate, name)
    key = _private(identity.key, "Ask for a new one")
    if key.public_key() != certificate.public_key():
        raise InputError(f"{identity.key}: does not belong to {identity.certificate}. Ask for both again.")
    return identity


def renew(authority: Path, name: str, folder: Path, public: Any = None) -> None:
    """A new certificate in `folder`, for the key, name and addresses of the one there: nothing secret has to travel.

    `public`: another key in place of that one.
    """
    old = certificate_in(folder / CERTIFICATE)
    _refuse_another(folder / CERTIFICATE, old, name)
    named = [extension.value for extension in old.extensions]
    hosts = [host for hosts in named if isinstance(hosts, x509.SubjectAlternativeName) for host in hosts]
    keeping.replace(folder / CERTIFICATE, _of_party(authority, name, public or old.public_key(), hosts))


def replace_authority(authority: Path, retired: Path) -> None:
    """Replace an authority whose certificates must no longer be accepted; revoked names stay revoked.

    Guarantee: after all parties have taken the new authority's certificate, none signed by the old one is accepted.
    """
    _open_authority(authority)
    retired.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=retired) as draft:
        create_authority(Path(draft, "new"))
        keeping.replace(Path(draft, "new", REVOKED), json.dumps(revoked(authority)).encode())
        os.replace(authority, retired / fingerprint(certificate_in(authority / AUTHORITY))[:16])
        os.replace(Path(draft, "new"), authority)


def end_of(path: Path) -> dt.datetime:
    """When a certificate ends."""
    return certificate_in(path).not_valid_after_utc


def fingerprint(certificate: x509.Certificate) -> str:
    """Its SHA-256, as `openssl x509 -fingerprint -sha256` names it without the colons."""
    return certificate.fingerprint(SHA256()).hex()


def revoke(authority: Path, name: str) -> None:
    """Never again issue a certificate to this name.

    What else must happen: the name leaves the agreement's list of admitted parties, and every other party restarts
    with that agreement, because access control is read when a node starts and names who may write, not who may not.
    An owner who lost its key, and is to go on, gets a certificate of a new authority (`replace_authority`).
    """
    names = sorted({*revoked(authority), checked_name(name)})
    keeping.replace(authority / REVOKED, json.dumps(names).encode())


def revoked(authority: Path) -> list[str]:
    """The names that `revoke` was given."""
    path = authority / REVOKED
    if not path.exists():
        return []
    return keeping.read_json(path, list[str], "is not a list of names. Restore it from a copy.")


def common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The certificate's common name; empty where it has not exactly one."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def subject(name: str) -> x509.Name:
    """A certificate's subject."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(whose: x509.Name, public: Any, days: int, extensions: Sequence[_Extension], by: _Signer) -> bytes:
    """A certificate that begins now; an extension beside `True` must be understood by whoever reads it."""
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(
        by.name, whose, public, x509.random_serial_number(), now - _SKEW, now + dt.timedelta(days=days)
    )
    for extension, critical in ((x509.SubjectKeyIdentifier.from_public_key(public), False), *extensions):
        builder = builder.add_extension(extension, critical)
    return builder.sign(by.key, SHA256()).public_bytes(Encoding.PEM)


def _of_party(authority: Path, name: str, public: Any, hosts: list[x509.GeneralName]) -> bytes:
    """A party's certificate; it is revoked by its name, and lets nobody sign."""
    _refuse_revoked(authority, checked_name(name))
    signer, key = _open_authority(authority)
    above = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    extensions: list[_Extension] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage([Use.CLIENT_AUTH, Use.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above), False),
    ]
    if hosts:
        extensions.append((x509.SubjectAlternativeName(hosts), False))
    return _signed(subject(name), public, _PARTY_DAYS, extensions, _Signer(signer.subject, key))


def _usage(**wanted: bool) -> x509.KeyUsage:
    uses = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign "
        "crl_sign encipher_only decipher_only"
    )
    return x509.KeyUsage(**dict.fromkeys(uses.split(), False) | wanted)


def secret(key: EllipticCurvePrivateKey) -> bytes:
    """The key as its file has it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _alternative_names(addresses: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for address in addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError as error:
            if not _HOST.fullmatch(address):
                raise InputError(
                    f"address={address!r:.80}: must be a host name or an IP address, without a port."
                ) from error
            names.append(x509.DNSName(address))
    return names


def _open_authority(folder: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    _refuse_readable(folder / AUTHORITY_KEY)
    certificate = certificate_in(folder / AUTHORITY)
    _refuse_outdated(folder / AUTHORITY, certificate)
    key = _private(folder / AUTHORITY_KEY, "Restore it from a copy")
    if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InputError(
            f"{folder / AUTHORITY_KEY}: does not belong to {AUTHORITY}. Restore both from a copy."
        )
    return certificate, key


def _private(path: Path, remedy: str) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: is not a private key. {remedy}.") from error


def _refuse_another(path: Path, certificate: x509.Certificate, name: str) -> None:
    if common_name(certificate) != name:
        raise InputError(f"{path}: is of {common_name(certificate)!r:.80}, must be of {name!r}.")


def certificate_in(path: Path) -> x509.Certificate:
    """The certificate in a file, the first one where there are several."""
    return certificates(path)[0]


def certificates(path: Path) -> list[x509.Certificate]:
    """All certificates in a file of one authority or several; at least one."""
    try:
        return x509.load_pem_x509_certificates(_read(path))
    except ValueError as error:
        raise InputError(f"{path}: is not a certificate. Ask for it again.") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error


def _refuse_revoked(authority: Path, name: str) -> None:
    if name in revoked(authority):
        raise InputError(
            f"name={name!r}: was revoked, and its old certificate bears it still. Take another name."
        )


def _refuse_readable(key: Path) -> None:
    try:
        mode = key.stat().st_mode
    except OSError as error:
        raise InputError(f"{key}: cannot be read ({error.strerror}).") from error
    if mode & 0o077:
        raise InputError(
            f"{key}: others can read or write it (mode {mode & 0o777:04o}). Run: chmod 600 {key}"
        )


def _refuse_outdated(path: Path, certificate: x509.Certificate) -> None:
    now = dt.datetime.now(dt.UTC)
    if now >= certificate.not_valid_after_utc:
        ended, name = f"{certificate.not_valid_after_utc:%Y-%m-%d}", common_name(certificate)
        raise InputError(
            f"{path}: the certificate of {name!r} expired on {ended}. Ask the network's founder for a new one "
            "(coterie network renew)."
        )
    if now < certificate.not_valid_before_utc:
        raise InputError(
            f"{path}: is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC. Set this machine's clock."
        )


def signer(identity: Identity) -> x509.Certificate:
    """The authority in the party's file that signed its certificate; InputError where none did."""
    certificate = certificate_in(identity.certificate)
    for authority in certificates(identity.authority):
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return authority
    raise InputError(f"{identity.certificate}: was not signed by {identity.authority}. Ask for both again.")
