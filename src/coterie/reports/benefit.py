"""Who gains by joining, as plain values: each owner's own model without privacy, and the joint one, over its size."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from coterie.problems.metrics import METRICS
from coterie.reports.amounts import many, number
from coterie.reports.charts import Chart, Entry, Shape, Upright
from coterie.reports.written import Run
from coterie.units import counted, several

_FEW = 12  # owners: up to so many, a table instead of a picture
_MANY = 60  # owners: beyond, the joint models are one line, and dots are smaller
_MOST = 1_000  # dots


class BenefitRow(NamedTuple):
    """An owner: its metric alone without privacy, its metric after joining, and whether that is better."""

    name: str
    size: str
    own: str
    joint: str
    gain: str
    gains: bool


def benefit(run: Run) -> dict[str, Any]:
    """Rows of a table for a few owners; for more a chart, with words on how much is gained, and by whom."""
    few, spread, sign = (
        len(run.names) <= _FEW,
        None,
        -1.0 if METRICS[run.metric.name].lower_is_better else 1.0,
    )
    with np.errstate(
        invalid="ignore"
    ):  # above zero where joining is better; never where the joint one diverged
        gain = sign * (np.array(run.benefit.joint, float) - np.array(run.benefit.own, float))
    fine = np.flatnonzero(np.isfinite(gain))
    if fine.size and not few:  # the middle gain, and who gains most and least, of those whose gain is finite
        ends = {"most": fine[np.argmax(gain[fine])], "least": fine[np.argmin(gain[fine])]}
        spread = {"middle": _signed(float(np.median(gain[fine])))} | {
            key: (run.names[at], f"{many(run.sizes[at], 'record')}, {_signed(float(gain[at]))}")
            for key, at in ends.items()
        }
    return {
        "gains": int(np.sum(gain > 0)),
        "joint_is_oracle": "joint" in run.benefit.oracle,
        "spread": spread,
        "rows": _rows(run, gain) if few else [],
        "chart": None if few else _chart(run, gain > 0),
    }


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{number(abs(float(f'{value:.2g}')))}"


def _rows(run: Run, gains: np.ndarray) -> list[BenefitRow]:
    rows = []
    for at, gain in enumerate(gains.tolist()):
        verdict = "gains" if gain > 0 else "does not gain"
        verdict = f"{_signed(gain)}, {verdict}" if gain > 0 or math.isfinite(gain) else verdict
        own, joint = number(run.benefit.own[at]), number(run.benefit.joint[at])
        rows.append(BenefitRow(run.names[at], f"{run.sizes[at]:,}", own, joint, verdict, gain > 0))
    return rows


def _chart(run: Run, gains: np.ndarray) -> Chart:
    """A dot for each owner's own model, a dash for what it gets by joining; along: its records, logarithmic.

    Values that are not finite, as after a model diverged, are left out.
    """
    sizes, own, joint = (np.array(part, float) for part in (run.sizes, run.benefit.own, run.benefit.joint))
    axis, owners = Upright(own, joint), len(sizes)
    crowded = owners > _MANY
    along, marks = _along(sizes)
    shown = np.argsort(sizes, kind="stable")
    if owners > _MOST:  # evenly spread over their sizes
        shown = shown[np.linspace(0, owners - 1, _MOST).astype(int)]
    groups = [("", axis.rules + (_joint_models(joint, axis) if crowded else []))]
    groups += [_owner(run, int(at), float(along[at]), axis, bool(gains[at]), alone=crowded) for at in shown]
    oracle, band = "joint" in run.benefit.oracle, " (band: all owners)" * crowded
    key = [Entry("mean", f"the joint private model{band}", oracle=oracle)]
    better = int(gains.sum())
    for dots, count, effect in (
        ("own gains", better, "gain by joining"),
        ("own", owners - better, "do not gain"),
    ):
        key += [Entry(dots, f"own model, no privacy: {count:,} {effect}", oracle=True)] * bool(count)
    described = f"{run.metric.words} of each owner's own model without privacy and of the joint private one"
    kind, words = "benefit crowded" if crowded else "benefit", f"{several(run.privacy.unit)} of the owner"
    return Chart(kind, described, groups, axis.labels, marks, words, run.metric.words, key)


def _joint_models(joint: np.ndarray, axis: Upright) -> list[Shape]:
    """The joint models of many owners: a band over all of them, and a line in the middle."""
    fine = joint[np.isfinite(joint)]
    if not fine.size:
        return []
    top, low = axis.down(float(fine.max())), axis.down(float(fine.min()))
    band = Shape("band", [(0, top), (100, top), (100, low), (0, low)])
    return [band, *axis.level("mean", float(np.median(fine)))]


def _owner(
    run: Run, at: int, along: float, axis: Upright, gains: bool, alone: bool
) -> tuple[str, list[Shape]]:
    """The joint model's dash, the own model's dot, and a thin line between them; `alone`: only the dot."""
    x = 100 * along
    own, joint = run.benefit.own[at], run.benefit.joint[at]
    words = f"{run.names[at]}, {counted(run.sizes[at], run.privacy.unit)}: own {number(own)}, joint {number(joint)}"
    shapes = []
    if math.isfinite(own) and math.isfinite(joint) and not alone:
        shapes.append(Shape("link", [(x, axis.down(joint)), (x, axis.down(own))]))
    if math.isfinite(joint) and not alone:
        shapes.append(Shape("mean", [(x - 0.8, axis.down(joint)), (x + 0.8, axis.down(joint))]))
    if math.isfinite(own):
        shapes.append(Shape("own gains" if gains else "own", [(x, axis.down(own))]))
    return words, shapes


def _along(sizes: np.ndarray) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """Where each size lies between the two ends, on a logarithmic scale, and the numbers below the picture."""
    low, high = np.log(sizes.min() / 1.15), np.log(sizes.max() * 1.15)
    power = 10 ** math.floor(math.log10(float(sizes.max())))
    round_ones = {
        factor * base for base in (power // 100, power // 10, power) for factor in (1, 2, 5) if base
    }
    marks = [mark for mark in sorted(round_ones) if sizes.min() <= mark <= sizes.max()]
    marks = marks if len(marks) > 1 else sorted({int(sizes.min()), int(sizes.max())})
    return (np.log(sizes) - low) / (high - low), [
        (float((np.log(mark) - low) / (high - low)), f"{mark:,}") for mark in marks
    ]
