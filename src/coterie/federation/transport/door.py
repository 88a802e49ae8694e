"""Counts of connections and messages that Zenoh refuses before a party hears of them.

A peer without an acceptable certificate gets no connection, and a message under another's key does not pass access
control. Zenoh tells neither to the program, only to its log, which it writes to the process's standard output. So
that output is led through a pipe, where these lines are counted and none is shown; what Python prints goes where it
went before. Only for a node, whose process is one party's own; not for a program that embeds a party.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

STRANGER = "a stranger"  # on the network: no certificate says who
SOMEBODY = "a party of this network"  # its certificate is valid; Zenoh's line does not say whose it is
DENIED = "not in this agreement: it follows another one, was revoked, or used another's name"
LAPSED = "a party whose certificate has ended"  # where no known certificate ended then
_LEVELS = (
    "off",
    "zenoh_link_tls=warn",  # a connection that failed
    "zenoh::net::routing::interceptor=trace",  # one line for a message that did not pass
    "zenoh::net::routing::interceptor::access_control=off",  # many lines for one that did
)
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_CONNECTION = re.compile(rb"zenoh_link_tls\S*: (.*)")
_ENDED = re.compile(r"certificate expired.* not valid after (\d{1,12})\b")
_NOBODY: Mapping[int, str] = {}


@contextmanager
def watched(refuse: Callable[[str, str], None], ends: Mapping[int, str] = _NOBODY) -> Iterator[None]:
    """Call `refuse` (who, reason) for everything that is refused, in a thread of its own.

    `ends`: the second at which each certificate ends, by which alone a refused one can be recognised.
    """
    import zenoh

    sys.stdout.flush()
    before, shown = os.dup(1), sys.stdout
    read, write = os.pipe()
    os.dup2(write, 1)
    os.close(write)
    reader = threading.Thread(target=_count, args=(read, refuse, ends), name="door", daemon=True)
    reader.start()
    sys.stdout = os.fdopen(os.dup(before), "w", buffering=1, encoding="utf-8")
    try:
        zenoh.init_log_from_env_or(",".join(_LEVELS))
        yield
    finally:
        sys.stdout.close()
        sys.stdout = shown
        os.dup2(before, 1)  # closes the pipe's last writing end, so that the reader ends
        os.close(before)
        reader.join()


def reason_of(line: bytes, ends: Mapping[int, str] = _NOBODY) -> tuple[str, str] | None:
    """Who was refused and why, from a line of Zenoh's log; None where it is about something else."""
    line = _COLOUR.sub(b"", line)
    if b"Msg intercepted!" in line:
        # Only receiving threads count: what this party's own rules keep it from sending is no refusal.
        return (SOMEBODY, DENIED) if re.search(rb"\brx-\d+ ", line) else None
    match = _CONNECTION.search(line)
    if match is None:
        return None
    text = match[1].decode("utf-8", "replace").partition(". Hint")[0]
    if ended := _ENDED.search(text):
        second = int(ended[1])
        when = datetime.fromtimestamp(second, UTC)
        return ends.get(second, LAPSED), f"no connection: its certificate ended on {when:%Y-%m-%d %H:%M} UTC"
    if "CertificateExpired" in text:
        return SOMEBODY, "no connection: it says that this node's certificate has ended"
    return STRANGER, f"no connection: {text[:80]}"


def _count(read: int, refuse: Callable[[str, str], None], ends: Mapping[int, str]) -> None:
    with os.fdopen(read, "rb") as lines:
        for line in lines:
            refusal = reason_of(line, ends)
            if refusal is not None:
                refuse(*refusal)
