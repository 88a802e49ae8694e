"""What a charged centre of the features would gain: their noisy mean, taken off before training with what is left.

Records are of length one, and how far they are from their mean tells how much of their ranges they use. With a centre,
which everybody may know once it is released, what is left of a record is made as long again as records are, and gets a
constant column of its own, as `coterie run --centre` does it. Mean dynamics of ten owners as in `scale_choosing`.

    COTERIE_DATA=… python -m papers.centring                  the table of docs/radius.md (a quarter of an hour)
    COTERIE_DATA=… python -m papers.centring digits adult     some: of the judging sets, and of `scale_unseen`
    python -m papers.centring tables FOLDER judge classes     what it gains on a half of `scale_tables`, by its noise
"""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path

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
from papers.scale_tables import tables
from papers.scale_unseen import SETS, made
from papers.scoring import accuracy

SHARE = 0.05  # of the budget
BANDS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # of how long the noise on the mean is, beside a record


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


def size_of(ready: Prepared) -> tuple[int, int]:
    """Records and features."""
    return len(ready.table.y), ready.features.apply(ready.table.x[:1]).shape[1]


def noise_length(ready: Prepared, epsilon: float) -> float:
    """How long the noise on the mean is, beside records of length one."""
    records, features = size_of(ready)
    return math.sqrt(features) * noise_on_mean(records, epsilon, SHARE)


def row(name: str) -> str:
    """One line of the table: as it is, with a charged centre, with one that is free; and how long the noise is."""
    ready = made(name) if name in SETS else loaded(name)
    shown = "{:.1f}" if ready.task.problem.loss.classes else "{:.4f}"
    records, features = size_of(ready)
    cells = []
    for epsilon in EPSILON:
        told = [shown.format(values(ready, epsilon, share)) for share in (None, SHARE, 0.0)]
        cells.append(f"{told[0]} → {told[1]}, free {told[2]} ({noise_length(ready, epsilon):.2f})")
    return f"| {name} | {records:,} × {features} | {' | '.join(cells)} |"


def bands(folder: Path, half: str, kind: str) -> None:
    """Print what a centre gains, points of accuracy or per cent of the squared error, by how long its noise is."""
    gains: list[tuple[float, float]] = []
    for name, ready in tables(folder, half, kind):
        for epsilon in EPSILON:
            length = noise_length(ready, epsilon)
            if length > BANDS[-1]:
                continue
            without, centred = values(ready, epsilon, None), values(ready, epsilon, SHARE)
            gain = 100 * (1 - centred / without) if kind == "quantities" else centred - without
            gains.append((length, gain))
        print(f"\r{name:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    lengths, gained = np.array(gains).T
    for low, high in pairwise(BANDS):
        here = gained[(lengths >= low) & (lengths < high)]
        if len(here):
            least, tenth, middle, most = np.quantile(here, [0, 0.1, 0.5, 1])
            cells = f"{here.mean():+.1f} | {middle:+.1f} | {tenth:+.1f} | {least:+.1f} | {most:+.1f}"
            print(f"| {low:g} to {high:g} | {len(here)} | {cells} |")


def main(asked: list[str]) -> None:
    """Print what is asked for."""
    if asked[:1] == ["tables"]:
        bands(Path(asked[1]), *asked[2:])
        return
    for name in asked or [*JUDGING, *SETS]:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
