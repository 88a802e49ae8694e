"""What a charged centre of the features would gain: their noisy mean, taken off before training with what is left.

Records are of length one, and how far they are from their mean tells how much of their ranges they use. With a centre,
which everybody may know once it is released, what is left of a record is made as long again as records are, and gets a
constant column of its own, as `coterie run --centre` does it. Mean dynamics of ten owners as in `scale_choosing`.

    COTERIE_DATA=… python -m papers.centring                  the table of docs/radius.md (a quarter of an hour)
    COTERIE_DATA=… python -m papers.centring digits adult     some: of the judging sets, and of `scale_unseen`
"""

from __future__ import annotations

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import GaussianDpEvent

from coterie.accounting import calibrate
from coterie.evaluation.budget import for_training
from coterie.evaluation.centre import centre_of
from coterie.experiments.centring import around
from coterie.experiments.prepare import Prepared
from coterie.problems.features import identity
from coterie.program import Batch
from papers.scale import JUDGING, OWNERS, SMALL
from papers.scale_choosing import DELTA, EPSILON, TESTED, loaded, played, run_of
from papers.scale_unseen import SETS, made
from papers.scoring import accuracy

SHARE = 0.05  # of the budget


def noise_on_mean(records: int, epsilon: float, share: float) -> float:
    """Standard deviation of each coordinate of the owners' mean.

    Sensitivity: a record's features are of length one at most, so it moves its owner's sum by that much, and by twice
    that when it is replaced: as a clipped gradient does, so the noise is that of a release of gradients clipped at one.
    """
    alone = calibrate(GaussianDpEvent, epsilon=epsilon, delta=DELTA)
    return alone / math.sqrt(share) * math.sqrt(OWNERS) / records


def values(ready: Prepared, epsilon: float, share: float | None) -> float:
    """Mean over seeds of accuracy in per cent, or of the squared error; `share`: 0 for a mean that costs nothing and
    has no noise, None for features as they are."""
    problem, rng = ready.task.problem, np.random.default_rng(0)
    x, y = np.asarray(ready.features.apply(ready.table.x), np.float32), np.asarray(ready.table.y)
    tested = rng.permutation(len(ready.y_test))[:TESTED]
    x_test, truth = np.asarray(ready.x_test, np.float32)[tested], np.asarray(ready.y_test)[tested]
    seeds = 10 if len(y) < SMALL // 4 else 6 if len(y) < SMALL else 2
    found = []
    for seed in range(seeds):
        train, test, left = x, x_test, epsilon
        if share is not None:
            deviation = noise_on_mean(len(y), epsilon, share) if share else 0.0
            noise = np.random.default_rng(seed).normal(size=x.shape[1])
            centre = centre_of(x.mean(axis=0, dtype=np.float64) + deviation * noise, deviation)
            mapped = around(identity(), centre, not problem.loss.classes)
            train, test = mapped.apply(x), mapped.apply(x_test)
            left = for_training(epsilon, DELTA, share) if share else epsilon
        dim = train.shape[1]
        radius = problem.loss.length(dim * problem.loss.outputs)
        run = run_of(problem, len(y), dim, left, radius, seed)
        batch = Batch(jnp.asarray(train), jnp.asarray(y), jnp.ones(len(y), jnp.float32))
        model = played(
            problem, int(run.rounds), batch, jax.tree.map(lambda one: jnp.asarray(one)[None], run)
        )[0]
        scores = problem.model.scores(model, jnp.asarray(test))
        if problem.loss.classes:
            found.append(100 * accuracy(scores, truth))
        else:
            found.append(float(np.mean((np.asarray(scores)[:, 0] - truth) ** 2)))
    return float(np.mean(found))


def row(name: str) -> str:
    """One line of the table: as it is, with a charged centre, with one that is free; and how long the noise is."""
    ready = made(name) if name in SETS else loaded(name)
    shown = "{:.1f}" if ready.task.problem.loss.classes else "{:.4f}"
    records, features = len(ready.table.y), ready.features.apply(ready.table.x[:1]).shape[1]
    cells = []
    for epsilon in EPSILON:
        told = [shown.format(values(ready, epsilon, share)) for share in (None, SHARE, 0.0)]
        length = math.sqrt(features) * noise_on_mean(records, epsilon, SHARE)
        cells.append(f"{told[0]} → {told[1]}, free {told[2]} ({length:.2f})")
    return f"| {name} | {records:,} × {features} | {' | '.join(cells)} |"


def main(asked: list[str]) -> None:
    """Print what is asked for."""
    for name in asked or [*JUDGING, *SETS]:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
