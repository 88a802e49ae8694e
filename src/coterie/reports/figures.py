"""The pictures of a run. Plain values in, a matplotlib figure out; nothing here reads records or writes files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JOINT, LOCAL, CENTRAL, BUDGET = "#1b6ca8", "#c05621", "#2f855a", "#444444"
_MANY = 40  # owners beyond which their names no longer fit


def metric_over_rounds(
    steps: np.ndarray,
    curve: np.ndarray,
    sizes: np.ndarray,
    floor: float,
    ceiling: float,
    name: str,
    title: str,
) -> Figure:
    """The joint model's metric over rounds, between what owners reach alone and the non-private ceiling.

    curve: (points, owners); the band spans the owners' own models.
    """
    figure, axes = _new()
    weights = sizes if curve.shape[1] == len(sizes) else np.ones(curve.shape[1])
    mean = np.average(curve, axis=1, weights=weights)
    axes.fill_between(steps, curve.min(1), curve.max(1), color=JOINT, alpha=0.15, linewidth=0)
    axes.plot(steps, mean, color=JOINT, linewidth=2)
    axes.axhline(floor, color=LOCAL, linewidth=1.5, linestyle="--")
    axes.axhline(ceiling, color=CENTRAL, linewidth=1.5, linestyle="--")
    labels = [
        (mean[-1], f"joint, private  {mean[-1]:.3f}", JOINT),
        (floor, f"each owner alone, private  {floor:.3f}", LOCAL),
        (ceiling, f"all records, no privacy  {ceiling:.3f}", CENTRAL),
    ]
    _label_right(axes, labels)
    axes.set(xlabel="round", ylabel=f"{name} on public test rows", title=title)
    axes.set_xlim(0, steps[-1])
    return figure


def epsilon_by_owner(
    names: tuple[str, ...], sizes: np.ndarray, certified: np.ndarray, budgets: np.ndarray, title: str
) -> Figure:
    """What each owner's run cost against what it allowed; an infinite ε runs off the picture."""
    figure, axes = _new(width=max(7.0, min(14.0, 0.32 * len(names) + 3)))
    place = np.arange(len(names))
    finite = certified[np.isfinite(certified)]
    top = 1.25 * max(budgets.max(), finite.max() if len(finite) else 0.0)
    within = certified <= budgets * (1 + 1e-9)
    axes.bar(place, np.minimum(certified, top), color=np.where(within, JOINT, LOCAL).tolist(), width=0.7)
    axes.hlines(budgets, place - 0.45, place + 0.45, color=BUDGET, linewidth=2, label="the owner's budget")
    for spot in place[~np.isfinite(certified)]:
        axes.text(spot, top * 0.97, "∞", ha="center", va="top", color="white", fontsize=12)
    axes.set(ylabel="certified ε", title=title, ylim=(0, top))
    axes.legend(frameon=False, loc="lower right")
    if len(names) <= _MANY:
        labels = [f"{name}  ({size:,})" for name, size in zip(names, sizes)]
        axes.set_xticks(place, labels, rotation=50, ha="right", rotation_mode="anchor", fontsize=8)
    else:
        axes.set_xlabel(f"{len(names):,} owners")
    return figure


def _new(width: float = 8.0) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes


def _label_right(axes: Axes, labels: list[tuple[float, str, str]]) -> None:
    """Write each line's name at its right end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    gap, last = (high - low) * 0.06, -np.inf
    for value, text, color in sorted(labels):
        last = max(value, last + gap)
        axes.annotate(
            text, (1.01, last), xycoords=("axes fraction", "data"), color=color, va="center", fontsize=9
        )
