"""Pictures of forecasts beside what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.reports.planning import JOINT, LOCAL, finished, grid, new, ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTRAL = "#2f855a"


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


def who_gains(panels: list[list[Gain]], title: str) -> Figure:
    """Owners' own models over their sizes, against the joint one; owners above its line gain by joining."""
    rows, columns = len(panels), len(panels[0])
    figure, every = grid(rows, columns, (3.6 * columns, 2.9 * rows + 0.8))
    for axes, gain in zip(every, [gain for row in panels for gain in row]):
        axes.axhspan(*gain.joint_interval, color=JOINT, alpha=0.12, linewidth=0)
        axes.axhline(
            gain.joint_predicted,
            color=JOINT,
            linestyle="--",
            label="joint, private: predicted (band: interval)",
        )
        axes.axhline(gain.joint_measured, color=JOINT, linewidth=2, label="joint, private: measured")
        axes.plot(
            gain.sizes, gain.own_predicted, "o", mfc="none", color=LOCAL, label="own, no privacy: predicted"
        )
        axes.plot(
            gain.sizes, gain.own_measured, "o", color=LOCAL, markersize=4, label="own, no privacy: measured"
        )
        predicted, measured = gain.counts
        axes.set_title(f"{gain.title}: {predicted} predicted to gain, {measured} do", fontsize=9)
        axes.set(xscale="log", yscale="log")
        ticks(axes, np.unique(np.round(np.geomspace(gain.sizes.min(), gain.sizes.max(), 4), -1)))
    for axes in every[-columns:]:
        axes.set_xlabel("records of the owner")
    for axes in every[::columns]:
        axes.set_ylabel("excess risk")
    return finished(figure, every[0], title, columns=2)


def predicted_against_measured(
    predicted: np.ndarray, measured: np.ndarray, fitted: np.ndarray, title: str
) -> Figure:
    """Points on the diagonal are forecasts that came true; `fitted` marks those the constants were fitted on."""
    figure, (axes,) = new()
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
    return finished(figure, axes, title)
