"""The picture of who gains by joining: each owner's own model without privacy, over its size, beside the joint one."""

from __future__ import annotations

import math

import numpy as np

from coterie.reports.charts import nice_ticks, plot, rule, x_label, y_label
from coterie.reports.markup import Markup, many, number, tag
from coterie.reports.reading import Run

_MOST = 1_000  # dots


def benefit(run: Run, oracle: Markup) -> Markup:
    """A dot for each owner's own model, a dash for what it gets by joining; along: its records, logarithmic.

    What is not finite, as after a model diverged, is left out.
    """
    sizes, own, joint = (np.array(part, float) for part in (run.sizes, run.benefit.own, run.benefit.joint))
    seen = np.r_[own, joint]
    seen = seen[np.isfinite(seen)]
    ticks = nice_ticks(float(seen.min()), float(seen.max())) if seen.size else [0.0, 1.0]
    along, marks = _along(sizes)
    high, span = ticks[-1], ticks[-1] - ticks[0]
    shapes = [rule((high - tick) / span) for tick in ticks]
    for at in map(int, _shown(sizes)):
        ends = (100 * (high - float(value)) / span for value in (joint[at], own[at]))
        shapes += _owner(run, at, 100 * float(along[at]), *ends)
    labels = [y_label((tick - ticks[0]) / span, f"{tick:.6g}") for tick in ticks]
    labels += [x_label(place, f"{mark:,}") for place, mark in marks]
    labels.append(tag("span", "records of the owner", class_="axis"))
    described = f"{run.metric.name} of each owner's own model without privacy and of the joint private one"
    drawing = plot("benefit", "0 0 100 100", described, shapes, labels)
    return tag("figure", drawing, _key(run, oracle))


def _owner(run: Run, at: int, x: float, joint: float, own: float) -> list[Markup]:
    """The joint model's dash, the own model's dot, and a thin line between them."""
    values = f"own {number(run.benefit.own[at])}, joint {number(run.benefit.joint[at])}"
    words = f"{run.names[at]}, {many(run.sizes[at], 'record')}: {values}"
    shapes: list[Markup] = []
    if math.isfinite(own) and math.isfinite(joint):
        shapes.append(tag("path", d=f"M{x:.2f} {joint:.2f} V{own:.2f}", class_="link"))
    if math.isfinite(joint):
        shapes.append(tag("path", d=f"M{x - 0.8:.2f} {joint:.2f} h1.6", class_="mean"))
    if math.isfinite(own):
        kind = "own gains" if run.benefit.gains[at] else "own"
        shapes.append(tag("path", d=f"M{x:.2f} {own:.2f} h0", class_=kind))
    return [tag("g", tag("title", words), *shapes)]


def _along(sizes: np.ndarray) -> tuple[np.ndarray, list[tuple[float, int]]]:
    """Where each size lies between the two ends, on a logarithmic scale, and the numbers below the picture."""
    low, high = np.log(sizes.min() / 1.15), np.log(sizes.max() * 1.15)
    power = 10 ** math.floor(math.log10(float(sizes.max())))
    round_ones = {
        factor * base for base in (power // 100, power // 10, power) for factor in (1, 2, 5) if base
    }
    marks = [mark for mark in sorted(round_ones) if sizes.min() <= mark <= sizes.max()]
    marks = marks if len(marks) > 1 else sorted({int(sizes.min()), int(sizes.max())})
    return (np.log(sizes) - low) / (high - low), [
        (float((np.log(mark) - low) / (high - low)), mark) for mark in marks
    ]


def _shown(sizes: np.ndarray) -> np.ndarray:
    """All owners of a few; of many an even choice over their sizes."""
    order = np.argsort(sizes, kind="stable")
    return order if len(order) <= _MOST else order[np.linspace(0, len(order) - 1, _MOST).astype(int)]


def _key(run: Run, oracle: Markup) -> Markup:
    gains, owners = sum(run.benefit.gains), len(run.names)
    marked = (" ", oracle) if "joint" in run.benefit.oracle else ()
    rows = [(tag("line", x1=4, y1=6, x2=25, y2=6, class_="mean"), "the joint private model", marked)]
    for kind, count, words in (
        ("own gains", gains, "gain by joining"),
        ("own", owners - gains, "do not gain"),
    ):
        sample = tag("path", d="M14 6 h0", class_=kind)
        rows += [(sample, f"own model, no privacy: {count:,} {words}", (" ", oracle))] if count else []
    return tag(
        "ul",
        *(
            tag("li", tag("svg", sample, aria_hidden="true"), tag("span", words, *mark))
            for sample, words, mark in rows
        ),
        class_="key",
    )
