"""A running network: a live table in a terminal, a line from time to time in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie._rounding import upper

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.federation.local import LocalNetwork

RENEW = 0.5  # seconds between two updates
_PAUSE = 10.0  # seconds between two lines of a log


def watch(network: LocalNetwork, stop: Callable[[], bool]) -> None:
    """Show the parties' progress until all have ended, or `stop` returns True."""
    from coterie.federation import local

    if not sys.stderr.isatty():
        return _log(network, stop)
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        while network.running() and not stop():
            live.update(table(local.status(network.folder)), refresh=True)
            time.sleep(RENEW)


def table(parties: list[dict[str, Any]]) -> Table:
    """One line for each party."""
    from rich.table import Table

    heads = ("party", "state", "step", "neighbours", "ε spent", "waits for", "refused", "note")
    grid = Table(*heads, box=None, pad_edge=False)
    for party in parties:
        if "step" not in party:
            grid.add_row(party["name"], party["state"])
            continue
        grid.add_row(
            party["name"],
            party["state"],
            f"{party['step']:,} of {party['of']:,}",
            f"{len(party['alive'])} of {len(party['peers'])}",
            f"{upper(party['epsilon_spent'])} of {party['epsilon_budget']:g}"
            if "epsilon_spent" in party
            else "",
            ", ".join(party["waiting_for"]),
            str(sum(party["refusals"].values()) or ""),
            "; ".join(filter(None, [party["note"], *party.get("troubles", ())])),
        )
    return grid


def reach(checks: list[dict[str, Any]]) -> Table:
    """Who reaches whom: a line for each party, a column for each that it talks to."""
    from rich.table import Table

    names = [check["name"] for check in checks]
    grid = Table("from \\ to", *names, "ε after the run", "ready", box=None, pad_edge=False)
    for report in checks:
        met = {peer["name"]: "yes" if peer["reached"] else "NO" for peer in report["peers"]}
        cost = f"{upper(report['after'])} of {report['budget']:g}" if "after" in report else ""
        grid.add_row(
            report["name"], *(met.get(name, "·") for name in names), cost, "yes" if report["ready"] else "NO"
        )
    return grid


def _log(network: LocalNetwork, stop: Callable[[], bool]) -> None:
    from coterie.federation import local

    printed = time.monotonic()
    while network.running() and not stop():
        time.sleep(RENEW)
        if time.monotonic() - printed >= _PAUSE:
            printed = time.monotonic()
            steps = [f"{party['name']} {party.get('step', 0)}" for party in local.status(network.folder)]
            print("steps: " + ", ".join(steps), file=sys.stderr, flush=True)
