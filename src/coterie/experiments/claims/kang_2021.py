"""Kang, Liu, Niu & Wang: WD-DP, one weighted sum of the parties' models (Theorems 1 and 2).

σ² = c G² T ln(1/δ)/(n² ε²) on each party's mean gradient; c is unpublished, and here the one that makes the claim
exact for all records at one trusted server. Sizes are public (replace-one), so the weights carry no noise (ε₂ = 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.claims.row import Case, Family, claimed


@dataclass(frozen=True, kw_only=True)
class Parties:
    """All parties together. T, G and n cancel: T steps at σ cost what one costs at σ/√T."""

    epsilon: float = 0.25
    delta: float = 1e-5
    parties: int = 32  # m
    unevenness: float = 1.0  # u = n_max/n_min, half the parties of each size
    model: Literal["final", "own"] = "final"  # the weighted sum, or the smallest party's own


def parties(settings: Parties) -> Case:
    """What the weighted sum, or one party's trajectory, costs with the published noise.

    Sensitivity, in units of the central one 2G/n: a record moves the weighted mean gradient by 1, while its noise
    is σ √Σ(n_j/n)²; it moves its own party's mean by n/n_j, with noise σ.
    """
    import dp_accounting as dp

    from coterie.protocols.weighted_erm import published_multipliers

    epsilon, delta = _check.positive("epsilon", settings.epsilon), _check.probability("delta", settings.delta)
    shares = _shares(_check.count("parties", settings.parties), settings.unevenness)
    own = settings.model == "own"
    noise = published_multipliers(shares, epsilon, delta)
    claim = claimed(
        epsilon / min(shares) if own else epsilon,
        delta,
        f"Kang, Liu, Niu & Wang 2021, Theorem {2 if own else 1}",
        "c is unpublished: the one that makes the claim exact for one party",
        view="a party's own model" if own else "final model",
    )
    return Case(
        claim=claim,
        event=dp.GaussianDpEvent(noise.own if own else noise.final),
        delta=delta,
        view="a party's own steps" if own else "final model, linear loss",
        reason=_why(settings.parties, own),
    )


def _shares(count: int, unevenness: float) -> list[float]:
    """n_j/n: half the parties `unevenness` times as large as the others."""
    if not (math.isfinite(unevenness) and unevenness >= 1):
        raise InputError(f"unevenness={unevenness}: must be >= 1. Give n_max/n_min.")
    sizes = [1.0] * (count - count // 2) + [unevenness] * (count // 2)
    return [size / math.fsum(sizes) for size in sizes]


def _why(count: int, own: bool) -> str:
    if count == 1:
        return "one party is the trusted server that c was made exact for: nothing differs"
    if own:
        return "noise over sensitivity falls by n_j/n; a Gaussian's ε then grows by more than n/n_j"
    return "independent noises are taken for one, but average out in the sum; a linear loss attains it"


FAMILIES = (
    Family(
        "kang_2021",
        "weighted_erm",
        Parties,
        (Parties(), Parties(epsilon=0.1), Parties(model="own"), Parties(parties=8, model="own")),
        parties,
    ),
)
