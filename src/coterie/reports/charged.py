"""The charged choice of a model and the charged evaluation, as result.json has them; what is wrong is named."""

from __future__ import annotations

from typing import Any

from coterie.errors import InputError
from coterie.reports.taking import Taker, short

_SELECTED: dict[str, tuple[type, ...]] = {
    "share": (int, float),
    "epsilon": (int, float, str),
    "owners": (int,),
    "of": (int,),
    "choice": (str,),
    "candidates": (list,),
    "noise": (int, float),
    "sums": (str,),
}
_PUBLISHED: dict[str, tuple[type, ...]] = {
    "which": (str,),
    "share": (int, float),
    "epsilon": (int, float, str),
    "owners": (int,),
    "of": (int,),
    "rows": (int, type(None)),
    "unit": (str,),
    "tables": (str,),
    "diverged": (bool,),
    "metrics": (dict,),
    "confusion": (list, type(None)),
    "calibration": (list, type(None)),
    "groups": (dict, type(None)),
}


def selection(take: Taker) -> dict[str, Any] | None:
    """Which model was chosen; what is not as `selection.Selected` writes it is named."""
    if take("selection", dict, type(None)) is None:
        return None
    selected = {key: take(f"selection.{key}", *kinds) for key, kinds in _SELECTED.items()}
    for candidate in selected["candidates"]:
        if not isinstance(candidate, dict) or set(candidate) != {"model", "difference"}:
            raise InputError(f"result.json: selection holds {short(candidate)}, must have model, difference.")
    return selected


def evaluation(take: Taker, classes: int) -> dict[str, Any] | None:
    """What owners published; what is not as `told.Published` writes it is named."""
    if take("evaluation", dict, type(None)) is None:
        return None
    published = {key: take(f"evaluation.{key}", *kinds) for key, kinds in _PUBLISHED.items()}
    confusion = published["confusion"]
    for metrics in _groups(published["groups"]):
        for estimate in metrics.values():
            _interval(estimate)
    fits = confusion is None or (
        len(confusion) == classes and all(isinstance(row, list) and len(row) == classes for row in confusion)
    )
    if not fits:
        raise InputError(f"result.json: evaluation.confusion must be {classes} rows of {classes} intervals.")
    for estimate in (*published["metrics"].values(), *(cell for row in confusion or () for cell in row)):
        _interval(estimate)
    for band in published["calibration"] or ():
        _interval(band, ("from", "to"))
    return published


def _groups(groups: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Metrics of each group; InputError unless they are as `told.Published` writes them."""
    if groups is None:
        return []
    metrics = groups.get("metrics")
    if not isinstance(groups.get("column"), str) or not isinstance(metrics, dict):
        raise InputError("result.json: evaluation.groups must have column and metrics.")
    if not all(isinstance(each, dict) for each in metrics.values()):
        raise InputError("result.json: evaluation.groups.metrics must have metrics for each group.")
    return list(metrics.values())


def _interval(estimate: Any, more: tuple[str, ...] = ()) -> None:
    """InputError unless it is a number or null with two ends, of which one may be null."""
    keys = ("value", "low", "high", *more)
    fits = isinstance(estimate, dict) and set(estimate) == set(keys)
    if not fits or not all(estimate[key] is None or type(estimate[key]) in (int, float) for key in keys):
        raise InputError(f"result.json: evaluation holds {short(estimate)}, must have {', '.join(keys)}.")
