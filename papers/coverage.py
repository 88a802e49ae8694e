"""How often the 95 % intervals of a charged evaluation cover the truth, over simulated evaluations.

Each draws records anew, tallies them, adds noise as large as an owner's or the sum of twenty owners', and compares the
intervals with what a million other records say. Nothing is trained: the model is given, and the records are new to it.

    python -m papers.coverage                   1,000 evaluations of each world (two minutes)
    python -m papers.coverage --times 200       fewer
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from coterie.evaluation.estimate import Estimate, estimates
from coterie.evaluation.sheet import EDGES, Sheet
from coterie.problems.metrics import Judge, probabilities

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]

MANY = 1_000_000  # records that say what is true
_BANDS = [0.0, *(1 / (1 + np.exp(-EDGES[1::2]))), 1.0]


class World(NamedTuple):
    """Where evaluations are simulated: what is drawn, how many records, how much noise (over the table's reach)."""

    sheet: Sheet
    draw: Draw
    rows: int
    noise: float


def two_classes(rate: float, apart: float, sure: float = 1.0) -> Draw:
    """Normal scores of two classes; `sure`: by what factor log odds are too large."""

    def draw(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.where(rng.random(rows) < rate, 1.0, -1.0)
        score = rng.normal(size=rows) * np.sqrt(apart) + y * apart / 2 + np.log(rate / (1 - rate))
        return sure * score[:, None], y

    return draw


def several_classes(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Five classes of different sizes."""
    y = rng.choice(5, size=rows, p=(0.4, 0.3, 0.15, 0.1, 0.05)).astype(np.int32)
    return rng.normal(size=(rows, 5)) + 1.5 * np.eye(5)[y], y


def quantity(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A target in halves of its range, and a score that explains a part of it."""
    y = np.clip(rng.normal(size=rows) * 0.3 - 0.2, -1, 1)
    return (0.7 * y + rng.normal(size=rows) * 0.12)[:, None], y


TWO = Sheet("binary", "logistic", 2, True)
WORLDS = {
    "two classes, 20 owners": World(TWO, two_classes(0.5, 2.5), 27_000, 150.0),
    "two classes, sizes private": World(Sheet("binary", "logistic", 2, False), two_classes(0.5, 2.5), 27_000, 80.0),
    "two classes, unsure scores": World(TWO, two_classes(0.3, 3.0, 0.5), 27_000, 150.0),
    "a rare class": World(TWO, two_classes(0.05, 2.0), 200_000, 150.0),
    "few records, little noise": World(TWO, two_classes(0.4, 2.0), 600, 2.0),
    "hinge": World(Sheet("binary", "hinge", 2, True), two_classes(0.5, 2.0, 0.6), 20_000, 100.0),
    "several classes": World(Sheet("multiclass", "softmax", 5, True), several_classes, 60_000, 100.0),
    "a quantity": World(Sheet("regression", "huber", 0, True), quantity, 27_000, 150.0),
    "a quantity, little noise": World(Sheet("regression", "huber", 0, True), quantity, 1_000, 1.0),
}  # fmt: skip


def truth(world: World, rng: np.random.Generator) -> dict[str, float]:
    """By name what intervals should cover: metrics by the judge of every run, shares of the confusion matrix, bands."""
    scores, y = world.draw(rng, MANY)
    sheet = world.sheet
    judge = Judge(task=sheet.task, loss=sheet.loss, classes=sheet.classes, bounds=None, metric="accuracy")
    found = dict(zip(judge.names, judge.all(scores, y).tolist()))
    if sheet.task == "regression":
        return found | {"mean_error": float(np.mean(scores[:, 0] - y))}
    for (true, said), count in np.ndenumerate(judge.confusion(scores, y)):
        found[f"confusion {true} {said}"] = count / MANY
    if sheet.task == "binary" and sheet.loss == "logistic":
        p = probabilities("logistic", scores)[:, 1]
        for at, (low, high) in enumerate(pairwise(_BANDS)):
            found[f"band {at}"] = float(np.mean(y[(p > low) & (p <= high)] > 0))
    return found


def evaluated(world: World, rng: np.random.Generator, noise: float | None = None) -> dict[str, Estimate]:
    """One evaluation; `noise`: what is really added, where it is not what the intervals are told."""
    scores, y = world.draw(rng, world.rows)
    sheet, scale = world.sheet, world.noise * world.sheet.reach
    added = np.rint(rng.normal(size=sheet.width) * (scale if noise is None else noise * sheet.reach))
    told = estimates(
        sheet, sheet.tally(scores, y) + added, scale**2, world.rows if sheet.sizes_public else None
    )
    found = dict(told.metrics)
    for true, row in enumerate(told.confusion or ()):
        for said, (value, low, high) in enumerate(row):
            found[f"confusion {true} {said}"] = Estimate(value, low / world.rows, high / world.rows)
    return found | {f"band {at}": one.rate for at, one in enumerate(told.calibration or ())}


def coverage(
    world: World, times: int, seed: int = 0, noise: float | None = None
) -> dict[str, tuple[float, float]]:
    """By metric, how often its interval covers the truth, and the mean half interval; bands and cells as one each.

    An interval that says nothing, as a table cannot tell, covers everything: its width shows that.
    """
    rng = np.random.default_rng(seed)
    true, hits, widths = truth(world, rng), defaultdict[str, list](list), defaultdict[str, list](list)
    for _ in range(times):
        for name, (_, low, high) in evaluated(world, rng, noise).items():
            if name in true:
                hits[name.split()[0]].append(low <= true[name] <= high)
                widths[name.split()[0]].append((high - low) / 2)
    return {name: (float(np.mean(hits[name])), float(np.mean(widths[name]))) for name in hits}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=1_000)
    times = parser.parse_args().times
    print("| world | metric | covered | half interval |\n|---|---|---|---|")
    for name, world in WORLDS.items():
        for metric, (covered, width) in coverage(world, times).items():
            print(f"| {name} | {metric} | {covered:.1%} | {width:.4f} |", flush=True)


if __name__ == "__main__":
    main()
