"""Fully collaborative SGD without replacement (Jin, He & Dai, Algorithm 1).

    w ← Π_R[w − η_t (∇f_B(w) + N_t)],   f = loss + λ/2 ‖w‖²,   B the active owner's next b unseen records

Published: b = 50; η_t = 0.1 (λ = 0, "convex") or 1/(λt) and R = 1/λ (λ > 0, "strongly convex"); the step's
noise has std √(2 ln(1.25/δ)) · 2 η_t L / (bε) with L = 1 + λR. Which w is the model is unpublished. The convex rows
of the paper's tables fit the last one; the strongly convex ones are read here as Theorem 4 is stated, with the mean of
all, and come out on MNIST when they are read otherwise (`capped`): η_t at most 1/(2μ), μ = 1 + λ, as Lemma 5 asks, and
the last w.
Released: the clipped sum of the batch's gradients plus noise, once for each batch; w is made of releases. The
penalty reads no records and is added to them in public, as are the step and the projection.

Departures. One-vs-all is released as the joint model it is: as published (`calibration="paper"`) each binary
model gets the noise above, and the certificate charges all of them, for a record acts on every one. By default
(`"certified"`) the noise meets each owner's budget, and batch and step follow from the noise (`tuned`): one pass
pays for a record once, however many records share its release, so few large batches suffer least. The step is
constant and the model is the t-weighted average of w, which is post-processing. Owners take turns, evenly spread
over the run; the last batch may be short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array, PyTree
from coterie.accounting import Claim
from coterie.errors import InputError
from coterie.mechanisms import NoNoise, OnePass, Passes, ReleasePlan
from coterie.mechanisms.noise import noised
from coterie.problems.penalties import prox
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch, Context, Program, Visits
from coterie.protocols.task import (
    Calibration,
    ProtocolSettings,
    Task,
    calibrated,
    per_owner,
    plan_of,
    radius_for,
    smoothness_for,
    stated,
)

BATCH = 50  # the paper's experiments
STEP = 0.1
_TINY = 1e-30  # keeps 0/0 out of the projection; no model is as short


@dataclass(frozen=True, kw_only=True)
class Settings(ProtocolSettings):
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    batch: int | None = None
    step: float | None = None  # η; where the published one decays, its value at t = 1
    radius: float | None = None  # guess of ‖w*‖, public; enters batch and step only. None: `radius_for`
    capped: bool = False  # another reading of the published steps: η_t at most 1/(2μ), and the last w


class Numbers(NamedTuple):
    """How the model moves: η_t = step / t^decay, `most` at most, on the mean of a public number of gradients.

    One row for each owner: scalars here, (owners,) arrays in the program.
    """

    batch: PyTree
    step: PyTree
    decay: PyTree
    weight: PyTree  # the model is the mean of w weighted by t^weight; inf: the last w
    most: PyTree = math.inf
    domain: PyTree = math.inf  # R: the longest a separately trained model may be


class Register(NamedTuple):
    """The walking model, all of it made of messages."""

    w: PyTree
    average: PyTree


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` every owner's whole transcript meets its own (ε, δ) under
    replace-one adjacency: each record is in one release, charged for the whole model.
    """
    plan, pace = (tuned if calibration == "certified" else published)(task, settings)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise())
    stated_as = claim(task, plan, "Jin, He & Dai, Theorem 2")
    return walking(task, plan, pace, in_turns(plan.releases), stated_as)


def walking(task: Task, plan: ReleasePlan, pace: Numbers, schedule: np.ndarray, claim: Claim) -> Program:
    """The program of a model that walks among owners."""
    return Program(
        functions=functions(task.problem),
        plan=plan,
        numbers=per_owner(task.owners, pace),
        params=task.params,
        schedule=schedule,
        claim=claim,
    )


@lru_cache(maxsize=64)
def functions(problem: Problem) -> Visits:
    """Cached, so that equal settings are the same functions and compile once."""

    def open_(params: PyTree, numbers: Numbers) -> Register:
        del numbers
        return Register(params, params)

    def emit(private: PyTree, w: PyTree, batch: Batch, noise: PyTree, ctx: Context) -> tuple[PyTree, PyTree]:
        # One record moves this sum by at most clip_norm (2 clip_norm when replaced): each record's gradient is
        # clipped. The noise is on the sum itself, so the public η_t / b scales both and cancels in the charge.
        total = clipped_sum(problem, w, batch, ctx.clip_norm)
        return noised(total, noise, ctx.noise_scale), private

    def settle(register: Register, message: PyTree, ctx: Context) -> tuple[Register, PyTree]:
        numbers: Numbers = ctx.numbers
        mean = jax.tree.map(lambda leaf: leaf / numbers.batch, message)
        w = descend(problem, register.w, mean, step_at(numbers, ctx.step), numbers.domain)
        return Register(w, blend(register.average, w, numbers.weight, ctx.step)), ()

    return Visits(
        open=open_,
        init=lambda params, ctx: (),
        ask=lambda register, ctx: register.w,
        emit=emit,
        settle=settle,
        model=lambda register: register.average,
        latest=lambda register: register.w,
    )


