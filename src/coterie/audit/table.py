"""Tables after training as more releases of an audited run: how far a record at its worst moves them, measured."""

from __future__ import annotations

import numpy as np

from coterie.evaluation.centre import Sums
from coterie.evaluation.selection import Ballot
from coterie.evaluation.sheet import Sheet
from coterie.mechanisms.plan import ReleasePlan

_SURE = 40.0  # log odds


def shift(ballot: Ballot, plan: ReleasePlan, owner: int) -> float:
    """Distance of the tables of two neighbours in standard deviations of the noise; 0 where no table is released."""
    distances, sheet = [], ballot.sheet
    if plan.centre is not None:  # the longest record, and its opposite
        table, neighbour = (
            Sums(plan.centre.width).tally(sign * np.eye(1, plan.centre.width)) for sign in (1, -1)
        )
        distances.append(
            _apart(table.astype(float), neighbour.astype(float), True) / plan.centre.scale(owner)
        )
    if plan.selection is not None:
        losses = np.eye(1, len(ballot.candidates))  # the first loses all there is to lose, or all others do
        table, neighbour = (ballot.added(rows.T)[0].astype(float) for rows in (1 - losses, losses))
        distances.append(_apart(table, neighbour, sheet.sizes_public) / plan.selection.scale(owner))
    if plan.evaluation is not None:
        records = zip(worst(sheet), np.arange(2)[:, None])  # in different groups, where there are any
        table, neighbour = (sheet.tally(scores, y, code).astype(float) for (scores, y), code in records)
        distances.append(_apart(table, neighbour, sheet.sizes_public) / plan.evaluation.scale(owner))
    return float(np.linalg.norm(distances))  # independent normal numbers


def _apart(table: np.ndarray, neighbour: np.ndarray, replaced: bool) -> float:
    return float(np.linalg.norm(table - neighbour if replaced else table))


def worst(sheet: Sheet) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Two records, as scores and target, whose tables are about as far apart as any; the first is the longer one."""
    if sheet.task == "regression":
        return (np.array([[2.0]]), np.array([1.0])), (np.array([[-0.146]]), np.array([-0.146]))
    if sheet.task == "binary":
        return (np.array([[_SURE]]), np.array([-1.0])), (np.array([[_SURE]]), np.array([1.0]))
    first = _SURE * np.eye(sheet.classes)[:1]
    return (-first, np.array([0])), (first, np.array([0]))


def with_table(
    ratios: tuple[np.ndarray, np.ndarray], moved: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood ratios of both worlds with that of the table, whose noise is its own."""
    rng = np.random.default_rng([seed, 1])
    return tuple(  # type: ignore[return-value]
        ratio + moved * (rng.normal(size=len(ratio)) + sign * moved / 2)
        for ratio, sign in zip(ratios, (-1, 1))
    )
