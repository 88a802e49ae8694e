"""What `weighted_erm`, `average_erm` and `central_erm` share: noisy full-gradient steps and one weighted sum.

    once:         θ_j ← θ_j − η (∇L_j(θ_j) + z),  T times at home;  θ = Σ_j w_j θ_j
    every round:  θ ← θ − η Σ_j w_j (∇L_j(θ) + z_j),  T times

How much noise, how many steps and what the paper says of them is in `_erm_noise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.accounting import Claim
from coterie.mechanisms import ReleasePlan
from coterie.mechanisms.noise import noised
from coterie.problems.penalties import prox
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch, Context, Program, Rounds, State
from coterie.protocols.task import Task, params_like, per_owner

Sizes: TypeAlias = Literal[
    "public", "noisy", "noisy_weights"
]  # who knows n_j: all; nobody exactly; the server

GRADIENT = ("none", "l2", "sine")  # penalties that are stepped down by their gradient, as published


class Numbers(NamedTuple):
    """One row for each party: (owners,) arrays."""

    clip_norm: Array
    step_size: Array
    start: Array  # iterates after this step are averaged; the published algorithm takes the last one alone
    size_noise: Array  # standard deviation of the noise on the party's size, or on its relative weight


class Public(NamedTuple):
    """A party's state, all of it made of messages."""

    params: PyTree
    total: PyTree  # Σ of the iterates after step `start`
    kept: Array  # how many those are


class Noise(NamedTuple):
    """Unit noise of one emit: the gradient's (with a leading axis of steps for `once`), and the size's."""

    gradient: PyTree
    size: PyTree  # () where sizes are public


class Sized(NamedTuple):
    """A message where sizes are private: what is summed, and the noisy size that it is divided by afterwards."""

    value: PyTree
    size: Array


def noise_like(task: Task, once: bool, steps: int, sizes: Sizes) -> Noise:
    """Shapes of the unit noise of one emit."""
    lead = (steps,) if once else ()
    gradient = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((*lead, *leaf.shape), leaf.dtype), params_like(task.params)
    )
    return Noise(gradient, () if sizes == "public" else jax.ShapeDtypeStruct((), jnp.float32))


