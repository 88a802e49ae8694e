"""What `weighted_erm`, `average_erm` and `central_erm` share: noisy full-gradient steps and one weighted sum.

    once:         θ_j ← θ_j − η (∇L_j(θ_j) + z),  T times at home;  θ = Σ_j w_j θ_j
    every round:  θ ← θ − η Σ_j w_j (∇L_j(θ) + z_j),  T times

As published the steps are these (`how="descent"`). Otherwise the same noised gradients, asked for elsewhere, enter
dual averaging (`_dual`), accelerated where the loss is smooth: again T sums of gradients, each clipped as before, so
that releases, sensitivity and charge are the same. Networks and penalties that are not convex keep to descent.
How much noise, how many steps and what the paper says of them is in `_erm_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.accounting import Claim
from coterie.mechanisms import ReleasePlan
from coterie.mechanisms.noise import noised, whole
from coterie.problems.penalties import prox
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch, Context, Program, Rounds, State
from coterie.protocols import _dual
from coterie.protocols._masked import cell_of, in_whole_numbers
from coterie.protocols.task import Task, params_like, per_owner

# Who knows n_j: all; nobody exactly; the server.
Sizes: TypeAlias = Literal["public", "noisy", "noisy_weights"]
How: TypeAlias = Literal["descent", "liu", "accelerated"]


class Numbers(NamedTuple):
    """One row for each party: (owners,) arrays, of which a program sees its own entry."""

    step_size: PyTree  # descent: η
    pace: PyTree  # dual averaging: its `Pace`; () where the party descends
    start: PyTree  # descent: iterates after this step are averaged; the published algorithm takes the last one alone
    size_noise: PyTree  # standard deviation of the noise on the party's size, or on its relative weight
    lattice: PyTree  # of whole numbers: cells of a message to one unit of its noise
    cell: PyTree  # of whole numbers: what one cell of the sum is worth


class Descent(NamedTuple):
    """A party's state while it descends, all of it made of messages."""

    params: PyTree
    total: PyTree  # Σ of the iterates after step `start`
    kept: Array  # how many those are


class Walk(NamedTuple):
    """How noised gradients move a model: functions of messages and public numbers alone."""

    begin: Callable[[PyTree, Numbers], PyTree]  # (params, numbers) -> state
    query: Callable[[PyTree, Array], PyTree]  # (state, step) -> where the step's gradient is taken
    advance: Callable[[PyTree, PyTree, Array, Numbers], PyTree]  # (state, gradient, step, numbers) -> state
    hold: Callable[[PyTree, PyTree], PyTree]  # (state, params) -> the state with params as its model
    model: Callable[[PyTree], PyTree]


class UnitNoise(NamedTuple):
    """Unit noise of one emit: the gradient's (with a leading axis of steps for `once`), and the size's."""

    gradient: PyTree
    size: PyTree  # () where sizes are public


class Sized(NamedTuple):
    """A message where sizes are private: what is summed, and the noisy size that it is divided by afterwards."""

    value: PyTree
    size: Array


def noise_like(task: Task, once: bool, steps: int, sizes: Sizes) -> UnitNoise:
    """Shapes of the unit noise of one emit."""
    lead = (steps,) if once else ()
    gradient = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((*lead, *leaf.shape), leaf.dtype), params_like(task.params)
    )
    return UnitNoise(gradient, () if sizes == "public" else jax.ShapeDtypeStruct((), jnp.float32))


