"""What owners published, as plain values: metrics with intervals, decisions by class, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.evaluation.words import DIVERGED, about, shown, title, too_few
from coterie.relations import UNIT
from coterie.units import several

SHOWN = 12  # the most classes of a readable table


def told(evaluation: Mapping[str, Any], classes: tuple[str, ...]) -> dict[str, Any]:
    """Published numbers with 95 % intervals; none of them is an oracle value."""
    cells, bands = evaluation["confusion"], evaluation["calibration"]
    cells = cells if cells is not None and len(classes) == len(cells) <= SHOWN else []
    return {
        "diverged": DIVERGED if evaluation["diverged"] else "",
        "about": about(evaluation),
        "what": "rows" if evaluation["unit"] == UNIT else several(evaluation["unit"]),
        "classes": classes,
        "metrics": [(title(name), shown(metric)) for name, metric in evaluation["metrics"].items()],
        "groups": _groups(evaluation["groups"], evaluation["unit"]),
        "confusion": [[_count(cell) for cell in row] for row in cells],
        "calibration": _calibration(bands) if bands is not None and len(classes) == 2 else [],
    }


def _groups(groups: dict[str, Any] | None, unit: str) -> dict[str, Any] | None:
    """A row for each group, without cells where it has too few records or units."""
    if groups is None:
        return None
    rows = []
    for group, metrics in groups["metrics"].items():
        known = any(metric["value"] is not None for name, metric in metrics.items() if name != "records")
        cells = [shown(metric) if metric["value"] is not None else "–" for metric in metrics.values()]
        rows.append((group, cells if known else []))
    names = next(iter(groups["metrics"].values()))
    return {
        "column": groups["column"],
        "metrics": [title(name, unit) for name in names],
        "rows": rows,
        "too_few": too_few(unit),
    }


def _count(interval: dict[str, Any]) -> str:
    return f"{interval['value']:,.0f} ({interval['low']:,.0f} to {interval['high']:,.0f})"


def _calibration(bands: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(f"{band['from']:.0%} to {band['to']:.0%}", shown(band)) for band in bands]
