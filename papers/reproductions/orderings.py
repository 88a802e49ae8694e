"""Published orderings, judged on our runs: differences paired over seeds, with their spread."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.experiments.comparing.paired import difference
from papers.reproductions.measures import MEASURES
from papers.reproductions.spec import Ordering


def judge(ordering: Ordering, view: dict[str, Any]) -> list[dict[str, Any]]:
    """At each x that both series have, or once from the first x to the last, how far the ordering holds.

    A difference is positive where the ordering holds, whichever way the measure's better side is.
    """
    above, below = (_values(view, series) for series in (ordering.above, ordering.below))
    if ordering.below and not ordering.grows:
        return [_finding(_place(view, x), _apart(above[x], below[x], view)) for x in above if x in below]
    places = [x for x in above if not ordering.below or x in below]
    if len(places) < 2:
        return []
    ends = [
        _apart(above[x], below[x] if ordering.below else np.zeros(1), view) for x in (places[0], places[-1])
    ]
    return [_finding(f"{view['x']} from {places[0]:g} to {places[-1]:g}", ends[1] - ends[0])]


def _place(view: dict[str, Any], x: float) -> str:
    return "after the run" if view["x"] == "iteration" else f"{view['x']} = {x:g}"


def _values(view: dict[str, Any], series: str) -> dict[float, np.ndarray]:
    own = [point for point in view["points"] if point["series"] == series]
    return {point["x"]: np.array([float(value) for value in point["values"]]) for point in own}


def _apart(above: np.ndarray, below: np.ndarray, view: dict[str, Any]) -> np.ndarray:
    """Paired over seeds; a run without noise is the same for all of them."""
    sign = 1.0 if MEASURES[view["measure"]].higher else -1.0
    return sign * (above - below)


def _finding(where: str, apart: np.ndarray) -> dict[str, Any]:
    """One seed has no spread and decides nothing."""
    found = difference(apart)
    verdict = ("holds" if found.mean > 0 else "does not hold") if found.decided else "undecided"
    told = found.to_json()
    return {
        "where": where,
        "mean": told["mean"],
        "error": told["error"],
        "seeds": found.pairs,
        "verdict": verdict,
    }
