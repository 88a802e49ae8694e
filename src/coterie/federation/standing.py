"""Where one party stands, in words, from the status file that it writes once a second: for terminals and pages."""

from __future__ import annotations

import datetime as dt
from typing import Any

from coterie._rounding import left, upper

ENDED = ("finished", "stopped")
_GONE = 15.0  # seconds of silence after which a warning is shown


def head(snapshot: dict[str, Any], now: float, rate: float | None) -> list[str]:
    """The party itself, in words."""
    step, of = snapshot["step"], snapshot["of"]
    pace = f", {rate:.3g} a second" if rate else ""
    soon = f", about {dt.timedelta(seconds=round((of - step) / rate))} left" if rate and of > step else ""
    lines = [f"{snapshot['name']}: {snapshot['state']}, step {step:,} of {of:,}{pace}{soon}"]
    if now - snapshot["time"] > _GONE and snapshot["state"] not in ENDED:
        lines.append(f"no word for {now - snapshot['time']:,.0f} seconds: the node was killed, or is stuck")
    if snapshot["waiting_for"]:
        lines.append(f"waits for {', '.join(snapshot['waiting_for'])}")
    if snapshot["note"]:
        lines.append(snapshot["note"])
    if "epsilon_spent" in snapshot:
        spent, budget = snapshot["epsilon_spent"], snapshot["epsilon_budget"]
        lines.append(
            f"ε = {upper(spent)} of {budget:g} spent on these records, {left(budget, spent)} left; "
            f"{snapshot['releases']:,} releases in this run"
        )
    return lines


def peer_cells(snapshot: dict[str, Any], peer: str, now: float) -> list[str]:
    """Whether a peer is there, when it was last heard, how far its clock is ahead, how long its certificate lasts."""
    there = "finished" if peer in snapshot["finished"] else "yes" if peer in snapshot["alive"] else "NO"
    silent, clock = snapshot["silent"].get(peer), snapshot["clocks"].get(peer)
    end = snapshot.get("certificates", {}).get(peer)
    return [
        there,
        "never" if silent is None else f"{silent:,.1f} s ago",
        "" if clock is None else f"{clock:+.1f} s",
        "" if end is None else f"{days_left(end, now):,.0f} days left",
    ]


def below(snapshot: dict[str, Any], now: float) -> list[str]:
    """Warnings: what an administrator should look at."""
    lines = []
    own = snapshot.get("certificates", {}).get(snapshot["name"])
    if own is not None:
        lines.append(f"own certificate: {days_left(own, now):,.0f} days left")
    lines += [f"refused {count:,}: {who}" for who, count in snapshot["refusals"].items()]
    lines += [f"trouble: {line}" for line in snapshot.get("troubles", ())]
    return lines


def days_left(end: str, now: float) -> float:
    """Days until a certificate ends."""
    return (dt.datetime.fromisoformat(end).timestamp() - now) / 86_400
