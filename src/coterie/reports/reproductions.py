"""A reproduced view as a picture and as tables. Plain values in, a matplotlib figure or Markdown out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

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
            _curve(axes, own[0].curve, style)
        else:
            _line(axes, own, style | {"marker": _MARKERS[at % len(_MARKERS)]})
    _axes(axes, picture)
    figure.suptitle(picture.title, fontsize=12)
    axes.set_title(picture.subtitle, fontsize=9, color="#555555")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _curve(axes: Axes, curve: np.ndarray, style: dict) -> None:
    step, mean, low, high = np.where(np.isfinite(curve), curve, np.nan)
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
    if picture.x == "iteration":
        axes.set_xscale("log")
    axes.set(xlabel=picture.x, ylabel=picture.y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)


def values(points: list[Point], picture: Picture) -> list[str]:
    """Markdown: a row for each series, a column for each x: mean ± spread, and what was published there."""
    columns = list(dict.fromkeys(point.x for point in points))
    head = ["after the run"] if picture.x == "iteration" else [f"{picture.x} = {x:g}" for x in columns]
    lines = [f"| {picture.y} | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for series, own in _rows(points).items():
        lines.append(f"| {series} | " + " | ".join(_value(own.get(x), picture.form) for x in columns) + " |")
    return lines


def privacy(points: list[Point], picture: Picture) -> list[str]:
    """Markdown: for each series, claimed → certified ε at each x."""
    columns = list(dict.fromkeys(point.x for point in points))
    head = ["after the run"] if picture.x == "iteration" else [f"{picture.x} = {x:g}" for x in columns]
    lines = ["| ε: claimed → certified | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for series, own in _rows(points).items():
        lines.append(f"| {series} | " + " | ".join(_cost(own.get(x)) for x in columns) + " |")
    return lines


def _rows(points: list[Point]) -> dict[str, dict[float, Point]]:
    return {
        series: {point.x: point for point in points if point.series == series}
        for series in dict.fromkeys(point.series for point in points)
    }


def _value(point: Point | None, form: str) -> str:
    if point is None:
        return "–"
    ours = f"{point.mean:{form}} ± {point.spread:{form}}" if point.seeds > 1 else f"{point.mean:{form}}"
    return ours if point.published is None else f"{ours} (published {point.published:{form}})"


def _cost(point: Point | None) -> str:
    if point is None:
        return "–"
    claimed = "–" if point.claimed is None else _epsilon(point.claimed)
    return f"{claimed} → {_epsilon(point.certified)}"


def _epsilon(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
