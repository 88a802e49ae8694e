"""Troubles that Zenoh does not report: certificates that end, and host names that do not resolve.

Checked when a node starts and from time to time while it runs, in a thread of its own, as a look-up may take long.
New troubles are logged; all present ones are in the status.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Mapping

from coterie.federation.party import Party
from coterie.federation.transport import keeping, trust
from coterie.federation.transport.address import unresolved
from coterie.federation.transport.lines import Log, warning

WARNING = dt.timedelta(days=30)  # before a certificate ends
_PAUSE = 30.0  # seconds between two checks

Ends = Mapping[str, dt.datetime]


class Troubles:
    """`with Troubles(...)` checks until it is left; `now` has the latest troubles."""

    def __init__(self, ends: Ends, dialled: Mapping[str, str], log: Log) -> None:
        """`ends`: whose certificate ends when; `dialled`: host:port of whom this party dials."""
        self.now: tuple[str, ...] = ()
        self._ends, self._dialled, self._log = ends, dialled, log
        self._logged: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="troubles", daemon=True)

    def __enter__(self) -> Troubles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()  # the thread is not joined: a look-up may take long

    def look(self) -> None:
        """Check now, and log new troubles."""
        self.now = (*ending(self._ends, dt.datetime.now(dt.UTC)), *unknown(self._dialled))
        for line in self.now:
            if line not in self._logged and not self._over.is_set():
                self._logged.add(line)
                self._log(warning(line))

    def _watch(self) -> None:
        self.look()
        while not self._over.wait(_PAUSE):
            self.look()


def ending(ends: Ends, now: dt.datetime) -> list[str]:
    """Certificates that have ended or will soon, in words."""
    lines: list[str] = []
    for name, end in ends.items():
        ask = f"whoever founded the network, or its own authority, renews it: coterie network renew FOLDER {name}"
        if end <= now:
            lines.append(f"the certificate of {name} ended on {end:%Y-%m-%d}: nobody connects with it; {ask}")
        elif end - now <= WARNING:
            days = (end - now).days
            lines.append(f"the certificate of {name} ends on {end:%Y-%m-%d}, in {days} days; {ask}")
    return lines


def unknown(dialled: Mapping[str, str]) -> list[str]:
    """Hosts to dial whose names do not resolve, in words."""
    lost = [(name, address) for name, address in dialled.items() if unresolved(address)]
    return [
        f"the address of {name}, {address}: the host name does not resolve; it is tried again. Is it spelt rightly?"
        for name, address in lost
    ]


def by_second(ends: Ends) -> dict[int, str]:
    """Whose certificates end at which second; those of one founding may end together."""
    names: dict[int, list[str]] = {}
    for name, end in ends.items():
        names.setdefault(int(end.timestamp()), []).append(name)
    return {second: " or ".join(some) for second, some in names.items()}


def written(ends: Ends) -> str:
    """The content of `certificates.json`: public."""
    return json.dumps({name: end.isoformat() for name, end in ends.items()}, indent=1) + "\n"


def known(party: Party, peers: tuple[str, ...]) -> dict[str, dt.datetime]:
    """When certificates end: this party's own from its file, its peers' from the founder's list."""
    listed: dict[str, dt.datetime] = {}
    if party.certificates.exists():
        fault = "is not a list of certificates. Ask the founder for it again."
        listed = keeping.read_json(party.certificates, dict[str, dt.datetime], fault)
    own = trust.end_of(party.folder / trust.CERTIFICATE)
    return {party.name: own} | {name: end for name, end in listed.items() if name in peers}
