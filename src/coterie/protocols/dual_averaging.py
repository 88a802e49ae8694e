"""Private stochastic dual averaging (Liu, Johansson & Shi 2022, Algorithm 1), and Duchi et al. 2011.

    z_i ← Σ_j w_ij (z_j + a(t) (ĝ_j + ν_j)),   x_i = argmin ⟨z_i, x⟩ + A(t) h(x) + γ(t)/2 ‖x‖²,   A(t) = Σ a

Output: the a-weighted average of x_i. Liu et al.: a(t) = t and γ constant; Duchi et al.: a = 1, γ ~ √t.
Released: ĝ_j + ν_j, once a round, a clipped sum of gradients over a public number; z_j is made of releases.

Departures. As published (`calibration="paper"`), one random record a step and
σ² = 12 L² T ln(1/δ) / (q² ε²): the proof divides the sensitivity of a sampled gradient by q, which is no
sensitivity, so the certificate is far above the claim. By default (`"certified"`), all records in each round and
noise calibrated to the owner's budget; owners weigh by how precise their releases are (public: size, budget,
dimension), so that the noise of a small or thrifty owner is not magnified; rounds and γ follow from the noise
(`_dual`), not from any record; smooth losses take Nesterov's accelerated dual averaging.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import PyTree
from coterie.accounting import Claim
from coterie.mechanisms import FixedSize, NoNoise, ReleasePlan
from coterie.mechanisms.noise import noised, whole
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch, Context, Program, Rounds, State
from coterie.protocols import _dual, _masked
from coterie.protocols._dual import Pace, Public, Variant
from coterie.protocols.task import (
    Calibration,
    ProtocolSettings,
    Task,
    calibrated,
    per_owner,
    plan_of,
    sampler_for,
    stated,
)
from coterie.topologies import check_gossip

SOURCE = "Liu, Johansson & Shi 2022, Theorem 1"
EPOCHS = 3  # the paper's experiments
GAMMA = 20.0


@dataclass(frozen=True, kw_only=True)
class Settings(ProtocolSettings):
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    variant: Variant | None = None  # None: liu, or accelerated where certified and the loss is smooth
    rounds: int | None = None
    rate: float | None = None  # Poisson sampling rate; None: all records in each round
    gamma: float | None = None
    radius: float | None = None  # guess of ‖x*‖, public; enters γ and rounds only. None: `radius_for`
    weights: Literal["precision", "records"] = "precision"  # certified: what an owner's weight grows with
    clip: float | None = None  # share of the gradient's bound to clip at; None: what the loss says
    # Certified: own noise; one sum of masked messages a round; gossip with noise that is shared in pairs.
    view: Literal["untrusted", "masked", "shared"] = "untrusted"
    colluding: int | None = None  # masked: these four as in `weighted_erm`; shared: this one and `degree`
    absent: int | None = None
    spare: int | None = None
    degree: int | None = None


class Numbers(NamedTuple):
    """One row for each owner: (owners,) arrays, of which a program sees its own entry."""

    weight: PyTree  # what a released sum is multiplied with: the owner's weight over its public count
    pace: Pace
    lattice: PyTree  # under masks: cells of a message to one unit of its noise
    cell: PyTree  # under masks: what one cell of the sum is worth


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` every owner's whole transcript meets its own (ε, δ) under
    replace-one adjacency; the plan's event is what is executed. Under masks, and where noise is shared, that is for
    whoever sees all messages and knows what `colluding` other owners know.
    """
    certified = calibration == "certified"
    _masked.check_view(settings.view, "every_round", certified, settings)
    if settings.view != "masked":  # a sum needs no topology
        check_gossip(task.topology)
    smooth = math.isfinite(task.problem.loss.smoothness)
    variant = settings.variant or ("accelerated" if certified and smooth else "liu")
    plan, pace = _tuned(task, settings, variant) if certified else _published(task, settings, variant)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise())
    sampled = np.array([plan.sampler.expected(size) for size in plan.sizes])
    share = task.owners * _shares(task, plan, settings) if certified else np.ones(task.owners)
    shared = plan.masked
    return Program(
        functions=_functions(task.problem, variant, shared is not None),
        plan=plan,
        numbers=per_owner(
            task.owners,
            Numbers(
                weight=share / sampled,
                pace=pace,
                lattice=0.0 if plan.lattice is None else np.array(plan.lattice),
                cell=0.0 if shared is None else _masked.cell_of(plan, share / task.owners),
            ),
        ),
        params=task.params,
        schedule=plan.releases[0] - (0 if shared is None else shared.spare),
        claim=_claim(task, plan, certified),
        aggregate=None if shared is None else np.ones(task.owners),
    )


@lru_cache(maxsize=64)
def _functions(problem: Problem, variant: Variant, masked: bool) -> Rounds:
    """Cached, so that equal settings are the same functions and compile once."""

    def emit(state: State, batch: Batch, noise: PyTree, ctx: Context) -> tuple[PyTree, PyTree]:
        public: Public = state.public
        # One record moves this sum by at most clip_norm (2 clip_norm when replaced): each record's gradient is
        # clipped. The noise is added to the sum itself, before the public weight a(t) · share / count.
        total = clipped_sum(problem, _dual.query(variant, public, ctx.step), batch, ctx.clip_norm)
        if masked:
            return whole(total, noise, ctx.noise_scale, ctx.numbers.lattice), ()
        weight = _dual.a_of(variant, ctx.step) * ctx.numbers.weight
        message = jax.tree.map(lambda z, g: z + weight * g, public.z, noised(total, noise, ctx.noise_scale))
        return message, ()

    def absorb(public: Public, own: PyTree, mixed: PyTree, ctx: Context) -> tuple[Public, PyTree]:
        del own
        if masked:  # the sum of everybody's whole numbers, so that all have the same z
            weight = _dual.a_of(variant, ctx.step) * ctx.numbers.cell
            mixed = jax.tree.map(lambda z, k: z + weight * k.astype(jnp.float32), public.z, mixed)
        return _dual.land(problem, variant, public, mixed, ctx.step, ctx.numbers.pace), ()

    def idle(public: Public, ctx: Context) -> PyTree:
        del ctx
        return public.z

    return Rounds(
        init=lambda params, ctx: State(_dual.begin(problem, variant, params, ctx.numbers.pace), ()),
        emit=emit,
        absorb=absorb,
        model=lambda public: public.average,
        idle=None if masked else idle,
        latest=lambda public: public.x,
    )


