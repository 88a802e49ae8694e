"""Draw the pictures of docs/understand and docs/pitfalls.md: python scripts/pictures.py [FOLDER, default docs/images]

Every number in them is computed here. White backgrounds: the site shows them so in the dark too.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from dp_accounting import GaussianDpEvent
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from coterie.accounting import calibrate, certify
from coterie.reports.odds import suspicion
from coterie.reports.style import LIGHT

BLUE, GREEN, ORANGE, GREY = LIGHT["joint"], LIGHT["ceiling"], LIGHT["floor"], "#5f6b7a"
DELTA = 1e-5


def owners(axes: Axes) -> None:
    """Three owners on a ring: what stays, what is added, what travels."""
    places = {"Riverside": (0.16, 0.7), "Northgate": (0.84, 0.7), "Eastside": (0.5, 0.09)}
    for name, (x, y) in places.items():
        axes.add_patch(
            FancyBboxPatch(
                (x - 0.13, y - 0.07), 0.26, 0.22, boxstyle="round,pad=0.015", fc="#eef3f8", ec=GREY
            )
        )
        axes.text(x, y + 0.115, name, ha="center", weight="bold", color="#222222")
        axes.text(x, y + 0.055, "records: stay here", ha="center", color=ORANGE, fontsize=9)
        axes.text(x, y, "sum of clipped gradients", ha="center", color=GREY, fontsize=9)
        axes.text(x, y - 0.055, "+ noise of its own", ha="center", color=BLUE, fontsize=9)
    arrow = {"arrowstyle": "<|-|>", "color": BLUE, "lw": 1.8, "shrinkA": 2, "shrinkB": 2}
    for (x0, y0), (x1, y1) in (
        ((0.32, 0.74), (0.68, 0.74)),
        ((0.2, 0.6), (0.36, 0.2)),
        ((0.8, 0.6), (0.64, 0.2)),
    ):
        axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow)
    axes.text(0.5, 0.78, "noisy sums", ha="center", color=BLUE)
    axes.text(0.5, 0.5, "everybody may see what travels:\nε is about that", ha="center", color="#222222")
    axes.set(xlim=(0, 1), ylim=(0, 0.88))
    axes.axis("off")


def promise(axes: Axes) -> None:
    """What is sent, with a record and with another in its place: two Gaussians that overlap, for ε = 1."""
    shift = 2 / calibrate(GaussianDpEvent, epsilon=1.0, delta=DELTA)
    x = np.linspace(-4, 4 + shift, 400)
    for at, colour, words in (
        (0.0, BLUE, "with Anna's record"),
        (shift, ORANGE, "with another in its place"),
    ):
        density = np.exp(-0.5 * (x - at) ** 2) / math.sqrt(2 * math.pi)
        axes.plot(x, density, color=colour, lw=2, label=words)
        axes.fill_between(x, density, color=colour, alpha=0.12, lw=0)
    axes.legend(frameon=False, loc="upper right")
    axes.set(
        xlabel="what is sent: a sum, in units of its noise", ylabel="how likely", yticks=[], ylim=(0, 0.5)
    )
    axes.set_title("ε = 1: whoever sees a value can hardly tell which of the two it came from", fontsize=10)
    _plain(axes)


def odds(axes: Axes) -> None:
    """How far a suspicion can grow."""
    before = np.linspace(0.001, 0.999, 400)
    for epsilon, colour in ((0.1, GREEN), (1.0, BLUE), (4.0, ORANGE), (10.0, "#a02020")):
        after = [suspicion(one, epsilon) for one in before]
        axes.plot(100 * before, 100 * np.array(after), color=colour, lw=2, label=f"ε = {epsilon:g}")
    axes.plot([0, 100], [0, 100], color=GREY, lw=1, ls=":", label="nothing was sent")
    axes.legend(frameon=False, loc="lower right")
    axes.set(
        xlabel="suspicion before, in 100", ylabel="at most afterwards, in 100", xlim=(0, 100), ylim=(0, 100)
    )
    _plain(axes)


def numbers(axes: Axes) -> None:
    """Where audited, true, certified and claimed ε lie."""
    axes.annotate("", (9.7, 0), (0, 0), arrowprops={"arrowstyle": "-|>", "color": GREY})
    axes.text(9.75, 0, "ε", va="center", color=GREY)
    axes.axvspan(3.0, 6.0, 0.21, 0.31, color=BLUE, alpha=0.15, lw=0)
    axes.text(4.5, -0.14, "the truth is in here", ha="center", color=BLUE)
    for x, colour, name, words, y in (
        (1.2, ORANGE, "claimed", "what the paper's theorem says:\nmay be anywhere", 0.2),
        (3.0, BLUE, "audited", "an attack succeeded:\nit is at least this", 0.45),
        (6.0, GREEN, "certified", "a proof about what was executed:\nit is at most this", 0.2),
    ):
        axes.plot([x, x], [-0.05, y], color=colour, lw=2)
        axes.text(x, y + 0.22, name, ha="center", weight="bold", color=colour)
        axes.text(x, y + 0.03, words, ha="center", color=colour, fontsize=9)
    axes.set(xlim=(-0.2, 10), ylim=(-0.3, 0.85))
    axes.axis("off")


def runs(axes: Axes) -> None:
    """ε of several runs on the same records, each of them at ε = 1."""
    noise = calibrate(GaussianDpEvent, epsilon=1.0, delta=DELTA)
    many = np.arange(1, 31)
    total = [certify(GaussianDpEvent(noise / math.sqrt(int(one))), delta=DELTA).epsilon for one in many]
    axes.plot(many, total, color=BLUE, lw=2, marker="o", markersize=3)
    axes.axhline(1.0, color=GREEN, lw=1.2)
    axes.text(30, 1.15, "what each run's certificate says", color=GREEN, ha="right")
    axes.text(30, total[-1] + 0.35, "what all of them cost together", color=BLUE, ha="right")
    axes.set(xlabel="runs on the same records", ylabel="ε", ylim=(0, None), xlim=(0, 31))
    _plain(axes)


def records(axes: Axes) -> None:
    """ε for a person with several records, where one record has ε = 1."""
    noise = calibrate(GaussianDpEvent, epsilon=1.0, delta=DELTA)
    many = np.arange(1, 13)
    total = [certify(GaussianDpEvent(noise / int(one)), delta=DELTA).epsilon for one in many]
    axes.bar(many, total, color=[GREEN] + [ORANGE] * 11, width=0.7)
    axes.annotate(
        "the certificate", (1, 1.0), (0.6, 5.5), color=GREEN, arrowprops={"arrowstyle": "-", "color": GREEN}
    )
    axes.set(xlabel="records of one person", ylabel="ε about that person", xticks=many)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


PICTURES = {
    "understand-owners": (owners, (7.2, 4.2)),
    "understand-promise": (promise, (7.2, 3.0)),
    "understand-odds": (odds, (5.4, 4.2)),
    "understand-numbers": (numbers, (7.6, 2.8)),
    "pitfalls-runs": (runs, (6.4, 3.2)),
    "pitfalls-records": (records, (6.4, 3.2)),
}


def main() -> None:
    """Draw all of them."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs/images")
    for name, (draw, size) in PICTURES.items():
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        draw(axes)
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
