"""Ports for tests that run beside each other, in one run of all or in several on one machine."""

from __future__ import annotations

import atexit
import contextlib
import secrets
import socket

HOST = "127.0.0.1"
_FIRST, _COUNT = 20_000, 12_000  # below those that systems give to whoever dials, above those that we propose
_promised = contextlib.ExitStack()  # says to others, as long as this process lives, that a port is taken
atexit.register(_promised.close)


def ports(count: int) -> list[int]:
    """Free ports, none of them twice on this machine."""
    found: list[int] = []
    while len(found) < count:
        port = _FIRST + secrets.randbelow(_COUNT)
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            _promise(port)
            found.append(port)
    return found


def _promise(port: int) -> None:
    """OSError where another test was promised the port, though nobody may listen there yet."""
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mark.bind(f"\0coterie test port {port}")
    except OSError:
        mark.close()
        raise
    _promised.callback(mark.close)
