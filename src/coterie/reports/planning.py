"""The pictures of plans. Plain values in, a matplotlib figure out; nothing here reads records or writes files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.reports.figures import CENTRAL, JOINT, LOCAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Band(NamedTuple):
    """A forecast over something, with its interval."""

    at: np.ndarray  # (points,) ascending
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Gain(NamedTuple):
    """One consortium at one ε: excess risks on new records of each owner's own model and of the joint private one."""

    title: str
    sizes: np.ndarray  # (owners,)
    own_predicted: np.ndarray  # (owners,) without privacy
    own_measured: np.ndarray
    joint_predicted: float
    joint_interval: tuple[float, float]
    joint_measured: float

    @property
    def counts(self) -> tuple[int, int]:
        """How many owners were predicted to gain, and how many did."""
        return (
            int(np.sum(self.own_predicted > self.joint_predicted)),
            int(np.sum(self.own_measured > self.joint_measured)),
        )


def forecast_over(band: Band, nothing: float, xlabel: str, title: str) -> Figure:
    """Predicted excess risk, its interval, and what a model that knows nothing has."""
    figure, (axes,) = _new()
    _draw(axes, band, JOINT, "predicted; band: what the problem's constants might be")
    axes.axhline(nothing, color=LOCAL, linewidth=1.5, linestyle="--", label="a model that knows nothing")
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel="excess risk")
    _ticks(axes, band.at)
    return _finished(figure, axes, title)


def join_over(budget: Band, partners: Band, alone: float, asked: tuple[float, float], title: str) -> Figure:
    """The joint private model against one's own without privacy, over ε and over the number of partners."""
    figure, (left, right) = _new(panels=2)
    for axes, band, xlabel, mark in (
        (left, budget, "everyone's ε", asked[0]),
        (right, partners, "partners", asked[1]),
    ):
        _draw(axes, band, JOINT, "joint, private (predicted)")
        axes.axhline(alone, color=LOCAL, linewidth=1.5, linestyle="--", label="alone, no privacy (estimated)")
        axes.axvline(mark, color="#777777", linewidth=1, linestyle=":", label="asked for")
        axes.set(xscale="log", yscale="log", xlabel=xlabel)
        _ticks(axes, band.at)
    left.set_ylabel("excess risk on new records")
    return _finished(figure, left, title)


def who_gains(panels: list[list[Gain]], title: str) -> Figure:
    """Owners' own models over their sizes, against the joint one; owners above its line gain by joining."""
    rows, columns = len(panels), len(panels[0])
    figure, every = _grid(rows, columns, (3.6 * columns, 2.9 * rows + 0.8))
    for axes, one in zip(every, [one for row in panels for one in row]):
        axes.axhspan(*one.joint_interval, color=JOINT, alpha=0.12, linewidth=0)
        axes.axhline(
            one.joint_predicted,
            color=JOINT,
            linestyle="--",
            label="joint, private: predicted (band: interval)",
        )
        axes.axhline(one.joint_measured, color=JOINT, linewidth=2, label="joint, private: measured")
        axes.plot(
            one.sizes, one.own_predicted, "o", mfc="none", color=LOCAL, label="own, no privacy: predicted"
        )
        axes.plot(
            one.sizes, one.own_measured, "o", color=LOCAL, markersize=4, label="own, no privacy: measured"
        )
        predicted, measured = one.counts
        axes.set_title(f"{one.title}: {predicted} predicted to gain, {measured} do", fontsize=9)
        axes.set(xscale="log", yscale="log")
        _ticks(axes, np.unique(np.round(np.geomspace(one.sizes.min(), one.sizes.max(), 4), -1)))
    for axes in every[-columns:]:
        axes.set_xlabel("records of the owner")
    for axes in every[::columns]:
        axes.set_ylabel("excess risk")
    return _finished(figure, every[0], title, columns=2)


def predicted_against_measured(
    predicted: np.ndarray, measured: np.ndarray, fitted: np.ndarray, title: str
) -> Figure:
    """Points on the diagonal are forecasts that came true; `fitted` marks those the constants were fitted on."""
    figure, (axes,) = _new()
    ends = np.array([min(predicted.min(), measured.min()) / 1.5, max(predicted.max(), measured.max()) * 1.5])
    axes.fill_between(
        ends, ends / 1.25, ends * 1.25, color=CENTRAL, alpha=0.15, linewidth=0, label="within 25 %"
    )
    axes.plot(ends, ends, color=CENTRAL, linewidth=1)
    for chosen, color, marker, label in (
        (fitted, "#8a94a0", "o", "fitted on"),
        (~fitted, JOINT, "D", "predicted"),
    ):
        axes.plot(predicted[chosen], measured[chosen], marker, color=color, markersize=5, label=label)
    axes.set(xscale="log", yscale="log", xlabel="forecast", ylabel="measured", xlim=ends, ylim=ends)
    return _finished(figure, axes, title)


def _draw(axes: Axes, band: Band, color: str, label: str) -> None:
    axes.fill_between(band.at, band.low, band.high, color=color, alpha=0.15, linewidth=0)
    axes.plot(band.at, band.middle, color=color, linewidth=2, marker="o", markersize=4, label=label)


def _ticks(axes: Axes, at: np.ndarray) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(at)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{value:.3g}" for value in at])


def _finished(figure: Figure, axes: Axes, title: str, columns: int = 3) -> Figure:
    figure.suptitle(title, fontsize=12)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=columns, fontsize=9)
    return figure


def _new(panels: int = 1) -> tuple[Figure, list[Axes]]:
    return _grid(1, panels, (8.0 if panels == 1 else 10.0, 4.6))


def _grid(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    every = list(figure.subplots(rows, columns, sharey=True, squeeze=False).ravel())
    for one in every:
        one.spines[["top", "right"]].set_visible(False)
        one.set_axisbelow(True)
        one.grid(alpha=0.25)
    return figure, every
