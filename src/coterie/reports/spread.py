"""Shared by a comparison's picture, page and terminal: means with deviations, and the extent of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def spread_words(cell: dict[str, Any], seeds: int) -> str:
    """`0.8011 ± 0.0021`; for one seed the value alone; for a diverged model a word that says so."""
    mean = float(cell["mean"])
    if not math.isfinite(mean):
        return "diverged"
    large = abs(mean) >= 10
    shown = f"{mean:,.4g}" if large else f"{mean:.4f}"
    if seeds == 1:
        return shown
    return f"{shown} ± {cell['deviation']:.2g}" if large else f"{shown} ± {cell['deviation']:.4f}"


def extent(comparison: dict[str, Any], levels: Sequence[float]) -> tuple[float, float] | None:
    """The least and the largest finite value of a picture with these levels, bands included; None without any."""
    drawn = [cell for cell in comparison["cells"] if not cell["refused"]] + comparison["baselines"]["alone"]
    seen = [float(cell["mean"]) + side * (cell["deviation"] or 0.0) for cell in drawn for side in (-1, 1)]
    finite = [value for value in [*seen, *levels] if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else None


def constant_fits(comparison: dict[str, Any]) -> bool:
    """Whether a constant can be drawn without squeezing the compared values."""
    base = comparison["baselines"]
    ends, level = extent(comparison, [float(base["central"])]), float(base["constant"])
    if ends is None or not math.isfinite(level):
        return False
    room = 0.5 * (ends[1] - ends[0])
    return ends[0] - room <= level <= ends[1] + room
