"""A run's result in words, for people, as wide as the terminal and at most 80 columns."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie._rounding import budget_range, upper
from coterie.problems.names import some
from coterie.relations import UNIT, named
from coterie.reports.amounts import many
from coterie.reports.statement import undeclared
from coterie.units import counted, told_owners

if TYPE_CHECKING:
    from coterie.experiments.result import Result
    from coterie.problems.table import Table

WIDTH = 80
NAMED = 4  # owners named in the summary
LISTED = 12  # owners, or different budgets, that are listed one by one
_NARROWEST = 40  # columns below which nothing is made to fit
_ROOM = 20  # columns that a note beside its row needs; with fewer it stands below


def words(result: Result, folder: Path) -> str:
    """What was run, what it reached, what it cost, where it is."""
    from coterie.experiments.judging import metric_words

    told = result.to_json(str(folder))
    metric, privacy, prepared = told["metric"], told["privacy"], result.prepared
    blocks = [
        *_verdict(metric),
        *wrap(_what(result)),
        "",
        f"{metric_words(metric['name'], prepared.table)} on {prepared.tested:,} {prepared.test_rows}",
        *in_columns(_metric_rows(result, metric["oracle"])),
        *_other_metrics(result, metric["why"]),
        "",
        *_around(result),
        *_chosen(result),
        *_published(result),
        *wrap(
            f"privacy of one {privacy['unit']} "
            f"({privacy['relation']}, {privacy['view']}, δ = {privacy['delta']:g})"
        ),
        *in_columns(_privacy_rows(result, privacy)),
        *budgets_of(prepared.partition.names, prepared.task.epsilon),
        *_notes(result, privacy),
        *wrap(f"promise: {privacy['promise'][0].partition(': ')[2]}"),
        *about_file(prepared.table, result.findings),
        "",
        *wrap("oracle: computed from private records, for your eyes; no owner releases it."),
        f"written: {folder}  ({result.seconds:.1f} s)",
    ]
    return "\n".join(blocks)


def _what(result: Result) -> str:
    task, experiment = result.prepared.task, result.experiment
    steps = int(result.steps[-1])
    path = many(steps, result.program.step)
    if result.program.step == "round" and result.program.aggregate is not None:
        path += " over an aggregator"
    elif result.program.step == "round":
        path += f", topology {task.topology.name}, {many(result.gossip_steps, 'gossip step')} a round"
        path += f" and {result.consensus:,} over the models at the end" if result.consensus else ""
    mark = "" if result.sizes_are_public else " (oracle)"
    return (
        f"{experiment.data_name}: {many(task.owners, 'owner')}, {counted(sum(task.sizes), task.unit.words)}{mark}, "
        f"{_partition(result)}. "
        f"{experiment.protocol} ({experiment.calibration}), {path}."
    )


def _partition(result: Result) -> str:
    """How rows were dealt; owners who have names by these, and who was left out."""
    import numpy as np

    parts, table = result.prepared.partition, result.prepared.table
    if parts.how != "column":
        return f"partition {parts.how}"
    absent = len(set(table.owner_names) - set(parts.names))
    here = [at for at, name in enumerate(table.owner_names) if name in parts.names]
    assert table.owner is not None  # who divides by it has it
    left = int(np.sum(~np.isin(table.owner, here)))
    mark = "" if result.sizes_are_public else " (oracle)"
    told = f"; left out: {many(left, 'row')}{mark} of {many(absent, 'other owner')}" if absent else ""
    return f"partition column ({some(parts.names, NAMED)}{told})"


def _verdict(metric: dict[str, Any]) -> list[str]:
    """First thing: that the model is no better than a constant, where it is not."""
    mark = " (oracle)" if "verdict" in metric["oracle"] else ""
    return [*wrap(f"{metric['verdict']}{mark}"), ""] if metric["verdict"] else []


def _metric_rows(result: Result, oracle: list[str]) -> list[tuple[str, str, str]]:
    mark = "oracle; " if "constant" in oracle else ""
    return [
        ("joint model", shown(result.joint), ""),
        ("each owner alone, same budget", shown(result.local_mean), "oracle; mean, weighted by size"),
        ("all records, no privacy", shown(result.central), "oracle; the ceiling"),
        ("a constant", shown(result.constant), f"{mark}{' '.join(result.constant_says)}"),
    ]


def _other_metrics(result: Result, why: str) -> list[str]:
    """All metrics but the first of the joint model, and why that one is first."""
    from coterie.problems.metrics import METRICS  # loads NumPy, which a refusal must not wait for

    names = result.prepared.judge.names
    told = [
        f"{METRICS[name].words} {shown(value)}"
        for name, value in zip(names, result.measures[:, 0].tolist())
        if name != result.prepared.judge.metric
    ]
    lines = wrap(f"the joint model also: {', '.join(told)}")
    return lines + (wrap(f"note: {why}") if why else [])


def _around(result: Result) -> list[str]:
    """What the owners took off the features, and what that cost."""
    if result.centred is None:
        return []
    from coterie.evaluation.words import around

    return [*wrap(f"centred by the owners: {around(result.centred.to_json())}."), ""]


def _chosen(result: Result) -> list[str]:
    """Which model the owners chose, and what that cost."""
    if result.selected is None:
        return []
    from coterie.evaluation.words import choice

    return [*wrap(f"chosen by the owners: {choice(result.selected.to_json())}."), ""]


def _published(result: Result) -> list[str]:
    """What the owners may publish, and what it cost."""
    if result.published is None:
        return []
    from coterie.evaluation.words import about, sentences

    told = result.published.to_json()
    lines = [line for sentence in sentences(told) for line in wrap(f"  {sentence}")]
    return ["published by the owners (no oracle)", *lines, *wrap(f"  {about(told)}."), ""]


def shown(value: float) -> str:
    """Four decimals, or four digits of what is large."""
    return f"{value:.4f}" if abs(value) < 10 or not math.isfinite(value) else f"{value:,.4g}"


def _privacy_rows(result: Result, privacy: dict[str, Any]) -> list[tuple[str, str, str]]:
    each = result.prepared.task.epsilon
    several = privacy["owners_per_person"] > 1
    follows = "" if result.sizes_are_public else "oracle; "  # a claim may follow from numbers of records
    spent = [
        float(privacy["person_epsilon"]) if several else certificate.epsilon
        for certificate in result.certificates
    ]
    kept = sum(one <= budget * (1 + 1e-9) for one, budget in zip(spent, each))
    return [
        ("budget", budget_range(each), "each owner's own"),
        ("claimed", _epsilon(privacy["claimed_epsilon"], "="), f"{follows}{result.claim.source}"),
        (
            "certified",
            _epsilon(privacy["certified_epsilon"]["max"], "≤"),
            f"{privacy['accountant']}; {kept:,} of {len(each):,} within budget",
        ),
        *_beside(privacy),
        ("audited", "not measured", ""),
    ]


def _beside(privacy: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The same releases against others, for one record of a unit, and for a person whom several owners know."""
    together, person, asked = (
        privacy[key] for key in ("all_others_epsilon", "person_epsilon", "owners_per_person")
    )
    rows = []
    if together is not None:
        rows.append(("against all others", _epsilon(together, "≤"), "were they to collude"))
    if privacy["unit"] != UNIT and named(privacy["relation"]).sizes_are_public:
        rows.append(
            ("one record", _epsilon(privacy["certified_epsilon"]["max"], "≤"), "no more than all of a unit")
        )
    if person is not None:
        note = "a person whom they all know" + (": what budgets are for" if asked > 1 else "")
        rows.append((f"at {told_owners(asked)} owners", _epsilon(person, "≤"), note))
    if privacy["pair_epsilon"] is not None:
        rows.append(("at 2 owners", _epsilon(privacy["pair_epsilon"], "≤"), "a person whom two know"))
    return rows


