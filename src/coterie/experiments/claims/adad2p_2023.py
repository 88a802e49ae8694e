"""AdaD²P: push-sum with noise that follows the gradient, a constant or a clip norm (Proposition 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from coterie import _check
from coterie.experiments.claims.row import Case, Family, one_record_a_step


@dataclass(frozen=True, kw_only=True)
class Steps:
    """One node: J records, K steps."""

    policy: Literal["clipped", "adaptive", "constant"] = "clipped"
    sigma: float = 0.04  # noise relative to the clip norm, to this gradient's own norm, or to G
    records: int = 2500  # J
    steps: int = 3500  # K
    delta: float = 1e-5
    sampling: Literal["one", "poisson"] = "one"


def steps(settings: Steps) -> Case:
    """Clipped gradients have a cost; a scale that is itself private has none that is finite."""
    import dp_accounting as dp

    sigma = _check.positive("sigma", settings.sigma)
    delta = _check.probability("delta", settings.delta)
    event = one_record_a_step(sigma, settings.records, settings.steps, settings.sampling)
    flaw = _flaw(settings)
    # Proposition 2 solved for ε: σ = c₂ √(K ln(1/δ)) / (Jε), stated for ε < c₁ K/J² and unknown c₁, c₂.
    factor = math.sqrt(settings.steps * math.log(1 / delta)) / (settings.records * sigma)
    limit = settings.steps / settings.records**2
    return Case(
        epsilon=None,
        claimed_view="public transcript",
        claimed_delta=delta,
        source="AdaD²P, Proposition 2",
        note=f"ε = c₂ × {factor:.3g}, for ε < c₁ × {limit:.2g} only; neither constant is stated",
        event=dp.NonPrivateDpEvent() if flaw else event,
        delta=delta,
        size=settings.records,
        flaw=flaw,
        reason=flaw
        or f"a drawn record moves the gradient by 2C, {2 / sigma:,.3g} times the noise; no ε is stated",
    )


def _flaw(settings: Steps) -> str:
    if settings.policy == "constant":
        return "G is the largest norm seen in non-private runs, uncharged; no gradient is clipped to it"
    if settings.policy == "adaptive":
        # A record whose gradient is zero gets no noise; its neighbour shows as soon as it is drawn once.
        drawn = 1 - (1 - 1 / settings.records) ** settings.steps
        return f"the variance is the private gradient's own: no finite ε for any δ < 1 − (1 − 1/J)^K = {drawn:.2g}"
    return ""


CIFAR, MNIST = (
    {"sigma": 0.04, "records": 2500, "steps": 3500},
    {"sigma": 0.05, "records": 3000, "steps": 2200},
)

FAMILIES = (
    Family(
        "adad2p_2023",
        "push_sum",
        Steps,
        (
            Steps(**CIFAR),
            Steps(**MNIST),
            Steps(policy="adaptive", **CIFAR),
            Steps(policy="constant", **CIFAR),
        ),
        steps,
    ),
)
