"""The pictures of a run. Plain values in, a matplotlib figure out; nothing here reads records or writes files."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.reports.amounts import many
from coterie.reports.spread import constant_fits
from coterie.reports.style import CLASSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JOINT, LOCAL, CENTRAL, CONSTANT, BUDGET = "#1b6ca8", "#c05621", "#2f855a", "#566171", "#222222"
_NAMED = 40  # owners beyond which their names no longer fit
_SHORT = 28  # characters of a name
_ROOM = 60  # characters that fit below the picture side by side


class Curve(NamedTuple):
    """A metric over a run, with what owners reach alone, what no privacy would reach, and what a constant does."""

    steps: np.ndarray  # (points,)
    values: np.ndarray  # (points, models): the owners' own models, or a single one
    sizes: np.ndarray  # (owners,)
    floor: float
    ceiling: float
    constant: float


def metric_over_rounds(curve: Curve, metric: str, step: str, title: str) -> Figure:
    """The joint model's metric between floor and ceiling; the band spans the owners' own models.

    What is not finite, as after a model diverged, is left out.
    """
    figure, axes = _new()
    values = np.where(np.isfinite(curve.values), curve.values, np.nan)
    models = values.shape[1]
    mean = np.average(values, axis=1, weights=curve.sizes if models == len(curve.sizes) else None)
    if models > 1:
        axes.fill_between(curve.steps, values.min(1), values.max(1), color=JOINT, alpha=0.15, linewidth=0)
    dots = {"marker": "o", "markersize": 4, "clip_on": False} if len(curve.steps) < 10 else {}
    axes.plot(curve.steps, mean, color=JOINT, linewidth=2, **dots)
    lines = [
        (mean[-1], "joint model", JOINT),
        (curve.floor, "each owner alone, private", LOCAL),
        (curve.ceiling, "all records, no privacy", CENTRAL),
        (curve.constant, "a constant", CONSTANT),
    ]
    for value, _, color in lines[1:]:
        if np.isfinite(value):
            axes.axhline(value, color=color, linewidth=1.5, linestyle="--")
    axes.set(xlabel=step, ylabel=metric, xlim=(0, curve.steps[-1]))
    axes.margins(y=0.08)
    _label_right(axes, lines)
    figure.suptitle(title, fontsize=12)
    return figure


def metric_over_epsilon(comparison: dict[str, Any]) -> Figure:
    """What a comparison found: each series over everybody's budget, with bands of one standard deviation."""
    figure, axes = _new(width=9.5)
    base, lines = comparison["baselines"], []
    for at, series in enumerate(comparison["series"]):
        cells = [cell for cell in comparison["cells"] if cell["series"] == series and not cell["refused"]]
        if cells:
            colour = CLASSES[at % len(CLASSES)]
            lines.append((_band(axes, cells, colour, "-"), series, colour))
    lines.append((_band(axes, base["alone"], LOCAL, "--"), "each owner alone, private", LOCAL))
    levels = [("central", "all records, no privacy", CENTRAL)]
    levels += [("constant", "a constant", CONSTANT)] if constant_fits(comparison) else []
    for key, words, colour in levels:
        if np.isfinite(level := float(base[key])):
            axes.axhline(level, color=colour, linewidth=1.5, linestyle=":")
            lines.append((level, words, colour))
    axes.set_xscale("log")
    axes.set_xticks(comparison["epsilon"], [f"{one:g}" for one in comparison["epsilon"]])
    axes.minorticks_off()
    metric = comparison["metric"]
    axes.set(
        xlabel=f"everybody's ε (δ = {comparison['delta']:g})",
        ylabel=f"{metric['words']} on {metric['rows_are']}",
    )
    axes.margins(y=0.08)
    _label_right(axes, lines)
    seeds, what = many(len(comparison["seeds"]), "seed"), PurePath(comparison["data"]).stem
    bands = "; bands: one standard deviation" if len(comparison["seeds"]) > 1 else ""
    beyond = (
        ""
        if constant_fits(comparison)
        else f"; a constant, beyond the picture: {float(base['constant']):.4g}"
    )
    figure.suptitle(f"{what}: {many(comparison['owners'], 'owner')}, {seeds}{bands}{beyond}", fontsize=12)
    return figure


