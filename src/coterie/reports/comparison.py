"""The page about a comparison: the metric over ε, means, paired differences, and what each cell cost in privacy.

This module computes its values from comparison.json; `templates/comparison.html` has its words and their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from coterie._rounding import upper
from coterie.problems.metrics import METRICS
from coterie.reports.amounts import many, number
from coterie.reports.charts import Chart, Entry, Shape, Upright, logarithmic
from coterie.reports.constant import an
from coterie.reports.rendering import template
from coterie.reports.style import CLASSES
from coterie.units import counted, told_owners


def page(comparison: dict[str, Any]) -> str:
    """The page as text, from what comparison.json holds."""
    several = len(comparison["series"])
    return template("comparison.html").render(
        title=f"{PurePath(comparison['data']).stem}, {many(several, 'protocol')} compared",
        comparison=comparison,
        epsilon=_middle(comparison),
        best=_best(comparison),
        an_amount=an(comparison["metric"]["name"]),
        units=counted(comparison["units"], comparison["unit"]),
        metric_words=METRICS[comparison["metric"]["name"]].words,
        chart=chart(comparison),
        means=_means(comparison),
        differences=[_difference(pair) for pair in comparison["differences"]] if several > 1 else [],
        at_owners=told_owners(comparison["owners_per_person"]),
        privacy=[_privacy(cell) for cell in comparison["cells"]],
        settings=_settings(comparison),
        made=_provenance(comparison),
    )


def _middle(comparison: dict[str, Any]) -> float:
    return comparison["epsilon"][len(comparison["epsilon"]) // 2]


def _best(comparison: dict[str, Any]) -> list[tuple[str, str]]:
    """The best protocol at the middle budget, and the others' metrics there."""
    epsilon = _middle(comparison)
    sign = -1.0 if comparison["metric"]["lower_is_better"] else 1.0
    here = [cell for cell in comparison["cells"] if cell["epsilon"] == epsilon and not cell["refused"]]
    here = [cell for cell in here if math.isfinite(float(cell["mean"]))]
    here.sort(key=lambda cell: -sign * cell["mean"])
    return [(cell["series"], spread_words(cell, len(comparison["seeds"]))) for cell in here]


def chart(comparison: dict[str, Any]) -> Chart:
    """Means with bands of one standard deviation over the budget, on a logarithmic scale."""
    base, names = comparison["baselines"], comparison["series"]
    levels = [("ceiling", float(base["central"]))]
    levels += [("constant", float(base["constant"]))] if constant_fits(comparison) else []
    axis = Upright(extent(comparison, [level for _, level in levels]) or ())
    along = dict(zip(comparison["epsilon"], logarithmic(comparison["epsilon"])))
    shapes = list(axis.rules)
    for kind, level in levels:
        shapes += axis.level(kind, level)
    shapes += _line("floor", base["alone"], along, axis, "var(--floor)")
    for at, series in enumerate(names):
        cells = [cell for cell in comparison["cells"] if cell["series"] == series and not cell["refused"]]
        shapes += _line("series", cells, along, axis, _colour(at))
    described = f"{comparison['metric']['words']} over ε for {', '.join(names)}"
    ticks = [(place / 100, number(epsilon)) for epsilon, place in along.items()]
    metric, along_words = comparison["metric"], f"everybody's ε (δ = {number(comparison['delta'])})"
    upright = f"{metric['words']} on {metric['rows_are']}"
    return Chart(
        "over", described, [("", shapes)], axis.labels, ticks, along_words, upright, _key(comparison)
    )


def picture_title(comparison: dict[str, Any]) -> str:
    """The chart's title where it stands alone."""
    seeds, what = many(len(comparison["seeds"]), "seed"), PurePath(comparison["data"]).stem
    bands = "; bands: one standard deviation" if len(comparison["seeds"]) > 1 else ""
    return f"{what}: {many(comparison['owners'], 'owner')}, {seeds}{bands}"


def _colour(at: int) -> str:
    return CLASSES[at % len(CLASSES)]


def _line(
    kind: str, cells: Sequence[dict[str, Any]], along: dict[float, float], axis: Upright, colour: str
) -> list[Shape]:
    """A line of means, and around it a band."""
    fine = [cell for cell in cells if math.isfinite(float(cell["mean"]))]
    if not fine:
        return []
    x = [along[cell["epsilon"]] for cell in fine]
    high, low = (
        [axis.down(cell["mean"] + side * (cell["deviation"] or 0.0)) for cell in fine] for side in (1, -1)
    )
    around = Shape("around", [*zip(x, high), *zip(x[::-1], low[::-1])], colour)
    return [around, *axis.line(kind, x, [cell["mean"] for cell in fine], colour)]


def _key(comparison: dict[str, Any]) -> list[Entry]:
    base, oracle = comparison["baselines"], comparison["oracle"]
    beyond = "" if constant_fits(comparison) else f", {number(float(base['constant']))}, beyond the picture"
    return [
        *(
            Entry("series", series, oracle="cells" in oracle, colour=_colour(at))
            for at, series in enumerate(comparison["series"])
        ),
        Entry("floor", "each owner alone, same budget", oracle="alone" in oracle),
        Entry("ceiling", "all records, no privacy", oracle="central" in oracle),
        Entry("constant", f"a constant: {base['constant_says']}{beyond}", oracle="constant" in oracle),
    ]


