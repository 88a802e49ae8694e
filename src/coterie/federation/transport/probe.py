"""Whether a peer can be reached at its address and, if not, why: name, port, TLS, certificate.

Zenoh dials again and again and says little about what failed. This dials once, shows this party's certificate, looks
at the other one, sends nothing, and hangs up.
"""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from coterie.federation.transport.address import parts, unresolved
from coterie.federation.transport.trust import Identity
from coterie.federation.transport.tunnel import PATIENCE, ProxyRefused, dial

_OBJECTION = 0.5  # seconds in which the other end may object to this party's certificate
_ENDED, _NOT_YET, _WRONG_HOST, _WRONG_ADDRESS = 10, 9, 62, 64  # OpenSSL's X509_V_ERR numbers


class Unreached(Exception):
    """Why a peer cannot be reached, in words."""


def probe(identity: Identity, name: str, address: str, proxy: str | None = None) -> dt.datetime:
    """Dial `name` at host:port; return when its certificate ends. Unreached, with the reason, where that fails."""
    if why := unresolved(proxy or address):
        raise Unreached(
            f"the host name does not resolve ({why}). Is it spelt rightly? Else ask who keeps the names"
        )
    with _connect(address, proxy) as plain:
        secured = _secure(identity, plain, parts(address)[0])
        with secured:
            shown = secured.getpeercert() or {}
            _refuse_another(shown, name)
            _refused_by(secured)
    return dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), dt.UTC)


def _connect(address: str, proxy: str | None) -> socket.socket:
    try:
        return dial(address, proxy)
    except ProxyRefused as error:
        raise Unreached(
            f"the proxy {proxy} does not connect with it: {error.strerror!r}. Is the peer's node running? Else ask who "
            "keeps the proxy to allow this host and port"
        ) from error
    except ConnectionRefusedError as error:
        if proxy is not None:
            raise Unreached(f"no proxy listens at {proxy}. Correct proxy in node.toml") from error
        raise Unreached(
            "nobody listens at this port. Start its node, or its --check at the same time; else correct the address"
        ) from error
    except TimeoutError as error:
        raise Unreached(
            f"no answer within {PATIENCE:g} seconds. Is the machine on, and does a firewall let this port through?"
        ) from error
    except OSError as error:
        raise Unreached(f"cannot be dialled ({error.strerror}). Ask who keeps the network") from error


def _secure(identity: Identity, plain: socket.socket, host: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(identity.authority)
    context.load_cert_chain(identity.certificate, identity.key)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise Unreached(_objection(error, host)) from error
    except TimeoutError as error:
        raise Unreached(
            "the port is open, but nobody speaks TLS there. Another program? Correct the address"
        ) from error
    except (ssl.SSLError, OSError) as error:
        reason = _plain(error, "the connection was closed")
        raise Unreached(
            f"who listens there does not speak TLS as a node does ({reason}). Another program's port, or a "
            "firewall that reads along? Correct the address"
        ) from error


def _objection(error: ssl.SSLCertVerificationError, host: str) -> str:
    """What is wrong with the certificate that was shown."""
    if error.verify_code == _ENDED:
        return "its certificate has ended. The founder renews it (coterie network renew); is this machine's date right?"
    if error.verify_code == _NOT_YET:
        return "its certificate is not valid yet. Compare this machine's date and time with the other one's"
    if error.verify_code in (_WRONG_HOST, _WRONG_ADDRESS):
        return f"its certificate is not for {host!r}. Dial the name that it is for, or ask the founder for a new one"
    return (
        f"its certificate is not of this network's authority ({error.verify_message}). It belongs to another network, "
        "or somebody in between answers. Compare addresses, then authority.pem"
    )


def _refuse_another(shown: Mapping[str, Any], name: str) -> None:
    """Unreached unless the certificate, as `ssl` describes it, is of that name."""
    names = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    if names != [name]:
        raise Unreached(
            f"{' and '.join(map(str, names)) or 'nobody'} answers there, not {name}. Correct the address"
        )


def _refused_by(secured: ssl.SSLSocket) -> None:
    """Unreached where the other end refuses this party's certificate: in TLS 1.3, only after the handshake."""
    secured.settimeout(_OBJECTION)
    try:
        secured.recv(1)
    except TimeoutError:
        return  # it waits for this end to speak: all is well
    except (ssl.SSLError, OSError) as error:
        reason = _plain(error, "no reason given")
        raise Unreached(f"it refuses this party's certificate ({reason}). Has it ended?") from error


def _plain(error: OSError, otherwise: str) -> str:
    """OpenSSL's name of a reason, or the system's words, in plain words."""
    return (getattr(error, "reason", None) or error.strerror or otherwise).lower().replace("_", " ")