def _band(axes: Axes, cells: list[dict[str, Any]], colour: str, style: str) -> float:
    """A line of means with its band; its height at the right end. What is not finite is left out."""
    epsilon = np.array([cell["epsilon"] for cell in cells])
    mean = np.array([float(cell["mean"]) for cell in cells])
    mean = np.where(np.isfinite(mean), mean, np.nan)
    half = np.array([cell["deviation"] or 0.0 for cell in cells])
    axes.fill_between(epsilon, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
    axes.plot(
        epsilon, mean, color=colour, linewidth=2, linestyle=style, marker="o", markersize=4, clip_on=False
    )
    return float(mean[-1])


def epsilon_by_owner(
    names: tuple[str, ...], sizes: np.ndarray, certified: np.ndarray, budgets: np.ndarray, title: str
) -> Figure:
    """What each owner's run cost against what it allowed; an infinite ε runs off the picture."""
    owners = len(names)
    figure, axes = _new(width=max(6.5, min(11.0, 0.32 * owners + 3)))
    place = np.arange(owners)
    endless = ~np.isfinite(certified)
    top = 1.25 * max(budgets.max(), certified[~endless].max(initial=0.0))
    within = certified <= budgets * (1 + 1e-9)
    width = min(0.7, 0.14 * owners + 0.1)  # a single owner's bar does not fill the picture
    for chosen, color, label in (
        (within, JOINT, "certified ε"),
        (~within, LOCAL, "certified ε, above the budget"),
    ):
        if chosen.any():
            height = np.where(endless, top, certified)[chosen]
            axes.bar(place[chosen], height, width, color=color, label=label)
    half = 0.5 * width + (0.1 if owners <= _NAMED else 0.15)
    axes.hlines(budgets, place - half, place + half, color=BUDGET, linewidth=2, label="the owner's budget")
    for spot in place[endless] if owners <= _NAMED else ():
        axes.text(spot, top * 0.97, "∞", ha="center", va="top", color="white", fontsize=12)
    axes.set(ylabel="ε", ylim=(0, top), xlim=(-0.8, owners - 0.2))
    _name_owners(axes, names, sizes, int(endless.sum()))
    figure.suptitle(title, fontsize=12)
    figure.legend(loc="outside lower right", ncols=3, fontsize=9, frameon=True)
    return figure


def _name_owners(axes: Axes, names: tuple[str, ...], sizes: np.ndarray, endless: int) -> None:
    if len(names) > _NAMED:
        note = f"; certified ε = ∞ for {endless:,} of them" if endless else ""
        axes.set_xlabel(f"{many(len(names), 'owner')}{note}")
        return
    labels = [f"{_shortened(name)}  ({size:,})" for name, size in zip(names, sizes)]
    tilt = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, labels)) > _ROOM else {}
    axes.set_xticks(range(len(names)), labels, fontsize=8, **tilt)


def _shortened(name: str) -> str:
    return name if len(name) <= _SHORT else name[: _SHORT - 1] + "…"


def _new(width: float = 8.0) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes


def _label_right(axes: Axes, lines: list[tuple[float, str, str]]) -> None:
    """Write each line's name at its right end, moved apart where they would overlap, inside the picture."""
    low, high = axes.get_ylim()
    finite = sorted(line for line in lines if np.isfinite(line[0]))
    spots = _apart(np.array([value for value, _, _ in finite]), (high - low) * 0.06, high)
    for spot, (value, text, color) in zip(spots, finite):
        axes.annotate(
            f"{text}  {value:.3g}" if abs(value) >= 10 else f"{text}  {value:.3f}",
            (1.01, spot),
            xycoords=("axes fraction", "data"),
            color=color,
            va="center",
            fontsize=9,
        )


def _apart(values: np.ndarray, gap: float, high: float) -> np.ndarray:
    """Ascending values moved up to be `gap` apart, then down as far as the top one overshoots `high`."""
    spots = values.copy()
    for at in range(1, len(spots)):
        spots[at] = max(spots[at], spots[at - 1] + gap)
    for at in range(len(spots) - 1, -1, -1):
        spots[at] = min(spots[at], high - gap * (len(spots) - 1 - at))
    return spots
