"""Local, shared and masked noise over steps of gossip, on the embedded census: the picture and table of docs/honest.md.

    python -m papers.shared_noise docs/images/shared.png      prints the table and draws the picture (some minutes)

20 owners on a ring and on a random 4-regular graph, (0.25, 10⁻⁵), `dual_averaging`, defaults but for the steps; means
over three partitions, each with its own noise, of what owners' own models get right of the public test rows. Where
gossip is too short, the product refuses shared noise, or mixes the models once more; here it is shown as it is.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.program import Program
from coterie.protocols import build
from coterie.protocols.mixing import mixing_of
from coterie.topologies import aggregate, mixer
from papers.scoring import accuracy

OWNERS, SEEDS = 20, range(3)
STEPS = (1, 2, 3, 5, 7, 10)
TOPOLOGIES = {"ring": "a ring", "random_regular": "a random 4-regular graph"}


class Point(NamedTuple):
    """Mean and spread over seeds, in percent, and what the product does with so many steps."""

    mean: float
    spread: float
    kind: str  # "", "refused" or "consensus"


@cache
def prepared(topology: str, seed: int) -> Prepared:
    """One partition."""
    return prepare(Experiment(owners=OWNERS, epsilon=(0.25,), topology=topology, seed=seed))


@cache
def built(topology: str, view: str, seed: int) -> Program:
    """The protocol with its defaults."""
    return build("dual_averaging", prepared(topology, seed).task, {"view": view}, "certified")


def measured(topology: str, view: str, steps: int) -> Point:
    """Accuracy of owners' own models after a run with so many steps of gossip a round."""
    right, kind = [], ""
    for seed in SEEDS:
        made = prepared(topology, seed)
        program = built(topology, view, seed)
        kind = kind or _kind(made, program, steps)
        mixing = mixer(made.task.topology, steps, exact=view == "shared")
        if program.aggregate is not None:
            mixing = aggregate(program.aggregate)
        models = np.asarray(simulate(program, made.shards, mixing, seed=seed).model)
        right.append(np.mean([accuracy(made.x_test @ one, made.y_test) for one in models]))
    return Point(100 * float(np.mean(right)), 100 * float(np.std(right)), kind)


def _kind(made: Prepared, program: Program, steps: int) -> str:
    if program.plan.shared is None:
        return ""
    try:
        return "consensus" if mixing_of(made.task, program, steps).consensus else ""
    except InputError:
        return "refused"


def found() -> dict[tuple[str, str], list[Point]]:
    """Every line of the picture; masked sums need no gossip, so they are one level."""
    lines: dict[tuple[str, str], list[Point]] = {}
    level = measured("ring", "masked", 1)
    for topology in TOPOLOGIES:
        for view in ("untrusted", "shared"):
            lines[topology, view] = [measured(topology, view, steps) for steps in STEPS]
        lines[topology, "masked"] = [level] * len(STEPS)
    return lines


def table(lines: dict[tuple[str, str], list[Point]]) -> str:
    """The page's table."""
    marks = {"": "", "consensus": " (c)", "refused": " (r)"}
    rows = [
        f"| {TOPOLOGIES[topology]}, {view} | "
        + " | ".join(f"{point.mean:.1f}{marks[point.kind]}" for point in points)
        + " |"
        for (topology, view), points in lines.items()
    ]
    head = "| gossip steps a round | " + " | ".join(map(str, STEPS)) + " |"
    return "\n".join([head, "|---" * (len(STEPS) + 1) + "|", *rows])


def draw(lines: dict[tuple[str, str], list[Point]], file: Path) -> None:
    """Accuracy over gossip steps, a panel for each graph; hollow where the product would refuse."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from coterie.reports.style import LIGHT

    colours = {"untrusted": LIGHT["floor"], "shared": LIGHT["joint"], "masked": LIGHT["ceiling"]}
    names = {"untrusted": "each its own noise", "shared": "shared noise", "masked": "masked sums"}
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained", sharey=True)
    for axes, topology in zip(panels, TOPOLOGIES):
        for view, colour in colours.items():
            points = lines[topology, view]
            axes.plot(STEPS, [one.mean for one in points], color=colour, label=names[view], zorder=1)
            for step, one in zip(STEPS, points):
                if view != "masked":
                    face = "white" if one.kind == "refused" else colour
                    axes.scatter(step, one.mean, s=22, edgecolor=colour, facecolor=face, zorder=2)
        axes.set(xlabel="gossip steps a round", title=f"20 owners on {TOPOLOGIES[topology]}")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("owners' own models, % right")
    panels[1].legend(frameon=False, loc="lower right")
    figure.savefig(file, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    everything = found()
    print(table(everything))
    draw(everything, Path(sys.argv[1]))
