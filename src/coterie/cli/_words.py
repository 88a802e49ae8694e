"""A run's result in words, for people, as wide as the terminal and at most 80 columns."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coterie._rounding import budget_range, lower, upper
from coterie.problems.names import some
from coterie.relations import UNIT
from coterie.reports.amounts import many
from coterie.reports.statement import undeclared
from coterie.units import counted, told_owners

if TYPE_CHECKING:
    from coterie.experiments.result import Result
    from coterie.problems.table import Table
    from coterie.reports.written import Run, WrittenMetric

WIDTH = 80
NAMED = 4  # owners named in the summary
LISTED = 12  # owners, or different budgets, that are listed one by one
_NARROWEST = 40  # columns: narrower terminals get lines of this width
_ROOM = 20  # columns that a note needs beside its row; with fewer it stands below


def words(result: Result, folder: Path) -> str:
    """The run, its metric, its privacy costs and its folder."""
    from coterie.experiments.judging import metric_words

    run, prepared = result.written(str(folder)), result.prepared
    metric, privacy = run.metric, run.privacy
    blocks = [
        *_verdict(metric),
        *wrap(_headline(result)),
        "",
        f"{metric_words(metric.name, prepared.table)} on {prepared.tested:,} {prepared.test_rows}",
        *in_columns(_metric_rows(metric)),
        *_other_metrics(metric),
        "",
        *_charged(run),
        *wrap(f"privacy of one {privacy.unit} ({privacy.relation}, {privacy.view}, δ = {privacy.delta:g})"),
        *in_columns(_privacy_rows(run)),
        *budgets_of(run.names, privacy.budgets),
        *_notes(run),
        *wrap(f"promise: {privacy.promise[0].partition(': ')[2]}"),
        *about_file(prepared.table, result.findings),
        "",
        *wrap("oracle: computed from private records, for your eyes; no owner releases it."),
        f"written: {folder}  ({result.seconds:.1f} s)",
    ]
    return "\n".join(blocks)


def _headline(result: Result) -> str:
    task, experiment = result.prepared.task, result.experiment
    steps = int(result.steps[-1])
    path = many(steps, result.program.step)
    if result.program.step == "round" and result.program.aggregate is not None:
        path += " over an aggregator"
    elif result.program.step == "round":
        path += f", topology {task.topology.name}, {many(result.gossip_steps, 'gossip step')} a round"
        path += f" and {result.consensus:,} over the models at the end" if result.consensus else ""
    mark = "" if result.program.plan.relation.sizes_are_public else " (oracle)"
    return (
        f"{experiment.data_name}: {many(task.owners, 'owner')}, {counted(sum(task.sizes), task.unit.words)}{mark}, "
        f"{_partition(result)}. "
        f"{experiment.protocol} ({experiment.calibration}), {path}."
    )


def _partition(result: Result) -> str:
    """How rows were divided: named owners by name, and owners that were left out."""
    import numpy as np

    parts, table = result.prepared.partition, result.prepared.table
    if parts.how != "column":
        return f"partition {parts.how}"
    absent = len(set(table.owner_names) - set(parts.names))
    here = [at for at, name in enumerate(table.owner_names) if name in parts.names]
    assert table.owner is not None  # the partition divides by it
    left = int(np.sum(~np.isin(table.owner, here)))
    mark = "" if result.program.plan.relation.sizes_are_public else " (oracle)"
    left_out = f"; left out: {many(left, 'row')}{mark} of {many(absent, 'other owner')}" if absent else ""
    return f"partition column ({some(parts.names, NAMED)}{left_out})"


def _verdict(metric: WrittenMetric) -> list[str]:
    """A first line if the model is no better than a constant."""
    mark = " (oracle)" if "verdict" in metric.oracle else ""
    return [*wrap(f"{metric.verdict}{mark}"), ""] if metric.verdict else []


def _metric_rows(metric: WrittenMetric) -> list[tuple[str, str, str]]:
    mark = "oracle; " if "constant" in metric.oracle else ""
    return [
        ("joint model", shown(metric.joint), ""),
        ("each owner alone, same budget", shown(metric.local_only), "oracle; mean, weighted by size"),
        ("all records, no privacy", shown(metric.central), "oracle; the ceiling"),
        ("a constant", shown(metric.constant), f"{mark}{metric.constant_says}"),
    ]


def _other_metrics(metric: WrittenMetric) -> list[str]:
    """The joint model's other metrics, and why the first one is first."""
    from coterie.problems.metrics import METRICS  # loads NumPy, which a refusal must not wait for

    others = [
        f"{METRICS[name].words} {shown(pair['joint'])}"
        for name, pair in metric.all.items()
        if name != metric.name
    ]
    lines = wrap(f"the joint model also: {', '.join(others)}")
    return lines + (wrap(f"note: {metric.why}") if metric.why else [])


def _charged(run: Run) -> list[str]:
    """What owners released beside training, and what each cost: centre, choice, published metrics."""
    from coterie.evaluation.words import about, around, choice, sentences

    lines = []
    if run.centre:
        lines += [*wrap(f"centred by the owners: {around(run.centre)}."), ""]
    if run.selection:
        lines += [*wrap(f"chosen by the owners: {choice(run.selection)}."), ""]
    if run.evaluation:
        told = [line for sentence in sentences(run.evaluation) for line in wrap(f"  {sentence}")]
        lines += ["published by the owners (no oracle)", *told, *wrap(f"  {about(run.evaluation)}."), ""]
    return lines