def budgets_of(names: tuple[str, ...], budgets: tuple[float, ...]) -> list[str]:
    """Whose is which, where they differ: each owner of a few, each budget of many owners."""
    if len(set(budgets)) == 1:
        return []
    if len(names) <= LISTED:
        return wrap("owner = ε: " + ", ".join(f"{one} = {budget:g}" for one, budget in zip(names, budgets)))
    who: dict[float, list[str]] = {}
    for one, budget in zip(names, budgets):
        who.setdefault(budget, []).append(one)
    lines = []
    for budget in sorted(who)[:LISTED]:
        lines += wrap(f"  ε = {budget:g}: {some(who[budget], 3)}")
    if len(who) > LISTED:
        lines += wrap(f"  and {len(who) - LISTED:,} larger budgets, in result.json")
    return ["whose budget:", *lines]


def about_file(table: Table, findings: Sequence[str], warn: bool = False) -> list[str]:
    """How a file was read, columns that are passed over, rows that do not fit; `warn`: and what nobody declared."""
    told = (
        [f"note: {warning}" for warning in undeclared(table.classes_declared, table.columns_declared)]
        if warn
        else []
    )
    told += [f"your file: {table.read_as}"] if table.read_as else []
    told += [f"your file: left out, as declared: {some(table.left_out)}"] if table.left_out else []
    told += [f"your file: not declared and not used: {some(table.unused)}"] if table.unused else []
    told += [f"your file (oracle): {finding}" for finding in findings]
    return [line for one in told for line in wrap(one)]


def _notes(result: Result, privacy: dict[str, Any]) -> list[str]:
    """Why a number is infinite or a claim does not apply, and what a certificate warns of."""
    claim = (
        f"the claim is {result.claim.note}" if result.claim.note.startswith("outside") else result.claim.note
    )
    follow = "note" if result.sizes_are_public else "note (oracle)"  # as in result.json
    found = [(follow, claim), ("note", privacy["reason"]), *((follow, one) for one in privacy["warnings"])]
    return [line for start, note in found if note for line in wrap(f"{start}: {note}")]


def _epsilon(value: float | str | None, sign: str) -> str:
    if value is None:
        return "none stated"
    if value == "inf":
        return "ε = ∞"
    if sign == "≤":
        return f"ε ≤ {upper(float(value))}"
    return f"ε {sign} {value:,.4g}" if float(value) < 1000 else f"ε {sign} {value:,.0f}"


def width() -> int:
    """The terminal's columns (or COLUMNS), between 40 and 80; 80 in a file."""
    return max(_NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def in_columns(rows: list[tuple[str, str, str]]) -> list[str]:
    """Columns in line; a last cell that is too long goes on below itself, or all of it stands below its row."""
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
    """Lines no wider than the terminal, those after the first moved in."""
    return textwrap.wrap(
        text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
