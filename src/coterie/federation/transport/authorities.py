"""Several authorities: each party its own, at home, in place of one that the founder keeps.

The agreement has the fingerprints of their certificates, and every party trusts all of them. That alone would be too
much, for Zenoh accepts any name from any of them. So each party of such a network has a key of its own in the agreement
as well, and frames are sealed with these (`sealing.py`). What one party's authority certifies under another's name
gets a connection and nothing else: nothing that it says is taken, and it can read nothing. A party renews its
certificate itself, and nobody else can.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from coterie.errors import InputError
from coterie.federation.transport import keeping, trust

AT_HOME = "authority"  # in the party's own folder: its key signs this party's certificates
FOLDER = "authorities"  # in the founder's: NAME.pem, public


def make(folder: Path, name: str, host: str, public: object) -> bytes:
    """Make a party's own authority, and its certificate for `host`; return what the founder needs of it."""
    authority = trust.create_authority(folder / AT_HOME)
    try:
        trust.issue(folder / AT_HOME, name, [host], folder, public)
    except InputError:
        shutil.rmtree(folder / AT_HOME)
        raise
    return authority.read_bytes()


def of_request(path: Path, name: str) -> x509.Certificate | None:
    """The authority that came with a request, if one did; InputError where it cannot be an authority."""
    if b"BEGIN CERTIFICATE-" not in path.read_bytes():
        return None
    (authority, *more) = trust.certificates(path)
    try:
        authority.verify_directly_issued_by(authority)
        limits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        limits = None
    if more or limits is None or not limits.ca or authority.not_valid_after_utc <= dt.datetime.now(dt.UTC):
        raise InputError(f"request={str(path)!r}: has no authority that is one. Ask {name} for it again.")
    return authority


def keep(folder: Path, authorities: Mapping[str, x509.Certificate]) -> None:
    """Write the founder's copies."""
    (folder / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, certificate in authorities.items():
        keeping.replace(folder / FOLDER / f"{name}.pem", certificate.public_bytes(Encoding.PEM))


def bundle(folder: Path, parties: Sequence[str]) -> bytes:
    """All of them in one file, which everybody gets."""
    return b"".join((folder / FOLDER / f"{name}.pem").read_bytes() for name in parties)


def refuse_mixed(authorities: Mapping[str, str], parties: Sequence[str], router: str | None) -> None:
    """InputError where some parties are their own authority and others are not, as those could be impersonated."""
    missing = [name for name in parties if name not in authorities]
    if authorities and missing:
        raise InputError(
            f"request of {missing[0]!r}: has no authority of its own, and others have. All parties, or none: coterie "
            f"network request FOLDER {missing[0]} --own-authority HOST"
        )
    if authorities and router is not None:
        raise InputError(
            f"router={router!r:.80}: no authority is left to certify it, where every party is its own. Leave it out."
        )


def refuse_others(identity: trust.Identity, authorities: Mapping[str, str]) -> None:
    """InputError unless the party trusts exactly the agreed authorities, and its own signed its certificate."""
    trusted = {trust.fingerprint(certificate) for certificate in trust.certificates(identity.authority)}
    if trusted != set(authorities.values()):
        raise InputError(
            f"{identity.authority}: has other authorities than the agreement. Ask the founder for both again."
        )
    if trust.fingerprint(trust.signer(identity)) != authorities[identity.name]:
        raise InputError(
            f"{identity.certificate}: was signed by another authority than {identity.name}'s own. Renew it at home: "
            f"coterie network renew FOLDER {identity.name}"
        )


def renew(folder: Path, name: str) -> dt.datetime:
    """Renew a party's certificate by its own authority; return when it ends. Nobody else needs to know."""
    if not (folder / AT_HOME / trust.AUTHORITY_KEY).exists():
        raise InputError(
            f"{folder / AT_HOME}: is no authority of this party's own. The founder renews its certificate: coterie "
            f"network renew DIR {name}"
        )
    trust.renew(folder / AT_HOME, name, folder)
    return trust.end_of(folder / trust.CERTIFICATE)
