"""The excess risk that noisy first-order methods leave on a quadratic, in expectation, without running them.

On ½ Σ_j (λ_j + μ)(θ_j − θ̂_j)² every protocol here is linear: the mean and the variance of a coordinate obey exact
recursions over rounds, so that one pass over the rounds replaces infinitely many runs. The three parts of a bound
(how far there is to go, noise, disagreement of owners) come out of the same pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np


class Quadratic(NamedTuple):
    """A stand-in for the mean loss and its penalty; coordinates of equal curvature are one entry."""

    curvature: np.ndarray  # (groups,) λ of the mean loss
    copies: np.ndarray  # (groups,) how many coordinates
    optimum: np.ndarray  # (groups,) root mean square of the optimum's coordinates
    strength: float  # μ of the penalty μ/2 ‖θ‖²

    @property
    def gap(self) -> float:
        """Excess risk of the model that knows nothing, θ = 0."""
        return float(np.sum(self.copies * 0.5 * (self.curvature + self.strength) * self.optimum**2))


class Excess(NamedTuple):
    """Expected excess risk in two parts; arrays have one entry for each step size that was tried."""

    distance: np.ndarray  # what is left of the way from zero to the optimum
    noise: np.ndarray
    reached: np.ndarray  # (tries, groups) share of the way that is done, in expectation
    scatter: np.ndarray  # (tries, groups) variance of a coordinate

    @property
    def total(self) -> np.ndarray:
        """Distance and noise together."""
        return self.distance + self.noise


class Round(NamedTuple):
    """One round on the pair (inner state, output): s ← matrix s + entry (drive θ̂ + noise)."""

    matrix: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # 2 × 2, by rows, each (tries, groups)
    entry: tuple[np.ndarray, np.ndarray]


def dual_averaging(problem: Quadratic, gamma: np.ndarray, rounds: int) -> Iterator[Round]:
    """Rounds of `protocols.dual_averaging`, accelerated: a(t) = t, x = −z / (A μ + γ), output the a-weighted average
    of x. The gradient is taken at the average with x mixed in, and the new x enters the output."""
    curve, gamma = problem.curvature[None], gamma[:, None]
    weight = 0.0
    for a in range(1, rounds + 1):
        before = (weight + a) * problem.strength + gamma
        weight += a
        after = (weight + a + 1) * problem.strength + gamma
        part = a / weight
        top = (1 - a * curve * part / before, a * curve * (1 - part) + 0 * gamma)
        low = -part / after
        yield Round((*top, low * top[0], low * top[1] + 1 - part), (a + 0 * gamma, low * a))


def descent(problem: Quadratic, step: np.ndarray, parts: np.ndarray) -> Iterator[Round]:
    """θ ← θ − η (gradient + noise); the output moves by `parts[t]` of the way to θ in round t (1: follows it)."""
    shrink = 1 - step[:, None] * (problem.curvature[None] + problem.strength)
    for part in parts:
        zero = np.zeros_like(shrink)
        entry = (-step[:, None], -part * step[:, None])
        yield Round((shrink, zero, part * shrink, zero + 1 - part), entry)


def excess(problem: Quadratic, rounds: Iterator[Round], variance: float) -> Excess:
    """Expected excess risk of the output when each round's mean gradient has noise of `variance` a coordinate.

    The gradient of the loss is λ (θ − θ̂) − μ θ̂, so that (λ + μ) θ̂ is what drives a coordinate from zero. Descent adds
    μ θ to it and dual averaging minimises the penalty exactly; both have θ̂ as their fixed point.
    """
    drive = -(problem.curvature + problem.strength)[None]
    mean = (0.0, 0.0)  # over θ̂
    spread = (0.0, 0.0, 0.0)  # variances and covariance for noise of variance one
    for (a, b, c, d), (inner, outer) in rounds:
        z, x = mean
        mean = (a * z + b * x + inner * drive, c * z + d * x + outer * drive)
        zz, zx, xx = spread
        spread = (
            a * a * zz + 2 * a * b * zx + b * b * xx + inner * inner,
            a * c * zz + (a * d + b * c) * zx + b * d * xx + inner * outer,
            c * c * zz + 2 * c * d * zx + d * d * xx + outer * outer,
        )
    height = problem.copies * 0.5 * (problem.curvature + problem.strength)
    left = (np.asarray(mean[1]) - 1.0) * problem.optimum
    scatter = variance * np.asarray(spread[2])
    return Excess(
        distance=np.sum(height * left**2, axis=-1),
        noise=np.sum(height * scatter, axis=-1),
        reached=np.asarray(mean[1]),
        scatter=scatter,
    )
