"""Whether a released second moment of the features pays: certified steps in features that it makes alike in size.

    COTERIE_DATA=… python -m papers.precondition breast_cancer credit_card_balanced adult

Ten owners release Σ x xᵀ once, for a share of the budget: ‖x‖ ≤ 1, so a replaced record moves it by at most √2 in
Frobenius norm. With M the noisy mean, features become c (M + τ)^(-½) x, cut to norm one, where τ is the spectral norm
of the noise and c makes their mean square ½; all of that follows from the release. Steps are those of
`papers.scale_choosing`: one sum with the owners' noise, under what is left of the budget. Prints accuracy on public
test rows, means over seeds.
"""

from __future__ import annotations

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np

from coterie.accounting.gaussian import noise_for
from coterie.evaluation.budget import for_training
from coterie.experiments.prepare import Prepared
from coterie.problems.problem import Problem
from coterie.program import Batch
from papers.scale_choosing import DELTA, EPSILON, OWNERS, Run, loaded, played, run_of
from papers.scoring import accuracy

SHARES = (0.0, 0.05, 0.2)


def whitening(x: np.ndarray, epsilon: float, share: float, rng: np.random.Generator) -> np.ndarray:
    """The map that a noisy second moment gives; reads records, and is charged."""
    rows, dim = x.shape
    scale = math.sqrt(2) * noise_for(epsilon, DELTA) / math.sqrt(share) * math.sqrt(OWNERS) / rows
    upper = np.triu(rng.normal(size=(dim, dim)) * scale)
    noisy = x.T @ x / rows + upper + np.triu(upper, 1).T
    values, vectors = np.linalg.eigh(noisy)
    floor = 2 * scale * math.sqrt(dim)  # of the noise's spectral norm
    half = vectors / np.sqrt(np.maximum(values, 0) + floor) @ vectors.T
    return half * math.sqrt(0.5 / max(np.trace(half @ half @ np.clip(noisy, -1, 1)), 1e-6))


def by_seed(ready: Prepared, epsilon: float, share: float, seeds: int) -> np.ndarray:
    """(seeds,) on the test rows."""
    problem: Problem = ready.task.problem
    x, y = np.asarray(ready.features.apply(ready.table.x), np.float64), np.asarray(ready.table.y)
    left = epsilon if not share else for_training(epsilon, DELTA, share)
    radius = problem.loss.length(x.shape[1] * problem.loss.outputs)
    found = []
    for seed in range(seeds):
        made, tested = x, np.asarray(ready.x_test, np.float64)
        if share:
            by = whitening(x, epsilon, share, np.random.default_rng(seed))
            made, tested = (_cut(part @ by) for part in (x, tested))
        run = run_of(problem, len(y), x.shape[1], left, radius, seed)
        batch = Batch(jnp.asarray(made, jnp.float32), jnp.asarray(y), jnp.ones(len(y), jnp.float32))
        one: Run = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], run)
        model = played(problem, int(run.rounds), batch, one)[0]
        scores = problem.model.scores(model, jnp.asarray(tested, jnp.float32))
        found.append(100 * accuracy(np.asarray(scores), ready.y_test))
    return np.array(found)


def _cut(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


def main(asked: list[str]) -> None:
    """Print what is asked for."""
    for name in asked:
        ready = loaded(name)
        seeds = 10 if len(ready.table.y) < 3_000 else 3
        for epsilon in EPSILON:
            cells = [by_seed(ready, epsilon, share, seeds) for share in SHARES]
            told = ", ".join(
                f"{share:g}: {cell.mean():.2f} ({(cell - cells[0]).mean():+.2f})"
                for share, cell in zip(SHARES, cells)
            )
            print(f"{name} ε={epsilon:g} share {told}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
