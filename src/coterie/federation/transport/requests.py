"""A party's own key, made at home: what it sends to the founder is a signing request, in which nothing is secret."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coterie.errors import InputError
from coterie.federation.transport import authorities, keeping, trust

REQUEST = "request.pem"


def make(folder: Path, name: str, host: str | None = None) -> Path:
    """Make a private key in `folder`, readable by its owner alone, and the request beside it; return its path.

    `host`: where others dial a party that is its own authority; the request then has that authority's certificate, too.
    """
    trust.checked_name(name)
    keeping.refuse_existing(folder, (trust.PRIVATE_KEY, REQUEST))
    key = trust.new_key()
    authority = b"" if host is None else authorities.make(folder, name, host, key.public_key())
    wanted = x509.CertificateSigningRequestBuilder().subject_name(trust.subject(name)).sign(key, SHA256())
    keeping.write_new(
        folder, {trust.PRIVATE_KEY: trust.secret(key), REQUEST: wanted.public_bytes(Encoding.PEM) + authority}
    )
    return folder / REQUEST


def read(path: Path, name: str) -> Any:
    """The public key of a request; InputError unless it is of that name, and made by whoever has the secret."""
    try:
        wanted = x509.load_pem_x509_csr(path.read_bytes())
    except OSError as error:
        raise InputError(f"request={str(path)!r}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(
            f"request={str(path)!r}: is no signing request. {name} makes one: coterie network request FOLDER {name}"
        ) from error
    public = wanted.public_key()
    if not wanted.is_signature_valid:
        raise InputError(f"request={str(path)!r}: is not signed with its own key. Ask {name} for it again.")
    if trust.common_name(wanted) != name:
        raise InputError(
            f"request={str(path)!r}: is of {trust.common_name(wanted)!r:.80}, must be of {name!r}."
        )
    if not isinstance(public, EllipticCurvePublicKey) or not isinstance(public.curve, SECP256R1):
        raise InputError(
            f"request={str(path)!r}: its key must be of the curve P-256. Ask {name} for another."
        )
    return public


def fingerprint(public: Any) -> str:
    """A public key's fingerprint, for comparison by telephone: SHA-256 of its DER form (`openssl pkey -pubin`)."""

    return sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
