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


def page(found: dict[str, Any]) -> str:
    """The page as text, from what comparison.json holds."""
    called = f"{PurePath(found['data']).stem}, {many(len(found['series']), 'protocol')} compared"
    sections = [
        section(f"{title(found['metric']['name'])} over ε", _chart(found), "wide"),
        section("Mean and standard deviation over seeds", _means(found), "wide"),
        *([section("Paired differences", _differences(found), "wide")] if len(found["series"]) > 1 else []),
        section("Privacy of each cell", _privacy(found), "wide long"),
        section("Settings", _settings(found), "long"),
        section("Provenance", _provenance(found), "long"),
    ]
    body = tag("main", tag("header", tag("h1", name(called)), _lead(found), _about(found)),
               tag("div", *sections, class_="grid"))  # fmt: skip
    return f"<!DOCTYPE html>\n{tag('html', head(called), tag('body', body), lang='en')}\n"


def _lead(found: dict[str, Any]) -> Markup:
    """Who is best at the middle budget, and what everybody else reached there."""
    epsilon = found["epsilon"][len(found["epsilon"]) // 2]
    sign = -1.0 if found["metric"]["lower_is_better"] else 1.0
    here = [cell for cell in found["cells"] if cell["epsilon"] == epsilon and not cell["refused"]]
    here = [cell for cell in here if math.isfinite(float(cell["mean"]))]
    here.sort(key=lambda cell: -sign * cell["mean"])
    if not here:
        return tag("p", f"No protocol has a number at ε = {number(epsilon)}.", class_="lead")
    seeds = len(found["seeds"])
    told = [(tag("b", name(cell["series"])), " ", spread_words(cell, seeds)) for cell in here]
    parts = [
        f"At ε = {number(epsilon)}, ",
        told[0][0],
        f" reached {an(found['metric']['name'])} of {told[0][2]}",
    ]
    for one in told[1:]:
        parts += [", ", *one]
    marked = (" ", ORACLE) if "cells" in found["oracle"] else ()
    base = f"; a constant gives {number(float(found['baselines']['constant']))}."
    return tag("p", *parts, *marked, base, class_="lead")


def _about(found: dict[str, Any]) -> Markup:
    seeds = found["seeds"]
    shown = f"Seeds {seeds[0]} to {seeds[-1]} are" if len(seeds) > 1 else f"Seed {seeds[0]} is"
    told = (
        f"{many(found['owners'], 'owner')}, {counted(found['units'], found['unit'])}, partition {found['partition']}; "
        f"{found['metric']['words']} on {found['metric']['rows']:,} {found['metric']['rows_are']}. "
        f"{shown} of noise and sampling; rows are dealt once, "
        "and all series meet the same test rows. "
        "Choosing a protocol or a setting by what private records show here costs privacy that no certificate includes."
    )
    oracle = " values are computed from private records, for the researcher's eyes: no owner releases them."
    return join(
        [
            tag("p", told, class_="soft"),
            tag("p", ORACLE, oracle, class_="soft"),
            *(tag("p", note[0].upper() + note[1:] + ".", class_="soft") for note in found["notes"]),
        ]
    )


def _chart(found: dict[str, Any]) -> Markup:
    """Means with bands of one standard deviation over everybody's budget, on a logarithmic scale."""
    base = found["baselines"]
    lines = [("alone", base["alone"], "var(--floor)")]
    for at, series in enumerate(found["series"]):
        cells = [cell for cell in found["cells"] if cell["series"] == series and not cell["refused"]]
        lines.append((series, cells, CLASSES[at % len(CLASSES)]))
    levels = [(float(base["central"]), "ceiling")]
    if constant_fits(found):
        levels.append((float(base["constant"]), "constant"))
    ends = extent(found, [level for level, _ in levels])
    ticks = nice_ticks(*ends) if ends else [0.0, 1.0]
    low, high = ticks[0], ticks[-1]

    def down(value: float) -> float:
        return 100 * (high - value) / (high - low)

    along = dict(zip(found["epsilon"], _along(found["epsilon"])))
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
    described = f"{found['metric']['words']} over ε for {', '.join(found['series'])}"
    return tag("figure", plot("over", "0 0 100 100", described, shapes, labels), _key(found, lines))


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


def _key(found: dict[str, Any], lines: list) -> Markup:
    rows: list[tuple[Markup, str, str]] = [
        (tag("line", x1=0, y1=6, x2=29, y2=6, stroke=colour, stroke_width="2.5"), name(series), "cells")
        for series, _, colour in lines[1:]
    ]
    says = found["baselines"]["constant_says"]
    beyond = (
        ""
        if constant_fits(found)
        else f", {number(float(found['baselines']['constant']))}, beyond the picture"
    )
    for kind, words, key in (
        ("floor", "each owner alone, same budget", "alone"),
        ("ceiling", "all records, no privacy", "central"),
        ("constant", f"a constant: {says}{beyond}", "constant"),
    ):
        rows.append((tag("line", x1=0, y1=6, x2=29, y2=6, class_=kind), words, key))
    bands = "; bands: one standard deviation over seeds" if len(found["seeds"]) > 1 else ""
    listed = [
        tag("li", tag("svg", sample, aria_hidden="true"),
            tag("span", words, *((" ", ORACLE) if key in found["oracle"] else ())))
        for sample, words, key in rows
    ]  # fmt: skip
    return join(
        [
            tag("ul", *listed, class_="key"),
            tag("figcaption", f"Means over {many(len(found['seeds']), 'seed')}{bands}."),
        ]
    )


def _means(found: dict[str, Any]) -> Markup:
    seeds, base = len(found["seeds"]), found["baselines"]
    by_place = {(cell["series"], cell["epsilon"]): cell for cell in found["cells"]}
    mark = (" ", ORACLE) if "cells" in found["oracle"] else ()
    rows = [
        [
            join([name(series), *mark]),
            *(_mean(by_place[series, epsilon], seeds) for epsilon in found["epsilon"]),
        ]
        for series in found["series"]
    ]
    alone = {one["epsilon"]: one for one in base["alone"]}
    rows.append(
        [
            join(["each owner alone, same budget ", ORACLE]),
            *(spread_words(alone[one], seeds) for one in found["epsilon"]),
        ]
    )
    rows.append(
        [
            join(["all records, no privacy ", ORACLE]),
            *[number(float(base["central"]))] * len(found["epsilon"]),
        ]
    )
    marked = (" ", ORACLE) if "constant" in found["oracle"] else ()
    rows.append(
        [
            join(["a constant: ", base["constant_says"], *marked]),
            *[number(float(base["constant"]))] * len(found["epsilon"]),
        ]
    )
    better = "lower is better" if METRICS[found["metric"]["name"]].lower_is_better else "higher is better"
    why = f"; {found['metric']['why']}" if found["metric"]["why"] else ""
    told = f"{found['metric']['words']}, {better}{why}."
    return join(
        [
            tag("p", told, class_="soft"),
            _table(["", *(f"ε = {number(one)}" for one in found["epsilon"])], rows),
        ]
    )


def _mean(cell: dict[str, Any], seeds: int) -> object:
    if cell["refused"]:
        return tag("span", "refused", class_="alarm", title=cell["refused"])
    note = "" if cell["beats_constant"] else " (no better than a constant)"
    return f"{spread_words(cell, seeds)}{note}"


def _differences(found: dict[str, Any]) -> Markup:
    first = found["series"][0]
    told = tag("p", "Difference from ", name(first), " with the same seed, its mean over "
               "seeds, and Student's 95 % interval of that mean: "
               "of noise and sampling alone, on these owners' rows and these test rows.", class_="soft")  # fmt: skip
    rows = []
    for one in found["differences"]:
        interval = "not known" if one["low"] is None else f"{one['low']:+.4f} to {one['high']:+.4f}"
        mean = "not known" if one["mean"] is None else f"{one['mean']:+.4f}"
        rows.append([name(one["series"]), number(one["epsilon"]), mean, interval, one["verdict"]])
    return join([told, _table(["series", "ε", "mean difference", "95 % interval", "verdict"], rows)])


def _privacy(found: dict[str, Any]) -> Markup:
    told = (
        f"Budget: everybody's ε, δ = {number(found['delta'])}. Claimed: the paper's theorem for these "
        "settings; certified: an upper bound for everything that the largest spender releases "
        f"(calibration {found['calibration']})."
    )
    rows = [_privacy_row(cell) for cell in found["cells"]]
    at_owners = f"ε of a person at {told_owners(found['owners_per_person'])} owners"
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
        "one owner" if cell["person"] is None else f"≤ {upper(float(cell['person']))}",
        kept,
        f"{cell['view']}, {cell['relation']}",
    ]


def _settings(found: dict[str, Any]) -> Markup:
    rows = {"data": found["data"], "topology": found["topology"], "calibration": found["calibration"]}
    rows |= {
        cell["series"]: ", ".join(f"{key} = {value}" for key, value in cell["settings"].items())
        or "all its own choice"
        for cell in found["cells"]
    }
    return join([pairs(rows), tag("p", "All others are in comparison.toml.", class_="soft")])


def _provenance(found: dict[str, Any]) -> Markup:
    made = found["provenance"]
    versions = ", ".join(f"{key} {value}" for key, value in made["versions"].items())
    seconds = sum(cell.get("seconds", 0.0) for cell in found["cells"])
    return pairs({"versions": versions, "platform": made["platform"], "training": f"{seconds:.1f} s"})


def _table(columns: list[str], rows: list[list[object]]) -> Markup:
    top = tag("tr", *(tag("th", one) for one in columns))
    return tag(
        "table",
        tag("thead", top),
        tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
    )