def _means(comparison: dict[str, Any]) -> list[tuple[str, bool, list[tuple[str, str]]]]:
    """Each series' and baseline's name, whether it is an oracle value, and at each ε its value or why it has none."""
    seeds, base, epsilons = len(comparison["seeds"]), comparison["baselines"], comparison["epsilon"]
    cells = {(cell["series"], cell["epsilon"]): cell for cell in comparison["cells"]}
    rows = [
        (
            series,
            "cells" in comparison["oracle"],
            [_mean(cells[series, epsilon], seeds) for epsilon in epsilons],
        )
        for series in comparison["series"]
    ]
    alone = {cell["epsilon"]: (spread_words(cell, seeds), "") for cell in base["alone"]}
    central, constant = ([(number(float(base[key])), "")] * len(epsilons) for key in ("central", "constant"))
    return [
        *rows,
        ("each owner alone, same budget", True, [alone[epsilon] for epsilon in epsilons]),
        ("all records, no privacy", True, central),
        (f"a constant: {base['constant_says']}", "constant" in comparison["oracle"], constant),
    ]


def _mean(cell: dict[str, Any], seeds: int) -> tuple[str, str]:
    if cell["refused"]:
        return "refused", cell["refused"]
    note = "" if cell["beats_constant"] else " (no better than a constant)"
    return f"{spread_words(cell, seeds)}{note}", ""


def _difference(pair: dict[str, Any]) -> tuple[str, ...]:
    interval = "not known" if pair["low"] is None else f"{pair['low']:+.4f} to {pair['high']:+.4f}"
    mean = "not known" if pair["mean"] is None else f"{pair['mean']:+.4f}"
    return pair["series"], number(pair["epsilon"]), mean, interval, pair["verdict"]


def _privacy(cell: dict[str, Any]) -> dict[str, Any]:
    row = {"series": cell["series"], "epsilon": number(cell["epsilon"]), "refused": cell["refused"]}
    if cell["refused"]:
        return row
    return row | {
        "claimed": "none stated" if cell["claimed"] is None else number(float(cell["claimed"])),
        "certified": f"≤ {upper(float(cell['certified']))}",
        "person": _person(cell),
        "kept": f"{cell['within']:,} of {cell['owners']:,}",
        "within": cell["within"] == cell["owners"],
        "seen": f"{cell['view']}, {cell['relation']}",
    }


def _person(cell: dict[str, Any]) -> str:
    """The ε for a person at several owners; where these are more than two, also at two."""
    if cell["person"] is None:
        return "one owner"
    pair = "" if cell.get("pair") is None else f" (at 2 owners ≤ {upper(float(cell['pair']))})"
    return f"≤ {upper(float(cell['person']))}{pair}"


def _settings(comparison: dict[str, Any]) -> dict[str, Any]:
    rows = {key: comparison[key] for key in ("data", "topology", "calibration")}
    return rows | {
        cell["series"]: ", ".join(f"{key} = {value}" for key, value in cell["settings"].items())
        or "all its own choice"
        for cell in comparison["cells"]
    }


def _provenance(comparison: dict[str, Any]) -> dict[str, str]:
    provenance = comparison["provenance"]
    versions = ", ".join(f"{key} {value}" for key, value in provenance["versions"].items())
    seconds = sum(cell.get("seconds", 0.0) for cell in comparison["cells"])
    return {"versions": versions, "platform": provenance["platform"], "training": f"{seconds:.1f} s"}


def spread_words(cell: dict[str, Any], seeds: int) -> str:
    """`0.8011 ± 0.0021`; for one seed the value alone; for a diverged model a word that says so."""
    mean = float(cell["mean"])
    if not math.isfinite(mean):
        return "diverged"
    large = abs(mean) >= 10
    shown = f"{mean:,.4g}" if large else f"{mean:.4f}"
    if seeds == 1:
        return shown
    return f"{shown} ± {cell['deviation']:.2g}" if large else f"{shown} ± {cell['deviation']:.4f}"


def extent(comparison: dict[str, Any], levels: Sequence[float]) -> tuple[float, float] | None:
    """The least and the largest finite value of a picture with these levels, bands included; None without any."""
    drawn = [cell for cell in comparison["cells"] if not cell["refused"]] + comparison["baselines"]["alone"]
    seen = [float(cell["mean"]) + side * (cell["deviation"] or 0.0) for cell in drawn for side in (-1, 1)]
    finite = [value for value in [*seen, *levels] if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else None


def constant_fits(comparison: dict[str, Any]) -> bool:
    """Whether a constant can be drawn without squeezing the compared values."""
    base = comparison["baselines"]
    ends, level = extent(comparison, [float(base["central"])]), float(base["constant"])
    if ends is None or not math.isfinite(level):
        return False
    room = 0.5 * (ends[1] - ends[0])
    return ends[0] - room <= level <= ends[1] + room
