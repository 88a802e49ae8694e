"""The picture of the claims table. Plain values in, a matplotlib figure out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from coterie._rounding import upper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIMED, CERTIFIED, ABOVE = "#8a94a0", "#1b6ca8", "#c05621"
_HEIGHT = 0.38  # of one bar; a row is one high


class ClaimedRow(NamedTuple):
    """One row: a heading for the first of its group, the settings, and two numbers that are never added."""

    group: str
    label: str
    claimed: float | None
    certified: float


def bars(rows: list[ClaimedRow], title: str) -> Figure:
    """Claimed beside certified ε on a logarithmic scale; an infinite one runs off the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    places = _places(rows)
    figure = Figure(figsize=(9.5, 1.5 + 0.42 * (places[-1] + 1)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    low, high = _limits(rows)
    for place, row in zip(places, rows):
        _pair(axes, place, row, low, high)
    for place, row, before in zip(places, rows, [None, *rows]):
        if before is None or before.group != row.group:
            axes.text(low, place - 0.85, row.group, fontsize=9, fontweight="bold", va="center")
    axes.set_xscale("log")
    axes.set(xlim=(low, high), ylim=(places[-1] + 0.7, -1.3), xlabel="ε (logarithmic)")
    axes.set_yticks(places, [row.label for row in rows], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.25)
    figure.suptitle(title, fontsize=12)
    _legend(figure)
    return figure


def _places(rows: list[ClaimedRow]) -> list[float]:
    """One step for each row and another before each new group, for its heading."""
    places, at = [], 0.0
    for row, before in zip(rows, [rows[0], *rows]):
        at += row.group != before.group
        places.append(at)
        at += 1
    return places


def _limits(rows: list[ClaimedRow]) -> tuple[float, float]:
    """Decades that span all finite values, and one more for the numbers beside the bars."""
    values = [
        value for row in rows for value in (row.claimed, row.certified) if value and math.isfinite(value)
    ]
    values = [*values, 1.0]  # a common scale: pictures of large numbers alone begin below one, too
    low, high = math.floor(math.log10(min(values)) - 0.01), math.ceil(math.log10(max(values)) + 0.01)
    return 10.0**low, 10.0 ** (high + 0.6)


def _pair(axes: Axes, place: float, row: ClaimedRow, low: float, high: float) -> None:
    above = row.claimed is not None and row.certified > row.claimed * (1 + 1e-6)
    endless = math.isinf(row.certified)
    until = high * 10 if endless else row.certified  # beyond the right edge: clipped there
    if row.claimed is None:
        _write(axes, low, place - _HEIGHT / 2, "no ε stated", "#555555")
    else:
        axes.barh(place - _HEIGHT / 2, row.claimed - low, _HEIGHT, left=low, color=CLAIMED)
        _write(axes, row.claimed, place - _HEIGHT / 2, f"{row.claimed:.3g}", "#555555")
    color = ABOVE if above or row.claimed is None else CERTIFIED
    axes.barh(place + _HEIGHT / 2, until - low, _HEIGHT, left=low, color=color)
    if endless:
        axes.annotate("∞ →", (0.995, place + _HEIGHT / 2), xycoords=("axes fraction", "data"), ha="right",
                      va="center", color="white", fontsize=9, fontweight="bold")  # fmt: skip
    else:
        _write(axes, row.certified, place + _HEIGHT / 2, upper(row.certified), color)


def _write(axes: Axes, value: float, place: float, text: str, color: str) -> None:
    axes.annotate(
        text, (value, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8, color=color
    )


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    kinds = (
        (CLAIMED, "claimed"),
        (CERTIFIED, "certified, at most the claim"),
        (ABOVE, "certified, above the claim or without one"),
    )
    handles = [Patch(color=color, label=label) for color, label in kinds]
    figure.legend(handles=handles, loc="outside lower right", ncols=3, fontsize=9)
