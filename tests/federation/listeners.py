"""Those who watch a node, for tests: a service manager, and a collector of metrics."""

from __future__ import annotations

import http.client
import re
import socket
from queue import Queue
from threading import Thread

from wired import LONG

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
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    line.request("GET", path, headers={} if host is None else {"Host": host})
    answer = line.getresponse()
    found = answer.status, answer.read().decode()
    line.close()
    return found


class Manager:
    """systemd's end of the socket. As systemd it listens all the time: a socket holds ten words, and then none."""

    def __init__(self, address: str) -> None:
        self.address, self.line = address, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(address)
        self._heard: Queue[list[str]] = Queue()
        self._thread = Thread(target=self._listen)

    def __enter__(self) -> Manager:
        self._thread.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        self.line.sendto(b"", self.address)
        self._thread.join()
        self.line.close()

    def _listen(self) -> None:
        while words := self.line.recv(4096):
            self._heard.put(words.decode().splitlines())

    def heard(self) -> list[str]:
        return self._heard.get(timeout=LONG)
