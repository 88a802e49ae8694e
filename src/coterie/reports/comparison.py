"""The page about a comparison: the metric over ε, means, paired differences, and what each cell cost in privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from coterie._rounding import upper
from coterie.problems.metrics import METRICS
from coterie.reports.charts import nice_ticks, plot, rule, x_label, y_label
from coterie.reports.constant import an, title
from coterie.reports.html import ORACLE, head, pairs, section
from coterie.reports.markup import Markup, join, many, name, number, tag
from coterie.reports.spread import constant_fits, extent, spread_words
from coterie.reports.style import CLASSES
from coterie.units import counted, told_owners


def page(comparison: dict[str, Any]) -> str:
    """The page as text, from what comparison.json holds."""
    called = f"{PurePath(comparison['data']).stem}, {many(len(comparison['series']), 'protocol')} compared"
    sections = [
        section(f"{title(comparison['metric']['name'])} over ε", _chart(comparison), "wide"),
        section("Mean and standard deviation over seeds", _means(comparison), "wide"),
        *(
            [section("Paired differences", _differences(comparison), "wide")]
            if len(comparison["series"]) > 1
            else []
        ),
        section("Privacy of each cell", _privacy(comparison), "wide long"),
        section("Settings", _settings(comparison), "long"),
        section("Provenance", _provenance(comparison), "long"),
    ]
    body = tag("main", tag("header", tag("h1", name(called)), _lead(comparison), _about(comparison)),
               tag("div", *sections, class_="grid"))  # fmt: skip
    return f"<!DOCTYPE html>\n{tag('html', head(called), tag('body', body), lang='en')}\n"


def _lead(comparison: dict[str, Any]) -> Markup:
    """Who is best at the middle budget, and what everybody else reached there."""
    epsilon = comparison["epsilon"][len(comparison["epsilon"]) // 2]
    sign = -1.0 if comparison["metric"]["lower_is_better"] else 1.0
    here = [cell for cell in comparison["cells"] if cell["epsilon"] == epsilon and not cell["refused"]]
    here = [cell for cell in here if math.isfinite(float(cell["mean"]))]
    here.sort(key=lambda cell: -sign * cell["mean"])
    if not here:
        return tag("p", f"No protocol has a number at ε = {number(epsilon)}.", class_="lead")
    seeds = len(comparison["seeds"])
    told = [(tag("b", name(cell["series"])), " ", spread_words(cell, seeds)) for cell in here]
    parts = [
        f"At ε = {number(epsilon)}, ",
        told[0][0],
        f" reached {an(comparison['metric']['name'])} of {told[0][2]}",
    ]
    for words in told[1:]:
        parts += [", ", *words]
    marked = (" ", ORACLE) if "cells" in comparison["oracle"] else ()
    base = f"; a constant gives {number(float(comparison['baselines']['constant']))}."
    return tag("p", *parts, *marked, base, class_="lead")


def _about(comparison: dict[str, Any]) -> Markup:
    seeds, metric = comparison["seeds"], comparison["metric"]
    shown = f"Seeds {seeds[0]} to {seeds[-1]} are" if len(seeds) > 1 else f"Seed {seeds[0]} is"
    told = (
        f"{many(comparison['owners'], 'owner')}, {counted(comparison['units'], comparison['unit'])}, "
        f"partition {comparison['partition']}; {metric['words']} on {metric['rows']:,} {metric['rows_are']}. "
        f"{shown} of noise and sampling; rows are dealt once, "
        "and all series meet the same test rows. "
        "Choosing a protocol or a setting by what private records show here costs privacy that no certificate includes."
    )
    oracle = " values are computed from private records, for the researcher's eyes: no owner releases them."
    return join(
        [
            tag("p", told, class_="soft"),
            tag("p", ORACLE, oracle, class_="soft"),
            *(tag("p", note[0].upper() + note[1:] + ".", class_="soft") for note in comparison["notes"]),
        ]
    )


def _chart(comparison: dict[str, Any]) -> Markup:
    """Means with bands of one standard deviation over everybody's budget, on a logarithmic scale."""
    base = comparison["baselines"]
    lines = [("alone", base["alone"], "var(--floor)")]
    for at, series in enumerate(comparison["series"]):
        cells = [cell for cell in comparison["cells"] if cell["series"] == series and not cell["refused"]]
        lines.append((series, cells, CLASSES[at % len(CLASSES)]))
    levels = [(float(base["central"]), "ceiling")]
    if constant_fits(comparison):
        levels.append((float(base["constant"]), "constant"))
    ends = extent(comparison, [level for level, _ in levels])
    ticks = nice_ticks(*ends) if ends else [0.0, 1.0]
    low, high = ticks[0], ticks[-1]

    def down(value: float) -> float:
        return 100 * (high - value) / (high - low)

    along = dict(zip(comparison["epsilon"], _along(comparison["epsilon"])))
    shapes = [rule(down(tick) / 100) for tick in ticks]
    for level, kind in levels:
        if math.isfinite(level):
            shapes.append(
                tag("line", x1=0, y1=f"{down(level):.2f}", x2=100, y2=f"{down(level):.2f}", class_=kind)
            )
    for series, cells, colour in lines:
        fine = [cell for cell in cells if math.isfinite(float(cell["mean"]))]
        shapes += _line(fine, along, down, colour, "7 5" if series == "alone" else None)
    labels = [y_label((tick - low) / (high - low), f"{tick:.6g}") for tick in ticks]
    labels += [x_label(place / 100, number(epsilon)) for epsilon, place in along.items()]
    labels.append(tag("span", "everybody's ε", class_="axis"))
    described = f"{comparison['metric']['words']} over ε for {', '.join(comparison['series'])}"
    return tag("figure", plot("over", "0 0 100 100", described, shapes, labels), _key(comparison, lines))


