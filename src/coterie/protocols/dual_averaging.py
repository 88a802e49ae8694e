"""Private stochastic dual averaging (Liu, Johansson & Shi 2022, Algorithm 1), and Duchi et al. 2011.

    z_i ← Σ_j w_ij (z_j + a(t) (ĝ_j + ν_j)),   x_i = argmin ⟨z_i, x⟩ + A(t) h(x) + γ(t)/2 ‖x‖²,   A(t) = Σ a

Output: the a-weighted average of x_i. Liu et al.: a(t) = t and γ constant; Duchi et al.: a = 1, γ ~ √t.
Released: ĝ_j + ν_j, once a round, a clipped sum of gradients over a public number; z_j is made of releases.

Departures. As published (`calibration="paper"`), one random record a step and
σ² = 12 L² T ln(1/δ) / (q² ε²): the proof divides the sensitivity of a sampled gradient by q, which is no
sensitivity, so the certificate is far above the claim. By default (`"certified"`), all records in each round and
noise calibrated to the owner's budget; owners weigh by how precise their releases are (public: size, budget,
dimension), so that the noise of a small or thrifty owner is not magnified; rounds and γ follow from the noise
(`_tuned`), not from any record; smooth losses take Nesterov's accelerated dual averaging.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array, PyTree
from coterie.accounting import Claim
from coterie.mechanisms import FixedSize, ReleasePlan
from coterie.mechanisms.noise import noised
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch, Context, Program, Rounds, State
from coterie.protocols.task import Calibration, Task, calibrated, params_like, per_owner, sampler_for, stated
from coterie.topologies import check_gossip

Variant: TypeAlias = Literal["liu", "duchi", "accelerated"]
SOURCE = "Liu, Johansson & Shi 2022, Theorem 1"
EPOCHS = 3  # the paper's experiments
GAMMA = 20.0
ROUNDS = 100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    variant: Variant | None = None  # None: liu, or accelerated where certified and the loss is smooth
    rounds: int | None = None
    rate: float | None = None  # Poisson sampling rate; None: all records in each round
    gamma: float | None = None
    radius: float = 40.0  # guess of ‖x*‖, public; enters γ only
    weights: Literal["precision", "records"] = "precision"  # certified: what an owner's weight grows with
    clip: float | None = None  # share of the gradient's bound to clip at; None: half for smooth classifiers


class Numbers(NamedTuple):
    """One row for each owner: (owners,) arrays, of which a program sees its own entry."""

    clip_norm: PyTree
    weight: PyTree  # what a released sum is multiplied with: the owner's weight over its public count
    gamma: PyTree  # γ(t) = gamma + gamma_root √t
    gamma_root: PyTree


class Public(NamedTuple):
    """An owner's state, all of it made of messages."""

    z: PyTree
    x: PyTree
    average: PyTree  # a-weighted, the output
    weight: Array  # A(t)


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` every owner's whole transcript meets its own (ε, δ) under
    replace-one adjacency; the plan's event is what is executed.
    """
    check_gossip(task.topology)
    certified = calibration == "certified"
    variant = settings.variant or _default_variant(task, certified)
    _check.one_of("variant", variant, get_args(Variant))
    plan, gamma = _tuned(task, settings, variant) if certified else _published(task, settings)
    if calibration == "noiseless":
        plan = replace(plan, noise="none")
    sampled = np.array([plan.sampler.expected(size) for size in plan.sizes])
    share = task.owners * _shares(task, plan, settings) if certified else np.ones(task.owners)
    strength = task.problem.penalty.strong_convexity
    return Program(
        functions=_functions(task.problem, variant),
        plan=plan,
        numbers=per_owner(
            task.owners,
            Numbers(
                clip_norm=plan.clip_norm,
                weight=share / sampled,
                gamma=gamma,
                gamma_root=math.sqrt(strength) if variant == "duchi" else 0.0,
            ),
        ),
        params=task.params,
        schedule=plan.releases[0],
        claim=_claim(task, plan),
    )


@lru_cache(maxsize=64)
def _functions(problem: Problem, variant: Variant) -> Rounds:
    """Cached, so that equal settings are the same functions and compile once."""

    def a(step: Array) -> Array:
        return jnp.float32(1.0) if variant == "duchi" else step.astype(jnp.float32)

    def point(z: PyTree, weight: Array, step: Array, numbers: Numbers) -> PyTree:
        gamma = numbers.gamma + numbers.gamma_root * jnp.sqrt(step.astype(jnp.float32))
        return problem.penalty.minimise(z, weight, gamma)

    def init(params: PyTree, ctx: Context) -> State:
        zeros = jax.tree.map(jnp.zeros_like, params)
        first = jnp.int32(1)
        return State(Public(zeros, point(zeros, a(first), first, ctx.numbers), zeros, jnp.float32(0.0)), ())

    def emit(state: State, batch: Batch, noise: PyTree, ctx: Context) -> tuple[PyTree, PyTree]:
        public: Public = state.public
        query = public.x if variant != "accelerated" else _average(public, public.x, a(ctx.step))
        # One record moves this sum by at most clip_norm (2 clip_norm when replaced): each record's gradient is
        # clipped. The noise is added to the sum itself, before the public weight a(t) · share / count.
        total = clipped_sum(problem, query, batch, ctx.numbers.clip_norm)
        weight = a(ctx.step) * ctx.numbers.weight
        message = jax.tree.map(lambda z, g: z + weight * g, public.z, noised(total, noise, ctx.noise_scale))
        return message, ()

    def absorb(public: Public, own: PyTree, mixed: PyTree, ctx: Context) -> tuple[Public, PyTree]:
        del own
        weight = public.weight + a(ctx.step)
        x = point(mixed, weight + a(ctx.step + 1), ctx.step + 1, ctx.numbers)
        entering = x if variant == "accelerated" else public.x
        return Public(mixed, x, _average(public, entering, a(ctx.step)), weight), ()

    def model(public: Public) -> PyTree:
        return public.average

    def idle(public: Public, ctx: Context) -> PyTree:
        del ctx
        return public.z

    return Rounds(init, emit, absorb, model, idle)


def _average(public: Public, x: PyTree, a: Array) -> PyTree:
    """The running average after `x` enters with weight a."""
    part = a / (public.weight + a)
    return jax.tree.map(lambda mean, one: mean + part * (one - mean), public.average, x)


def _published(task: Task, settings: Settings) -> tuple[ReleasePlan, float]:
    """One record a step and Theorem 1's noise, which is stated for the mean over q records."""
    rounds = _check.count("rounds", EPOCHS * min(task.sizes) if settings.rounds is None else settings.rounds)
    spread = math.sqrt(12 * rounds * math.log(1 / task.delta)) / min(task.sizes)
    plan = ReleasePlan(
        sampler=FixedSize(1),
        clip_norm=task.clip_norm,
        noise="gaussian",
        noise_multiplier=tuple(spread / epsilon for epsilon in task.epsilon),
        releases=(rounds,) * task.owners,
        sizes=task.sizes,
        noise_like=params_like(task.params),
    )
    return plan, GAMMA if settings.gamma is None else settings.gamma


def _default_variant(task: Task, certified: bool) -> Variant:
    return "accelerated" if certified and math.isfinite(task.problem.loss.smoothness) else "liu"


def _tuned(task: Task, settings: Settings, variant: Variant) -> tuple[ReleasePlan, float]:
    """Large batches, calibrated noise, and γ where the bound of the paper's Theorem 2 is smallest.

    γ balances distance (γ R² / 2A) against noise (Σ a² d σ² / 2γA), but stays where steps are stable:
    a(t) × smoothness, or 2 × smoothness when accelerated (there a(t)² / A(t) <= 2).
    """
    smoothness, kink = _curvature(task)
    rounds = _rounds(task, settings, variant) if settings.rounds is None else settings.rounds
    plan = _calibrated_plan(task, settings, _check.count("rounds", rounds))
    if settings.gamma is not None:
        return plan, _check.not_negative("gamma", settings.gamma)
    moments = rounds if variant == "duchi" else rounds**3 / 3
    longest = {"duchi": 1.0, "liu": rounds, "accelerated": 2.0}[variant]
    spread = math.sqrt(moments * (_variance(task, plan, settings) + kink**2))
    return plan, max(smoothness * longest, spread / settings.radius)


def _rounds(task: Task, settings: Settings, variant: Variant) -> int:
    """How many rounds a budget is worth.

    With all records in each round the noise on the a-weighted mean of T gradients does not depend on T, so more
    rounds cost only messages. They are worth sending until noise, not the steps' stability, decides γ: four times
    above stability, T² √(V/3) / R = 4 · 2 · smoothness, where V is the variance of a single release.
    """
    if settings.rate is not None:  # sampled rounds are not free: their noise grows faster than √T
        return ROUNDS
    if variant != "accelerated":  # a kink: plain subgradient steps, whose own error falls as 1/√T
        return 10 * ROUNDS
    smoothness, _ = _curvature(task)
    single = math.sqrt(_variance(task, _calibrated_plan(task, settings, 1), settings) / 3) / settings.radius
    return int(np.clip(math.sqrt(8 * smoothness / single), ROUNDS // 2, 4 * ROUNDS))


def _calibrated_plan(task: Task, settings: Settings, rounds: int) -> ReleasePlan:
    plan = ReleasePlan(
        sampler=sampler_for(task, settings.rate),
        clip_norm=_share_of_bound(task, settings) * task.clip_norm,
        noise="gaussian",
        noise_multiplier=(1.0,) * task.owners,
        releases=(rounds,) * task.owners,
        sizes=task.sizes,
        noise_like=params_like(task.params),
    )
    return calibrated(plan, task)


def _shares(task: Task, plan: ReleasePlan, settings: Settings) -> np.ndarray:
    """(owners,) weights that add up to one.

    By precision: 1 / (C²/n + d s²/n²), the variances that sampling people and adding noise leave in an owner's mean
    gradient, where s is the noise of a whole run's budget spent at once. By records: n.
    """
    _check.one_of("weights", settings.weights, ("precision", "records"))
    sizes = np.array(task.sizes, float)
    spent_at_once = plan.noise_scale.astype(float) / np.sqrt(plan.releases)
    noise = task.dimension * spent_at_once**2 / sizes if settings.weights == "precision" else 0.0
    weight = sizes / (plan.clip_norm**2 + noise)
    return weight / weight.sum()


def _variance(task: Task, plan: ReleasePlan, settings: Settings) -> float:
    """Of the noise in the owners' weighted mean of one round's releases, over all coordinates."""
    batch = np.array([plan.sampler.expected(size) for size in task.sizes])
    share = _shares(task, plan, settings)
    return task.dimension * float(np.sum((share * plan.noise_scale / batch) ** 2))


def _curvature(task: Task) -> tuple[float, float]:
    """Smoothness of a record's loss in the parameters; or 0 and the size of its kink, where it has none."""
    loss = task.problem.loss
    if not (math.isfinite(loss.smoothness) and math.isfinite(loss.lipschitz)):
        return 0.0, task.clip_norm
    return loss.smoothness * (task.clip_norm / loss.lipschitz) ** 2, 0.0


def _share_of_bound(task: Task, settings: Settings) -> float:
    """Half the bound halves the noise; only badly misclassified records are clipped, and for a linear model the
    clipped gradient is that of a convex loss that grows linearly there. Chosen on the embedded census data."""
    if settings.clip is not None:
        return _check.positive("clip", settings.clip)
    return 0.5 if task.problem.loss.name in ("logistic", "softmax", "one_vs_all") else 1.0


def _claim(task: Task, plan: ReleasePlan) -> Claim:
    """Theorem 1 solved for ε, with the noise that is really added to the mean gradient."""
    if plan.noise == "none":
        return stated(task, None, SOURCE, "no noise: the theorem does not speak of it")
    # The theorem divides by the smallest owner's q; where owners' noises differ, each is read with its own.
    sampled = isinstance(plan.sampler, FixedSize)
    factor, smallest = math.sqrt(12 * plan.releases[0] * math.log(1 / task.delta)), min(task.sizes)
    epsilon = max(
        factor * plan.sampler.expected(size) / (z * (smallest if sampled else size))
        for z, size in zip(plan.noise_multiplier, plan.sizes)
    )
    covered = epsilon <= 1 and task.delta <= 1 / 3
    return stated(task, epsilon, SOURCE, "" if covered else "outside the theorem's range ε ≤ 1, δ ≤ 1/3")
