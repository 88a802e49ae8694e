"""How a masked sum's guarantee fades with those who work together: the table and picture of docs/honest.md.

    python -m papers.honest docs/images/honest.png      prints the table and draws the picture

Budget (0.25, 10⁻⁵), 32 even owners, the defaults: one colluder, two absent. Everything is computed, nothing is run.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from dp_accounting import GaussianDpEvent

from coterie._rounding import upper
from coterie.accounting import calibrate, certify
from coterie.accounting.exposure import complete, exposure
from coterie.protocols import _masked

OWNERS, EPSILON, DELTA = 32, 0.25, 1e-5
SHOWN = (0, 1, 2, 4, 8, 16, 24, 31)


def certified(colluding: int) -> float:
    """ε against so many others together, where noise is shared for the default's one."""
    masks = _masked.masks(OWNERS)
    needed = calibrate(GaussianDpEvent, epsilon=EPSILON, delta=DELTA)
    own, _ = _masked.shared(np.full(OWNERS, needed), np.ones(OWNERS), _masked.shown(masks, OWNERS))
    members = OWNERS - masks.absent
    # Who is absent may be honest, too: of the others in a sum at most all collude.
    shown = exposure(own[:members] ** 2, complete(members), min(colluding, members - 1))[0]
    return certify(GaussianDpEvent(1 / math.sqrt(shown)), delta=DELTA).epsilon


def table() -> str:
    """The page's table."""
    cells = [f"| {many} | {upper(certified(many))} |" for many in SHOWN]
    return "\n".join(["| others who work together | ε at most |", "|---|---|", *cells])


def draw(file: Path) -> None:
    """ε over how many others work together, between a trusted server and each for itself."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from coterie.reports.style import LIGHT

    many = np.arange(OWNERS)
    found = [certified(int(one)) for one in many]
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axes.plot(many, found, color=LIGHT["joint"], marker="o", markersize=3)
    axes.axhline(EPSILON, color=LIGHT["ceiling"], linewidth=1)
    axes.annotate("the budget: outsiders, whoever adds up, one owner", (1.2, EPSILON), (3, 0.12),
                  color=LIGHT["ceiling"])  # fmt: skip
    axes.annotate(
        f"all others: ε = {upper(found[-1])}", (OWNERS - 1, found[-1]), (19, 1.55), color=LIGHT["floor"]
    )
    axes.set(xlabel="owners who work together against one, of 31", ylabel="ε, at most", ylim=(0, 1.8))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    print(table())
    draw(Path(sys.argv[1]))
