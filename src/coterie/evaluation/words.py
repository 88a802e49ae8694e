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


def sentences(told: Mapping[str, Any]) -> Iterator[str]:
    """The published numbers in words, from their JSON: what they are, and what they cost."""
    if told["diverged"]:
        yield DIVERGED
        return
    for name, one in told["metrics"].items():
        yield f"{title(name)}: {shown(one)}"
    unit = told["unit"]
    for group, metrics in (told["groups"] or {"metrics": {}})["metrics"].items():
        known = [
            f"{title(name, unit)} {shown(metric)}"
            for name, metric in metrics.items()
            if metric["value"] is not None
        ]
        yield f"{group}: {', '.join(known) if len(known) > 1 else too_few(unit)}"


def too_few(unit: str) -> str:
    """Of a group whose numbers the noise hides."""
    return f"too few {several(unit)} for the noise to tell anything"


def about(told: Mapping[str, Any]) -> str:
    """What was evaluated, and what it cost."""
    who = f"{told['owners']:,} owner{'s' * (told['owners'] != 1)}"
    if told["owners"] < told["of"]:
        who += f" of {told['of']:,}"
    rows = "" if told["rows"] is None else f", {counted(told['rows'], told['unit'])}"
    cost = upper(float(told["epsilon"]))
    return (
        f"{told['which']}: {who}{rows}. It cost {told['share']:.3g} of every budget (ε ≤ {cost} by itself), which the "
        "certificate includes. Intervals are of 95 %, for noise and sampling"
    )


def around(told: Mapping[str, Any]) -> str:
    """What was taken off the features before training, and what that cost, from its JSON."""
    return (
        f"the mean of their features is {told['length']:.2g} long, with noise of {told['noise']:.2g}, and records are "
        f"taken to be {told['distance']:.2g} away from it. It cost {told['share']:.3g} of every budget (ε ≤ "
        f"{upper(float(told['epsilon']))} by itself), which the certificate includes"
    )


def choice(told: Mapping[str, Any]) -> str:
    """Which model was chosen, by whom, and what that cost, from its JSON."""
    who = f"{told['owners']:,} owner{'s' * (told['owners'] != 1)}"
    whole = told["owners"] == told["of"]
    who += "" if whole else f" of {told['of']:,}, which does not do, so that the first was taken"
    cost = upper(float(told["epsilon"]))
    return (
        f"{told['choice']}, of {len(told['candidates'])} models that the same releases give, by noisy sums of losses "
        f"of {who}. It cost {told['share']:.3g} of every budget (ε ≤ {cost} by itself), which the certificate includes"
    )


def title(name: str, unit: str = UNIT) -> str:
    """A metric as people call it; what a group is counted in is the unit, of which each counts once."""
    if name == "records":
        return several(unit)
    return METRICS[name].words if name in METRICS else name.replace("_", " ")


def shown(one: Mapping[str, Any]) -> str:
    """A number with its interval, in as many digits as that lets one see."""
    if one["value"] is None:
        return "cannot be told from so noisy a table"
    digits = _digits(one)
    ends = "−∞" if one["low"] is None else f"{one['low']:.{digits}f}"
    return f"{one['value']:.{digits}f} ({ends} to {one['high']:.{digits}f})"


def _digits(one: Mapping[str, Any]) -> int:
    low = one["low"] if one["low"] is not None else one["value"] - 1
    width = one["high"] - low
    return 4 if width <= 0 else min(max(1 - math.floor(math.log10(width / 2)), 0), 4)