@lru_cache(maxsize=64)
def functions(problem: Problem, once: bool, sizes: Sizes, how: How, exact: bool = False) -> Rounds:
    """One party's side. Cached, so that equal settings are the same functions and compile once.

    `exact`: messages are whole numbers, so that sums of them are exact.
    """
    noisy_sum = partial(_noisy_sum, problem, exact)
    walk = _descending(problem) if how == "descent" else _averaging(problem, how)

    def init(params: PyTree, ctx: Context) -> State:
        return State(walk.begin(params, ctx.numbers), jnp.float32(1.0) if sizes == "noisy" else ())

    def train(start: PyTree, batch: Batch, noise: UnitNoise, size: Array, ctx: Context) -> PyTree:
        """T noisy steps at home; only their outcome leaves, but each step is charged."""

        def step(now: PyTree, given: tuple[Array, PyTree]) -> tuple[PyTree, None]:
            at, unit = given
            gradient = _scaled(noisy_sum(walk.query(now, at), batch, unit, ctx), 1.0 / size)
            return walk.advance(now, gradient, at, ctx.numbers), None

        steps = jax.tree.leaves(noise.gradient)[0].shape[0]
        done, _ = jax.lax.scan(step, start, (jnp.arange(1, steps + 1, dtype=jnp.int32), noise.gradient))
        return walk.model(done)

    def emit(state: State, batch: Batch, noise: UnitNoise, ctx: Context) -> tuple[PyTree, PyTree]:
        if exact:
            return noisy_sum(walk.query(state.public, ctx.step), batch, noise.gradient, ctx), ()
        size = _released_size(state, batch, noise, ctx) if sizes == "noisy" else ctx.size
        if once:
            value, scale = train(state.public, batch, noise, size, ctx), size
        else:
            query = walk.query(state.public, ctx.step)
            value, scale = noisy_sum(query, batch, noise.gradient, ctx), jnp.float32(1.0)
        if sizes == "noisy":
            return Sized(_scaled(value, scale), size), size
        if sizes == "noisy_weights":
            return _scaled(value, noised(jnp.float32(1.0), noise.size, ctx.numbers.size_noise)), ()
        return (value if once else _scaled(value, 1.0 / size)), ()

    def absorb(public: PyTree, own: PyTree, mixed: PyTree, ctx: Context) -> tuple[PyTree, PyTree]:
        del own
        mixed = _as_mean(mixed, sizes, exact, ctx)
        if once:
            return walk.hold(public, mixed), ()
        return walk.advance(public, mixed, ctx.step, ctx.numbers), ()

    averaged = not once and how != "descent"
    return Rounds(init, emit, absorb, walk.model, latest=(lambda now: now.x) if averaged else None)


def _noisy_sum(
    problem: Problem, exact: bool, params: PyTree, batch: Batch, unit: PyTree, ctx: Context
) -> PyTree:
    # One record moves this sum by at most clip_norm (2 clip_norm when replaced), since each record's gradient
    # is clipped; the noise is added to the sum itself, before any division.
    total = clipped_sum(problem, params, batch, ctx.clip_norm)
    if exact:
        return whole(total, unit, ctx.noise_scale, ctx.numbers.lattice)
    return noised(total, unit, ctx.noise_scale)


def _released_size(state: State, batch: Batch, noise: UnitNoise, ctx: Context) -> Array:
    # Adding one record moves the size by exactly 1. It is released once: later messages repeat the same number.
    fresh = noised(jnp.sum(batch.mask), noise.size, ctx.numbers.size_noise)
    return jnp.where(ctx.turn == 0, jnp.maximum(fresh, 1.0), state.private)


def _as_mean(mixed: PyTree, sizes: Sizes, exact: bool, ctx: Context) -> PyTree:
    """What the owners' messages came to, as a mean over their records."""
    if sizes == "noisy":
        mixed = _scaled(mixed.value, 1.0 / jnp.maximum(mixed.size, 1.0))
    if exact:  # whole numbers, added exactly; weights and division are in the cell
        mixed = jax.tree.map(lambda leaf: leaf.astype(jnp.float32) * ctx.numbers.cell, mixed)
    return mixed


