"""The default radius on sets that had no part in its choice: scikit-learn's own, and awkward ones that are made up.

How far records, of length one, are from their mean tells how much of their ranges they use. Mean dynamics as in
`scale_choosing`, ten owners; what the default loses to the best fixed radius in hindsight, and what a constant
reaches. Ranges are declared as people do: round, and wider than the values.

    python -m papers.scale_unseen                    the table of docs/radius.md (some minutes)
    python -m papers.scale_unseen wine wide          some
    python -m papers.scale_unseen wages.csv:wage     a table of your own, and its column to learn
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from sklearn import datasets

from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, prepare
from coterie.program import Batch
from coterie.protocols.task import radius_for
from papers.scale import CLASSES, QUANTITIES, SMALL
from papers.scale_choosing import EPSILON, played, run_of
from papers.scoring import accuracy

Rows: TypeAlias = tuple[np.ndarray, np.ndarray]


def _classes(rows: int, features: int, informative: int, classes: int = 2) -> Rows:
    return datasets.make_classification(
        rows, features, n_informative=informative, n_redundant=0, n_classes=classes, n_clusters_per_class=1,
        class_sep=2.0 if classes > 2 else 1.0, random_state=0,
    )  # fmt: skip


def _quantity(rows: int, features: int) -> Rows:
    x, y = datasets.make_regression(rows, features, n_informative=features // 3, noise=20.0, random_state=1)
    return x, y


def _stays() -> Rows:
    """Days in hospital, nearly all of them few, with 0 to 365 declared (`RANGES`)."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(6_000, 8))
    return x, np.clip(np.exp(0.3 * x @ rng.normal(size=8) + 0.3 * rng.normal(size=6_000)) * 5, 0, 365)


def _heavy() -> Rows:
    x, y = _classes(5_000, 30, 10)
    return np.sign(x) * np.expm1(np.abs(x)), y


SETS: dict[str, Callable[[], Rows]] = {
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "breast_cancer (30 columns)": lambda: datasets.load_breast_cancer(return_X_y=True),
    "two columns": lambda: _classes(5_000, 2, 2),
    "30 columns": lambda: _classes(5_000, 30, 10),
    "wide": lambda: _classes(5_000, 500, 20),
    "heavy tails": _heavy,
    "20 classes": lambda: _classes(8_000, 40, 20, 20),
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "quantity": lambda: _quantity(4_000, 30),
    "quantity, 200 rows": lambda: _quantity(200, 30),
    "quantity, wide": lambda: _quantity(4_000, 500),
    "stays": _stays,
}
QUANTITY = ("diabetes", "quantity", "quantity, 200 rows", "quantity, wide", "stays")
RANGES = {"stays": [0.0, 365.0]}
FEW = 30  # values of a column that may be listed


def _wide(values: np.ndarray) -> list[float]:
    """A fifth wider than the values; from 0 where that is near."""
    low, high = float(values.min()), float(values.max())
    more = 0.2 * (high - low) or 1.0
    return [0.0 if 0 <= low < high - low else low - more, high + more]


def made(name: str) -> Prepared:
    """The set as a user would declare it."""
    if ".csv:" in name:
        return declared(*_read(*name.rsplit(":", 1)))
    x, y = SETS[name]()
    y = y if name in QUANTITY else y.astype(str)
    return declared(pd.DataFrame(x).add_prefix("x"), pd.Series(y), RANGES.get(name))


def _read(path: str, target: str) -> tuple[pd.DataFrame, pd.Series]:
    """Complete rows; columns of numbers and of few words; a target of few values is a class."""
    rows = pd.read_csv(path).dropna()
    y, rows = rows[target], rows.drop(columns=target)
    kept = [key for key in rows if pd.api.types.is_numeric_dtype(rows[key]) or rows[key].nunique() <= FEW]
    return rows[kept], y if pd.api.types.is_numeric_dtype(y) and y.nunique() > FEW else y.astype(str)


def declared(frame: pd.DataFrame, y: pd.Series, span: list[float] | None = None) -> Prepared:
    """Ten owners with equal shares of a table whose ranges are stated as people do."""
    said: dict[str, Any] = {"target": "target", "columns": {str(key): _stated(frame[key]) for key in frame}}
    if pd.api.types.is_numeric_dtype(y):
        said["range"] = span or _wide(y.to_numpy())
    else:
        said["classes"] = sorted(set(y))
    rows = frame.assign(target=y.to_numpy())
    return prepare(Experiment(data=rows, columns=said, owners=10, partition="iid"), None)


def _stated(column: pd.Series) -> list[float] | list[str]:
    if pd.api.types.is_numeric_dtype(column):
        return _wide(column.to_numpy(float))
    return sorted(set(column.astype(str)))


def judged(ready: Prepared) -> tuple[np.ndarray, float]:
    """(budgets, the default and each fixed radius) accuracy in per cent or squared error, and a constant's."""
    problem, quantity = ready.task.problem, not ready.task.problem.loss.classes
    x, y = np.asarray(ready.features.apply(ready.table.x), np.float32), np.asarray(ready.table.y)
    radii = [radius_for(ready.task, None), *(QUANTITIES if quantity else CLASSES)]
    seeds = 6 if len(y) < SMALL else 3
    runs = [
        run_of(problem, len(y), x.shape[1], epsilon, radius, seed)
        for epsilon in EPSILON
        for radius in radii
        for seed in range(seeds)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *runs)
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y), jnp.float32))
    models = played(problem, max(int(run.rounds) for run in runs), batch, stacked)
    truth = np.asarray(ready.y_test)

    def value(model: Any) -> float:
        scores = problem.model.scores(model, jnp.asarray(ready.x_test))
        if quantity:
            return float(np.mean((np.asarray(scores)[:, 0] - truth) ** 2))
        return 100 * accuracy(scores, truth)

    found = np.array([value(model) for model in models]).reshape(len(EPSILON), len(radii), seeds).mean(axis=2)
    if quantity:
        return found, float(np.mean((y.mean() - truth) ** 2))
    return found, 100 * max(float(np.mean(truth == one)) for one in np.unique(y))


def row(name: str) -> str:
    """One line of the table."""
    ready = made(name)
    found, constant = judged(ready)
    default, fixed = found[:, 0], found[:, 1:]
    quantity = not ready.task.problem.loss.classes
    if quantity:
        lost = [f"{100 * (one / best - 1):+.0f} %" for one, best in zip(default, fixed.min(axis=1))]
    else:
        lost = [f"{best - one:+.1f}" for one, best in zip(default, fixed.max(axis=1))]
    shown = "{:.4f}" if quantity else "{:.1f}"
    cells = [f"{shown.format(one)} ({less})" for one, less in zip(default, lost)]
    features = ready.task.dimension // ready.task.problem.loss.outputs
    size = f"{sum(ready.task.sizes):,} × {features}"
    spread = np.sqrt(np.asarray(ready.features.apply(ready.table.x)).var(axis=0).sum())
    return f"| {name} | {size} | {spread:.2f} | {' | '.join(cells)} | {shown.format(constant)} |"


def main(asked: list[str]) -> None:
    """Print what is asked for."""
    for name in asked or SETS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
