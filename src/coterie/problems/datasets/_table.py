"""From encoded columns to a `Table`: splits, targets, owners."""

from __future__ import annotations

import numpy as np

from coterie.problems.datasets._encode import Encoded, scale
from coterie.problems.table import Table
from coterie.problems.whose import Whose

SPLIT_SEED = 20_240_501  # of every split that the source does not make itself: public, and the same for all
TEST_SHARE = 0.2


def random_test_rows(rows: int, share: float = TEST_SHARE) -> np.ndarray:
    """Mask of the public test rows, the same on every machine: `rows - int(rows * (1 - share))` of them."""
    chosen = np.random.default_rng(SPLIT_SEED).permutation(rows)[: rows - int(rows * (1.0 - share))]
    mask = np.zeros(rows, bool)
    mask[chosen] = True
    return mask


def held_out(rows: int, whose: Whose | None) -> np.ndarray:
    """Mask of the test rows: whole units where rows are somebody's, so that nobody is learnt from and tested on."""
    if whose is None:
        return random_test_rows(rows)
    return random_test_rows(int(whose.codes.max()) + 1)[whose.codes]


def signs(positive: np.ndarray) -> np.ndarray:
    """Binary targets: +1.0 where `positive`, else -1.0."""
    return np.where(np.asarray(positive, bool), 1.0, -1.0).astype(np.float32)


def binary(name: str, encoded: Encoded, y: np.ndarray, test: np.ndarray | None = None, **more) -> Table:
    """A binary `Table`; `test` marks the public test rows, None: drawn; `more` is handed to `Table`."""
    return _split(name, "binary", encoded, signs(y), test, **more)


def multiclass(name: str, encoded: Encoded, y: np.ndarray, test: np.ndarray | None = None, **more) -> Table:
    """A `Table` of several classes, `y` in 0 … classes - 1."""
    return _split(name, "multiclass", encoded, np.asarray(y, np.int32), test, **more)


def regression(
    name: str,
    encoded: Encoded,
    y: np.ndarray,
    target_bounds: tuple[float, float],
    test: np.ndarray | None = None,
    **more,
) -> Table:
    """A regression `Table`: targets clipped to their public range and scaled onto [-1, 1]."""
    scaled = scale(y, *target_bounds)
    return _split(name, "regression", encoded, scaled, test, target_bounds=target_bounds, **more)


def _split(name, task, encoded, y, test, owner=None, whose: Whose | None = None, **more) -> Table:
    test = random_test_rows(len(y)) if test is None else test
    keep = ~test
    if whose is not None:
        whose = whose.only(np.flatnonzero(keep))._replace(tested=len(np.unique(whose.codes[test])))
    return Table(
        name=name,
        task=task,
        x=encoded.x[keep],
        y=y[keep],
        x_test=encoded.x[test],
        y_test=y[test],
        columns=encoded.columns,
        bounds=encoded.bounds,
        fields=encoded.fields,
        owner=None if owner is None else np.asarray(owner, np.int32)[keep],
        whose=whose,
        **more,
    )
