"""One owner's party on its own machine, live: from the status file that it writes once a second."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli._live import RENEW
from coterie.federation.local import read_status
from coterie.federation.standing import ENDED, below, head, peer_cells

if TYPE_CHECKING:
    from rich.console import RenderableType

_PAUSE = 10.0  # seconds between two lines of a log


def watch(status: Path) -> None:
    """Show the party's progress until it ends, or Ctrl-C."""
    seen = _Pace()
    if not sys.stdout.isatty():
        return _lines(status, seen)
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            snapshot = read_status(status)
            live.update(shown(snapshot, time.time(), seen.rate(snapshot)), refresh=True)
            if snapshot and snapshot["state"] in ENDED:
                return
            time.sleep(RENEW)


def shown(snapshot: dict[str, Any] | None, now: float, rate: float | None) -> RenderableType:
    """Everything about one party."""
    from rich.console import Group
    from rich.table import Table

    if snapshot is None:
        return "not started yet: no status file"
    grid = Table("peer", "there", "last heard", "clock", "certificate", box=None, pad_edge=False)
    for peer in snapshot["peers"]:
        grid.add_row(peer, *peer_cells(snapshot, peer, now))
    return Group(
        *head(snapshot, now, rate), "", grid, *([""] if (noted := below(snapshot, now)) else []), *noted
    )


class _Pace:
    """Steps a second since watching began."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def rate(self, snapshot: dict[str, Any] | None) -> float | None:
        """The rate; None before the first step."""
        if snapshot is None:
            return None
        when, step = snapshot["time"], snapshot["step"]
        if self._first is None or step < self._first[1]:
            self._first = when, step
        return (step - self._first[1]) / (when - self._first[0]) if when > self._first[0] else None


def _lines(status: Path, seen: _Pace) -> None:
    """A line from time to time, for a pipe."""
    printed = -_PAUSE
    while True:
        snapshot = read_status(status)
        ended = snapshot is not None and snapshot["state"] in ENDED
        if ended or time.monotonic() - printed >= _PAUSE:
            printed = time.monotonic()
            lines = head(snapshot, time.time(), seen.rate(snapshot)) if snapshot else ["not started yet"]
            print("; ".join(lines), flush=True)
        if ended:
            return
        time.sleep(RENEW)
