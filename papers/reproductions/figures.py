"""A reproduced view as a picture and as tables. Plain values in, a matplotlib figure or cells of text out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#c05621", "#222222", "#8a94a0", "#1b6ca8", "#2f855a", "#805ad5", "#b83280", "#d69e2e")
_MARKERS = "osD^vPX*"


class Point(NamedTuple):
    """One series at one place: over seeds, with what was published and what it cost."""

    series: str
    x: float
    mean: float
    spread: float
    seeds: int
    claimed: float | None
    certified: float
    published: float | None
    curve: np.ndarray | None = None  # (4, looks): step, mean, lowest, highest


class Picture(NamedTuple):
    """What a view is called, and how its axes are."""

    title: str
    subtitle: str
    x: str
    y: str
    log: bool
    form: str  # how values are written
    dots: bool = False  # single events, which no line joins


def draw(points: list[Point], picture: Picture) -> Figure:
    """Lines over x with bars of one standard deviation, or curves over the run with bands over seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for at, series in enumerate(dict.fromkeys(point.series for point in points)):
        own = [point for point in points if point.series == series]
        style = {"color": COLORS[at % len(COLORS)], "label": series}
        if own[0].curve is not None:
            _curve(axes, own[0].curve, style, picture.dots)
        else:
            _line(axes, own, style | {"marker": _MARKERS[at % len(_MARKERS)]})
    _axes(axes, picture)
    figure.suptitle(picture.title, fontsize=12)
    axes.set_title(picture.subtitle, fontsize=9, color="#555555")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _curve(axes: Axes, curve: np.ndarray, style: dict, dots: bool) -> None:
    step, mean, low, high = np.where(np.isfinite(curve), curve, np.nan)
    if dots:
        axes.plot(step, mean, linestyle="none", marker=".", markersize=3, **style)
        return
    axes.fill_between(step, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(step, mean, linewidth=1.8, marker="o", markersize=3, **style)


def _line(axes: Axes, own: list[Point], style: dict) -> None:
    x, mean, spread = np.array([(point.x, point.mean, point.spread) for point in own]).T
    axes.errorbar(x, mean, spread, linewidth=1.8, markersize=4, capsize=2, **style)
    told = [(point.x, point.published) for point in own if point.published is not None]
    if told:
        axes.plot(*zip(*told), linestyle="none", marker="x", markersize=8, color=style["color"])


def _axes(axes: Axes, picture: Picture) -> None:
    if picture.log:
        axes.set_yscale("log")
    if picture.x == "iteration" and not picture.dots:
        axes.set_xscale("log")
    axes.set(xlabel=picture.x, ylabel=picture.y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)


class Table(NamedTuple):
    """Cells as text: the first of each row names it."""

    head: list[str]
    rows: list[list[str]]


def markdown(table: Table) -> list[str]:
    """The table's lines in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in (table.head, *table.rows)]
    return [lines[0], "|---" * len(table.head) + "|", *lines[1:]]


def values(points: list[Point], picture: Picture) -> Table:
    """A row for each series, a column for each x: mean ± spread, and what was published there."""
    return _table(points, picture, picture.y, lambda point: _value(point, picture.form))


def privacy(points: list[Point], picture: Picture) -> Table:
    """For each series, claimed → certified ε at each x."""
    return _table(points, picture, "ε: claimed → certified", _cost)


def _table(points: list[Point], picture: Picture, corner: str, text: Callable[[Point], str]) -> Table:
    columns = list(dict.fromkeys(point.x for point in points))
    head = ["after the run"] if picture.x == "iteration" else [f"{picture.x} = {x:g}" for x in columns]
    rows = [
        [series, *(text(own[x]) if x in own else "–" for x in columns)]
        for series, own in _rows(points).items()
    ]
    return Table([corner, *head], rows)


def orderings(found: list[dict[str, Any]], forms: Mapping[str, str]) -> Table:
    """Each published ordering where we have runs: by how much it holds, paired over seeds, and the verdict."""
    rows = []
    for one in found:
        form = forms[one["measure"]]
        mean = "not finite" if one["mean"] is None else f"{one['mean']:+{form}}"
        error = "" if one["error"] is None else f" ± {one['error']:{form}}"
        apart = f"{mean}{error}"
        rows.append([one["words"], one["verdict"], apart, one["where"], one["view"], str(one["seeds"])])
    return Table(["published", "in our runs", "by (± standard error)", "at", "where", "seeds"], rows)


def fits(found: list[dict[str, Any]]) -> Table:
    """The fitted constants of the published bound beside the published ones."""
    rows = [
        [f"{one['words']}: {one['series']}", f"{one['first']:.3g}", f"{one['second']:.3g}", f"{one['error']:.0%}",
         ", ".join(f"{value:.3g}" for value in one["published"])]
        for one in found
    ]  # fmt: skip
    return Table(["cost of privacy, fitted", "c̄₁", "c̄₂", "median error", "published c̄₁, c̄₂"], rows)


def _rows(points: list[Point]) -> dict[str, dict[float, Point]]:
    return {
        series: {point.x: point for point in points if point.series == series}
        for series in dict.fromkeys(point.series for point in points)
    }


def _value(point: Point, form: str) -> str:
    ours = f"{point.mean:{form}} ± {point.spread:{form}}" if point.seeds > 1 else f"{point.mean:{form}}"
    return ours if point.published is None else f"{ours} (published {point.published:{form}})"


def _cost(point: Point) -> str:
    claimed = "–" if point.claimed is None else _epsilon(point.claimed)
    return f"{claimed} → {_epsilon(point.certified)}"


def _epsilon(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
