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
from coterie.problems.features import EVEN, unit_ball
from coterie.problems.losses import EIGHTH, LOSSES
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


def _fourth_root(parameters: int) -> float:
    return 0.6 * parameters**0.25  # the guess of that time; `scale_tables` compares those of now


class Choice(NamedTuple):
    """How a model of a quantity might be trained: its constant column, where records are clipped, how long it is."""

    intercept: float | None  # the same in all rows; None: 1, and scaled with its row
    clip: float
    length: Callable[[int], float] = _fourth_root


def _longer(parameters: int) -> float:
    return _fourth_root(parameters) / EVEN  # the same scores, of other columns that are √½ as long


def _root(parameters: int) -> float:
    return 0.3 * math.sqrt(parameters)


CHOICES: dict[str, Choice] = {
    "scaled, 1": Choice(None, 1.0),
    "scaled, ⅛": Choice(None, EIGHTH),
    "½, ⅛": Choice(0.5, EIGHTH),
    "√½, ½": Choice(EVEN, 0.5),
    "√½, ¼": Choice(EVEN, 0.25),
    "√½, ⅛": Choice(EVEN, EIGHTH),
    "√½, 1⁄16": Choice(EVEN, EIGHTH / 2),
    "0.85, ⅛": Choice(0.85, EIGHTH),
    "√½, ⅛, 0.85 d^¼": Choice(EVEN, EIGHTH, _longer),
    "√½, ⅛, 0.3 √d": Choice(EVEN, EIGHTH, _root),
    "√½, ⅛, 3": Choice(EVEN, EIGHTH, lambda parameters: 3.0),
}
WORLDS = tuple(itertools.product((400, 4_000, 20_000), (6, 40), ("even", "skewed", "many zeros", "narrow")))
FITTED = {"wor_sgd": 10.0, "random_walk": 30.0}


class Run(NamedTuple):
    """One run's numbers."""

    rounds: Array
    pace: _dual.Pace
    noise: Array  # variance of the noise in a round's gradient, a coordinate
    clip: Array
    seed: Array


@partial(jax.jit, static_argnums=(0, 1))
def played(problem: Problem, most: int, records: Batch, runs: Run) -> Array:
    """(runs, dim, outputs) the models of runs side by side; runs that are done stand still."""
    params = jnp.zeros((records.x.shape[1], problem.loss.outputs), jnp.float32)

    def play(run: Run) -> Array:
        def round_(now: _dual.Public, step: Array) -> tuple[_dual.Public, None]:
            total = clipped_sum(problem, _dual.query("accelerated", now, step), records, run.clip)
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
    clip = np.float32(loss.clip * loss.lipschitz)
    return Run(np.int32(rounds), pace, noise, clip, np.int32(seed))  # pyright: ignore[reportArgumentType]


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
    """Squared errors over the target's variance by choice, a row for each world; last, what each choice loses."""
    lost = []
    for records, columns, kind in WORLDS:
        x, y = _made_up(2 * records, columns, kind)
        errors = np.array([_errors(choice, x, y, records) for choice in CHOICES.values()])
        lost.append(errors / errors.min(axis=0) - 1)
        cells = " | ".join(" ".join(f"{value:.2f}" for value in row) for row in errors)
        yield f"| {records:,} | {columns} | {kind} | {cells} |"
    by_choice = 100 * np.concatenate(lost, axis=1)
    cells = " | ".join(f"{np.median(one):.0f} %, {one.mean():.0f} %" for one in by_choice)
    yield f"| lost | | median, mean | {cells} |"


def _errors(choice: Choice, x: np.ndarray, y: np.ndarray, records: int) -> np.ndarray:
    """(budgets,) on as many rows again, over their variance."""
    steady = choice.intercept is not None
    rows = unit_ball(choice.intercept if steady else 1.0, steady=steady).apply(x)
    dim = rows.shape[1]
    problem = Problem(linear(dim), LOSSES.find("huber")(0), none())
    clipped = problem._replace(loss=problem.loss._replace(clip=choice.clip))
    runs = [
        run_of(clipped, records, dim, epsilon, choice.length(dim), seed)
        for epsilon in EPSILON
        for seed in range(3)
    ]
    stacked: Run = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *runs)
    batch = Batch(jnp.asarray(rows[:records]), jnp.asarray(y[:records]), jnp.ones(records, jnp.float32))
    models = np.asarray(played(problem, 400, batch, stacked))[..., 0]
    errors = np.mean((models @ rows[records:].T - y[records:]) ** 2, axis=1) / y.var()
    return errors.reshape(len(EPSILON), 3).mean(axis=1)


def _made_up(rows: int, columns: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns of which half explain the target. Even: a little off the middle of its range; skewed: above its lower
    end, as prices are, and a fifth below the upper; many zeros: so, but where nothing was bought; narrow: three parts
    in a hundred of the range."""
    rng = np.random.default_rng(rows // 2 + columns)
    x = rng.uniform(-1, 1, (rows, columns))
    score = x @ (rng.standard_normal(columns) * (rng.random(columns) < 0.5))
    score = (score - score.mean()) / score.std()
    other = rng.standard_normal(rows)
    if kind in ("skewed", "many zeros"):
        amount = np.exp(0.6 * score + 0.5 * other) if kind == "skewed" else np.exp(0.3 * score + 0.3 * other)
        if kind == "many zeros":
            amount = np.where(rng.random(rows) < 1 / (1 + np.exp(0.5 - 1.5 * score)), amount, 0.0)
        y = 2 * amount / (1.2 * amount.max()) - 1
    else:
        y = 0.25 * score + 0.2 * other + 0.1 if kind == "even" else 0.04 * score + 0.03 * other - 0.6
    return x, np.clip(y, -1, 1).astype(np.float32)


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