def _along(epsilon: Sequence[float]) -> list[float]:
    if len(epsilon) == 1:
        return [50.0]
    logs = np.log(np.array(epsilon))
    return (100 * (logs - logs[0]) / (logs[-1] - logs[0])).tolist()


def _line(cells: list, along: dict[float, float], down: Any, colour: str, dashes: str | None) -> list[Markup]:
    if not cells:
        return []
    x = [along[cell["epsilon"]] for cell in cells]
    ends = [[down(cell["mean"] + side * (cell["deviation"] or 0.0)) for cell in cells] for side in (1, -1)]
    around = [*zip(x, ends[0]), *reversed([*zip(x, ends[1])])]
    path = " L".join(f"{a:.2f} {b:.2f}" for a, b in zip(x, (down(cell["mean"]) for cell in cells)))
    spots = path.split(" L")
    return [
        tag(
            "path",
            d="M" + " L".join(f"{a:.2f} {b:.2f}" for a, b in around) + " Z",
            fill=colour,
            opacity="0.18",
        ),
        tag("path", d=f"M{path}", stroke=colour, stroke_width="2.5", stroke_dasharray=dashes),
        *(tag("path", d=f"M{spot} h0", stroke=colour, class_="dots") for spot in spots),
    ]


def _key(comparison: dict[str, Any], lines: list) -> Markup:
    rows: list[tuple[Markup, str, str]] = [
        (tag("line", x1=0, y1=6, x2=29, y2=6, stroke=colour, stroke_width="2.5"), name(series), "cells")
        for series, _, colour in lines[1:]
    ]
    says = comparison["baselines"]["constant_says"]
    beyond = (
        ""
        if constant_fits(comparison)
        else f", {number(float(comparison['baselines']['constant']))}, beyond the picture"
    )
    for kind, words, key in (
        ("floor", "each owner alone, same budget", "alone"),
        ("ceiling", "all records, no privacy", "central"),
        ("constant", f"a constant: {says}{beyond}", "constant"),
    ):
        rows.append((tag("line", x1=0, y1=6, x2=29, y2=6, class_=kind), words, key))
    bands = "; bands: one standard deviation over seeds" if len(comparison["seeds"]) > 1 else ""
    listed = [
        tag("li", tag("svg", sample, aria_hidden="true"),
            tag("span", words, *((" ", ORACLE) if key in comparison["oracle"] else ())))
        for sample, words, key in rows
    ]  # fmt: skip
    return join(
        [
            tag("ul", *listed, class_="key"),
            tag("figcaption", f"Means over {many(len(comparison['seeds']), 'seed')}{bands}."),
        ]
    )


def _means(comparison: dict[str, Any]) -> Markup:
    seeds, base = len(comparison["seeds"]), comparison["baselines"]
    by_place = {(cell["series"], cell["epsilon"]): cell for cell in comparison["cells"]}
    mark = (" ", ORACLE) if "cells" in comparison["oracle"] else ()
    rows = [
        [
            join([name(series), *mark]),
            *(_mean(by_place[series, epsilon], seeds) for epsilon in comparison["epsilon"]),
        ]
        for series in comparison["series"]
    ]
    alone = {cell["epsilon"]: cell for cell in base["alone"]}
    rows.append(
        [
            join(["each owner alone, same budget ", ORACLE]),
            *(spread_words(alone[epsilon], seeds) for epsilon in comparison["epsilon"]),
        ]
    )
    rows.append(
        [
            join(["all records, no privacy ", ORACLE]),
            *[number(float(base["central"]))] * len(comparison["epsilon"]),
        ]
    )
    marked = (" ", ORACLE) if "constant" in comparison["oracle"] else ()
    rows.append(
        [
            join(["a constant: ", base["constant_says"], *marked]),
            *[number(float(base["constant"]))] * len(comparison["epsilon"]),
        ]
    )
    better = (
        "lower is better" if METRICS[comparison["metric"]["name"]].lower_is_better else "higher is better"
    )
    why = f"; {comparison['metric']['why']}" if comparison["metric"]["why"] else ""
    told = f"{comparison['metric']['words']}, {better}{why}."
    return join(
        [
            tag("p", told, class_="soft"),
            _table(["", *(f"ε = {number(epsilon)}" for epsilon in comparison["epsilon"])], rows),
        ]
    )