def _descending(problem: Problem) -> Walk:
    """Steps down the gradient, and the mean of the later ones."""

    def advance(now: Descent, gradient: PyTree, step: Array, numbers: Numbers) -> Descent:
        params = descend(problem, now.params, gradient, numbers.step_size)
        late = (step.astype(jnp.float32) > numbers.start).astype(jnp.float32)
        total = jax.tree.map(lambda s, x: s + late * x, now.total, params)
        return Descent(params, total, now.kept + late)

    def model(now: Descent) -> PyTree:
        return jax.tree.map(
            lambda s, x: jnp.where(now.kept > 0, s / jnp.maximum(now.kept, 1.0), x), now.total, now.params
        )

    return Walk(
        begin=lambda params, numbers: Descent(params, _scaled(params, 0.0), jnp.float32(0.0)),
        query=lambda now, step: now.params,
        advance=advance,
        hold=lambda now, params: now._replace(params=params),
        model=model,
    )


def _averaging(problem: Problem, variant: _dual.Variant) -> Walk:
    """Dual averaging: gradients of early steps count less, and the model is the mean."""

    def advance(now: _dual.Public, gradient: PyTree, step: Array, numbers: Numbers) -> _dual.Public:
        a = _dual.a_of(variant, step)
        z = jax.tree.map(lambda sum_, g: sum_ + a * g, now.z, gradient)
        return _dual.land(problem, variant, now, z, step, numbers.pace)

    return Walk(
        begin=lambda params, numbers: _dual.begin(problem, variant, params, numbers.pace),
        query=lambda now, step: _dual.query(variant, now, step),
        advance=advance,
        hold=lambda now, params: now._replace(average=params),
        model=lambda now: now.average,
    )


def descend(problem: Problem, params: PyTree, gradient: PyTree, step_size: Array) -> PyTree:
    """One step on loss and penalty: its gradient where the penalty is smooth, its prox where it has kinks or walls."""
    penalty = problem.penalty
    if penalty.smooth:
        own = penalty.gradient(params)
        return jax.tree.map(lambda x, g, h: x - step_size * (g + h), params, gradient, own)
    return prox(penalty, jax.tree.map(lambda x, g: x - step_size * g, params, gradient), step_size)


@dataclass(frozen=True, kw_only=True)
class Design:
    """Everything but the noise: who weighs how much, and which steps are taken."""

    weights: np.ndarray  # (owners,) w_j
    how: How
    once: bool = False
    steps: int = 1
    step_size: np.ndarray | float = 1.0  # of descent
    # Descent: the later half of the iterates, which is free; as published, the last one.
    averaged: bool = True
    sizes: Sizes = "public"
    size_noise: float | np.ndarray = 0.0
    pace: PyTree = ()  # of dual averaging

    def per_record(self, task: Task) -> np.ndarray:
        """(owners,) a_j, one record's weight in the sum."""
        return self.weights / np.array(task.sizes)


def how_for(task: Task) -> How:
    """Dual averaging where the objective is convex, accelerated where the loss is smooth."""
    if not task.problem.model.is_linear or task.problem.penalty.strong_convexity < 0:
        return "descent"
    return "accelerated" if math.isfinite(task.problem.loss.smoothness) else "liu"


def assemble(task: Task, design: Design, plan: ReleasePlan, claim: Claim) -> Program:
    """The program of a finished design and plan."""
    start = design.steps // 2 if design.averaged else design.steps
    public = design.sizes == "public" and not design.once
    # real owners, a trusted aggregator
    if task.problem.careful and public and plan.quorum and plan.masked is None:
        plan = in_whole_numbers(plan, design.per_record(task))
    exact = plan.lattice is not None
    return Program(
        functions=functions(task.problem, design.once, design.sizes, design.how, exact),
        plan=plan,
        numbers=per_owner(
            task.owners,
            Numbers(
                step_size=design.step_size,
                pace=design.pace,
                start=start,
                size_noise=design.size_noise,
                lattice=np.array(plan.lattice) if exact else 0.0,
                cell=cell_of(plan, design.weights) if exact else 0.0,
            ),
        ),
        params=task.params,
        schedule=1 if design.once else design.steps,
        claim=claim,
        aggregate=np.ones(task.owners) if design.sizes == "noisy" or exact else design.weights,
    )


def _scaled(tree: PyTree, factor: Array | float) -> PyTree:
    return jax.tree.map(lambda leaf: leaf * factor, tree)
