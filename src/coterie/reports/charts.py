"""Charts as plain values, which the pages' templates write as SVG and `figures` as pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from coterie.relations import UNIT
from coterie.reports.amounts import number
from coterie.reports.constant import with_unit
from coterie.reports.reading import Reported
from coterie.reports.written import OverEpsilon, WrittenMetric

_FEW_POINTS = 10  # a line of fewer is drawn with dots


class Shape(NamedTuple):
    """A line, or what it encloses, or dots, in a square of 100 by 100 with y downwards."""

    kind: str  # its class in the style sheet: "band" and "around" are areas, "… dots" and "own" are dots
    points: Sequence[tuple[float, float]]
    colour: str = ""  # of kinds without one in the style sheet: "series" and "around"

    @property
    def form(self) -> str:
        """Whether it is a line, an area or dots."""
        dots = self.kind.startswith("own") or self.kind.endswith("dots")
        return "dots" if dots else "area" if self.kind in ("band", "around") else "line"


class Entry(NamedTuple):
    """A line of a chart's key."""

    kind: str
    words: str
    value: str = ""
    oracle: bool = False
    colour: str = ""


class Chart(NamedTuple):
    """One figure. Numbers beside it: which part of the way up or along, and the words there."""

    kind: str  # its class in the style sheet
    described: str  # for screen readers
    groups: list[tuple[str, list[Shape]]]  # each with a title, or without
    up: list[tuple[float, str]]
    along: list[tuple[float, str]]
    axis: str
    upright: str  # what is measured
    key: list[Entry]


class Upright:
    """A vertical axis between round numbers that span all finite values."""

    def __init__(self, *seen: object) -> None:
        values = np.concatenate([np.ravel(np.asarray(series, float)) for series in seen])
        values = values[np.isfinite(values)]
        self.ticks = nice_ticks(float(values.min()), float(values.max())) if values.size else [0.0, 1.0]
        self.rules = [shape for tick in self.ticks for shape in self.level("rule", tick)]
        self.labels = [(1 - self.down(tick) / 100, f"{tick:.6g}") for tick in self.ticks]

    def down(self, value: float) -> float:
        """A value's distance from the top."""
        return 100 * (self.ticks[-1] - value) / (self.ticks[-1] - self.ticks[0])

    def level(self, kind: str, value: float) -> list[Shape]:
        """A line across; none where the value is not finite."""
        return [Shape(kind, [(0, self.down(value)), (100, self.down(value))])] if math.isfinite(value) else []

    def line(
        self, kind: str, along: Iterable[float], values: Iterable[float], colour: str = ""
    ) -> list[Shape]:
        """A line through the finite points, with dots where they are few."""
        spots = [(float(x), self.down(float(y))) for x, y in zip(along, values) if math.isfinite(y)]
        dots = [Shape(f"{kind} dots", spots, colour)] if len(spots) < _FEW_POINTS else []
        return [Shape(kind, spots, colour), *dots] if spots else []


def curve(run: Reported) -> Chart:
    """The metric over a run between floor and ceiling; the band spans the owners' own models.

    What is not finite, as after a model diverged, is left out.
    """
    metric, values = run.metric, np.where(np.isfinite(run.values), run.values, np.nan)
    several, last = values.shape[1] > 1, int(run.steps[-1])
    band = " (band: the owners' own models)" * several
    shown = (
        ("mean", f"joint model{band}", metric.joint, "joint"),
        ("floor", "each owner alone, same budget", metric.local_only, "local_only"),
        ("ceiling", "all records, no privacy", metric.central, "central"),
        ("constant", f"a constant ({metric.constant_says})", metric.constant, "constant"),
    )
    axis, along = Upright(values, [level for _, _, level, _ in shown[1:]]), 100 * run.steps / run.steps[-1]
    shapes = list(axis.rules)
    whole = np.isfinite(values).all(1)
    if several and whole.any():
        edges = [
            *zip(along[whole], values[whole].max(1)),
            *zip(along[whole][::-1], values[whole].min(1)[::-1]),
        ]
        shapes.append(Shape("band", [(x, axis.down(y)) for x, y in edges]))
    for kind, _, level, _ in shown[1:]:
        shapes += axis.level(kind, level)
    shapes += axis.line("mean", along, run.joint)
    described = (
        f"{metric.words} over {run.step}s: joint model {number(metric.joint)}, each owner alone "
        f"{number(metric.local_only)}, all records without privacy {number(metric.central)}, "
        f"a constant {number(metric.constant)}"
    )
    held = f"held-out {'rows' if run.privacy.unit == UNIT else 'units'} of the owners"
    rows = f"{metric.rows:,} {held if 'joint' in metric.oracle else 'public test rows'}"
    upright = f"{with_unit(metric.name, metric.unit)} on {rows}"
    # Zero, round numbers, and the last step, with room between them.
    round_ones = [int(tick) for tick in nice_ticks(0.0, float(last)) if tick.is_integer()]
    early = [tick for tick in round_ones if tick <= 0.9 * last]
    ticks = [(tick / last, f"{tick:,}") for tick in (*early, last)]
    key = [Entry(kind, words, number(value), name in metric.oracle) for kind, words, value, name in shown]
    return Chart("curve", described, [("", shapes)], axis.labels, ticks, run.step, upright, key)


def over_epsilon(swept: OverEpsilon, metric: WrittenMetric, asked: float) -> Chart:
    """Joint model and each owner alone over the largest budget, which is on a logarithmic scale; `asked`: the run's.

    What is not finite, as after a model diverged, is left out.
    """
    axis, along = (
        Upright(swept.joint, swept.local_only, metric.central, metric.constant),
        logarithmic(swept.epsilon),
    )
    shapes = [*axis.rules, *axis.level("ceiling", metric.central), *axis.level("constant", metric.constant)]
    shapes += axis.line("mean", along, swept.joint) + axis.line("floor", along, swept.local_only)
    described = f"{metric.words} over ε, from {number(swept.epsilon[0])} to {number(swept.epsilon[-1])}"
    key = [
        Entry("mean", f"joint model (the run itself: ε = {number(asked)})", oracle=True),
        Entry("floor", "each owner alone, same budget", oracle=True),
        Entry("ceiling", "all records, no privacy", oracle=True),
        Entry("constant", f"a constant: {metric.constant_says}", oracle="constant" in metric.oracle),
    ]
    ticks = [(place / 100, number(epsilon)) for place, epsilon in zip(along, swept.epsilon)]
    words = "ε of the owner with the largest budget"
    return Chart("over", described, [("", shapes)], axis.labels, ticks, words, metric.words, key)


def logarithmic(values: Sequence[float] | np.ndarray) -> list[float]:
    """The places of ascending values along a chart, from 0 to 100; a single one in the middle."""
    logs = np.log(np.asarray(values, float))
    return [50.0] if len(logs) == 1 else (100 * (logs - logs[0]) / (logs[-1] - logs[0])).tolist()


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
