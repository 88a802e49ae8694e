"""Addresses as people write them: host:port, where a number of IPv6 stands in brackets."""

from __future__ import annotations

import ipaddress
import socket

from coterie.errors import InputError

_NOT_A_HOST = set("/#?;%@ ")  # separators of Zenoh's endpoints, and of IPv6 zones


def checked(what: str, address: str) -> str:
    """The address; InputError unless it is host:port."""
    host, _, port = address.rpartition(":")
    good = port.isascii() and port.isdigit() and 0 < int(port) < 65_536
    if not good or not host or set(host) & _NOT_A_HOST or not _one_host(host):
        raise InputError(
            f"{what}: {address!r:.80} must be host:port, such as ml.example.org:17471 or [2001:db8::7]:17471, with a "
            "port of 1 to 65535."
        )
    return address


def parts(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of a checked address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def numeric6(address: str) -> bool:
    """Whether the address's host is an IPv6 number."""
    return address.startswith("[")


def unresolved(address: str) -> str:
    """Why the host of host:port does not resolve; nothing where it does. May take long."""
    try:
        socket.getaddrinfo(*parts(address), type=socket.SOCK_STREAM)
    except OSError as error:
        return error.strerror or "no reason given"
    return ""


def _one_host(host: str) -> bool:
    """A name or a number of IPv4 has no colon, and a number of IPv6 has brackets."""
    if not set(host) & set("[]:"):
        return True
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True
