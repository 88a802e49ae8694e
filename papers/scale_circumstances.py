"""Whether the guess of a model's length holds elsewhere: few gossip steps, unequal owners, sampled rounds.

Certified dual averaging, ten owners on a ring: the default beside four fixed radii, and what it loses to the best of
them in hindsight, in points of accuracy or AUC.

    COTERIE_DATA=… python -m papers.scale_circumstances [SET …]     census and bank; a minute or two each
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import prepare
from papers.scale import CLASSES, OWNERS, Case, delta_of, measured

EPSILON, SEEDS = (0.5, 1.0, 4.0), 2


class Circumstance(NamedTuple):
    """How a run differs from those that the guess was chosen on."""

    words: str
    partition: str = "iid"
    gossip_steps: int | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012


CIRCUMSTANCES = (
    Circumstance("as chosen on"),
    Circumstance("one gossip step a round", gossip_steps=1),
    Circumstance("owners of random sizes, 50 records or more", partition="random_sizes:50"),
    Circumstance("Poisson samples at rate 0.1", settings={"rate": 0.1}),
)


def rows_of(name: str) -> Iterator[str]:
    """A line for each circumstance, with what is lost at each budget."""
    for now in CIRCUMSTANCES:
        experiment = Experiment(
            data=name, owners=OWNERS, partition=now.partition, epsilon=(1.0,), delta=delta_of(name)
        )
        ready = prepare(experiment, None)
        own = ("dual_averaging", now.settings)
        fixed: list[Case] = [("dual_averaging", now.settings | {"radius": radius}) for radius in CLASSES]
        found = []
        for epsilon in EPSILON:
            task = replace(ready.task, epsilon=(epsilon,) * ready.task.owners)
            default, *others = 100 * measured(ready, task, [own, *fixed], SEEDS, now.gossip_steps).mean(
                axis=1
            )
            found.append(f"{default:.1f} ({max(others) - default:+.2f})")
        yield f"| {name} | {now.words} | {ready.judge.metric} | {' | '.join(found)} |"


if __name__ == "__main__":
    print("| set | circumstance | metric | ε = 0.5 (lost) | ε = 1 | ε = 4 |")
    print("|---|---|---|---|---|---|")
    for data in sys.argv[1:] or ("census", "bank"):
        for row in rows_of(data):
            print(row, flush=True)
