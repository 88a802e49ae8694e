"""Asynchronous learner (Farokhi, Wu, Smith & Kaafar 2020, Algorithm 1), one owner at a time.

Every owner has a Poisson clock of rate one. At tick k owner i answers the learner, who keeps θ_L and a θ_i
for each owner:

    θ̄ = (θ_L + θ_i)/2,                                       shown to the owner
    q = mean over D_i of ∇ℓ(θ̄) + w,                          the owner's answer
    θ_i ← Π_Θ[θ̄ − (Nα/σ) (∇g(θ̄)/(2N) + (n_i/n) q)],          α = ρ/T², σ: strong convexity of g
    θ_L ← Π_Θ[θ̄ − (α/2σ) ∇g(θ̄)],                             Θ = {‖θ‖_∞ <= θ_max}

Output: θ_L. Released: n_i q, a noised sum of clipped gradients, once a visit; the rest is made of releases.

Departures. As printed, the learner's step is (N−1)α/(Nσ) where the proof has α/(2σ): the proof's is the
default, `steps="printed"` the other. Gradients are clipped to Ξ = `Task.clip_norm` (2-norm): the squared loss
has no bound. With `clip="once"` an owner weighs its records instead, so that no gradient in Θ exceeds Ξ: squared loss
alone, and then second moments are all that answers need (`problems.moments`). Published noise
(`calibration="paper"`): Laplace of scale 2ΞT/(n_i ε_i) on q. That takes Ξ for a bound of the 1-norm, which is
√p Ξ for p parameters, and pays for T answers of which an owner gives about T/N; the certificate charges √p Ξ
and the answers that the clocks plan. By default (`"certified"`) each owner caps its number of answers, Gaussian
noise is calibrated to its budget for that many, and the learner makes more of the same answers
(`learner="averaging"`):

    θ ← Π_Θ prox_{γg}[θ − γ (N (a − c_i) + Σ_j c_j)],   a = (n_i/n) q,   c_i: running mean of the owner's a

The bracket estimates the full gradient without bias; c_i takes the owners' differences out of it (as in SAGA,
Defazio, Bach & Lacoste-Julien 2014), and as Σ_j c_j gives back what −N c_i took, old noise cancels. An owner
that falls silent leaves c_i behind, and the learner goes on. Output: the mean of θ with weights 1, 2, 3, …
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array, PyTree
from coterie.accounting import Claim
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, Laplace, Noise, NoNoise, ReleasePlan
from coterie.mechanisms.distributions import named
from coterie.mechanisms.noise import noised
from coterie.problems.moments import Moments, gradient_sum, moments
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

TICKS = 1000  # the paper's experiments
PUBLISHED = Laplace()  # the noise that Theorem 1 speaks of
CAUTION = 0.1  # ρ is unpublished: by default the largest owner's step is this part of 1/smoothness


@dataclass(frozen=True, kw_only=True)
class Settings(ProtocolSettings):
    """What may be set; None means chosen from public constants."""

    ticks: int = TICKS
    rho: float | None = None  # α = ρ/T², γ = α/σ
    theta_max: float = 10.0  # Θ
    smoothness: float | None = None  # public guess of the mean loss's largest curvature
    steps: Literal["proof", "printed"] = "proof"  # of learner="copies"
    learner: Literal["copies", "averaging"] | None = None  # None: copies as published, else averaging
    noise: Literal["gaussian", "laplace"] = "gaussian"  # as published: Laplace
    # Answers of each owner; None: more than it will be asked, nearly surely.
    cap: int | tuple[int, ...] | None = None
    clip: Literal["visit", "once"] = "visit"  # each gradient at each visit; or records, once for all of Θ
    clock_seed: int = 0  # public


class Numbers(NamedTuple):
    """One row for each owner: scalars here, (owners,) arrays in the program."""

    record: Array | float  # 1/n: what a released sum is multiplied with, (n_i/n) / n_i
    owners: Array | float
    pace: Array | float  # α/σ, or γ
    inertia: Array | float  # what ∇g is multiplied with in the learner's own step
    theta_max: Array | float


class Copies(NamedTuple):
    """The learner of Algorithm 1, made of messages."""

    learner: PyTree
    copies: PyTree  # (owners, ...)


class Averaging(NamedTuple):
    """The default learner, made of messages."""

    params: PyTree
    total: PyTree  # Σ k θ_k over answers
    weight: Array  # Σ k
    answers: Array  # how many so far
    past: PyTree  # (owners, ...) c_i
    everyone: PyTree  # Σ_j c_j
    visits: Array  # (owners,) answers that c_i was made of


def poisson_clocks(owners: int, ticks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Who ticks, (ticks,) int32, and when, (ticks,): the first ticks of independent clocks of rate one.

    >>> owner, time = poisson_clocks(owners=3, ticks=1000, seed=0)
    >>> int(owner.max()), bool(np.all(np.diff(time) > 0)), round(float(time[-1]))
    (2, True, 354)
    """
    _check.count("owners", owners)
    _check.count("ticks", ticks)
    # No owner can have more than all of the first `ticks` ticks, so these many waiting times each are enough.
    times = np.random.default_rng(seed).exponential(size=(owners, ticks)).cumsum(axis=1).ravel()
    first = np.argpartition(times, ticks - 1)[:ticks]
    first = first[np.argsort(times[first])]
    return (first // ticks).astype(np.int32), times[first]


def default_cap(owners: int, ticks: int) -> int:
    """Three standard deviations above the number of visits an owner can expect.

    >>> default_cap(3, 1000), default_cap(86, 1000), default_cap(1, 1000)
    (379, 22, 1000)
    """
    expected = ticks / owners
    return min(ticks, math.ceil(expected + 3 * math.sqrt(expected * (1 - 1 / owners))))


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task; `calibration="noiseless"` is the certified run with its noise left out.

    Guarantee: with `calibration="certified"` every owner's whole transcript meets its own (ε, δ) under
    replace-one adjacency; the plan's event is what is executed, and engines stop an owner at its cap.
    """
    _checked(settings)
    _check_once(task, settings)
    published = calibration == "paper"
    schedule, _ = poisson_clocks(task.owners, settings.ticks, settings.clock_seed)
    plan = _published(task, settings, schedule) if published else _capped(task, settings)
    learner = settings.learner or ("copies" if published else "averaging")
    pace = _pace(task, settings, plan, learner)
    inertia = 0.5 if settings.steps == "proof" else (task.owners - 1) / task.owners
    if settings.clip == "once":
        # Gθ − b: p products and two more roundings of numbers that add up to at most n Ξ.
        plan = replace(plan, rounded=tuple((task.dimension + 2.0) * size for size in task.sizes))
    functions = _functions(task.problem, learner, settings.clip, plan.noise)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise())
    return Program(
        functions=functions,
        plan=plan,
        numbers=per_owner(
            task.owners,
            Numbers(
                record=1 / sum(task.sizes),
                owners=task.owners,
                pace=pace,
                inertia=inertia * pace,
                theta_max=settings.theta_max,
            ),
        ),
        params=task.params,
        schedule=schedule,
        claim=_claim(task, settings, plan),
        learner=True,
    )


@lru_cache(maxsize=64)
def _functions(problem: Problem, learner: str, clip: str, noise: Noise) -> Visits:
    """Cached, so that equal settings are the same functions and compile once. `noise`: whose norm the plan states."""

    def longest(ctx: Context, numbers: int) -> Array:
        """Ξ, the 2-norm that keeps a gradient of as many numbers within the plan's clip norm, stated for the noise."""
        return ctx.clip_norm / noise.widening(numbers)

    def condense(batch: Batch, ctx: Context) -> Moments:
        # Θ is a box, and what an owner is shown lies in it: ‖θ‖₂ <= √p θ_max.
        dim = batch.x.shape[-1]
        reach = math.sqrt(dim) * ctx.numbers.theta_max
        return moments(batch, longest(ctx, dim), reach, problem.careful, problem.mean)

    def answer(
        private: PyTree, query: PyTree, batch: Batch | Moments, noise: PyTree, ctx: Context
    ) -> tuple[PyTree, PyTree]:
        # One record moves this sum by at most Ξ (2 Ξ when replaced), as below, at any query in Θ.
        known = batch if isinstance(batch, Moments) else condense(batch, ctx)
        inside = _boxed(query, ctx.numbers)  # whatever the learner sent: the weights hold in Θ alone
        return noised(gradient_sum(known, inside), noise, ctx.noise_scale), private

    def emit(
        private: PyTree, query: PyTree, batch: Batch, noise: PyTree, ctx: Context
    ) -> tuple[PyTree, PyTree]:
        # One record moves this sum by at most Ξ in the 2-norm (2 Ξ when replaced): each record's gradient is
        # clipped. p numbers of 2-norm Ξ have a 1-norm of at most √p Ξ, which Laplace noise needs and the plan
        # then states.
        numbers = sum(leaf.size for leaf in jax.tree.leaves(query))
        total = clipped_sum(problem, query, batch, longest(ctx, numbers))
        return noised(total, noise, ctx.noise_scale), private

    start, ask, settle, model = (_copies if learner == "copies" else _averaging)(problem)
    if clip == "once":
        return Visits(start, lambda params, ctx: (), ask, answer, settle, model, condense)
    return Visits(start, lambda params, ctx: (), ask, emit, settle, model)


def _copies(problem: Problem) -> tuple[Callable, ...]:
    """The learner of Algorithm 1."""

    def start(params: PyTree, numbers: Numbers) -> Copies:
        return Copies(params, _for_each(params, numbers))

    def ask(register: Copies, ctx: Context) -> PyTree:
        return jax.tree.map(lambda l, i: 0.5 * (l + i[ctx.owner]), register.learner, register.copies)

    def settle(register: Copies, message: PyTree, ctx: Context) -> tuple[Copies, PyTree]:
        middle, to = ask(register, ctx), ctx.numbers
        slope = problem.penalty.gradient(middle)

        def own(at: Array, g: Array, total: Array) -> Array:
            return at - to.pace * (0.5 * g + to.owners * to.record * total)

        copy = _boxed(jax.tree.map(own, middle, slope, message), to)
        learner = _boxed(jax.tree.map(lambda at, g: at - to.inertia * g, middle, slope), to)
        copies = jax.tree.map(lambda all_, new: all_.at[ctx.owner].set(new), register.copies, copy)
        return Copies(learner, copies), ()

    return start, ask, settle, lambda register: register.learner


def _averaging(problem: Problem) -> tuple[Callable, ...]:
    """Steps along an unbiased estimate of the full gradient, and the average of where they lead."""

    def start(params: PyTree, numbers: Numbers) -> Averaging:
        zeros = jax.tree.map(jnp.zeros_like, params)
        nothing, visits = jnp.float32(0.0), jnp.zeros_like(numbers.record)
        return Averaging(params, zeros, nothing, nothing, _for_each(zeros, numbers), zeros, visits)

    def settle(register: Averaging, message: PyTree, ctx: Context) -> tuple[Averaging, PyTree]:
        to, visit = ctx.numbers, register.visits[ctx.owner] + 1.0
        # a − c_i; weights 1, 2, 3, … in c_i as well, so that answers far from the optimum are forgotten
        news = jax.tree.map(lambda total, c: to.record * total - c[ctx.owner], message, register.past)
        learnt = jax.tree.map(lambda new: 2.0 / (visit + 1.0) * new, news)
        moved = jax.tree.map(
            lambda at, new, c: at - to.pace * (to.owners * new + c), register.params, news, register.everyone
        )
        params = _boxed(prox(problem.penalty, moved, to.pace), to)
        answers = register.answers + 1.0
        return Averaging(
            params=params,
            total=jax.tree.map(lambda sum_, at: sum_ + answers * at, register.total, params),
            weight=register.weight + answers,
            answers=answers,
            past=jax.tree.map(lambda c, new: c.at[ctx.owner].add(new), register.past, learnt),
            everyone=jax.tree.map(jnp.add, register.everyone, learnt),
            visits=register.visits.at[ctx.owner].set(visit),
        ), ()

    def model(register: Averaging) -> PyTree:
        some, weight = register.weight > 0, jnp.maximum(register.weight, 1.0)
        return jax.tree.map(
            lambda sum_, at: jnp.where(some, sum_ / weight, at), register.total, register.params
        )

    return start, lambda register, ctx: register.params, settle, model


def _for_each(params: PyTree, numbers: Numbers) -> PyTree:
    owners = jnp.shape(numbers.record)[0]
    return jax.tree.map(lambda leaf: jnp.tile(leaf[None], (owners,) + (1,) * leaf.ndim), params)


def _boxed(params: PyTree, to: Numbers) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.clip(leaf, -to.theta_max, to.theta_max), params)


