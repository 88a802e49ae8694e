"""The page's charts: shapes stretch with the page, words keep their size. Plain values in, markup out."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from coterie.reports.markup import Markup, join, many, number, percent, tag
from coterie.reports.reading import Metric, Run
from coterie.reports.style import CLASSES, OTHER
from coterie.units import counted, several

_FEW_POINTS = 10  # a line of fewer is drawn with dots
_LOGARITHMIC = 50  # bars whose values differ by more than this factor cannot share a linear scale
_NUMBERED = 16  # columns beyond which not every one has its number below


class Bar(NamedTuple):
    """One ε with its name; `value` None where there is none, `shown` in its place."""

    label: object
    kind: str
    value: float | None
    shown: str


def curve(metric: Metric, weights: np.ndarray, step: str, oracle: Markup) -> Markup:
    """The metric over a run between floor and ceiling; the band spans the owners' own models.

    What is not finite, as after a model diverged, is left out.
    """
    values = np.where(np.isfinite(metric.values), metric.values, np.nan)
    several = values.shape[1] > 1
    mean = np.average(values, axis=1, weights=weights if values.shape[1] == len(weights) else None)
    levels = ((metric.local_only, "floor"), (metric.central, "ceiling"), (metric.constant, "constant"))
    seen = np.r_[values[np.isfinite(values)], [level for level, _ in levels if math.isfinite(level)]]
    ticks = nice_ticks(float(seen.min()), float(seen.max())) if seen.size else [0.0, 1.0]
    low, high, last = ticks[0], ticks[-1], float(metric.steps[-1])

    def place(steps: np.ndarray, heights: np.ndarray) -> str:
        x, y = 100 * steps / last, 100 * (high - heights) / (high - low)
        return " L".join(f"{a:.2f} {b:.2f}" for a, b in zip(x, y))

    shapes = [_level("rule", (high - tick) / (high - low)) for tick in ticks]
    if several:
        whole = np.isfinite(values).all(1)
        edges = np.r_[metric.steps[whole], metric.steps[whole][::-1]]
        around = np.r_[values[whole].max(1), values[whole].min(1)[::-1]]
        shapes += [tag("path", d=f"M{place(edges, around)} Z", class_="band")] if whole.any() else []
    for level, kind in levels:
        shapes += [_level(kind, (high - level) / (high - low))] if math.isfinite(level) else []
    fine = np.isfinite(mean)
    if fine.any():
        shapes.append(tag("path", d=f"M{place(metric.steps[fine], mean[fine])}", class_="mean"))
    if fine.sum() < _FEW_POINTS:
        spots = zip(metric.steps[fine], mean[fine])
        shapes += [tag("path", d=f"M{place(np.r_[x], np.r_[y])} h0", class_="mean dots") for x, y in spots]
    across = _whole_ticks(int(last))
    labels = [y_label((tick - low) / (high - low), f"{tick:.6g}") for tick in ticks]
    labels += [x_label(tick / last, f"{tick:,}") for tick in across]
    labels.append(tag("span", step, class_="axis"))
    described = (
        f"{metric.words} over {step}s: joint model {number(metric.joint)}, each owner alone "
        f"{number(metric.local_only)}, all records without privacy {number(metric.central)}, "
        f"a constant {number(metric.constant)}"
    )
    return tag(
        "figure",
        plot("curve", "0 0 100 100", described, shapes, labels),
        _key_of_lines(metric, several, oracle),
    )


def _key_of_lines(metric: Metric, several: bool, oracle: Markup) -> Markup:
    band = " (band: the owners' own models)" if several else ""
    lines = (
        ("mean", f"joint model{band}", metric.joint, "joint"),
        ("floor", "each owner alone, same budget", metric.local_only, "local_only"),
        ("ceiling", "all records, no privacy", metric.central, "central"),
        ("constant", f"a constant ({metric.constant_says})", metric.constant, "constant"),
    )
    rows = []
    for kind, what, value, key in lines:
        sample = tag("svg", tag("line", x1=0, y1=6, x2=29, y2=6, class_=kind), aria_hidden="true")
        marked = (" ", oracle) if key in metric.oracle else ()
        rows.append(tag("li", sample, tag("span", f"{what}: ", tag("b", number(value)), *marked)))
    return tag("ul", *rows, class_="key")


def bars(rows: list[Bar], budget: float | None) -> tuple[Markup, bool]:
    """Values from zero on one scale, or on a logarithmic one where they differ too much; and which it is."""
    known = [row.value for row in rows if row.value is not None]
    finite = [one for one in [*known, budget] if one is not None and math.isfinite(one)]
    positive = [one for one in finite if one > 0]
    logarithmic = bool(positive) and max(positive) > _LOGARITHMIC * min(positive)
    top = max(finite, default=1.0) or 1.0
    if any(math.isinf(one) for one in known):
        top *= 1.25  # an endless bar is longer than any other

    def length(value: float) -> float:
        if math.isinf(value):
            return 1.0
        if not logarithmic:
            return value / top
        low = math.floor(math.log10(min(positive))) - 1
        return max(0.0, (math.log10(value) - low) / (math.log10(top) - low)) if value > 0 else 0.0

    drawn = []
    for row in rows:
        kind = "endless" if row.value is not None and math.isinf(row.value) else row.kind
        part = (
            () if row.value is None else (tag("b", class_=kind, style=f"width:{percent(length(row.value))}"),)
        )
        mark = () if budget is None else (tag("u", style=f"left:{percent(length(budget))}"),)
        head = tag("div", tag("span", row.label), tag("span", row.shown))
        drawn.append(tag("li", head, tag("span", *part, *mark, class_="track")))
    return tag("ul", *drawn, class_="bars"), logarithmic


def stacks(run: Run) -> Markup:
    """A column for each owner, as high as it has records, in the colours of their classes where these are given."""
    sizes, owners = run.sizes, len(run.sizes)
    top = nice_ticks(0.0, float(max(sizes)))[-1]
    parts, labels = (
        (np.array(sizes)[:, None], []) if run.counts is None else _grouped(run.counts, run.classes)
    )
    colours = [*CLASSES[: len(labels)], *[OTHER] * (len(labels) > len(CLASSES))] or ["var(--joint)"]
    shapes = [_level("rule", share, owners) for share in (0.0, 0.5, 1.0)]
    for at, row in enumerate(parts):
        title = tag("title", f"{run.numbers[at]} {run.names[at]}: {counted(sizes[at], run.privacy.unit)}")
        shapes.append(tag("g", title, *_column(at + 0.12, 100 * row / top, colours)))
    words = [y_label(share, f"{share * top:,.6g}") for share in (0.0, 0.5, 1.0)]
    words += [x_label((at + 0.5) / owners, str(run.numbers[at])) for at in _numbered(run.numbers)]
    words.append(tag("span", "owner", class_="axis"))
    described = (
        f"{several(run.privacy.unit)} of each of {many(owners, 'owner')}: {min(sizes):,} to {max(sizes):,}"
    )
    kind = "stacks one" if owners == 1 else "stacks"
    return join([plot(kind, f"0 0 {owners} 100", described, shapes, words), _key_of_classes(labels, colours)])


def _column(left: float, heights: np.ndarray, colours: list[str]) -> list[Markup]:
    tops = 100 - np.cumsum(heights)
    return [
        tag("rect", x=f"{left:.2f}", y=f"{top:.2f}", width="0.76", height=f"{height:.2f}", fill=colour)
        for top, height, colour in zip(tops, heights, colours)
        if height
    ]


def _grouped(counts: np.ndarray, classes: tuple[str, ...]) -> tuple[np.ndarray, list[str]]:
    """As many classes as there are colours, the others as one."""
    shown = len(CLASSES)
    if len(classes) <= shown:
        return counts, list(classes)
    return np.c_[counts[:, :shown], counts[:, shown:].sum(1)], [
        *classes[:shown],
        f"{len(classes) - shown} others",
    ]


def _key_of_classes(labels: list[str], colours: list[str]) -> Markup:
    if not labels:
        return Markup("")
    pairs = zip(labels, colours)
    return tag("ul", *(tag("li", tag("i", style=f"background:{colour}"), tag("span", tag("bdi", label)))
                       for label, colour in pairs), class_="key")  # fmt: skip


def plot(kind: str, box: str, described: str, shapes: list[Markup], labels: list[Markup]) -> Markup:
    """A drawing that stretches with the page, and words around it that do not."""
    drawing = tag("svg", *shapes, viewBox=box, preserveAspectRatio="none", role="img", aria_label=described)
    return tag("div", drawing, *labels, class_=f"plot {kind}")


def _level(kind: str, down: float, width: float = 100) -> Markup:
    """A horizontal line, `down` of the way from the top."""
    y = f"{100 * down:.2f}"
    return tag("line", x1=0, y1=y, x2=width, y2=y, class_=kind)


def rule(down: float) -> Markup:
    """A thin line across, `down` of the way from the top."""
    return _level("rule", down)


def y_label(up: float, words: str) -> Markup:
    """Beside the drawing, `up` of its height."""
    return tag("span", words, class_="y", style=f"bottom:{percent(up)}")


def x_label(along: float, words: str) -> Markup:
    """Below the drawing, `along` its width."""
    return tag("span", words, class_="x", style=f"left:{percent(along)}")


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers around both ends, three to seven of them.

    >>> nice_ticks(0.742, 0.816)
    [0.74, 0.76, 0.78, 0.8, 0.82]
    """
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{at * step:.12g}") for at in range(first, max(last, first + 1) + 1)]


def _whole_ticks(last: int) -> list[int]:
    """Zero, round numbers, and the last step, with room between them."""
    ticks = [int(tick) for tick in nice_ticks(0.0, float(last)) if float(tick).is_integer()]
    return [tick for tick in ticks if tick <= 0.9 * last] + [last]


def _numbered(numbers: tuple[int, ...]) -> list[int]:
    """Which columns, from 0, have their number below: all of a few, round ones of many."""
    owners = len(numbers)
    step = 1 if owners <= _NUMBERED else int(nice_ticks(0.0, float(owners))[1])
    return [at for at in range(owners) if numbers[at] % step == 0]
