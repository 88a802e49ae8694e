"""The picture of accuracy over ε, between what owners reach alone and what no privacy would reach."""

from __future__ import annotations

import numpy as np

from coterie.reports.charts import nice_ticks, plot, rule, x_label, y_label
from coterie.reports.markup import Markup, number, tag
from coterie.reports.reading import Metric, OverEpsilon


def over_epsilon(swept: OverEpsilon, metric: Metric, asked: float, oracle: Markup) -> Markup:
    """Joint model and each owner alone over the largest budget, which is on a logarithmic scale; `asked`: the run's.

    What is not finite, as after a model diverged, is left out.
    """
    lines = (("mean", swept.joint), ("floor", swept.local_only))
    seen = np.r_[swept.joint, swept.local_only, metric.central, metric.constant]
    seen = seen[np.isfinite(seen)]
    ticks = nice_ticks(float(seen.min()), float(seen.max())) if seen.size else [0.0, 1.0]
    low, high = ticks[0], ticks[-1]
    along = 100 * np.log(swept.epsilon / swept.epsilon[0]) / np.log(swept.epsilon[-1] / swept.epsilon[0])
    shapes = [rule((high - tick) / (high - low)) for tick in ticks]
    for level, kind in ((metric.central, "ceiling"), (metric.constant, "constant")):
        if np.isfinite(level):
            y = f"{100 * (high - level) / (high - low):.2f}"
            shapes.append(tag("line", x1=0, y1=y, x2=100, y2=y, class_=kind))
    for kind, values in lines:
        shapes += _line(kind, along, 100 * (high - values) / (high - low))
    labels = [y_label((tick - low) / (high - low), f"{tick:.6g}") for tick in ticks]
    labels += [
        x_label(place / 100, number(epsilon))
        for place, epsilon in zip(along.tolist(), swept.epsilon.tolist())
    ]
    labels.append(tag("span", "ε of the owner with the largest budget", class_="axis"))
    described = f"{metric.words} over ε, from {number(swept.epsilon[0])} to {number(swept.epsilon[-1])}"
    return tag("figure", plot("over", "0 0 100 100", described, shapes, labels), _key(asked, metric, oracle))


def _line(kind: str, along: np.ndarray, down: np.ndarray) -> list[Markup]:
    fine = np.isfinite(down)
    spots = [f"{x:.2f} {y:.2f}" for x, y in zip(along[fine], down[fine])]
    if not spots:
        return []
    dots = [tag("path", d=f"M{spot} h0", class_=f"{kind} dots") for spot in spots]
    return [tag("path", d=f"M{' L'.join(spots)}", class_=kind), *dots]


def _key(asked: float, metric: Metric, oracle: Markup) -> Markup:
    rows = (
        ("mean", f"joint model (the run itself: ε = {number(asked)})", True),
        ("floor", "each owner alone, same budget", True),
        ("ceiling", "all records, no privacy", True),
        ("constant", f"a constant: {metric.constant_says}", "constant" in metric.oracle),
    )
    samples = (
        tag("svg", tag("line", x1=0, y1=6, x2=29, y2=6, class_=kind), aria_hidden="true") for kind, *_ in rows
    )
    return tag(
        "ul",
        *(
            tag("li", sample, tag("span", words, *((" ", oracle) if marked else ())))
            for sample, (_, words, marked) in zip(samples, rows)
        ),
        class_="key",
    )