def _published(task: Task, settings: Settings, schedule: np.ndarray) -> ReleasePlan:
    """Theorem 1's Laplace noise, 2ΞT/ε_i on the sum; charged for the answers that the public clocks plan."""
    visits = np.bincount(schedule, minlength=task.owners)
    answers = np.minimum(visits, _caps(task, settings, settings.ticks))
    plan = _plan(task, PUBLISHED, tuple(int(number) for number in answers))
    scale = 2 * task.clip_norm * settings.ticks
    return replace(
        plan, noise_multiplier=tuple(scale / (epsilon * plan.clip_norm) for epsilon in task.epsilon)
    )


def _capped(task: Task, settings: Settings) -> ReleasePlan:
    """The least noise with which an owner can answer as often as its cap allows."""
    caps = _caps(task, settings, default_cap(task.owners, settings.ticks))
    return calibrated(_plan(task, named(settings.noise), caps), task)


def _plan(task: Task, noise: Noise, releases: tuple[int, ...]) -> ReleasePlan:
    """Gradients are clipped to Ξ in the 2-norm; the plan states what follows in the noise's own norm."""
    bound = noise.widening(task.dimension) * task.clip_norm
    return plan_of(task, FullBatch(), releases, clip_norm=bound, noise=noise)


def _caps(task: Task, settings: Settings, default: int) -> tuple[int, ...]:
    cap = default if settings.cap is None else settings.cap
    caps = (cap,) * task.owners if isinstance(cap, int) else tuple(cap)
    if len(caps) != task.owners:
        raise InputError(
            f"cap has {len(caps)} entries for {task.owners} owners: give one for all, or one each."
        )
    return tuple(min(_check.count("cap", owner_cap), settings.ticks) for owner_cap in caps)


