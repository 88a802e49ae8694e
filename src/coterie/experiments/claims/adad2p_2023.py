"""AdaD²P: push-sum with noise that follows the gradient, a constant or a clip norm (Proposition 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coterie import _check
from coterie.experiments.claims.row import Case, Family, Modelled, published, sampled


@dataclass(frozen=True, kw_only=True)
class NodeSteps:
    """One node: J records, K steps."""

    policy: Literal["clipped", "adaptive", "constant"] = "clipped"
    sigma: float = 0.04  # noise relative to the clip norm, to this gradient's own norm, or to G
    records: int = 2500  # J
    steps: int = 3500  # K
    delta: float = 1e-5
    sampling: Literal["one", "poisson"] = "one"


def steps(settings: NodeSteps) -> Case:
    """Clipped gradients have a cost; a scale that is itself private has none that is finite."""
    sigma = _check.positive("sigma", settings.sigma)
    delta = _check.probability("delta", settings.delta)
    records, steps = _check.count("records", settings.records), _check.count("steps", settings.steps)
    options = {"policy": settings.policy, "sigma": sigma, "rounds": steps}
    program = published("push_sum", (records,) * 2, options, Modelled(), (1.0, delta))
    flaw = program.plan.flaw
    return Case(
        claim=program.claim,
        event=sampled(program.plan, settings.sampling),
        delta=delta,
        size=records,
        flaw=flaw,
        reason=flaw
        or f"a drawn record moves the gradient by 2C, {2 / sigma:,.3g} times the noise; no ε is stated",
    )


CIFAR, MNIST = (
    {"sigma": 0.04, "records": 2500, "steps": 3500},
    {"sigma": 0.05, "records": 3000, "steps": 2200},
)

FAMILIES = (
    Family(
        "adad2p_2023",
        "push_sum",
        NodeSteps,
        (
            NodeSteps(**CIFAR),
            NodeSteps(**MNIST),
            NodeSteps(policy="adaptive", **CIFAR),
            NodeSteps(policy="constant", **CIFAR),
        ),
        steps,
    ),
)
