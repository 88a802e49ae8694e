"""One self-contained page about a reproduction: no script, nothing fetched; on a phone, on paper, in the dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from coterie.reports.charts import nice_ticks, plot, rule, x_label, y_label
from coterie.reports.html import head, pairs, section
from coterie.reports.markup import Markup, join, tag
from coterie.reports.style import CLASSES
from papers.reproductions.figures import Picture, Point, Table

Scale = Callable[[float], float]  # data's units to a part of the drawing

_SCROLLS = "overflow-x:auto;margin-top:.9rem"
_LABELS = 6  # numbers below a chart, on a phone too


class Shown(NamedTuple):
    """One view: its points, how they are drawn, and its tables."""

    name: str
    told: str
    points: list[Point]
    picture: Picture
    values: Table
    costs: Table


class Line(NamedTuple):
    """One series within the drawing: (points,) along and up, in data's units."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


def page(
    title: str,
    lead: str,
    notes: Sequence[str],
    judged: Mapping[str, Table],
    shown: Sequence[Shown],
    facts: Mapping[str, str],
) -> str:
    """The page as text."""
    marks = {"holds": "good", "does not hold": "alarm"}
    boxes = [
        *(section(name, _table(table, marks), "wide long") for name, table in judged.items()),
        *(section(one.picture.title, _view(one), "wide") for one in shown),
        section("What differs from the paper", tag("ul", *(tag("li", note) for note in notes)), "wide long"),
        section(
            "Provenance", pairs({name: tag("code", value) for name, value in facts.items()}), "wide long"
        ),
    ]
    opening = tag("header", tag("h1", title), tag("p", lead, class_="lead"), tag("p", _ABOUT, class_="soft"))
    body = tag("main", opening, tag("div", *boxes, class_="grid"))
    return f"<!DOCTYPE html>\n{tag('html', head(title), tag('body', body), lang='en')}\n"


_ABOUT = (
    "Means ± standard deviation over seeds; crosses are published numbers. ε: what the paper claims → what is "
    "certified for what was released. Fitness, loss and gap are computed from everybody's records: no owner releases "
    "them."
)


def _view(one: Shown) -> Markup:
    parts = [tag("p", one.told, class_="soft"), chart(one.points, one.picture)]
    if not one.picture.dots:
        costs = tag("details", tag("summary", "what it costs"), _table(one.costs))
        parts += [_table(one.values), costs]
    return join(parts)


def _table(table: Table, marks: Mapping[str, str] | None = None) -> Markup:
    """As wide as it needs; on a phone it scrolls within its box."""
    top = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in table.head)))
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(tag("td", cell, class_=(marks or {}).get(cell)) for cell in cells),
        )
        for name, *cells in table.rows
    ]
    wide = f"min-width:{6 + 7 * (len(table.head) - 1)}rem;overflow-wrap:normal"
    return tag("div", tag("table", top, tag("tbody", *rows), style=wide), style=_SCROLLS, tabindex="0")


def chart(points: list[Point], picture: Picture) -> Markup:
    """Series over x with bars of one standard deviation, or over the run with bands over seeds."""
    lines = _lines(points)
    places = sorted({float(x) for line in lines.values() for x in line.x})
    even = picture.x != "iteration"  # a few settings side by side; else the run
    low, high, ticks = _upright(lines, [point.published for point in points], picture.log)

    def along(x: float) -> float:
        if even:
            return (places.index(x) + 0.5) / len(places)
        ends = (places[0], places[-1]) if picture.dots else (math.log(places[0]), math.log(places[-1]))
        return ((x if picture.dots else math.log(x)) - ends[0]) / (ends[1] - ends[0] or 1.0)

    def up(y: float) -> float:
        return ((math.log10(y) if picture.log else y) - low) / (high - low)

    shapes = [rule(1 - up(tick)) for tick in ticks]
    for at, (name, line) in enumerate(lines.items()):
        colour = CLASSES[at % len(CLASSES)]
        told = [(point.x, point.published) for point in points if point.series == name and point.published]
        shapes += _series(line, colour, along, up, (even, picture.dots))
        shapes += [_cross(100 * along(x), 100 - 100 * up(y), colour) for x, y in told]
    labels = [y_label(up(tick), f"{tick:.4g}") for tick in ticks]
    kept = (
        places[:: max(1, math.ceil(len(places) / _LABELS))]
        if even
        else _rounds(places[0], places[-1], picture.dots)
    )
    labels += [x_label(along(x), f"{x:,.7g}") for x in kept]
    labels.append(tag("span", picture.x, class_="axis"))
    drawing = plot("curve", "0 0 100 100", f"{picture.y}: {picture.title}", shapes, labels)
    names = zip(lines, [CLASSES[at % len(CLASSES)] for at in range(len(lines))])
    key = (tag("li", tag("i", style=f"background:{colour}"), tag("span", name)) for name, colour in names)
    return tag("figure", tag("figcaption", picture.y), drawing, tag("ul", *key, class_="key"))


