"""Those who watch a node, for tests: a service manager, and a collector of metrics."""

from __future__ import annotations

import http.client
import re
import socket

SAMPLE = re.compile(r'coterie_([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Every sample of Prometheus' text format, which each line must keep."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            matched = SAMPLE.fullmatch(line)
            assert matched, line
            found[matched[1], matched[2] or ""] = float(matched[3])
    return found


def asked(port: int, path: str, host: str | None = None) -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    line.request("GET", path, headers={} if host is None else {"Host": host})
    answer = line.getresponse()
    found = answer.status, answer.read().decode()
    line.close()
    return found


class Manager:
    """systemd's end of the socket."""

    def __init__(self, address: str | bytes) -> None:
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(address)
        self.line.settimeout(180)

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.line.close()

    def heard(self) -> list[str]:
        return self.line.recv(4096).decode().splitlines()
