"""The pictures of plans. Plain values in, a matplotlib figure out; nothing here reads records or writes files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JOINT, LOCAL = "#1b6ca8", "#c05621"


class ForecastBand(NamedTuple):
    """A forecast over one variable, with its interval."""

    at: np.ndarray  # (points,) ascending
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def forecast_over(band: ForecastBand, nothing: float, xlabel: str, title: str) -> Figure:
    """Predicted excess risk with its interval, and that of a model that knows nothing."""
    figure, (axes,) = new()
    _draw(axes, band, JOINT, "predicted; band: what the problem's constants might be")
    axes.axhline(nothing, color=LOCAL, linewidth=1.5, linestyle="--", label="a model that knows nothing")
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel="excess risk")
    ticks(axes, band.at)
    return finished(figure, axes, title)


def join_over(
    budget: ForecastBand, partners: ForecastBand, alone: float, asked: tuple[float, float], title: str
) -> Figure:
    """The joint private model against one's own without privacy, over ε and over the number of partners."""
    figure, (left, right) = new(panels=2)
    for axes, band, xlabel, mark in (
        (left, budget, "everyone's ε", asked[0]),
        (right, partners, "partners", asked[1]),
    ):
        _draw(axes, band, JOINT, "joint, private (predicted)")
        axes.axhline(alone, color=LOCAL, linewidth=1.5, linestyle="--", label="alone, no privacy (estimated)")
        axes.axvline(mark, color="#777777", linewidth=1, linestyle=":", label="asked for")
        axes.set(xscale="log", yscale="log", xlabel=xlabel)
        ticks(axes, band.at)
    left.set_ylabel("excess risk on new records")
    return finished(figure, left, title)


def _draw(axes: Axes, band: ForecastBand, color: str, label: str) -> None:
    axes.fill_between(band.at, band.low, band.high, color=color, alpha=0.15, linewidth=0)
    axes.plot(band.at, band.middle, color=color, linewidth=2, marker="o", markersize=4, label=label)


def ticks(axes: Axes, at: np.ndarray) -> None:
    """Put ticks at these values of x alone."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(at)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{value:.3g}" for value in at])


def finished(figure: Figure, axes: Axes, title: str, columns: int = 3) -> Figure:
    """The figure with its title, and below it the legend of these axes."""
    figure.suptitle(title, fontsize=12)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=columns, fontsize=9)
    return figure


def new(panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with one panel, or several side by side."""
    return grid(1, panels, (8.0 if panels == 1 else 10.0, 4.6))


def grid(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure with panels in rows, all to one scale of y."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    every = list(figure.subplots(rows, columns, sharey=True, squeeze=False).ravel())
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        axes.grid(alpha=0.25)
    return figure, every
