"""What the rule for the radius was chosen on: mean dynamics of certified dual averaging on the choosing sets.

One sum of all records' clipped gradients, with the noise that ten owners' releases leave in it, stands for the owners;
steps are the product's (`protocols/_dual.py`). Prints points of accuracy below the best of four fixed radii.

    COTERIE_DATA=… python -m papers.scale_choosing                      the table of docs/radius.md (half an hour)
    COTERIE_DATA=… python -m papers.scale_choosing bank:1000 a9a:1000   some: a set, and how many of its rows
    COTERIE_DATA=… python -m papers.scale_choosing visits census bank   the radius other protocols had, and their own
    python -m papers.scale_choosing quantities                          made-up problems with a quantity (minutes)
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import GaussianDpEvent

from coterie._types import Array
from coterie.accounting import calibrate
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.problems.features import unit_ball
from coterie.problems.losses import length_for_quantities, loss_for
from coterie.problems.models import linear
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch
from coterie.protocols import _dual
from papers.scale import CLASSES, OWNERS, Case, measured
from papers.scoring import accuracy

SETS = ("bank:1000", "census:1000", "a9a:1000", "bank:8000", "kddcup99:700", "kddcup99:20000", "sba_loans:1000",
        "sba_loans:20000", "covtype7:3000")  # fmt: skip
GUESSES = (2.0, 2.5, 3.0)  # over √d
EPSILON, DELTA, TESTED, SMALL = (0.5, 1.0, 4.0), 1e-5, 20_000, 4000
RULES: dict[str, Callable[[int], float]] = {
    "0.3 √d": lambda parameters: 0.3 * math.sqrt(parameters),
    "0.6 d^¼": length_for_quantities,
    "1": lambda parameters: 1.0,
    "3": lambda parameters: 3.0,
}
FITTED = {"wor_sgd": 10.0, "random_walk": 30.0}


class Run(NamedTuple):
    """One run's numbers."""

    rounds: Array
    pace: _dual.Pace
    noise: Array  # variance of the noise in a round's gradient, a coordinate
    seed: Array


@partial(jax.jit, static_argnums=(0, 1))
def played(problem: Problem, most: int, records: Batch, runs: Run) -> Array:
    """(runs, dim, outputs) the models of runs side by side; runs that are done stand still."""
    params = jnp.zeros((records.x.shape[1], problem.loss.outputs), jnp.float32)
    clip = jnp.float32(problem.loss.clip * problem.loss.lipschitz)

    def play(run: Run) -> Array:
        def round_(now: _dual.Public, step: Array) -> tuple[_dual.Public, None]:
            total = clipped_sum(problem, _dual.query("accelerated", now, step), records, clip)
            unit = jax.random.normal(jax.random.fold_in(jax.random.key(run.seed), step), params.shape)
            gradient = total / len(records.y) + jnp.sqrt(run.noise) * unit
            z = now.z + step.astype(jnp.float32) * gradient
            after = _dual.land(problem, "accelerated", now, z, step, run.pace)
            return jax.tree.map(lambda new, old: jnp.where(step <= run.rounds, new, old), after, now), None

        start = _dual.begin(problem, "accelerated", params, run.pace)
        return jax.lax.scan(round_, start, jnp.arange(1, most + 1, dtype=jnp.int32))[0].average

    return jax.vmap(play)(runs)


def run_of(problem: Problem, records: int, dim: int, epsilon: float, radius: float, seed: int) -> Run:
    """As `_dual.rounds_for` and `_dual.pace_for` have it."""
    loss, size = problem.loss, dim * problem.loss.outputs
    noise = calibrate(GaussianDpEvent, epsilon=epsilon, delta=DELTA) * loss.clip * loss.lipschitz
    single = size * (noise * math.sqrt(OWNERS) / records) ** 2
    rounds = int(np.clip(math.sqrt(8 * loss.smoothness * radius / math.sqrt(single / 3)), 50, 400))
    far, stable = math.sqrt(rounds**4 / 3 * single) / radius, 2 * loss.smoothness
    pace, noise = (
        _dual.Pace(np.float32(max(stable, far)), np.float32(0.0)),
        np.float32(rounds * single / size),
    )
    return Run(np.int32(rounds), pace, noise, np.int32(seed))  # pyright: ignore[reportArgumentType]


