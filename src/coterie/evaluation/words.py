"""What an evaluation published, in words, from its JSON. Imports no JAX: models are read without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from coterie._rounding import upper
from coterie.problems.metrics import METRICS
from coterie.relations import UNIT
from coterie.units import counted, several

DIVERGED = (
    "the model diverged: its scores are no numbers, and the evaluation, which was charged, tells nothing"
)


def sentences(report: Mapping[str, Any]) -> Iterator[str]:
    """The published numbers in words, from their JSON: what they are, and what they cost."""
    if report["diverged"]:
        yield DIVERGED
        return
    for name, metric in report["metrics"].items():
        yield f"{title(name)}: {shown(metric)}"
    unit = report["unit"]
    for group, metrics in (report["groups"] or {"metrics": {}})["metrics"].items():
        known = [
            f"{title(name, unit)} {shown(metric)}"
            for name, metric in metrics.items()
            if metric["value"] is not None
        ]
        yield f"{group}: {', '.join(known) if len(known) > 1 else too_few(unit)}"


def too_few(unit: str) -> str:
    """What is said of a group whose numbers the noise hides."""
    return f"too few {several(unit)} for the noise to tell anything"


def about(report: Mapping[str, Any]) -> str:
    """What was evaluated, and what it cost."""
    who = f"{report['owners']:,} owner{'s' * (report['owners'] != 1)}"
    if report["owners"] < report["of"]:
        who += f" of {report['of']:,}"
    rows = "" if report["rows"] is None else f", {counted(report['rows'], report['unit'])}"
    return f"{report['which']}: {who}{rows}. {_cost(report)}. Intervals are of 95 %, for noise and sampling"


def around(centre: Mapping[str, Any]) -> str:
    """What was taken off the features before training, and what that cost, from its JSON."""
    return (
        f"the mean of their features is {centre['length']:.2g} long, with noise of {centre['noise']:.2g}, and records "
        f"are taken to be {centre['distance']:.2g} away from it. {_cost(centre)}"
    )


def choice(picked: Mapping[str, Any]) -> str:
    """Which model was chosen, by whom, and what that cost, from its JSON."""
    who = f"{picked['owners']:,} owner{'s' * (picked['owners'] != 1)}"
    whole = picked["owners"] == picked["of"]
    who += "" if whole else f" of {picked['of']:,}, which does not do, so that the first was taken"
    return (
        f"{picked['choice']}, of {len(picked['candidates'])} models that the same releases give, by noisy sums of "
        f"losses of {who}. {_cost(picked)}"
    )


def _cost(released: Mapping[str, Any]) -> str:
    """What a table cost, in words."""
    return (
        f"It cost {released['share']:.3g} of every budget (ε ≤ {upper(float(released['epsilon']))} by itself), which "
        "the certificate includes"
    )


def title(name: str, unit: str = UNIT) -> str:
    """A metric as people call it; the size of a group is counted in units."""
    if name == "records":
        return several(unit)
    return METRICS[name].words if name in METRICS else name.replace("_", " ")


def shown(metric: Mapping[str, Any]) -> str:
    """A number with its interval, in as many digits as that lets one see."""
    if metric["value"] is None:
        return "cannot be told from so noisy a table"
    digits = _digits(metric)
    ends = "−∞" if metric["low"] is None else f"{metric['low']:.{digits}f}"
    return f"{metric['value']:.{digits}f} ({ends} to {metric['high']:.{digits}f})"


def _digits(metric: Mapping[str, Any]) -> int:
    low = metric["low"] if metric["low"] is not None else metric["value"] - 1
    width = metric["high"] - low
    return 4 if width <= 0 else min(max(1 - math.floor(math.log10(width / 2)), 0), 4)
