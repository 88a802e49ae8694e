"""A comparison in words, for people, as wide as the terminal and at most 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie._rounding import upper
from coterie.cli._words import in_columns, shown, width, wrap
from coterie.problems.names import some
from coterie.relations import named
from coterie.reports.amounts import many
from coterie.reports.comparison import spread_words
from coterie.units import counted, told_owners

if TYPE_CHECKING:
    from coterie.experiments.comparing.compare import Compared


def words(compared: Compared, folder: Path, seconds: float) -> str:
    """The question, the metrics, their differences, the privacy costs and the folder."""
    facts = compared.found
    seeds, metric = facts["seeds"], facts["metric"]
    over = "over seeds" if len(seeds) > 1 else "of one seed"
    mark = "" if "cells" not in facts["oracle"] or "oracle" in metric["rows_are"] else " (oracle)"
    of_sizes, apart = (" (oracle)" * (key in facts["oracle"]) for key in ("units", "differences"))
    lines = [
        *wrap(
            f"{facts['data']}: {many(facts['owners'], 'owner')}, {counted(facts['units'], facts['unit'])}{of_sizes}, "
            f"partition {facts['partition']}. {many(len(facts['series']), 'protocol')} ({facts['calibration']}), "
            f"{many(len(facts['epsilon']), 'budget')}, {many(len(seeds), 'seed')}."
        ),
        "",
        *wrap(
            f"{metric['words']} on {metric['rows']:,} {metric['rows_are']}{mark}: mean"
            f"{' ± standard deviation' * (len(seeds) > 1)} {over}"
        ),
        *_means(facts),
    ]
    if facts["differences"]:
        lines += [
            "",
            *wrap(f"difference from {facts['series'][0]}, paired by seed, with 95 % intervals{apart}"),
        ]
        lines += in_columns([_difference(difference) for difference in facts["differences"]])
    relation = sorted({f"{cell['unit']}" for cell in facts["cells"] if not cell["refused"]})
    lines += ["", *wrap(f"privacy of one {some(relation)} (δ = {facts['delta']:g})")]
    lines += in_columns([_privacy(cell, told_owners(facts["owners_per_person"])) for cell in facts["cells"]])
    lines += [line for note in facts["notes"] for line in wrap(f"note: {note}")]
    lines += ["", *wrap("oracle: computed from private records, for your eyes; no owner releases it.")]
    reused = f", {many(compared.kept, 'cell')} kept from before" if compared.kept else ""
    return "\n".join([*lines, f"written: {folder}  ({seconds:.1f} s{reused})"])


def _means(facts: dict[str, Any]) -> list[str]:
    """A column for each budget, as many as fit side by side; below, once, what is the same at all budgets."""
    seeds, base = len(facts["seeds"]), facts["baselines"]
    alone = {baseline["epsilon"]: spread_words(baseline, seeds) for baseline in base["alone"]}
    cells = {
        (cell["series"], cell["epsilon"]): "refused" if cell["refused"] else spread_words(cell, seeds)
        for cell in facts["cells"]
    }
    rows = [(series, [cells[series, epsilon] for epsilon in facts["epsilon"]]) for series in facts["series"]]
    rows.append(("each owner alone (oracle)", [alone[epsilon] for epsilon in facts["epsilon"]]))
    first = max(len(label) for label, _ in rows)
    wide = max(len(value) for _, values in rows for value in values)
    fit = max(1, (width() - first - 2) // (wide + 2))
    lines = []
    for at in range(0, len(facts["epsilon"]), fit):
        heads = [f"ε = {epsilon:g}" for epsilon in facts["epsilon"][at : at + fit]]
        for label, values in [("", heads), *((label, values[at : at + fit]) for label, values in rows)]:
            lines.append(f"  {label:<{first}}" + "".join(f"  {value:<{wide}}" for value in values))
    mark = "oracle; " if "constant" in facts["oracle"] else ""
    below = [
        ("all records, no privacy", shown(float(base["central"])), "oracle; the ceiling"),
        ("a constant", shown(float(base["constant"])), f"{mark}{base['constant_says']}"),
    ]
    return [line.rstrip() for line in lines] + in_columns(below)


def _difference(difference: dict[str, Any]) -> tuple[str, str, str]:
    mean = "unknown" if difference["mean"] is None else f"{difference['mean']:+.4f}"
    interval = ""
    if difference["low"] is not None:
        interval = f"{difference['low']:+.4f} to {difference['high']:+.4f}, {difference['verdict']}"
    return f"{difference['series']}, ε = {difference['epsilon']:g}", mean, interval


def _privacy(cell: dict[str, Any], owners: int) -> tuple[str, str, str]:
    place = f"{cell['series']}, ε = {cell['epsilon']:g}"
    if cell["refused"]:
        return place, "refused", cell["refused"]
    claimed = "none" if cell["claimed"] is None else f"{float(cell['claimed']):.4g}"
    claimed += "" if named(cell["relation"]).sizes_are_public else " (oracle)"
    within = f"{cell['within']:,} of {cell['owners']:,} within budget"
    person = cell.get("person")
    more = "" if person is None else f"; ε ≤ {upper(float(person))} at {owners} owners"
    more += "" if cell.get("pair") is None else f", {upper(float(cell['pair']))} at 2"
    return place, f"ε ≤ {upper(float(cell['certified']))}", f"claimed {claimed}; {within}{more}"
