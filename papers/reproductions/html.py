"""One self-contained page about a reproduction: no script, nothing fetched; on a phone, on paper, in the dark.

Here are its values; `templates/reproduction.html` has its words and their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from coterie.reports.charts import Chart, Entry, Shape, nice_ticks
from coterie.reports.rendering import template
from coterie.reports.style import CLASSES
from papers.reproductions.figures import Picture, Point, Table

Scale = Callable[[float], float]  # data's units to a part of the drawing

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
    views = [(one, chart(one.points, one.picture)) for one in shown]
    return template("reproduction.html", "papers.reproductions").render(
        title=title, lead=lead, notes=notes, judged=judged, views=views, facts=facts
    )


def chart(points: list[Point], picture: Picture) -> Chart:
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

    shapes = [Shape("rule", [(0, 100 - 100 * up(tick)), (100, 100 - 100 * up(tick))]) for tick in ticks]
    for at, (name, line) in enumerate(lines.items()):
        colour = CLASSES[at % len(CLASSES)]
        told = [(point.x, point.published) for point in points if point.series == name and point.published]
        shapes += _series(line, colour, along, up, (even, picture.dots))
        shapes += [arm for x, y in told for arm in _cross(100 * along(x), 100 - 100 * up(y), colour)]
    kept = (
        places[:: max(1, math.ceil(len(places) / _LABELS))]
        if even
        else _rounds(places[0], places[-1], picture.dots)
    )
    key = [Entry("series", name, colour=CLASSES[at % len(CLASSES)]) for at, name in enumerate(lines)]
    heights = [(up(tick), f"{tick:.4g}") for tick in ticks]
    places_shown = [(along(x), f"{x:,.7g}") for x in kept]
    described = f"{picture.y}: {picture.title}"
    return Chart("curve", described, [("", shapes)], heights, places_shown, picture.x, picture.y, key)


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


def _series(line: Line, colour: str, along: Scale, up: Scale, kind: tuple[bool, bool]) -> list[Shape]:
    """A band or bars, then the line, then dots where there are few points."""
    even, dots = kind
    fine = [at for at in range(len(line.x)) if math.isfinite(line.y[at])]
    fine = [at for at in fine if math.isfinite(_height(up, line.y[at]))]
    place = [(100 * along(float(line.x[at])), 100 - 100 * _height(up, line.y[at])) for at in fine]
    ends = [(_foot(up, line.low[at]), _foot(up, line.high[at])) for at in fine]
    shapes = []
    if even:
        shapes += [Shape("error", [(x, a), (x, b)], colour) for (x, _), (a, b) in zip(place, ends)]
    elif place and not dots:
        around = [(x, b) for (x, _), (_, b) in zip(place, ends)]
        around += [(x, a) for (x, _), (a, _) in zip(place, ends)][::-1]
        shapes.append(Shape("around", around, colour))
    if place and not dots:
        shapes.append(Shape("series", place, colour))
    if place and (even or dots):
        shapes.append(Shape("series small dots" if dots else "series dots", place, colour))
    return shapes


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


def _cross(x: float, y: float, colour: str) -> list[Shape]:
    """A published number."""
    left, right, over, under = x - 0.8, x + 0.8, y - 1.6, y + 1.6
    arms = [(left, over), (right, under)], [(left, under), (right, over)]
    return [Shape("series", arm, colour) for arm in arms]