def regrets(ready: Prepared, rows: int) -> np.ndarray:
    """(budgets, guesses) points of accuracy below the best fixed radius, on that many rows."""
    problem, rng = ready.task.problem, np.random.default_rng(0)
    x, y = np.asarray(ready.features.apply(ready.table.x), np.float32), np.asarray(ready.table.y)
    some = rng.choice(len(y), rows, replace=False)
    tested = rng.choice(len(ready.y_test), min(TESTED, len(ready.y_test)), replace=False)
    root = math.sqrt(x.shape[1] * problem.loss.outputs)
    radii = [*CLASSES, *(guess * root for guess in GUESSES)]
    seeds = 2 if rows > SMALL else 6
    runs = [
        run_of(problem, rows, x.shape[1], epsilon, radius, seed)
        for epsilon in EPSILON
        for radius in radii
        for seed in range(seeds)
    ]
    stacked: Run = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *runs)
    batch = Batch(jnp.asarray(x[some]), jnp.asarray(y[some]), jnp.ones(rows, jnp.float32))
    models = played(problem, max(int(run.rounds) for run in runs), batch, stacked)
    scores = [problem.model.scores(model, jnp.asarray(ready.x_test[tested])) for model in models]
    right = np.array([accuracy(np.asarray(one), ready.y_test[tested]) for one in scores])
    means = 100 * right.reshape(len(EPSILON), len(radii), seeds).mean(axis=2)
    return means[:, : len(CLASSES)].max(axis=1, keepdims=True) - means[:, len(CLASSES) :]


def quantities() -> Iterator[str]:
    """Squared errors over the target's variance by rule, a row for each made-up problem; last, what each rule loses."""
    lost = []
    for records, columns, binary in itertools.product((400, 4_000, 20_000), (6, 40, 200), (False, True)):
        x, y = _made_up(2 * records, columns, binary)
        problem = Problem(linear(columns + 1), loss_for("huber"), none())
        runs = [
            run_of(problem, records, columns + 1, epsilon, rule(columns + 1), seed)
            for epsilon in EPSILON
            for rule in RULES.values()
            for seed in range(3)
        ]
        stacked: Run = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *runs)
        batch = Batch(jnp.asarray(x[:records]), jnp.asarray(y[:records]), jnp.ones(records, jnp.float32))
        models = np.asarray(played(problem, max(int(run.rounds) for run in runs), batch, stacked))[..., 0]
        errors = np.mean((models @ x[records:].T - y[records:]) ** 2, axis=1) / y.var()
        by_rule = errors.reshape(len(EPSILON), len(RULES), 3).mean(axis=2)
        lost.append(by_rule / by_rule.min(axis=1, keepdims=True) - 1)
        cells = " | ".join(" ".join(f"{value:.2f}" for value in column) for column in by_rule.T)
        yield f"| {records:,} | {columns} {'yes or no' if binary else 'uniform'} | {cells} |"
    all_lost = 100 * np.concatenate(lost)
    yield f"| lost | mean, worst | {' | '.join(f'{one.mean():.1f} %, {one.max():.0f} %' for one in all_lost.T)} |"


def _made_up(rows: int, columns: int, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    """Features as `ball` makes them, and a target that half of them explain, its mean a little off."""
    rng = np.random.default_rng(rows // 2 + columns)
    x = (rng.random((rows, columns)) < 0.2) * 1.0 if binary else rng.uniform(-1, 1, (rows, columns))
    score = x @ (rng.standard_normal(columns) * (rng.random(columns) < 0.5))
    y = 0.25 * (score - score.mean()) / score.std() + 0.2 * rng.standard_normal(rows)
    return unit_ball(1.0).apply(x), np.clip(y + 0.2 * rng.uniform(-1, 1), -1, 1).astype(np.float32)


def loaded(name: str, epsilon: float = 1.0) -> Prepared:
    """Ten owners with equal shares."""
    return prepare(
        Experiment(data=name, owners=OWNERS, partition="iid", epsilon=(epsilon,), delta=DELTA), None
    )


def main(asked: list[str]) -> None:
    """Print what is asked for."""
    if asked == ["quantities"]:
        for line in quantities():
            print(line, flush=True)
        return
    if asked[:1] == ["visits"]:
        for name in asked[1:]:
            for epsilon in (EPSILON[0], EPSILON[-1]):
                ready = loaded(name, epsilon)
                for protocol, radius in FITTED.items():
                    cases: list[Case] = [(protocol, {"radius": radius}), (protocol, {})]
                    before, now = 100 * measured(ready, ready.task, cases, 2).mean(axis=1)
                    print(f"{name} {epsilon:g} {protocol}: {before:.1f} -> {now:.1f}", flush=True)
        return
    for name, rows in (one.split(":") for one in asked or SETS):
        cells = regrets(loaded(name), int(rows)).T
        shown = " | ".join(" ".join(f"{value:.2f}" for value in cell) for cell in cells)
        print(f"| {name} {int(rows):,} | {shown} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
