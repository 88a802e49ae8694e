"""Dual averaging as a way to step: between owners (`dual_averaging`), and on their weighted sum (`_erm`).

    z ← z + a(t) ĝ_t,   x = argmin ⟨z, x⟩ + A(t) h(x) + γ(t)/2 ‖x‖²,   A(t) = Σ a;   the model: the a-weighted mean of x

Gradients are asked for at x, or, accelerated (Nesterov's dual averaging), at the mean with x mixed in. All of it is
made of releases ĝ_t and public numbers: how one steps is post-processing, and a round's release is the same noised
clipped sum, charged once, wherever it is asked for. So is the choice of γ and of the rounds, from public numbers.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.problems.problem import Problem
from coterie.protocols.task import Task, radius_for, smoothness_for

Variant: TypeAlias = Literal["liu", "duchi", "accelerated"]
ROUNDS = 100


class Pace(NamedTuple):
    """How dual averaging moves: γ(t) = gamma + root √t. Public numbers."""

    gamma: PyTree
    root: PyTree  # 0 but for Duchi et al.

    def at(self, step: Array) -> Array:
        """γ(step)."""
        return self.gamma + self.root * jnp.sqrt(step.astype(jnp.float32))


class Public(NamedTuple):
    """Where dual averaging is, all of it made of messages."""

    z: PyTree
    x: PyTree
    average: PyTree  # a-weighted, the output
    weight: Array  # A(t)


def a_of(variant: Variant, step: Array) -> Array:
    """a(t): Liu et al. t, Duchi et al. 1."""
    return jnp.float32(1.0) if variant == "duchi" else step.astype(jnp.float32)


def begin(problem: Problem, variant: Variant, params: PyTree, pace: Pace) -> Public:
    """The state before the first round."""
    zeros, first = jax.tree.map(jnp.zeros_like, params), jnp.int32(1)
    x = problem.penalty.minimise(zeros, a_of(variant, first), pace.at(first))
    return Public(zeros, x, zeros, jnp.float32(0.0))


def query(variant: Variant, public: Public, step: Array) -> PyTree:
    """The point at which round `step` takes its gradients."""
    return _blended(public, public.x, a_of(variant, step)) if variant == "accelerated" else public.x


def land(problem: Problem, variant: Variant, public: Public, z: PyTree, step: Array, pace: Pace) -> Public:
    """The state after round `step`, which led to the dual variable `z`."""
    a = a_of(variant, step)
    weight = public.weight + a
    x = problem.penalty.minimise(z, weight + a_of(variant, step + 1), pace.at(step + 1))
    entering = x if variant == "accelerated" else public.x
    return Public(z, x, _blended(public, entering, a), weight)


def _blended(public: Public, x: PyTree, a: Array) -> PyTree:
    """The running average after `x` enters with weight a."""
    part = a / (public.weight + a)
    return jax.tree.map(lambda mean, new: mean + part * (new - mean), public.average, x)


def curvature(task: Task) -> tuple[float, float]:
    """Smoothness of a unit's loss in the parameters; or 0 and the size of its slopes, which do not shrink.

    Features are as long as the gradient's bound implies, or of norm one where the loss has no bound.
    """
    loss = task.problem.loss
    if not 0 < loss.smoothness < math.inf:
        return 0.0, task.clip_norm
    return smoothness_for(task), 0.0


def rounds_for(task: Task, variant: Variant, single: float, radius: float | None) -> int:
    """How many rounds a budget is worth; `single`: the variance of the noise, were it all spent on one release.

    With all records in each round the noise on the a-weighted mean of T gradients does not depend on T, so more
    rounds cost only messages. They are worth sending until noise, not the steps' stability, decides γ: four times
    above stability, T² √(V/3) / R = 4 · 2 · smoothness, where V is `single`.
    """
    if variant != "accelerated":  # a kink: plain subgradient steps, whose own error falls as 1/√T
        return 10 * ROUNDS
    smoothness, _ = curvature(task)
    slope = math.sqrt(single / 3) / radius_for(task, radius)
    most = math.sqrt(8 * smoothness / slope) if slope > 0 else math.inf
    return int(np.clip(most, ROUNDS // 2, 4 * ROUNDS))


def pace_for(
    task: Task,
    variant: Variant,
    rounds: int,
    variance: np.ndarray | float,
    radius: float | None,
    gossips: bool = False,
) -> Pace:
    """γ where the bound of Liu et al.'s Theorem 2 is smallest; `variance`: of a round's noise, over all coordinates.

    γ balances distance (γ R² / 2A) against noise (Σ a² d σ² / 2γA), but stays where steps are stable:
    a(t) × smoothness, or 2 × smoothness when accelerated (there a(t)² / A(t) <= 2). Where accelerated owners gossip,
    what they disagree on changes its sign from round to round, and then grows with rounds × curvature / γ. A class
    bends less and less as it is learnt, a quantity as much as ever: its γ is at least rounds / 100 × smoothness, half
    of what it is anyway unless noise is so small that rounds are at their most.
    """
    smoothness, kink = curvature(task)
    moments = rounds if variant == "duchi" else rounds**3 / 3
    longest = {"duchi": 1.0, "liu": rounds, "accelerated": 2.0}[variant]
    if gossips and variant == "accelerated" and not task.problem.loss.classes:
        longest = max(longest, rounds / 100)
    far = np.sqrt(moments * (variance + kink**2)) / radius_for(task, radius)
    return Pace(
        gamma=np.maximum(smoothness * longest, far),
        root=math.sqrt(task.problem.penalty.strong_convexity) if variant == "duchi" else 0.0,
    )
