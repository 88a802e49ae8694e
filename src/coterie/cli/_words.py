"""A run's result in words, for people, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.experiments.run import Result

WIDTH = 80


def words(result: Result, folder: Path) -> str:
    """What was run, what it reached, what it cost, where it is."""
    privacy = result.to_json(str(folder))["privacy"]
    blocks = [
        *_wrap(_what(result)),
        "",
        f"{result.metric} on {len(result.prepared.y_test):,} {result.test_rows}",
        *_table(_metric_rows(result)),
        "",
        *_wrap(
            f"privacy of one {privacy['unit']} "
            f"({privacy['relation']}, {privacy['view']}, δ = {privacy['delta']:g})"
        ),
        *_table(_privacy_rows(result, privacy)),
        *_notes(result, privacy),
        "",
        *_wrap("oracle: computed from private records, for your eyes; no owner releases it."),
        f"written: {folder}  ({result.seconds:.1f} s)",
    ]
    return "\n".join(blocks)


def _what(result: Result) -> str:
    task, experiment = result.prepared.task, result.experiment
    steps = int(result.steps[-1])
    owners = f"{task.owners:,} owner{'s' * (task.owners > 1)}"
    if result.step == "visit":
        path = f"{steps:,} visits"
    elif result.program.aggregate is not None:
        path = f"{steps:,} rounds over an aggregator"
    else:
        path = f"{steps:,} rounds, topology {task.topology.name}, {result.gossip_steps} gossip steps a round"
    return (
        f"{experiment.data}: {owners}, {sum(task.sizes):,} records. "
        f"{experiment.protocol} ({experiment.calibration}), {path}."
    )


def _metric_rows(result: Result) -> list[tuple[str, str, str]]:
    return [
        ("joint model", f"{result.joint:.4f}", ""),
        ("each owner alone, same budget", f"{result.local_mean:.4f}", "oracle; mean, weighted by size"),
        ("all records, no privacy", f"{result.central:.4f}", "oracle; the ceiling"),
    ]


def _privacy_rows(result: Result, privacy: dict[str, Any]) -> list[tuple[str, str, str]]:
    budgets = result.prepared.task.epsilon
    low, high = min(budgets), max(budgets)
    kept = sum(one.epsilon <= budget * (1 + 1e-9) for one, budget in zip(result.certificates, budgets))
    worst = privacy["certified_epsilon"]["max"]
    return [
        ("budget", f"ε = {low:g}" if low == high else f"ε = {low:g} to {high:g}", "each owner's own"),
        ("claimed", _epsilon(privacy["claimed_epsilon"], "="), result.claim.source),
        (
            "certified",
            _epsilon(worst, "≤"),
            f"{privacy['accountant']}; {kept:,} of {len(budgets):,} within budget",
        ),
        ("audited", "not measured", ""),
    ]


def _notes(result: Result, privacy: dict[str, Any]) -> list[str]:
    """Why a number is infinite or a claim does not apply, and what a certificate warns of."""
    claim = (
        f"the claim is {result.claim.note}" if result.claim.note.startswith("outside") else result.claim.note
    )
    found = [claim, privacy["reason"], *privacy["warnings"]]
    return [line for note in found if note for line in _wrap(f"note: {note}")]


def _epsilon(value: float | str | None, sign: str) -> str:
    if value is None:
        return "none stated"
    return (
        "ε = ∞"
        if value == "inf"
        else f"ε {sign} {value:,.4g}"
        if float(value) < 1000
        else f"ε {sign} {value:,.0f}"
    )


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    """Columns in line; a last cell that is too long goes on below itself."""
    first, second = (max(len(row[at]) for row in rows) for at in (0, 1))
    lead = " " * (first + second + 6)
    lines = []
    for name, value, note in rows:
        line = f"  {name:<{first}}  {value:<{second}}  {note}"
        lines += textwrap.wrap(line.rstrip(), WIDTH, subsequent_indent=lead, drop_whitespace=True) or [""]
    return lines


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