def _pace(task: Task, settings: Settings, plan: ReleasePlan, learner: str) -> float:
    """α/σ (copies) or γ (averaging).

    Without ρ: gradients of the largest owner enter with N n_i/n, so 1/(smoothness · max N n_i/n) is stable.
    Averaging also keeps the walk that its noise alone would make over T ticks, γ s √(T p), within `radius_for`.
    """
    sigma = task.problem.penalty.strong_convexity
    if sigma <= 0 and (settings.rho is not None or learner == "copies"):
        raise InputError(
            f"penalty={task.problem.penalty.name!r}: strong convexity is {sigma}, must be > 0. Use l2."
        )
    if settings.rho is not None:
        return settings.rho / (settings.ticks**2 * sigma)
    sharpest = _smoothness(task, settings) * task.owners * max(task.sizes) / sum(task.sizes)
    if learner == "copies":
        return CAUTION / sharpest
    widest = float(np.sqrt(np.mean(plan.noise_scale.astype(float) ** 2)))
    noise = plan.noise.spread * task.owners / sum(task.sizes) * widest
    return min(1 / sharpest, radius_for(task, None) / (noise * math.sqrt(settings.ticks * task.dimension)))


def _smoothness(task: Task, settings: Settings) -> float:
    """Unless given, the loss's own times a unit's records and the squared feature norm, Ξ over its Lipschitz bound."""
    if settings.smoothness is not None:
        return settings.smoothness
    bend = task.problem.loss.smoothness
    return smoothness_for(task, task.clip_norm, bend if math.isfinite(bend) else 1.0)