def step_at(numbers: Numbers, step: Array) -> Array:
    """η_t."""
    return jnp.minimum(numbers.step * step.astype(jnp.float32) ** -numbers.decay, numbers.most)


def descend(problem: Problem, w: PyTree, mean: PyTree, step: Array, domain: Array) -> PyTree:
    """w − step (mean + ∇penalty), back into the penalty's domain and into the ball of radius `domain`."""
    moved = jax.tree.map(lambda x, g, h: x - step * (g + h), w, mean, problem.penalty.gradient(w))
    return project(problem, prox(problem.penalty, moved, 0.0), domain)


def project(problem: Problem, w: PyTree, domain: Array) -> PyTree:
    """Each separately trained model (a column of one-vs-all, else all of it) shortened to `domain`."""
    if models_in(problem) > 1:
        size = jnp.linalg.norm(w, axis=0, keepdims=True)
    else:
        size = jnp.sqrt(sum((jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(w)), jnp.float32(0.0)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, domain / jnp.maximum(size, _TINY)), w)


def blend(average: PyTree, w: PyTree, weight: Array, step: Array) -> PyTree:
    """The mean of w up to now, whose newest share is (weight + 1)/(t + weight); w itself when `weight` is inf.

    For weight 0 and 1 that is Σ w_τ / t and Σ τ w_τ / Σ τ.
    """
    share = jnp.where(jnp.isinf(weight), 1.0, (weight + 1.0) / (step.astype(jnp.float32) + weight))
    return jax.tree.map(lambda old, new: old + share * (new - old), average, w)


def models_in(problem: Problem) -> int:
    """How many models the paper trains one by one: a binary one for each class of one-vs-all, else one."""
    return problem.loss.models if problem.model.is_linear else 1


def published_bound(task: Task) -> float:
    """The paper's L of one of its models: the gradient bound of a record, plus λR for the penalty."""
    strength = task.problem.penalty.strong_convexity
    return task.clip_norm / math.sqrt(models_in(task.problem)) + (1.0 if strength > 0 else 0.0)


def classical(delta: float) -> float:
    """√(2 ln(1.25/δ)): noise over sensitivity for ε = 1 by the textbook theorem, which needs ε < 1.

    >>> round(classical(1 / 60_000**2), 2)
    6.67
    """
    return math.sqrt(2 * math.log(1.25 / delta))


def published(task: Task, settings: Settings, passes: int | None = None) -> tuple[ReleasePlan, Numbers]:
    """The paper's pace, and noise on the released sum that each of `passes` pays an even part of (ε, δ) for.

    That is √(2 ln(1.25/δ)) · 2L/ε, the published one without η_t / b.
    """
    pace, part = published_pace(task, settings), passes or 1
    bound = classical(task.delta / part) * 2 * published_bound(task)
    multipliers = tuple(bound / (epsilon / part) / task.clip_norm for epsilon in task.epsilon)
    return walk_plan(task, pace.batch, multipliers, passes), pace


def published_pace(task: Task, settings: Settings) -> Numbers:
    """b = 50; η_t = 0.1 and the last w, or 1/(λt) and the mean of all, as λ is zero or not; or `capped`."""
    strength = task.problem.penalty.strong_convexity
    batch = min(BATCH, *task.sizes) if settings.batch is None else settings.batch
    default, decay, weight = (1 / strength, 1.0, 0.0) if strength > 0 else (STEP, 0.0, math.inf)
    step = default if settings.step is None else _check.positive("step", settings.step)
    pace = Numbers(_check.count("batch", batch), step, decay, weight, domain=domain_of(task))
    return pace._replace(weight=math.inf, most=0.5 / (1 + strength)) if settings.capped else pace


def domain_of(task: Task) -> float:
    """R = 1/λ; everything where λ is zero."""
    strength = task.problem.penalty.strong_convexity
    return 1 / strength if strength > 0 else math.inf


