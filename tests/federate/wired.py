"""Parties on this machine with certificates of their own, for the tests of what is on the wire."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from coterie.engines.federate import trust
from coterie.engines.federate.trust import Identity

HOST = "127.0.0.1"


def identities(folder: Path, names: Sequence[str]) -> dict[str, Identity]:
    """An authority and a certificate for each name, all dialled at this machine's own address."""
    trust.create_authority(folder / "authority")
    return {name: trust.issue(folder / "authority", name, [HOST], folder / name) for name in names}


def addresses(names: Sequence[str]) -> dict[str, str]:
    """A free port for each name; all are held until all are known, so that they differ."""
    held = [socket.create_server((HOST, 0)) for _ in names]
    found = {name: f"{HOST}:{one.getsockname()[1]}" for name, one in zip(names, held, strict=True)}
    for one in held:
        one.close()
    return found


def until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Whether a condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
