"""Liu, Johansson & Shi: private stochastic dual averaging (Theorem 1), σ² = 12 L² T ln(1/δ) / (q² ε²)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from coterie import _check
from coterie.experiments.claims.row import Case, Family, Modelled, published, sampled


@dataclass(frozen=True, kw_only=True)
class SampledSteps:
    """One node, which draws one of its records in each step."""

    epsilon: float = 1.0
    delta: float = 0.01
    records: int = 20_000  # q
    epochs: float = 3.0  # T = epochs × records
    sampling: Literal["one", "poisson"] = "one"


def steps(settings: SampledSteps) -> Case:
    """The noise is relative to L, the bound on one record's gradient, so L cancels."""
    epsilon, delta = _check.positive("epsilon", settings.epsilon), _check.probability("delta", settings.delta)
    records = _check.count("records", settings.records)
    total = _check.count("epochs × records", round(_check.positive("epochs", settings.epochs) * records))
    program = published("dual_averaging", (records,) * 2, {"rounds": total}, Modelled(), (epsilon, delta))
    return Case(
        claim=replace(program.claim, epsilon=epsilon),
        event=sampled(program.plan, settings.sampling),
        delta=delta,
        size=records,
        reason="the proof divides by q the 2L by which a drawn record moves a step: no sensitivity",
    )


FAMILIES = (
    Family(
        "liu_2022",
        "dual_averaging",
        SampledSteps,
        tuple(SampledSteps(epsilon=epsilon) for epsilon in (0.2, 0.4, 0.6, 0.8, 1.0)),
        steps,
    ),
)