def _mean(cell: dict[str, Any], seeds: int) -> object:
    if cell["refused"]:
        return tag("span", "refused", class_="alarm", title=cell["refused"])
    note = "" if cell["beats_constant"] else " (no better than a constant)"
    return f"{spread_words(cell, seeds)}{note}"


def _differences(comparison: dict[str, Any]) -> Markup:
    first = comparison["series"][0]
    told = tag("p", "Difference from ", name(first), " with the same seed, its mean over "
               "seeds, and Student's 95 % interval of that mean: "
               "of noise and sampling alone, on these owners' rows and these test rows.", class_="soft")  # fmt: skip
    rows = []
    for pair in comparison["differences"]:
        interval = "not known" if pair["low"] is None else f"{pair['low']:+.4f} to {pair['high']:+.4f}"
        mean = "not known" if pair["mean"] is None else f"{pair['mean']:+.4f}"
        rows.append([name(pair["series"]), number(pair["epsilon"]), mean, interval, pair["verdict"]])
    return join([told, _table(["series", "ε", "mean difference", "95 % interval", "verdict"], rows)])


def _privacy(comparison: dict[str, Any]) -> Markup:
    told = (
        f"Budget: everybody's ε, δ = {number(comparison['delta'])}. Claimed: the paper's theorem for these "
        "settings; certified: an upper bound for everything that the largest spender releases "
        f"(calibration {comparison['calibration']})."
    )
    rows = [_privacy_row(cell) for cell in comparison["cells"]]
    at_owners = f"ε of a person at {told_owners(comparison['owners_per_person'])} owners"
    columns = [
        "series",
        "budget ε",
        "claimed ε",
        "certified ε",
        at_owners,
        "owners within budget",
        "seen by whom",
    ]
    return join([tag("p", told, class_="soft"), _table(columns, rows)])


def _privacy_row(cell: dict[str, Any]) -> list[object]:
    start = [name(cell["series"]), number(cell["epsilon"])]
    if cell["refused"]:
        return [*start, "", "", "", "", tag("span", cell["refused"], class_="alarm")]
    claimed = "none stated" if cell["claimed"] is None else number(float(cell["claimed"]))
    within = f"{cell['within']:,} of {cell['owners']:,}"
    kept = within if cell["within"] == cell["owners"] else tag("span", within, class_="alarm")
    return [
        *start,
        claimed,
        f"≤ {upper(float(cell['certified']))}",
        _person(cell),
        kept,
        f"{cell['view']}, {cell['relation']}",
    ]


def _person(cell: dict[str, Any]) -> str:
    """For a person at several owners, and at two where these are more."""
    if cell["person"] is None:
        return "one owner"
    pair = "" if cell.get("pair") is None else f" (at 2 owners ≤ {upper(float(cell['pair']))})"
    return f"≤ {upper(float(cell['person']))}{pair}"


def _settings(comparison: dict[str, Any]) -> Markup:
    rows = {
        "data": comparison["data"],
        "topology": comparison["topology"],
        "calibration": comparison["calibration"],
    }
    rows |= {
        cell["series"]: ", ".join(f"{key} = {value}" for key, value in cell["settings"].items())
        or "all its own choice"
        for cell in comparison["cells"]
    }
    return join([pairs(rows), tag("p", "All others are in comparison.toml.", class_="soft")])


def _provenance(comparison: dict[str, Any]) -> Markup:
    made = comparison["provenance"]
    versions = ", ".join(f"{key} {value}" for key, value in made["versions"].items())
    seconds = sum(cell.get("seconds", 0.0) for cell in comparison["cells"])
    return pairs({"versions": versions, "platform": made["platform"], "training": f"{seconds:.1f} s"})


def _table(columns: list[str], rows: list[list[object]]) -> Markup:
    top = tag("tr", *(tag("th", column) for column in columns))
    return tag(
        "table",
        tag("thead", top),
        tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
    )
