"""Tells systemd about the service (sd_notify, without its library): ready, its status, alive, stopping.

With `Type=notify` a unit is started once the party listens; with `WatchdogSec=` systemd restarts one whose loop no
longer turns. Every message goes to the socket that `NOTIFY_SOCKET` names; without it nothing is said.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

Shown = Callable[[Mapping[str, Any]], None]


def notifier(environment: Mapping[str, str] = os.environ) -> Shown:
    """A function that tells systemd about each snapshot."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return lambda snapshot: None
    ready = False

    def show(snapshot: Mapping[str, Any]) -> None:
        nonlocal ready
        lines = [f"STATUS={_status(snapshot)}", "WATCHDOG=1"]
        if not ready:
            lines.append("READY=1")
            ready = True
        if snapshot["state"] in ("finished", "stopped"):
            lines.append("STOPPING=1")
        _send(address, "\n".join(lines))

    return show


def _status(snapshot: Mapping[str, Any]) -> str:
    waits = f", waits for {', '.join(snapshot['waiting_for'])}" if snapshot["waiting_for"] else ""
    note = f"; {snapshot['note']}" if snapshot["note"] else ""
    return f"{snapshot['state']}, step {snapshot['step']} of {snapshot['of']}{waits}{note}".replace("\n", " ")


def _send(address: str, text: str) -> None:
    """Send with best effort: the party goes on if the service manager is gone."""
    place = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        try:
            line.settimeout(1.0)
            line.sendto(text.encode(), place)
        except OSError:
            return