def shown(value: float) -> str:
    """Four decimals, or four digits of a large value."""
    return f"{value:.4f}" if abs(value) < 10 or not math.isfinite(value) else f"{value:,.4g}"


def _privacy_rows(run: Run) -> list[tuple[str, str, str]]:
    privacy, within = run.privacy, run.privacy.within
    # A claim may follow from numbers of records.
    follows = "oracle; " if run.sizes_are_private else ""
    return [
        ("budget", budget_range(privacy.budgets), "each owner's own"),
        ("claimed", epsilon_words(privacy.claimed, "="), f"{follows}{privacy.claim['source']}"),
        (
            "certified",
            epsilon_words(privacy.certified.max, "≤"),
            f"{privacy.accountant}; {sum(within):,} of {len(within):,} within budget",
        ),
        *_other_bounds(run),
        ("audited", "not measured", ""),
    ]


def _other_bounds(run: Run) -> list[tuple[str, str, str]]:
    """The ε against all other owners, for one record of a unit, and for a person whom several owners know."""
    privacy, asked = run.privacy, run.privacy.owners_per_person
    rows = []
    if privacy.all_others is not None:
        rows.append(("against all others", epsilon_words(privacy.all_others, "≤"), "were they to collude"))
    if privacy.unit != UNIT and not run.sizes_are_private:
        rows.append(("one record", epsilon_words(privacy.certified.max, "≤"), "no more than all of a unit"))
    if privacy.person is not None:
        note = "a person whom they all know" + (": what budgets are for" if asked > 1 else "")
        rows.append((f"at {told_owners(asked)} owners", epsilon_words(privacy.person, "≤"), note))
    if privacy.pair is not None:
        rows.append(("at 2 owners", epsilon_words(privacy.pair, "≤"), "a person whom two know"))
    return rows


def budgets_of(names: tuple[str, ...], budgets: tuple[float, ...]) -> list[str]:
    """Budgets by owner, where they differ: each owner's if few, else each budget with its owners."""
    if len(set(budgets)) == 1:
        return []
    if len(names) <= LISTED:
        return wrap("owner = ε: " + ", ".join(f"{name} = {budget:g}" for name, budget in zip(names, budgets)))
    who: dict[float, list[str]] = {}
    for name, budget in zip(names, budgets):
        who.setdefault(budget, []).append(name)
    lines = []
    for budget in sorted(who)[:LISTED]:
        lines += wrap(f"  ε = {budget:g}: {some(who[budget], 3)}")
    if len(who) > LISTED:
        lines += wrap(f"  and {len(who) - LISTED:,} larger budgets, in result.json")
    return ["whose budget:", *lines]


def about_file(table: Table, findings: Sequence[str], warn: bool = False) -> list[str]:
    """How a file was read, which columns were left out, which rows do not fit; `warn`: also what is undeclared."""
    remarks = (
        [f"note: {warning}" for warning in undeclared(table.classes_declared, table.columns_declared)]
        if warn
        else []
    )
    remarks += [f"your file: {table.read_as}"] if table.read_as else []
    remarks += [f"your file: left out, as declared: {some(table.left_out)}"] if table.left_out else []
    remarks += [f"your file: not declared and not used: {some(table.unused)}"] if table.unused else []
    remarks += [f"your file (oracle): {finding}" for finding in findings]
    return [line for remark in remarks for line in wrap(remark)]


def _notes(run: Run) -> list[str]:
    """Why a number is infinite or a claim does not apply, and what a certificate warns of."""
    claim, privacy = run.privacy.claim["note"], run.privacy
    claim = f"the claim is {claim}" if claim.startswith("outside") else claim
    follow = "note (oracle)" if run.sizes_are_private else "note"  # as in result.json
    notes = [(follow, claim), ("note", privacy.reason), *((follow, warning) for warning in privacy.warnings)]
    return [line for start, note in notes if note for line in wrap(f"{start}: {note}")]


def epsilon_words(value: float | None, sign: str) -> str:
    """An ε behind its sign: what is claimed (=) to the nearest digit, bounds (≤, ≥) to their safe side."""
    if value is None:
        return "none stated"
    if math.isinf(value):
        return "ε = ∞"
    claimed = "{:,.4g}" if value < 1000 else "{:,.0f}"
    return f"ε {sign} {({'≤': upper, '≥': lower}.get(sign) or claimed.format)(value)}"


def width() -> int:
    """The terminal's columns (or COLUMNS), between 40 and 80; 80 in a file."""
    return max(_NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def in_columns(rows: list[tuple[str, str, str]]) -> list[str]:
    """Rows in aligned columns; a long last cell is wrapped beneath itself, or stands below its row."""
    first, second = (max(len(row[at]) for row in rows) for at in (0, 1))
    lead, wide = " " * (first + second + 6), width()
    lines = []
    for name, value, note in rows:
        line = f"  {name:<{first}}  {value:<{second}}"
        if wide - len(lead) < _ROOM:
            lines += wrap(line.rstrip()) + textwrap.wrap(
                note, wide, initial_indent="    ", subsequent_indent="    "
            )
        else:
            lines += textwrap.wrap(f"{line}  {note}".rstrip(), wide, subsequent_indent=lead) or [""]
    return lines


def wrap(text: str) -> list[str]:
    """Lines no wider than the terminal, indented after the first."""
    return textwrap.wrap(
        text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
