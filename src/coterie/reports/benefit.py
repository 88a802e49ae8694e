"""The picture of who gains by joining: each owner's own model without privacy, over its size, beside the joint one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from coterie.reports.charts import nice_ticks, plot, rule, x_label, y_label
from coterie.reports.markup import Markup, join, many, name, number, tag
from coterie.reports.reading import Run
from coterie.units import counted, several

_FEW = 12  # owners up to whom a table says more than a picture
_MANY = 60  # owners beyond whom the joint models are one line, and dots are smaller
_MOST = 1_000  # dots


def spread(run: Run) -> Markup:
    """How much is gained, and by whom; for few owners the table says it. Oracle: of own models."""
    gain = _gain(run)
    fine = np.flatnonzero(np.isfinite(gain))
    if len(run.names) <= _FEW or not fine.size:
        return join(())
    least, most = fine[np.argmin(gain[fine])], fine[np.argmax(gain[fine])]

    def who(at: int) -> Markup:
        return join([name(run.names[at]), f" ({many(run.sizes[at], 'record')}, {_signed(gain[at])})"])

    middle = _signed(float(np.median(gain[fine])))
    return join([f"Half of them gain {middle} or more; ", who(most), " gains most, ", who(least), " least."])


def _gain(run: Run) -> np.ndarray:
    """(owners,) above zero where joining is better."""
    sign = -1.0 if run.benefit.lower_is_better else 1.0
    return sign * (np.array(run.benefit.joint, float) - np.array(run.benefit.own, float))


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{number(abs(float(f'{value:.2g}')))}"


def benefit(run: Run, oracle: Markup) -> Markup:
    """Of a few owners a table. Of more a dot for each owner's own model, a dash for what it gets by joining; along: its
    records, logarithmic. What is not finite, as after a model diverged, is left out.
    """
    if len(run.names) <= _FEW:
        return _table(run, oracle)
    sizes, own, joint = (np.array(part, float) for part in (run.sizes, run.benefit.own, run.benefit.joint))
    seen = np.r_[own, joint]
    seen = seen[np.isfinite(seen)]
    ticks = nice_ticks(float(seen.min()), float(seen.max())) if seen.size else [0.0, 1.0]
    along, marks = _along(sizes)
    high, span = ticks[-1], ticks[-1] - ticks[0]
    shapes = [rule((high - tick) / span) for tick in ticks]
    crowded = len(sizes) > _MANY
    if crowded:
        shapes += _together(joint, lambda value: 100 * (high - value) / span)
    for at in map(int, _shown(sizes)):
        ends = (100 * (high - float(value)) / span for value in (joint[at], own[at]))
        shapes += _owner(run, at, 100 * float(along[at]), *ends, alone=crowded)
    labels = [y_label((tick - ticks[0]) / span, f"{tick:.6g}") for tick in ticks]
    labels += [x_label(place, f"{mark:,}") for place, mark in marks]
    labels.append(tag("span", f"{several(run.privacy.unit)} of the owner", class_="axis"))
    described = f"{run.metric.words} of each owner's own model without privacy and of the joint private one"
    drawing = plot("benefit crowded" if crowded else "benefit", "0 0 100 100", described, shapes, labels)
    return tag("figure", drawing, _key(run, oracle))


def _table(run: Run, oracle: Markup) -> Markup:
    """An owner a row: what it has alone without privacy, what joining gives, and whether that is more."""
    joint = (" ", oracle) if "joint" in run.benefit.oracle else ()
    heads = [
        ("owner",),
        (several(run.privacy.unit),),
        ("own model, no privacy ", oracle),
        ("by joining", *joint),
        ("gain ", oracle),
    ]
    rows = []
    for at, (owner, size, gain) in enumerate(zip(run.names, run.sizes, _gain(run))):
        told = f"{_signed(gain)}, gains" if run.benefit.gains[at] else "does not gain"
        if not run.benefit.gains[at] and math.isfinite(gain):
            told = f"{_signed(gain)}, {told}"
        values = (f"{size:,}", number(run.benefit.own[at]), number(run.benefit.joint[at]))
        cells = (tag("td", value) for value in values)
        kind = "good" if run.benefit.gains[at] else "alarm"
        rows.append(tag("tr", tag("th", name(owner), scope="row"), *cells, tag("td", told, class_=kind)))
    head = tag("tr", *(tag("th", *words, scope="col") for words in heads))
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="gain")


def _together(joint: np.ndarray, down: Callable[[float], float]) -> list[Markup]:
    """The joint models of many owners: a band over all of them, and a line in the middle."""
    fine = joint[np.isfinite(joint)]
    if not fine.size:
        return []
    top, middle, low = (down(float(one)) for one in (fine.max(), np.median(fine), fine.min()))
    return [
        tag("path", d=f"M0 {top:.2f} H100 V{low:.2f} H0 Z", class_="band"),
        tag("path", d=f"M0 {middle:.2f} H100", class_="mean"),
    ]


def _owner(run: Run, at: int, x: float, joint: float, own: float, alone: bool) -> list[Markup]:
    """The joint model's dash, the own model's dot, and a thin line between them; `alone`: only the dot."""
    values = f"own {number(run.benefit.own[at])}, joint {number(run.benefit.joint[at])}"
    words = f"{run.names[at]}, {counted(run.sizes[at], run.privacy.unit)}: {values}"
    shapes: list[Markup] = []
    if math.isfinite(own) and math.isfinite(joint) and not alone:
        shapes.append(tag("path", d=f"M{x:.2f} {joint:.2f} V{own:.2f}", class_="link"))
    if math.isfinite(joint) and not alone:
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
    rows = [
        (
            tag("line", x1=4, y1=6, x2=25, y2=6, class_="mean"),
            f"the joint private model{' (band: all owners)' * (owners > _MANY)}",
            marked,
        )
    ]
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
