"""What an evaluation published, as values and as plain JSON. All of it follows from releases that were charged."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.accounting import certify
from coterie.evaluation.estimate import Band, Estimate, estimates
from coterie.evaluation.groups import RecordGroups
from coterie.evaluation.sheet import Sheet
from coterie.mechanisms.plan import ReleasePlan, TableNoise
from coterie.relations import UNIT, Relation
from coterie.units import noun_of

WHICH = "each owner's model after training, on all records of that owner, which it was trained on"
HELD = "each owner's model after training, on records of that owner that it drew in secret and kept out of training"
_ONCE = "; a {noun} counts once, whatever the number of its records"
_POWERS = {"mse": 2, "mae": 1, "mean_error": 1}  # of a quantity's unit


@dataclass(frozen=True, kw_only=True)
class Published:
    """Numbers that may be published, with 95 % intervals of noise and sampling."""

    share: float  # of every owner's budget
    epsilon: float  # what the table costs the owner who pays most, by itself; certificates include it
    owners: int  # whose tables are in it
    of: int
    rows: int | None  # units of these owners; None where their numbers are private
    unit: str  # what they are, in words
    tables: str  # SHA-256 of all tables together: who has the same ones has the same
    diverged: bool  # a model was no finite number: its table was charged, and tells nothing
    metrics: dict[str, Estimate]  # quantities in the target's own unit
    confusion: list[list[Estimate]] | None
    calibration: list[Band] | None
    column: str | None = None  # that records are grouped by
    groups: dict[str, dict[str, Estimate]] | None = None  # metrics of each group
    held_out: bool = False  # whether the records had no part in training

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold; null: the tables cannot tell."""
        bands = self.calibration
        return {
            "which": (HELD if self.held_out else WHICH)
            + ("" if self.unit == UNIT else _ONCE.format(noun=noun_of(self.unit))),
            "share": self.share,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "owners": self.owners,
            "of": self.of,
            "rows": self.rows,
            "unit": self.unit,
            "tables": self.tables,
            "diverged": self.diverged,
            "metrics": {name: _plain(metric) for name, metric in self.metrics.items()},
            "confusion": self.confusion and [[_plain(cell) for cell in row] for row in self.confusion],
            "calibration": bands
            and [{"from": band.low, "to": band.high, **_plain(band.rate)} for band in bands],
            "groups": self.groups
            and {
                "column": self.column,
                "metrics": {
                    group: {name: _plain(metric) for name, metric in metrics.items()}
                    for group, metrics in self.groups.items()
                },
            },
        }


def published(
    sheet: Sheet,
    plan: ReleasePlan,
    tables: dict[int, np.ndarray],
    *,
    share: float,
    delta: float,
    bounds: tuple[float, float] | None = None,
    diverged: bool = False,
    groups: RecordGroups | None = None,
    held_out: bool = False,
) -> Published:
    """What the tables of these owners tell together. Post-processing: tables, plan and sizes are public.

    `bounds`: of a quantity, in its own unit. Guarantee: one unit changes the result by what its owner's table costs.
    """
    assert plan.evaluation is not None
    rows = sum(plan.evaluation.sizes[owner] for owner in tables) if sheet.sizes_public else None
    total = np.sum([tables[owner] for owner in sorted(tables)], axis=0)
    estimated = estimates(sheet, total, plan.evaluation.variance(sorted(tables)), rows)
    half = 1.0 if bounds is None else (bounds[1] - bounds[0]) / 2

    def own(metrics: dict[str, Estimate]) -> dict[str, Estimate]:
        scaled = {name: _scaled(metric, half ** _POWERS.get(name, 0)) for name, metric in metrics.items()}
        if not diverged:
            return scaled
        return {name: Estimate(None, metric.low, metric.high) for name, metric in scaled.items()}

    return Published(
        share=share,
        epsilon=costs(plan.evaluation, delta, plan.relation),
        owners=len(tables),
        of=len(plan.sizes),
        rows=rows,
        unit=plan.unit.words,
        tables=digest(tables),
        diverged=diverged,
        metrics=own(estimated.metrics),
        confusion=None if diverged else estimated.confusion,
        calibration=None if diverged else estimated.calibration,
        column=groups and groups.column,
        groups=groups
        and {name: own(metrics) for name, metrics in zip(groups.names, estimated.groups, strict=True)},
        held_out=held_out,
    )


def costs(table: TableNoise, delta: float, relation: Relation) -> float:
    """What a table costs the owner who pays most, by itself."""
    worst = table.event(int(np.argmin(table.noise_multiplier)))
    return certify(worst, delta=delta, relation=relation).epsilon


def digest(tables: dict[int, np.ndarray]) -> str:
    """A hash of all tables: two owners who compare it know that no table was changed on its way to either."""
    whole = hashlib.sha256()
    for owner in sorted(tables):
        whole.update(owner.to_bytes(8) + np.asarray(tables[owner], "<i8").tobytes())
    return whole.hexdigest()


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    value = None if estimate.value is None else estimate.value * factor
    return Estimate(value, estimate.low * factor, estimate.high * factor)


def _plain(estimate: Estimate) -> dict[str, float | None]:
    """JSON has no infinity: an end that is not finite is null."""
    return {
        name: None if value is None or not math.isfinite(value) else float(value)
        for name, value in estimate._asdict().items()
    }
