"""Where a party stands, in Prometheus' text format (version 0.0.4): written from the snapshot that `drive` makes.

What may be exported: steps, peers, traffic, refusals, certificates and clocks are public, for every peer sees them or
the agreement has them. ε spent, ε left and charges are the owner's ledger: functions of plans and counts, never of a
record's value, and shown on its own machine alone (`endpoint` listens on the loop-back). Nothing else is in a snapshot.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import coterie

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_DAY = 86_400.0

Samples = Iterable[tuple[dict[str, str], float]]  # labels and value


def text(shown: Mapping[str, Any], now: float) -> str:
    """A snapshot's metrics; `now` in seconds since 1970."""
    peers = shown["peers"]
    there = {peer: peer in shown["alive"] for peer in peers}
    done = {peer: peer in shown["finished"] for peer in peers}
    missing = {peer: peer in shown["waiting_for"] for peer in sorted({*peers, *shown["waiting_for"]})}
    version = coterie.__version__
    metrics: list[tuple[str, str, str, Samples]] = [
        ("info", "gauge", "Party and version; always 1.", _one(1, party=shown["name"], version=version)),
        ("state", "gauge", "1 for the state that the party is in.", _one(1, state=shown["state"])),
        ("snapshot_age_seconds", "gauge", "Since the party last told its state.", _one(now - shown["time"])),
        ("rounds", "gauge", "Rounds or visits that are complete.", _one(shown["step"])),
        ("rounds_agreed", "gauge", "Rounds or visits of the run.", _one(shown["of"])),
        ("waiting_for", "gauge", "Whether a peer's message is missing.", _each(missing)),
        ("peer_alive", "gauge", "Whether a peer is there.", _each(there)),
        ("peer_finished", "gauge", "Whether a peer said that it has finished.", _each(done)),
        ("peer_silent_seconds", "gauge", "Since a peer was last heard.", _each(shown["silent"])),
        ("clock_ahead_seconds", "gauge", "Of a peer's clock, at its greeting.", _each(shown["clocks"])),
        ("refused_frames_total", "counter", "Refused, by sender and reason.", _refused(shown["refusals"])),
        ("refused_messages_total", "counter", "Refused by the protocol, by content.", _one(shown["refused"])),
        ("dropped_frames_total", "counter", "Came faster than could be read.", _each(shown["dropped"])),
        ("forged_frames_total", "counter", "Under a peer's name, not by it.", _each(shown["forged"])),
        ("frames_total", "counter", "Frames in and out.", _traffic(shown["traffic"], "frames")),
        ("bytes_total", "counter", "Bytes in and out.", _traffic(shown["traffic"], "bytes")),
        ("certificate_days_left", "gauge", "Until a certificate ends.", _days(shown["certificates"], now)),
        ("troubles", "gauge", "Troubles that the status names.", _one(len(shown["troubles"]))),
    ]
    if "epsilon_spent" in shown:
        spent, budget = shown["epsilon_spent"], shown["epsilon_budget"]
        metrics += [
            ("releases_total", "counter", "Releases of this run that are charged.", _one(shown["releases"])),
            ("epsilon_spent", "gauge", "By everything charged on these records.", _one(spent)),
            ("epsilon_budget", "gauge", "The ledger's, over all runs.", _one(budget)),
            (
                "budget_left",
                "gauge",
                "The budget's epsilon less what is spent.",
                _one(max(0.0, budget - spent)),
            ),
        ]
    return "".join(_metric(*metric) for metric in metrics)


def _metric(name: str, kind: str, words: str, samples: Samples) -> str:
    lines = [f"coterie_{name}{_labels(labels)} {float(value)!r}\n" for labels, value in samples]
    return "".join([f"# HELP coterie_{name} {words}\n# TYPE coterie_{name} {kind}\n", *lines])


def _labels(labels: Mapping[str, str]) -> str:
    """Labels as text. Reasons may hold what a peer sent, so quotes and line ends are escaped."""
    pairs = [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _one(value: float, **labels: str) -> Samples:
    return [(labels, value)]


def _each(values: Mapping[str, float]) -> Samples:
    return [({"peer": name}, value) for name, value in values.items()]


def _refused(counts: Mapping[str, int]) -> Samples:
    pairs = [(*who.partition(": ")[::2], count) for who, count in counts.items()]
    return [({"sender": sender, "reason": reason}, count) for sender, reason, count in pairs]


def _traffic(counts: Mapping[str, int], what: str) -> Samples:
    return [({"direction": way}, counts.get(f"{what} {way}", 0)) for way in ("in", "out")]


def _days(ends: Mapping[str, str], now: float) -> Samples:
    left = {name: (dt.datetime.fromisoformat(end).timestamp() - now) / _DAY for name, end in ends.items()}
    return [({"party": name}, days) for name, days in left.items()]