@lru_cache(maxsize=64)
def functions(problem: Problem, once: bool, sizes: Sizes) -> Rounds:
    """One party's side. Cached, so that equal settings are the same functions and compile once."""

    def init(params: PyTree, ctx: Context) -> State:
        del ctx
        zeros = jax.tree.map(jnp.zeros_like, params)
        return State(Public(params, zeros, jnp.float32(0.0)), jnp.float32(1.0) if sizes == "noisy" else ())

    def noisy_sum(params: PyTree, batch: Batch, unit: PyTree, ctx: Context) -> PyTree:
        # One record moves this sum by at most clip_norm (2 clip_norm when replaced), since each record's gradient
        # is clipped; the noise is added to the sum itself, before any division.
        total = clipped_sum(problem, params, batch, ctx.numbers.clip_norm)
        return noised(total, unit, ctx.noise_scale)

    def released_size(state: State, batch: Batch, noise: Noise, ctx: Context) -> Array:
        # Adding one record moves the size by exactly 1. It is released once: later messages repeat the same number.
        fresh = noised(jnp.sum(batch.mask), noise.size, ctx.numbers.size_noise)
        return jnp.where(ctx.turn == 0, jnp.maximum(fresh, 1.0), state.private)

    def advance(public: Public, gradient: PyTree, step: Array, ctx: Context) -> Public:
        params = descend(problem, public.params, gradient, ctx.numbers.step_size)
        late = (step.astype(jnp.float32) > ctx.numbers.start).astype(jnp.float32)
        total = jax.tree.map(lambda s, x: s + late * x, public.total, params)
        return Public(params, total, public.kept + late)

    def model(public: Public) -> PyTree:
        return jax.tree.map(
            lambda s, x: jnp.where(public.kept > 0, s / jnp.maximum(public.kept, 1.0), x),
            public.total,
            public.params,
        )

    def train(public: Public, batch: Batch, noise: Noise, size: Array, ctx: Context) -> PyTree:
        """T noisy steps at home; only their outcome leaves, but each step is charged."""

        def step(now: Public, given: tuple[Array, PyTree]) -> tuple[Public, None]:
            at, unit = given
            gradient = _scaled(noisy_sum(now.params, batch, unit, ctx), 1.0 / size)
            return advance(now, gradient, at, ctx), None

        steps = jax.tree.leaves(noise.gradient)[0].shape[0]
        done, _ = jax.lax.scan(step, public, (jnp.arange(1, steps + 1, dtype=jnp.int32), noise.gradient))
        return model(done)

    def emit(state: State, batch: Batch, noise: Noise, ctx: Context) -> tuple[PyTree, PyTree]:
        size = released_size(state, batch, noise, ctx) if sizes == "noisy" else ctx.size
        if once:
            value, scale = train(state.public, batch, noise, size, ctx), size
        else:
            value, scale = noisy_sum(state.public.params, batch, noise.gradient, ctx), jnp.float32(1.0)
        if sizes == "noisy":
            return Sized(_scaled(value, scale), size), size
        if sizes == "noisy_weights":
            return _scaled(value, noised(jnp.float32(1.0), noise.size, ctx.numbers.size_noise)), ()
        return (value if once else _scaled(value, 1.0 / size)), ()

    def absorb(public: Public, own: PyTree, mixed: PyTree, ctx: Context) -> tuple[Public, PyTree]:
        del own
        if sizes == "noisy":
            mixed = _scaled(mixed.value, 1.0 / jnp.maximum(mixed.size, 1.0))
        if once:
            return public._replace(params=mixed), ()
        return advance(public, mixed, ctx.step, ctx), ()

    return Rounds(init, emit, absorb, model)


def descend(problem: Problem, params: PyTree, gradient: PyTree, step_size: Array) -> PyTree:
    """One step on loss and penalty: its gradient where the penalty is smooth, its prox where it has kinks or walls."""
    penalty = problem.penalty
    if penalty.name in GRADIENT:
        own = penalty.gradient(params)
        return jax.tree.map(lambda x, g, h: x - step_size * (g + h), params, gradient, own)
    return prox(penalty, jax.tree.map(lambda x, g: x - step_size * g, params, gradient), step_size)


@dataclass(frozen=True, kw_only=True)
class Design:
    """Everything but the noise: who weighs how much, and which steps are taken."""

    weights: np.ndarray  # (owners,) w_j
    once: bool
    steps: int
    step_size: np.ndarray  # (owners,)
    averaged: bool  # the later half of the iterates, which costs nothing; as published, the last one
    sizes: Sizes = "public"
    size_noise: float | np.ndarray = 0.0

    def per_record(self, task: Task) -> np.ndarray:
        """(owners,) a_j, one record's weight in the sum."""
        return self.weights / np.array(task.sizes)


def assemble(task: Task, design: Design, plan: ReleasePlan, claim: Claim) -> Program:
    """The program of a finished design and plan."""
    start = design.steps // 2 if design.averaged else design.steps
    return Program(
        functions=functions(task.problem, design.once, design.sizes),
        plan=plan,
        numbers=per_owner(
            task.owners,
            Numbers(
                clip_norm=task.clip_norm,  # pyright: ignore[reportArgumentType]
                step_size=design.step_size,  # pyright: ignore[reportArgumentType]
                start=start,  # pyright: ignore[reportArgumentType]
                size_noise=design.size_noise,  # pyright: ignore[reportArgumentType]
            ),
        ),
        params=task.params,
        schedule=1 if design.once else design.steps,
        claim=claim,
        aggregate=np.ones(task.owners) if design.sizes == "noisy" else design.weights,
    )


def _scaled(tree: PyTree, factor: Array | float) -> PyTree:
    return jax.tree.map(lambda leaf: leaf * factor, tree)
