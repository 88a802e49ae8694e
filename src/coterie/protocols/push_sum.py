"""Stochastic gradient push with private gradients (AdaD²P and its rivals; Assran et al. 2019 without noise).

    x_i ← Σ_j P_ij (x_j − γ g̃_j),   w_i ← Σ_j P_ij w_j,   z_i = x_i / w_i,   g̃_j: noisy gradient at z_j

Column-stochastic P over any schedule of digraphs that is strongly connected over a window; the weights w undo
what uneven digraphs do to x. Released: x_j − γ g̃_j and w_j, once a round; so g̃_j is what must be private.

Policies, by what scales the noise:
    none      no noise (SGP)
    constant  σ G, G the largest norm of non-private runs on the same records (ConstD²P)
    clipped   σ C, gradients clipped to C (ClipD²P)
    adaptive  σ ‖g‖ of this very gradient (AdaD²P): its variance gives the record away, certified as infinite
    tracked   ours: σ C_t, gradients clipped to a public C_t ≤ C that follows a quantile of their norms, by
              noisy counts (Andrew et al. 2021) that are released, and charged, beside the gradients

Departures. As published (`calibration="paper"`), one random record a step and σ given directly: the paper's
σ = c₂ √(K ln(1/δ)) / (J ε) leaves c₂ open. Its experiments' batch is unpublished; with `batch` > 1 a step takes the
mean gradient of that many records in place of one record's, and G, C and ‖g‖ speak of that mean. By default
(`"certified"`, tracked), all records in each round, σ calibrated to the owner's budget, owners weigh in proportion to
their public sizes, the model is a running average of z_i. Owners agree on ln C_t as on one more coordinate of it.
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
from coterie.errors import InputError
from coterie.mechanisms import FixedSize, Gaussian, NoNoise, ReleasePlan
from coterie.mechanisms.clipping import Clipped
from coterie.mechanisms.noise import noised
from coterie.problems.problem import Problem, clipped, clipped_mean
from coterie.program import ANYTHING, Batch, Context, Program, Rounds, State, Within
from coterie.protocols import _masked
from coterie.protocols.task import (
    Calibration,
    ProtocolSettings,
    Task,
    calibrated,
    params_like,
    per_owner,
    plan_of,
    radius_for,
    sampler_for,
    smoothness_for,
    stated,
)
from coterie.topologies import check_push_sum

Policy: TypeAlias = Literal["none", "constant", "clipped", "adaptive", "tracked"]
_DEFAULT: dict[Calibration, Policy] = {"certified": "tracked", "paper": "adaptive", "noiseless": "none"}
_ALLOWED: dict[Calibration, tuple[Policy, ...]] = {
    "certified": ("tracked", "clipped"),
    "paper": ("none", "constant", "clipped", "adaptive"),
    "noiseless": get_args(Policy),
}

ROUNDS, STEP = 2200, 0.03  # the paper's MNIST experiment
AVERAGING = 8.0  # the running average gives round t of T a weight near (t/T)⁸ (Shamir & Zhang 2013)
FASTEST = 0.2  # ln C_t moves by at most this times the count's error a round (Andrew et al. 2021)
DEEPEST = 30.0  # a threshold never falls below e^-30 of the clip norm
LEAST = 1e-12  # of a weight: far below what any graph leaves an owner, and x / w is still a float32 number
ROUNDED = 1e-3  # what float32 may add to a sum of weights over 10⁴ rounds


@dataclass(frozen=True, kw_only=True)
class Settings(ProtocolSettings):
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    policy: Policy | None = None
    rounds: int | None = None
    step: float | None = None  # γ
    rate: float | None = None  # certified: Poisson sampling rate; None: all records in each round
    batch: int = 1  # paper: records a step; the algorithm says one
    sigma: float = 0.05  # paper: noise scale, relative to ‖g‖, G or C
    gradient_bound: float = 3.5  # paper, constant: G as published for MNIST
    quantile: float = 0.8  # tracked: part of the records that C_t leaves unclipped
    count_share: float = 0.01  # tracked: part of the privacy (of 1/z²) spent on counting them
    view: Literal["untrusted", "shared"] = "untrusted"  # certified: own noise; or shared in pairs, too
    colluding: int | None = None  # shared: other owners who may pool what they know
    degree: int | None = None  # shared: with how many others an owner shares noise; 0: all


class Numbers(NamedTuple):
    """One row for each owner: (owners,) arrays, of which a program sees its own entry."""

    unit: PyTree  # C, in which contributions and noise are counted; C_t starts there and never exceeds it
    step: PyTree  # γ
    weight: PyTree  # what a released sum is multiplied with: the owner's weight over its public count
    share: PyTree  # the owner's weight
    bound: PyTree  # G
    quantile: PyTree
    count_share: PyTree
    track: PyTree  # how fast ln C_t follows
    averaging: PyTree  # inf: the model is the last z


class Pushed(NamedTuple):
    """An owner's state, all of it made of messages."""

    x: PyTree
    w: Array
    log_threshold: PyTree  # w ln C_t, mixed as x is; () unless tracked
    average: PyTree  # () where the model is the last z


