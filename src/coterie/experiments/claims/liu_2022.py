"""Liu, Johansson & Shi: private stochastic dual averaging (Theorem 1), σ² = 12 L² T ln(1/δ) / (q² ε²)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from coterie import _check
from coterie.experiments.claims.row import Case, Family, one_record_a_step


@dataclass(frozen=True, kw_only=True)
class Steps:
    """One node, which draws one of its records in each step."""

    epsilon: float = 1.0
    delta: float = 0.01
    records: int = 20_000  # q
    epochs: float = 3.0  # T = epochs × records
    sampling: Literal["one", "poisson"] = "one"


def steps(settings: Steps) -> Case:
    """The noise is relative to L, the bound on one record's gradient, so L cancels."""
    epsilon, delta = _check.positive("epsilon", settings.epsilon), _check.probability("delta", settings.delta)
    records = _check.count("records", settings.records)
    total = _check.count("epochs × records", round(_check.positive("epochs", settings.epochs) * records))
    noise = math.sqrt(12 * total * math.log(1 / delta)) / (records * epsilon)
    covered = epsilon <= 1 and delta <= 1 / 3
    return Case(
        epsilon=epsilon,
        claimed_view="public transcript",
        claimed_delta=delta,
        source="Liu, Johansson & Shi 2022, Theorem 1",
        note="" if covered else "outside the theorem's range ε ≤ 1, δ ≤ 1/3",
        event=one_record_a_step(noise, records, total, settings.sampling),
        delta=delta,
        size=records,
        reason="the proof divides by q the 2L by which a drawn record moves a step: no sensitivity",
    )


FAMILIES = (
    Family(
        "liu_2022",
        "dual_averaging",
        Steps,
        tuple(Steps(epsilon=epsilon) for epsilon in (0.2, 0.4, 0.6, 0.8, 1.0)),
        steps,
    ),
)
