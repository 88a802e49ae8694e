"""A network at work, in a table that renews itself; in a log, a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.experiments.federation.local import Network

_RENEW = 0.5  # seconds
_PAUSE = 10.0  # seconds between two lines of a log


def watch(network: Network) -> None:
    """Show where the parties stand until all have ended."""
    from coterie.experiments.federation import local

    if not sys.stderr.isatty():
        return _log(network)
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        while network.running():
            live.update(table(local.status(network.folder)), refresh=True)
            time.sleep(_RENEW)


def table(parties: list[dict[str, Any]]) -> Table:
    """One line for each party."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False)
    for column in ("party", "state", "step", "neighbours", "ε spent", "waits for", "refused", "note"):
        grid.add_column(column)
    for one in parties:
        if "step" not in one:
            grid.add_row(one["name"], one["state"])
            continue
        grid.add_row(
            one["name"],
            one["state"],
            f"{one['step']:,} of {one['of']:,}",
            f"{len(one['alive'])} of {len(one['peers'])}",
            f"{one['epsilon_spent']:.3g} of {one['epsilon_budget']:g}" if "epsilon_spent" in one else "",
            ", ".join(one["waiting_for"]),
            str(sum(one["refusals"].values()) or ""),
            one["note"],
        )
    return grid


def _log(network: Network) -> None:
    from coterie.experiments.federation import local

    said = time.monotonic()
    while network.running():
        time.sleep(_RENEW)
        if time.monotonic() - said >= _PAUSE:
            said = time.monotonic()
            steps = [f"{one['name']} {one.get('step', 0)}" for one in local.status(network.folder)]
            print("steps: " + ", ".join(steps), file=sys.stderr, flush=True)
