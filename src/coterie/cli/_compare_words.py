"""A comparison in words, for people, as wide as the terminal and at most 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie._rounding import upper
from coterie.cli._words import in_columns, shown, width, wrap
from coterie.problems.names import some
from coterie.relations import named
from coterie.reports.amounts import many
from coterie.reports.spread import spread_words
from coterie.units import counted, told_owners

if TYPE_CHECKING:
    from coterie.experiments.comparing.compare import Compared


def words(compared: Compared, folder: Path, seconds: float) -> str:
    """What was compared, what it reached, how far apart, what it cost, where it is."""
    found = compared.found
    seeds, metric = found["seeds"], found["metric"]
    over = "over seeds" if len(seeds) > 1 else "of one seed"
    mark = "" if "cells" not in found["oracle"] or "oracle" in metric["rows_are"] else " (oracle)"
    of_sizes, apart = (" (oracle)" * (key in found["oracle"]) for key in ("units", "differences"))
    lines = [
        *wrap(
            f"{found['data']}: {many(found['owners'], 'owner')}, {counted(found['units'], found['unit'])}{of_sizes}, "
            f"partition {found['partition']}. {many(len(found['series']), 'protocol')} ({found['calibration']}), "
            f"{many(len(found['epsilon']), 'budget')}, {many(len(seeds), 'seed')}."
        ),
        "",
        *wrap(
            f"{metric['words']} on {metric['rows']:,} {metric['rows_are']}{mark}: mean"
            f"{' ± standard deviation' * (len(seeds) > 1)} {over}"
        ),
        *_means(found),
    ]
    if found["differences"]:
        lines += [
            "",
            *wrap(f"difference from {found['series'][0]}, paired by seed, with 95 % intervals{apart}"),
        ]
        lines += in_columns([_difference(one) for one in found["differences"]])
    relation = sorted({f"{cell['unit']}" for cell in found["cells"] if not cell["refused"]})
    lines += ["", *wrap(f"privacy of one {some(relation)} (δ = {found['delta']:g})")]
    lines += in_columns([_privacy(cell, told_owners(found["owners_per_person"])) for cell in found["cells"]])
    lines += [line for note in found["notes"] for line in wrap(f"note: {note}")]
    lines += ["", *wrap("oracle: computed from private records, for your eyes; no owner releases it.")]
    kept = f", {many(compared.kept, 'cell')} kept from before" if compared.kept else ""
    return "\n".join([*lines, f"written: {folder}  ({seconds:.1f} s{kept})"])


def _means(found: dict[str, Any]) -> list[str]:
    """A column for each budget, as many side by side as fit; what is the same at all of them once, below."""
    seeds, base = len(found["seeds"]), found["baselines"]
    alone = {one["epsilon"]: spread_words(one, seeds) for one in base["alone"]}
    cells = {
        (cell["series"], cell["epsilon"]): "refused" if cell["refused"] else spread_words(cell, seeds)
        for cell in found["cells"]
    }
    rows = [(series, [cells[series, one] for one in found["epsilon"]]) for series in found["series"]]
    rows.append(("each owner alone (oracle)", [alone[one] for one in found["epsilon"]]))
    first = max(len(label) for label, _ in rows)
    wide = max(len(value) for _, values in rows for value in values)
    fit = max(1, (width() - first - 2) // (wide + 2))
    lines = []
    for at in range(0, len(found["epsilon"]), fit):
        heads = [f"ε = {one:g}" for one in found["epsilon"][at : at + fit]]
        for label, values in [("", heads), *((label, values[at : at + fit]) for label, values in rows)]:
            lines.append(f"  {label:<{first}}" + "".join(f"  {value:<{wide}}" for value in values))
    mark = "oracle; " if "constant" in found["oracle"] else ""
    below = [
        ("all records, no privacy", shown(float(base["central"])), "oracle; the ceiling"),
        ("a constant", shown(float(base["constant"])), f"{mark}{base['constant_says']}"),
    ]
    return [line.rstrip() for line in lines] + in_columns(below)


def _difference(one: dict[str, Any]) -> tuple[str, str, str]:
    mean = "unknown" if one["mean"] is None else f"{one['mean']:+.4f}"
    interval = "" if one["low"] is None else f"{one['low']:+.4f} to {one['high']:+.4f}, {one['verdict']}"
    return f"{one['series']}, ε = {one['epsilon']:g}", mean, interval


def _privacy(cell: dict[str, Any], owners: int) -> tuple[str, str, str]:
    place = f"{cell['series']}, ε = {cell['epsilon']:g}"
    if cell["refused"]:
        return place, "refused", cell["refused"]
    claimed = "none" if cell["claimed"] is None else f"{float(cell['claimed']):.4g}"
    claimed += "" if named(cell["relation"]).sizes_are_public else " (oracle)"
    kept = f"{cell['within']:,} of {cell['owners']:,} within budget"
    person = cell.get("person")
    more = "" if person is None else f"; ε ≤ {upper(float(person))} at {owners} owners"
    more += "" if cell.get("pair") is None else f", {upper(float(cell['pair']))} at 2"
    return place, f"ε ≤ {upper(float(cell['certified']))}", f"claimed {claimed}; {kept}{more}"