def _check_once(task: Task, settings: Settings) -> None:
    """Weights that hold for all of Θ need a linear model, the squared loss, and a start within Θ."""
    if settings.clip == "visit":
        return
    if not (task.problem.model.is_linear and task.problem.loss.residual):
        raise InputError(
            f"clip='once': for the squared loss of a linear model, not {task.problem.loss.name!r} of "
            f"{task.problem.model.name!r}. Use clip='visit'."
        )
    farthest = max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(task.params))
    if farthest > settings.theta_max:
        raise InputError(
            f"theta_max={settings.theta_max}: must be >= the start's largest entry {farthest:.3g} for clip='once'."
        )


def _checked(settings: Settings) -> None:
    _check.count("ticks", settings.ticks)
    _check.positive("theta_max", settings.theta_max)
    for name in ("rho", "smoothness"):
        if (value := getattr(settings, name)) is not None:
            _check.positive(name, value)


def _claim(task: Task, settings: Settings, plan: ReleasePlan) -> Claim:
    """Theorem 1 solved for ε: 2ΞT over the scale on the sum. Owners differ: the largest is stated."""
    epsilon, note = None, f"the theorem speaks of Laplace noise, not of {plan.noise.name}"
    if plan.noise == PUBLISHED:
        epsilon = 2 * task.clip_norm * settings.ticks / float(plan.noise_scale.min())
        note = "the largest of the owners' ε; the proof takes the 2-norm bound Ξ for one of the 1-norm"
    return stated(task, epsilon, "Farokhi, Wu, Smith & Kaafar 2020, Theorem 1", note, delta=0.0)
