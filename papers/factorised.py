"""Would noise that is correlated over an owner's own visits help `wor_sgd`? MNIST, 10 owners, (1, 1/n²).

    python -m papers.factorised      prints the table (some minutes)

An owner that visits k times, each record in one visit, may release g_t + (C⁻¹ ξ)_t in place of g_t + ξ_t, where C is
lower triangular Toeplitz with c_i = binom(2i, i)/4^i and A = C² adds up prefixes (Fichtenberger, Henzinger & Upadhyay
2023; Denisov et al. 2022 for adaptive releases). Sensitivity: a record moves one g_t, so C g moves by at most 2 clip
norms times the longest column of C, which is the first; ξ is that much wider, and the budget is met as before.

How often to visit and how far to step are chosen for either noise on 1,000 rows of every owner that neither trains on;
both are then scored on the test rows, which chose nothing. Two draws of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import GaussianDpEvent

from coterie.accounting import calibrate
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.problems.problem import clipped_sum
from coterie.program import Batch
from papers.test_targets_liu import data_dir

OWNERS, KEPT, SEEDS = 10, 1_000, range(2)
DELTA = 1 / 60_000**2
VISITS = (1, 2, 3, 6, 12, 30, 60)
STEPS = tuple(float(2.0**power) for power in range(-1, 7))


class Rows(NamedTuple):
    """Everyone's records, those that choose, and those that judge."""

    x: np.ndarray  # (owners, records, features)
    y: np.ndarray
    chosen: tuple[np.ndarray, np.ndarray]
    judged: tuple[np.ndarray, np.ndarray]


def coefficients(visits: int) -> np.ndarray:
    """(visits,) c_i = binom(2i, i)/4^i."""
    found = np.ones(visits)
    for at in range(1, visits):
        found[at] = found[at - 1] * (2 * at - 1) / (2 * at)
    return found


def correlation(visits: int, factorised: bool) -> np.ndarray:
    """(visits, visits) what independent unit noise of the visits is multiplied with, for the same privacy."""
    if not factorised:
        return np.eye(visits)
    column = coefficients(visits)
    c = np.array([[column[i - j] if i >= j else 0.0 for j in range(visits)] for i in range(visits)])
    return np.linalg.norm(column) * np.linalg.inv(c)


def rows_of(made: Prepared) -> Rows:
    each = [made.shards.of(owner) for owner in range(OWNERS)]
    least = min(len(y) for _, y in each)
    x, y = np.stack([x[:least] for x, _ in each]), np.stack([y[:least] for _, y in each])
    kept = x[:, -KEPT:].reshape(-1, x.shape[2]), y[:, -KEPT:].ravel()
    return Rows(x[:, :-KEPT], y[:, :-KEPT], kept, (made.x_test, made.y_test))


def runner(made: Prepared, rows: Rows, visits: int) -> Callable:
    """(mixing of noise, step, seed) -> the t-weighted average of w, as `wor_sgd` has it; owners take turns."""
    size = rows.x.shape[1] // visits
    x = (
        rows.x[:, : visits * size]
        .reshape(OWNERS, visits, size, -1)
        .swapaxes(0, 1)
        .reshape(-1, size, rows.x.shape[2])
    )
    y = rows.y[:, : visits * size].reshape(OWNERS, visits, size).swapaxes(0, 1).reshape(-1, size)
    task, mask = made.task, jnp.ones(size)
    scale = calibrate(GaussianDpEvent, epsilon=1.0, delta=DELTA) * task.clip_norm
    shape = np.shape(task.params)

    @jax.jit
    def run(x: jax.Array, y: jax.Array, mixing: jax.Array, step: jax.Array, seed: jax.Array) -> jax.Array:
        unit = jax.random.normal(jax.random.key(seed), (visits, OWNERS, *shape))
        noise = jnp.einsum("tk,k...->t...", mixing, unit).reshape(-1, *shape)

        def visit(carry: tuple, given: tuple) -> tuple:
            w, average, at = carry
            total = clipped_sum(task.problem, w, Batch(given[0], given[1], mask), task.clip_norm)
            w = w - step * ((total + scale * given[2]) / size + task.problem.penalty.gradient(w))
            average = average + 2.0 / (at + 1.0) * (w - average)
            return (w, average, at + 1.0), None

        start = (jnp.zeros(shape), jnp.zeros(shape), jnp.float32(1.0))
        return jax.lax.scan(visit, start, (x, y, noise))[0][1]

    return partial(run, jnp.asarray(x), jnp.asarray(y))


def right(model: jax.Array, rows: tuple[np.ndarray, np.ndarray]) -> float:
    return 100 * float(np.mean((rows[0] @ np.asarray(model)).argmax(axis=1) == rows[1]))


def main() -> None:
    """Choose on the rows kept out, judge on test rows, for either noise."""
    made = prepare(Experiment(data="mnist", owners=OWNERS, delta=DELTA), data_dir())
    rows = rows_of(made)
    print(
        f"{rows.x.shape} records, {len(rows.chosen[1]):,} rows choose, {len(rows.judged[1]):,} judge",
        flush=True,
    )
    runs = {visits: runner(made, rows, visits) for visits in VISITS}
    print("| noise | visits | step | rows that chose, % | test rows, % | ± |\n|---|---|---|---|---|---|")
    for name, factorised in (("independent", False), ("factorised", True)):
        grid = {}
        for visits, run in runs.items():
            mixing = jnp.asarray(correlation(visits, factorised), jnp.float32)
            for step in STEPS:
                models = [run(mixing, jnp.float32(step), jnp.uint32(seed)) for seed in SEEDS]
                grid[visits, step] = np.mean([right(one, rows.chosen) for one in models]), models
        best = max(grid, key=lambda cell: grid[cell][0])
        ends = " (an end of the grid)" if best[1] in (STEPS[0], STEPS[-1]) else ""
        test = [right(one, rows.judged) for one in grid[best][1]]
        print(
            f"| {name} | {best[0]} | {best[1]:g}{ends} | {grid[best][0]:.2f} | {np.mean(test):.2f} "
            f"| {np.std(test):.2f} |",
            flush=True,
        )
        for visits in VISITS:
            step = max(STEPS, key=lambda one: grid[visits, one][0])
            print(f"|   of {visits} visits | | {step:g} | {grid[visits, step][0]:.2f} | | |", flush=True)


if __name__ == "__main__":
    main()
