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
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import InputError
from coterie.federation.transport import keeping

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
CERTIFICATE, PRIVATE_KEY = "certificate.pem", "private.key"
REVOKED = "revoked.json"
_AUTHORITY_DAYS = 5 * 365
_PARTY_DAYS = 397  # a year, and a month to renew in: the longest that public authorities allow
_SKEW = dt.timedelta(hours=1)  # by which owners' clocks may differ
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,62})(\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*\.?")


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
    from cryptography import x509

    key = new_key()
    own = subject("coterie authority")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = _builder(own, own, key.public_key(), _AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = _signed(builder.add_extension(usage, critical=True), key)
    keeping.write_new(folder, {AUTHORITY_KEY: secret(key), AUTHORITY: certificate})
    return folder / AUTHORITY


def issue(authority: Path, name: str, addresses: Sequence[str], folder: Path, public: Any = None) -> Identity:
    """Issue a certificate for a new party, into `folder`, which is to be sent to that party alone.

    `addresses` are the host names and IP addresses under which other parties dial it; none if nobody does. `public`:
    the key that the party made at home (`requests`); without it, one is made here and its secret lies in the folder.
    """
    checked_name(name)
    _refuse_revoked(authority, name)
    hosts = _alternative_names(addresses)
    signer, signing = _open_authority(authority)
    files = {}
    if public is None:
        key = new_key()
        public, files[PRIVATE_KEY] = key.public_key(), secret(key)
    builder = _party(_builder(subject(name), signer.subject, public, _PARTY_DAYS), signer, hosts)
    files |= {CERTIFICATE: _signed(builder, signing), AUTHORITY: (authority / AUTHORITY).read_bytes()}
    keeping.write_new(folder, files)
    return Identity(name, folder / AUTHORITY, folder / CERTIFICATE, folder / PRIVATE_KEY)


def new_key() -> EllipticCurvePrivateKey:
    """A new private key, of a party or an authority."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def identity(folder: Path, name: str) -> Identity:
    """The party's files, after checks of name, dates, signature, key, and the key file's mode."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    identity = Identity(checked_name(name), folder / AUTHORITY, folder / CERTIFICATE, folder / PRIVATE_KEY)
    _refuse_readable(identity.key)
    certificate = _certificate(identity.certificate)
    _refuse_outdated(identity.authority, signer(identity))
    _refuse_outdated(identity.certificate, certificate)
    if common_name(certificate) != name:
        raise InputError(
            f"{identity.certificate}: is of {common_name(certificate)!r:.80}, must be of {name!r}."
        )
    try:
        key = load_pem_private_key(_read(identity.key), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{identity.key}: is not a private key. Ask for a new one.") from error
    if key.public_key() != certificate.public_key():
        raise InputError(f"{identity.key}: does not belong to {identity.certificate}. Ask for both again.")
    return identity


def renew(authority: Path, name: str, folder: Path, public: Any = None) -> None:
    """A new certificate in `folder`, for the key, name and addresses of the one there: nothing secret has to travel.

    `public`: another key in place of that one.
    """
    from cryptography import x509

    _refuse_revoked(authority, checked_name(name))
    old = _certificate(folder / CERTIFICATE)
    signer, signing = _open_authority(authority)
    if common_name(old) != name:
        raise InputError(f"{folder / CERTIFICATE}: is of {common_name(old)!r:.80}, must be of {name!r}.")
    hosts: list[x509.GeneralName] = []
    for extension in old.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            hosts = list(extension.value)
    builder = _builder(subject(name), signer.subject, public or old.public_key(), _PARTY_DAYS)
    keeping.replace(folder / CERTIFICATE, _signed(_party(builder, signer, hosts), signing))


def replace_authority(authority: Path, retired: Path) -> None:
    """Replace an authority whose certificates must no longer be accepted; revoked names stay revoked.

    Guarantee: after all parties have taken the new authority's certificate, none signed by the old one is accepted.
    """
    _open_authority(authority)
    retired.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=retired) as draft:
        create_authority(Path(draft, "new"))
        keeping.replace(Path(draft, "new", REVOKED), json.dumps(revoked(authority)).encode())
        os.replace(authority, retired / fingerprint(authority / AUTHORITY)[:16])
        os.replace(Path(draft, "new"), authority)


def end_of(certificate: Path) -> dt.datetime:
    """When a certificate ends."""
    return _certificate(certificate).not_valid_after_utc


def fingerprint(certificate: Path) -> str:
    """SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` names it without the colons."""
    from cryptography.hazmat.primitives.hashes import SHA256

    return _certificate(certificate).fingerprint(SHA256()).hex()


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
    try:
        names = json.loads(_read(path))
    except ValueError as error:
        raise InputError(f"{path}: is not a list of names. Restore it from a copy.") from error
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"{path}: is not a list of names. Restore it from a copy.")
    return names


def common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The certificate's common name; empty where it has not exactly one."""
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def subject(name: str) -> x509.Name:
    """A certificate's subject."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    """A certificate to be signed; `key`: the public key."""
    from cryptography import x509

    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _party(
    builder: x509.CertificateBuilder, signer: x509.Certificate, hosts: list[x509.GeneralName]
) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Use

    above = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    link = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([Use.CLIENT_AUTH, Use.SERVER_AUTH]), critical=False)
        .add_extension(link, critical=False)
    )
    return builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False) if hosts else builder


def _usage(**wanted: bool) -> x509.KeyUsage:
    from cryptography import x509

    uses = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign "
        "crl_sign encipher_only decipher_only"
    )
    return x509.KeyUsage(**dict.fromkeys(uses.split(), False) | wanted)


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def secret(key: EllipticCurvePrivateKey) -> bytes:
    """The key as its file has it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _alternative_names(addresses: Sequence[str]) -> list[x509.GeneralName]:
    from cryptography import x509

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
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    _refuse_readable(folder / AUTHORITY_KEY)
    certificate = _certificate(folder / AUTHORITY)
    _refuse_outdated(folder / AUTHORITY, certificate)
    try:
        key = load_pem_private_key(_read(folder / AUTHORITY_KEY), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{folder / AUTHORITY_KEY}: is not a private key. Restore it from a copy."
        ) from error
    if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InputError(
            f"{folder / AUTHORITY_KEY}: does not belong to {AUTHORITY}. Restore both from a copy."
        )
    return certificate, key


def _certificate(path: Path) -> x509.Certificate:
    return certificates(path)[0]


def certificates(path: Path) -> list[x509.Certificate]:
    """All certificates in a file of one authority or several; at least one."""
    from cryptography import x509

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
    from cryptography.exceptions import InvalidSignature

    certificate = _certificate(identity.certificate)
    for authority in certificates(identity.authority):
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return authority
    raise InputError(f"{identity.certificate}: was not signed by {identity.authority}. Ask for both again.")