def _published(task: Task, settings: Settings, variant: Variant) -> tuple[ReleasePlan, Pace]:
    """One record a step and Theorem 1's noise, which is stated for the mean over q records."""
    rounds = _check.count("rounds", EPOCHS * min(task.sizes) if settings.rounds is None else settings.rounds)
    spread = math.sqrt(12 * rounds * math.log(1 / task.delta)) / min(task.sizes)
    multiplier = tuple(spread / epsilon for epsilon in task.epsilon)
    plan = plan_of(task, FixedSize(1), rounds, noise_multiplier=multiplier)
    return plan, _given(task, variant, GAMMA if settings.gamma is None else settings.gamma)


def _tuned(task: Task, settings: Settings, variant: Variant) -> tuple[ReleasePlan, Pace]:
    """Large batches, calibrated noise, and γ for it."""
    rounds = _rounds(task, settings, variant) if settings.rounds is None else settings.rounds
    plan = _calibrated_plan(task, settings, _check.count("rounds", rounds))
    if settings.gamma is not None:
        return plan, _given(task, variant, _check.not_negative("gamma", settings.gamma))
    variance, gossips = _variance(task, plan, settings), settings.view != "masked"
    return plan, _dual.pace_for(task, variant, rounds, variance, settings.radius, gossips)


def _given(task: Task, variant: Variant, gamma: float) -> Pace:
    """A γ that stands as it is; Duchi et al.'s grows with √t."""
    root = math.sqrt(task.problem.penalty.strong_convexity) if variant == "duchi" else 0.0
    return Pace(gamma=gamma, root=root)


def _rounds(task: Task, settings: Settings, variant: Variant) -> int:
    if settings.rate is not None:  # sampled rounds are not free: their noise grows faster than √T
        return _dual.ROUNDS
    once = replace(settings, spare=0) if settings.view == "masked" else settings
    single = _variance(task, _calibrated_plan(task, once, 1), settings)
    return _dual.rounds_for(task, variant, single, settings.radius)


def _calibrated_plan(task: Task, settings: Settings, rounds: int) -> ReleasePlan:
    spare = _masked.spares(rounds, settings.spare) if settings.view == "masked" else 0
    clip = task.problem.loss.clip if settings.clip is None else _check.positive("clip", settings.clip)
    sampler = sampler_for(task, settings.rate)
    plan = calibrated(plan_of(task, sampler, rounds + spare, clip_norm=clip * task.clip_norm), task)
    if (together := _masked.together_of(task, settings)) is None:
        return plan
    per_record = _shares(task, plan, settings) / np.array([sampler.expected(n) for n in task.sizes])
    return _masked.pooled(plan, per_record, together, rounds)


def _shares(task: Task, plan: ReleasePlan, settings: Settings) -> np.ndarray:
    """(owners,) weights that add up to one.

    By precision: 1 / (C²/n + d s²/n²), the variances that sampling people and adding noise leave in an owner's mean
    gradient, where s is the noise of a whole run's budget spent at once. By records: n. Where owners have their noise
    together, precision is what `_masked.weights` fills up.
    """
    together = _masked.together_of(task, settings)
    if together is not None and settings.weights == "precision":
        return _masked.weights(task, _masked.exposed(together, task.owners))
    sizes = np.array(task.sizes, float)
    spent_at_once = plan.noise_scale.astype(float) / np.sqrt(plan.releases)
    noise = task.dimension * spent_at_once**2 / sizes if settings.weights == "precision" else 0.0
    weight = sizes / (plan.clip_norm**2 + noise)
    return weight / weight.sum()


def _variance(task: Task, plan: ReleasePlan, settings: Settings) -> float:
    """The variance of the noise in the owners' weighted mean of one round's releases, over all coordinates."""
    batch = np.array([plan.sampler.expected(size) for size in task.sizes])
    share = _shares(task, plan, settings)
    return task.dimension * float(np.sum((share * plan.noise_scale / batch) ** 2))


def _claim(task: Task, plan: ReleasePlan, certified: bool) -> Claim:
    """Theorem 1 solved for ε, with the noise that is really added to the mean gradient."""
    if plan.noise.spread == 0:
        return stated(task, None, SOURCE, "no noise: the theorem does not speak of it")
    # The theorem divides by the smallest owner's q; where owners' noises differ, each is read with its own.
    factor, smallest = math.sqrt(12 * plan.releases[0] * math.log(1 / task.delta)), min(task.sizes)
    epsilon = max(
        factor * plan.sampler.expected(size) / (z * (size if certified else smallest))
        for z, size in zip(plan.noise_multiplier, plan.sizes)
    )
    covered = epsilon <= 1 and task.delta <= 1 / 3
    return stated(task, epsilon, SOURCE, "" if covered else "outside the theorem's range ε ≤ 1, δ ≤ 1/3")