def steepest(task: Task) -> float:
    """The largest useful step, public: one over the curvature that the first steps meet; inf where there is a kink.

    That is the loss's in the scores at score 0, times ‖x‖² and a unit's records, and the penalty's. For softmax over K
    classes it is 1/K, far below its supremum of ½; the other losses have theirs at 0.
    """
    loss, penalty = task.problem.loss, task.problem.penalty.smoothness
    own = loss.smoothness if loss.bend is None else loss.bend
    loss_alone = smoothness_for(task, task.clip_norm, own)
    curvature = loss_alone + (penalty if math.isfinite(penalty) else 0.0)
    return 1 / curvature if math.isfinite(curvature) else math.inf


def tuned(task: Task, settings: Settings, passes: int | None = None) -> tuple[ReleasePlan, Numbers]:
    """The least noise that each budget allows, which depends on the passes alone, and the pace that suits it.

    A record is in one release of each pass, whatever the batch.
    """
    any_batch = calibrated(walk_plan(task, 1, (1.0,) * task.owners, passes), task)
    scale, largest = any_batch.noise_scale.tolist(), steepest(task)
    pace = tuned_pace(task, settings, scale, largest, passes or 1)
    return walk_plan(task, pace.batch, any_batch.noise_multiplier, passes), pace


def tuned_pace(
    task: Task, settings: Settings, scale: Sequence[float], largest: float, passes: int = 1
) -> Numbers:
    """Batch and constant step where the bound of SGD, R²/(2ηT) + ηV/2 with η <= `largest`, is least.

    T is the number of visits and V the variance of a mean gradient: d scale²/b² from the noise and clip_norm²/b
    from sampling. All of it is public: sizes, budgets, bounds and the guess R of ‖w*‖. No record is looked at.
    """
    radius = radius_for(task, settings.radius)
    if settings.capped:
        raise InputError(
            "capped=True: is a reading of the published steps. Use calibration 'paper', or leave it out."
        )
    noise = task.dimension * float(np.average(np.square(scale), weights=task.sizes))
    # Where the loss has a kink, a subgradient does not shrink at the optimum: its size counts as variance.
    kink = 0.0 if math.isfinite(task.problem.loss.smoothness) else task.clip_norm**2

    def at(batch: int) -> tuple[float, float]:
        total = sum(visits(task, batch, passes))
        variance = noise / batch**2 + task.clip_norm**2 / batch + kink
        best = min(largest, radius / math.sqrt(total * variance))
        step = best if settings.step is None else _check.positive("step", settings.step)
        return radius**2 / (2 * step * total) + step * variance / 2, step

    grid = np.unique(np.geomspace(1, max(task.sizes), 200).astype(int)).tolist()
    batch = min(grid, key=lambda b: at(b)[0]) if settings.batch is None else settings.batch
    return Numbers(_check.count("batch", batch), at(batch)[1], decay=0.0, weight=1.0, domain=domain_of(task))


def visits(task: Task, batch: int, passes: int = 1) -> tuple[int, ...]:
    """How often each owner speaks: once for each batch, the last of which may be short."""
    return tuple(passes * math.ceil(size / batch) for size in task.sizes)


def in_turns(releases: Sequence[int]) -> np.ndarray:
    """Which owner at each tick: everyone's visits evenly spread over the run; round robin for equal owners.

    >>> in_turns((2, 4)).tolist()
    [1, 0, 1, 1, 0, 1]
    """
    owner = np.repeat(np.arange(len(releases)), releases)
    place = np.concatenate([(np.arange(count) + 0.5) / count for count in releases])
    return owner[np.argsort(place, kind="stable")]


def claim(task: Task, plan: ReleasePlan, source: str, note: str = "", passes: int = 1) -> Claim:
    """The theorem solved for ε at the noise in use, for one of the paper's models; `passes` compose by sum."""
    if plan.noise.spread == 0:
        epsilon, notes = None, ["no noise: the theorem does not speak of it"]
    else:
        per_pass = (
            classical(task.delta / passes)
            * 2
            * published_bound(task)
            / (min(plan.noise_multiplier) * task.clip_norm)
        )
        epsilon, notes = passes * per_pass, [note] if note else []
        if per_pass >= 1:
            notes.append("outside the theorem's range ε < 1")
        if models_in(task.problem) > 1:
            notes.append(f"for one of {models_in(task.problem)} binary models that are all released")
    return stated(task, epsilon, source, "; ".join(notes))


def walk_plan(
    task: Task, batch: int, multipliers: tuple[float, ...], passes: int | None = None
) -> ReleasePlan:
    """Batches in stored order: one pass over an owner's records, or so many."""
    sampler = OnePass(batch) if passes is None else Passes(batch)
    return plan_of(task, sampler, visits(task, batch, passes or 1), noise_multiplier=multipliers)