def _rounds(first: float, last: float, linear: bool) -> list[float]:
    """The ends of a run, and the powers of ten that have room between them; on a linear axis, its middle."""
    if linear:
        return [first, (first + last) // 2, last]
    powers = [10.0**power for power in range(math.ceil(math.log10(first)), math.ceil(math.log10(last)))]
    return [first, *(one for one in powers if 2 * first < one < last / 2), last]


def _lines(points: list[Point]) -> dict[str, Line]:
    found = {}
    for name in dict.fromkeys(point.series for point in points):
        own = [point for point in points if point.series == name]
        curve = own[0].curve
        if curve is not None:
            found[name] = Line(*curve)
        else:
            x, mean, spread = np.array([(point.x, point.mean, point.spread) for point in own]).T
            found[name] = Line(x, mean, mean - spread, mean + spread)
    return found


def _upright(
    lines: Mapping[str, Line], published: list[float | None], logarithmic: bool
) -> tuple[float, float, list[float]]:
    """The ends of the vertical axis, in its own unit, and where it has numbers."""
    seen = np.concatenate([np.r_[line.y, line.low, line.high] for line in lines.values()])
    seen = np.r_[seen, [value for value in published if value is not None]]
    seen = seen[np.isfinite(seen) & ((seen > 0) | (not logarithmic))]
    if not seen.size:
        return 0.0, 1.0, [0.0 if not logarithmic else 1.0]
    if not logarithmic:
        ticks = nice_ticks(float(seen.min()), float(seen.max()))
        return ticks[0], ticks[-1], ticks
    means = np.concatenate([line.y for line in lines.values()])
    means = means[np.isfinite(means) & (means > 0)]  # a bar that reaches zero has no place on this axis
    low, high = math.floor(math.log10(means.min())), math.ceil(math.log10(seen.max()) + 1e-9)
    step = max(1, math.ceil((high - low) / 6))
    return float(low), float(max(high, low + 1)), [10.0**power for power in range(low, high + 1, step)]


def _series(line: Line, colour: str, along: Scale, up: Scale, kind: tuple[bool, bool]) -> list[Markup]:
    """A band or bars, then the line, then dots where there are few points."""
    even, dots = kind
    fine = [at for at in range(len(line.x)) if math.isfinite(line.y[at])]
    fine = [at for at in fine if math.isfinite(_height(up, line.y[at]))]
    place = [(100 * along(float(line.x[at])), 100 - 100 * _height(up, line.y[at])) for at in fine]
    ends = [(_foot(up, line.low[at]), _foot(up, line.high[at])) for at in fine]
    style = f"stroke:{colour};stroke-linecap:round;stroke-linejoin:round"
    shapes = []
    if even:
        shapes += [
            tag(
                "path",
                d=f"M{x:.2f} {a:.2f} L{x:.2f} {b:.2f}",
                style=f"stroke:{colour};stroke-width:1.2;opacity:.7",
            )
            for (x, _), (a, b) in zip(place, ends)
        ]
    elif place and not dots:
        around = [(x, b) for (x, _), (_, b) in zip(place, ends)] + [
            (x, a) for (x, _), (a, _) in zip(place, ends)
        ][::-1]
        shapes.append(tag("path", d=f"M{_path(around)} Z", style=f"fill:{colour};opacity:.15"))
    if place and not dots:
        shapes.append(tag("path", d=f"M{_path(place)}", style=f"{style};stroke-width:2.2"))
    size = 3.5 if dots else 7
    spots = " ".join(f"M{x:.2f} {y:.2f} h0" for x, y in place) if even or dots else ""
    return [*shapes, tag("path", d=spots, style=f"{style};stroke-width:{size}")] if spots else shapes


def _height(up: Scale, y: float) -> float:
    """Where a value is; not a number where a logarithmic axis has no place for it."""
    try:
        return up(float(y))
    except ValueError:
        return math.nan


def _foot(up: Scale, y: float) -> float:
    """A bar's end, within the drawing."""
    height = _height(up, y) if math.isfinite(y) else math.nan
    return 100 - 100 * min(max(height, 0.0), 1.0) if math.isfinite(height) else 100.0


def _path(places: list[tuple[float, float]]) -> str:
    return " L".join(f"{x:.2f} {y:.2f}" for x, y in places)


def _cross(x: float, y: float, colour: str) -> Markup:
    """A published number."""
    left, right, over, under = (f"{end:.2f}" for end in (x - 0.8, x + 0.8, y - 1.6, y + 1.6))
    arms = f"M{left} {over} L{right} {under} M{left} {under} L{right} {over}"
    return tag("path", d=arms, style=f"stroke:{colour};stroke-width:2")