class Push(NamedTuple):
    """What leaves an owner in a round."""

    x: PyTree
    w: Array
    log_threshold: PyTree


class Info(NamedTuple):
    """Public by-products of a round."""

    weight: Array  # w, after mixing
    threshold: Array  # the clip norm of the next round; inf where nothing is clipped


class CountedNoise(NamedTuple):
    """Shapes of one emit's unit noise."""

    gradient: PyTree
    count: PyTree  # () unless tracked


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` every owner's whole transcript, counts included, meets its own
    (ε, δ) under replace-one adjacency; the plan's event is what is executed. Where noise is shared, that is for whoever
    sees all messages and knows what `colluding` other owners know.
    """
    _masked.check_view(settings.view, "every_round", calibration == "certified", settings)
    policy = _policy(settings, calibration)
    check_push_sum(task.topology)
    if task.problem.penalty.walled:
        raise InputError(
            f"penalty={task.problem.penalty.name!r}: push_sum follows gradients and never projects. "
            "Use 'l2', or protocol 'dual_averaging'."
        )
    tuned = calibration == "certified" or policy == "tracked"
    plan = _tuned(task, settings, policy) if tuned else _published(task, settings, policy)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise(), flaw="")
    return Program(
        functions=functions(task.problem, policy, settings.batch > 1 and not tuned, tuned),
        plan=plan,
        numbers=_numbers(task, settings, plan, policy, tuned),
        params=task.params,
        schedule=plan.releases[0],
        claim=_claim(task, plan, policy),
        debiased=True,
        bounds=Push(ANYTHING, _weights(task), ANYTHING),  # pyright: ignore[reportArgumentType]
    )


@lru_cache(maxsize=64)
def functions(problem: Problem, policy: Policy, together: bool, averaged: bool) -> Rounds:
    """What an owner does. Cached, so that equal settings are the same functions and compile once.

    `together`: a batch's mean gradient is clipped as one record's would be; `averaged`: the model is a running average.
    """
    summed = clipped_mean if together else clipped
    tracked = policy == "tracked"

    def init(params: PyTree, ctx: Context) -> State:
        start = jnp.log(ctx.numbers.unit) if tracked else ()
        return State(Pushed(params, jnp.float32(1.0), start, params if averaged else ()), ())

    def emit(state: State, batch: Batch, noise: CountedNoise, ctx: Context) -> tuple[Push, PyTree]:
        # Sensitivity, tracked: clipping and noise are counted in the same public C_t, so that the plan's numbers (its
        # clip norm is 1) hold whatever C_t is. In units of noise / the plan's multiplier, a record contributes the
        # pair (√(1−s) clip(g)/C_t, √s (2b − 1)) with b = [‖g‖ ≤ C_t], s = count_share: norm ≤ √((1−s) + s) = 1. So
        # the pair of sums moves by ≤ 1 when it is added and by ≤ 2 when it is replaced: one Gaussian release.
        # Clipped: clip(g)/C alone, by the same argument; together: ‖clip(ḡ)/C‖ ≤ 1, so ≤ 2 when a record of the
        # batch is replaced. The noise is added before the public weight.
        public, numbers = state.public, ctx.numbers
        z = _debiased(public.x, public.w)
        unit = _threshold(policy, public.log_threshold, public.w, numbers)
        clip = ctx.clip_norm * unit
        gradients = summed(problem, z, batch, clip)
        scale = 0.0 if policy == "none" else ctx.noise_scale * _noise_unit(policy, unit, gradients, numbers)
        x = jax.tree.map(
            lambda x, g, h: x - numbers.step * (numbers.weight * g + h),
            public.x,
            noised(gradients.total, noise.gradient, scale),
            problem.penalty.gradient(z),
        )
        if not tracked:
            return Push(x, public.w, ()), ()
        below = jnp.where(gradients.norms <= clip, 0.5, -0.5)  # centred: moves by at most 1 when replaced
        spread = ctx.noise_scale / ctx.clip_norm / (2.0 * jnp.sqrt(numbers.count_share))
        count = noised(jnp.sum(batch.mask * below), noise.count, spread)
        error = numbers.weight * count + numbers.share * (0.5 - numbers.quantile)
        return Push(x, public.w, public.log_threshold - numbers.track * error), ()

    def absorb(public: Pushed, _: Push, mixed: Push, ctx: Context) -> tuple[Pushed, Info]:
        average = _blended(public.average, _debiased(mixed.x, mixed.w), ctx) if averaged else ()
        # Held at ln C, so that a threshold that follows growing gradients never lets a run diverge.
        held = jnp.minimum(mixed.log_threshold, mixed.w * jnp.log(ctx.numbers.unit)) if tracked else ()
        info = Info(mixed.w, ctx.clip_norm * _threshold(policy, held, mixed.w, ctx.numbers))
        return Pushed(mixed.x, mixed.w, held, average), info

    def idle(public: Pushed, _: Context) -> Push:
        return Push(public.x, public.w, public.log_threshold)

    def model(public: Pushed) -> PyTree:
        return public.average if averaged else _debiased(public.x, public.w)

    return Rounds(init, emit, absorb, model, idle)


def _threshold(policy: Policy, log_threshold: PyTree, w: Array, numbers: Numbers) -> Array:
    """The norm at which gradients are clipped, in units of the plan's clip norm."""
    if policy == "tracked":
        # Within these ends whatever weight and logarithm neighbours claim: beyond them float32 loses either the
        # noise or the clipped gradients, and with them the ratio that is charged.
        most = jnp.log(numbers.unit)
        return jnp.exp(jnp.clip(log_threshold / w, most - DEEPEST, most))
    return numbers.unit if policy == "clipped" else jnp.full_like(numbers.unit, jnp.inf)


def _noise_unit(policy: Policy, unit: Array, clipped: Clipped, numbers: Numbers) -> Array:
    """What the plan's noise is counted in, for the sum of gradients."""
    if policy == "tracked":
        return unit / jnp.sqrt(1.0 - numbers.count_share)
    if policy == "clipped":
        return unit
    return numbers.bound if policy == "constant" else jnp.sum(clipped.norms)  # of the one gradient


def _blended(average: PyTree, z: PyTree, ctx: Context) -> PyTree:
    new = 1.0 / (1.0 + (ctx.step.astype(jnp.float32) - 1.0) / (ctx.numbers.averaging + 1.0))
    return jax.tree.map(lambda old, now: (1.0 - new) * old + new * now, average, z)


def _weights(task: Task) -> Within:
    """What a weight can be. Shares are positive, and all weights, with those on their way, add up to the owners.

    Over balanced links a step moves a part of the difference of two weights: nothing, for all begin at one.
    """
    balanced = task.topology.is_symmetric and task.topology.is_doubly_stochastic
    return Within(1.0, 1.0) if balanced else Within(LEAST, (1.0 + ROUNDED) * task.owners)


def _debiased(x: PyTree, w: Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf / w, x)


def _policy(settings: Settings, calibration: Calibration) -> Policy:
    policy = settings.policy or ("clipped" if settings.view == "shared" else _DEFAULT[calibration])
    if settings.view == "shared" and policy == "tracked":
        raise InputError(
            "policy='tracked': owners' thresholds differ a little, and with them what should cancel of shared noise. "
            "Use 'clipped', or view=untrusted."
        )
    if policy not in _ALLOWED[calibration]:
        why = "was not published" if calibration == "paper" else "has no finite certificate"
        raise InputError(
            f"policy={policy!r}: {why}, so not for calibration={calibration!r}. "
            f"Use one of: {', '.join(_ALLOWED[calibration])}."
        )
    return policy


def _published(task: Task, settings: Settings, policy: Policy) -> ReleasePlan:
    """One record a step, or a batch that counts as one; contributions and noise in units of ‖g‖, G or C."""
    batch = _check.count("batch", settings.batch)
    rounds = _check.count("rounds", ROUNDS if settings.rounds is None else settings.rounds)
    return plan_of(
        task,
        FixedSize(batch),
        rounds,
        clip_norm=1.0,
        noise=NoNoise() if policy == "none" else Gaussian(),
        noise_multiplier=(_check.positive("sigma", settings.sigma),) * task.owners,
        noise_like=CountedNoise(params_like(task.params), ()),
        flaw=_flaw(policy, batch / min(task.sizes), rounds),
    )


def _flaw(policy: Policy, rate: float, rounds: int) -> str:
    if policy == "constant":
        return (
            "G is the largest gradient norm of non-private runs on the same records, released uncharged, "
            "and nothing clips a record to it"
        )
    if policy == "adaptive":
        # A record with gradient zero gets no noise at all; its neighbour shows as soon as it is drawn once.
        drawn = 1 - (1 - rate) ** rounds
        return (
            "the noise's scale is the norm of the private gradient itself: neighbours are told apart by the "
            f"variance alone, with no finite ε for any δ < 1 − (1 − {rate:.2g})^K = {drawn:.2g}"
        )
    return ""


def _tuned(task: Task, settings: Settings, policy: Policy) -> ReleasePlan:
    """Large batches and the least noise that each budget allows; contributions in units of the threshold."""
    rounds = _check.count("rounds", 100 if settings.rounds is None else settings.rounds)
    count = jax.ShapeDtypeStruct((), jnp.float32) if policy == "tracked" else ()
    sampler, noise = sampler_for(task, settings.rate), CountedNoise(params_like(task.params), count)
    # The threshold is the unit: the plan's clip norm is 1.
    plan = calibrated(plan_of(task, sampler, rounds, clip_norm=1.0, noise_like=noise), task)
    if (together := _masked.together_of(task, settings)) is None:
        return plan
    counts = np.array([sampler.expected(size) for size in task.sizes])
    return _masked.pooled(plan, _share(task, settings) / counts, together, rounds)


def _share(task: Task, settings: Settings) -> np.ndarray:
    """(owners,) weights of mean one: by records, or filled up where noise is shared and budgets differ."""
    if (together := _masked.together_of(task, settings)) is None:
        return np.array(task.sizes) / np.mean(task.sizes)
    return task.owners * _masked.weights(task, _masked.exposed(together, task.owners))


def _numbers(task: Task, settings: Settings, plan: ReleasePlan, policy: Policy, tuned: bool) -> Numbers:
    share = _share(task, settings) if tuned else np.ones(task.owners)
    counts = np.array([plan.sampler.expected(size) for size in task.sizes])
    weight = share / counts if tuned else share  # as published: one record's gradient, or a batch's mean
    spent = _check.probability("count_share", settings.count_share) if policy == "tracked" else 0.0
    # Noise of the owners' mean gradient, a coordinate, in units of the threshold.
    noise = plan.noise.spread * float(np.linalg.norm(weight * plan.noise_scale)) / task.owners
    chosen = _step(task, plan.releases[0], noise / math.sqrt(1 - spent)) if tuned else STEP
    return per_owner(
        task.owners,
        Numbers(
            unit=task.clip_norm,
            step=_check.positive("step", chosen if settings.step is None else settings.step),
            weight=weight,
            share=share,
            bound=_check.positive("gradient_bound", settings.gradient_bound),
            quantile=_check.probability("quantile", settings.quantile),
            count_share=spent,
            track=_track(noise / (2 * math.sqrt(spent))) if policy == "tracked" else 0.0,
            averaging=AVERAGING if tuned else math.inf,
        ),
    )


def _step(task: Task, rounds: int, noise: float) -> float:
    """The smaller of 1 / smoothness and R / (noise √T), where SGD's bound R²/2γT + γ noise²/2 is smallest.

    Features lie in the ball that makes `clip_norm` the bound of a linear model; a network's in the unit ball.
    """
    problem = task.problem
    in_scores = task.unit.bends * problem.loss.smoothness
    smoothness = smoothness_for(task) if problem.model.is_linear else in_scores
    smoothness += problem.penalty.smoothness
    spread = noise * task.clip_norm * math.sqrt(task.dimension)
    if not math.isfinite(smoothness):  # a kink: the subgradient's own size takes the place of curvature
        smoothness, spread = 0.0, math.hypot(spread, task.clip_norm)
    return 1.0 / max(smoothness, spread * math.sqrt(rounds) / radius_for(task, None))


def _track(spread: float) -> float:
    """How fast ln C_t follows a mean fraction with noise of this std: never so fast that it walks away.

    A step η leaves ln C_t a variance near η spread² / (2 F'), F' ≈ 0.3 being the share of norms in a unit of
    ln C: below 0.2² for η = 0.02 / spread².
    """
    return min(FASTEST, 0.02 / max(spread, 1e-6) ** 2)


def _claim(task: Task, plan: ReleasePlan, policy: Policy) -> Claim:
    """Proposition 2 solved for ε, up to the constant that it leaves open."""
    note = "no noise: the proposition does not speak of it"
    if policy == "tracked":
        note = "not in the paper: tracked thresholds are ours"
    elif plan.noise.spread > 0:
        rounds, size, sigma = plan.releases[0], min(task.sizes), min(plan.noise_multiplier)
        factor = math.sqrt(rounds * math.log(1 / task.delta)) / (size * sigma)
        note = (
            f"ε = c₂ × {factor:.3g} for one record a step, with c₂ unspecified, "
            f"and for ε < c₁ × {rounds / size**2:.2g} only, with c₁ unspecified"
        )
    return stated(task, None, "AdaD²P, Proposition 2", note)
