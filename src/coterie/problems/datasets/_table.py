"""From encoded columns to a `Table`: splits, targets, owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.problems.datasets._encode import Encoded, scale
from coterie.problems.table import Table, Task
from coterie.problems.whose import Whose

SPLIT_SEED = 20_240_501  # of every split that the source does not make itself: public, and the same for all
TEST_SHARE = 0.2


class Loaded(NamedTuple):
    """The rows of a data set, train and test together."""

    encoded: Encoded
    y: np.ndarray  # (rows,) places of classes, or a quantity in its own unit
    test: np.ndarray | None = None  # mask of the public test rows; None: drawn
    owner: np.ndarray | None = None
    owner_names: tuple[str, ...] = ()
    whose: Whose | None = None


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


def task_of(classes: Sequence[str]) -> Task:
    """What is to be learnt of a target with these classes; a quantity has none."""
    return "multiclass" if len(classes) > 2 else "binary" if classes else "regression"


def coded(y: np.ndarray, classes: Sequence[str], target_bounds: tuple[float, float] | None) -> np.ndarray:
    """Targets as a `Table` has them: a quantity is clipped to its public range and scaled onto [-1, 1]."""
    if target_bounds is not None:
        return scale(y, *target_bounds)
    return np.where(y, 1.0, -1.0).astype(np.float32) if len(classes) == 2 else np.asarray(y, np.int32)


def tabled(
    name: str,
    rows: Loaded,
    classes: tuple[str, ...] = (),
    target_bounds: tuple[float, float] | None = None,
    **more: Any,
) -> Table:
    """A `Table`, with its test rows apart; `more` is handed to it."""
    test = held_out(len(rows.y), rows.whose) if rows.test is None else rows.test
    keep, y, whose = ~test, coded(rows.y, classes, target_bounds), rows.whose
    if whose is not None:
        whose = whose.only(np.flatnonzero(keep))._replace(tested=len(np.unique(whose.codes[test])))
    return Table(
        name=name,
        task=task_of(classes),
        x=rows.encoded.x[keep],
        y=y[keep],
        x_test=rows.encoded.x[test],
        y_test=y[test],
        columns=rows.encoded.columns,
        bounds=rows.encoded.bounds,
        fields=rows.encoded.fields,
        target_bounds=target_bounds,
        classes=classes,
        owner=None if rows.owner is None else np.asarray(rows.owner, np.int32)[keep],
        owner_names=rows.owner_names,
        whose=whose,
        **more,
    )
