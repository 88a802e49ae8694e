"""What is learnt: a model, a loss and a penalty, and the one private quantity that protocols release."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.mechanisms import onepass
from coterie.mechanisms.clipping import (
    Clipped,
    Known,
    Order,
    clip_outer,
    clip_per_record,
    clip_whole,
    finite,
    row_norms,
    upright,
)
from coterie.mechanisms.turns import in_turn
from coterie.problems.losses import Loss
from coterie.problems.models import Model
from coterie.problems.penalties import Penalty
from coterie.program import Batch

_CACHED = 1 << 20  # numbers of a part: 4 MiB stay near the cores
_LEAST = 64  # records of a part: fewer make matrix products slow
_GRADIENTS = 64  # records whose gradients are formed at once


class Problem(NamedTuple):
    """mean over records of loss(model(record)) + penalty(params). Static under `jit`."""

    model: Model
    loss: Loss
    penalty: Penalty
    microbatch: int | None = None  # records of an owner worked on at once: memory and speed, not the result
    careful: bool = False  # add up so that rounding cannot betray a record: slower, and what real owners do


class _Measured(NamedTuple):
    """A batch, and the norms of its features."""

    x: Array
    y: Array
    mask: Array
    norms: Array


def clipped(
    problem: Problem,
    params: PyTree,
    batch: Batch,
    clip_norm: Array | float,
    order: Order = 2,
    microbatch: int | None = None,
) -> Clipped:
    """Σ over the batch of mask · clip(gradient of the record's loss), and all records' norms.

    The penalty has no part in it. Models with `factors` take the closed form (one matrix product a layer);
    others form each record's gradient. Either way `microbatch` records at a time: as given, else the
    problem's, else the model's, else as many as stay in cache (closed form) or 64.

    Guarantee: one record changes the sum by at most `clip_norm` when added, 2 `clip_norm` when replaced
    (2-norm, or 1-norm with `order=1`), for any parameters and any content of the record; see `clipping`.
    That is up to rounding, which only a `careful` problem bounds. The norms are not protected in any way: what is
    made of them must be charged.
    """
    size = microbatch or problem.microbatch or problem.model.microbatch
    if problem.model.factors is not None:
        layers = problem.model.factors

        def clip(given: tuple[PyTree, Array], part: _Measured) -> Clipped:
            params, clip_norm = given
            x = finite(part.x)
            factors = layers(params, x, lambda scores: problem.loss.slope(scores, part.y))
            known = Known(x, part.norms)
            return clip_outer(factors, part.mask, clip_norm, order, known, problem.careful)

        size = size or max(_LEAST, _CACHED // math.prod(batch.x.shape[1:]))
        # All at once: where an owner's records are the same in all rounds, XLA does it once for all of them.
        norms = row_norms(batch.x.reshape(batch.x.shape[0], -1), order)
        measured, bound = _Measured(*batch, norms), jnp.asarray(clip_norm, jnp.float32)

        def closed(params: PyTree, clip_norm: Array, batch: _Measured) -> Clipped:
            return upright(in_turn(clip, (params, clip_norm), batch, size, problem.careful))

        plain = problem.model.is_linear and problem.loss.name == "softmax" and not problem.careful
        if plain and onepass.serves(problem.model.outputs, batch.x):
            return onepass.in_one_pass(closed, order, params, bound, measured)
        return closed(params, bound, measured)

    def record_loss(params: PyTree, x: Array, y: Array) -> Array:
        return problem.loss.value(problem.model.scores(params, x[None]), y[None])[0]

    gradient = jax.grad(record_loss)
    return clip_per_record(gradient, params, batch, clip_norm, size or _GRADIENTS, order, problem.careful)


def clipped_sum(
    problem: Problem,
    params: PyTree,
    batch: Batch,
    clip_norm: Array | float,
    order: Order = 2,
    microbatch: int | None = None,
) -> PyTree:
    """The sum of `clipped` alone, with its guarantee."""
    return clipped(problem, params, batch, clip_norm, order, microbatch).total


def clipped_mean(problem: Problem, params: PyTree, batch: Batch, clip_norm: Array | float) -> Clipped:
    """clip(mean over the batch of the gradient of the record's loss): one backward pass, clipped as a whole.

    Guarantee: replacing one record, or all, moves it by at most 2 `clip_norm`; the mean is over the batch's public
    length. A record's share of it is not bounded by anything smaller, whatever the batch: see `clip_whole`.
    """

    def mean_loss(params: PyTree) -> Array:
        losses = problem.loss.value(problem.model.scores(params, batch.x), batch.y)
        return jnp.mean(jnp.where(batch.mask > 0, losses, 0.0))

    return clip_whole(jax.grad(mean_loss)(params), clip_norm)


def gradient_bound(problem: Problem, feature_norm: float) -> float:
    """Largest 2-norm of one record's gradient when its features have norm at most `feature_norm`.

    Guarantee: clipping at this norm changes nothing for a linear model with targets in the table's coding.
    Argument: ‖x slopeᵀ‖ = ‖x‖ ‖slope‖ <= feature_norm × Lipschitz constant. Other models have no bound: inf.
    """
    if not problem.model.is_linear:
        return math.inf
    return problem.loss.lipschitz * feature_norm


def objective(problem: Problem, params: PyTree, batch: Batch) -> Array:
    """Mean loss over the masked rows plus the penalty. Reads records: oracle, never part of a release."""
    losses = problem.loss.value(problem.model.scores(params, batch.x), batch.y)
    total = jnp.sum(jnp.where(batch.mask > 0, losses, 0.0))
    return total / jnp.maximum(jnp.sum(batch.mask), 1.0) + problem.penalty.value(params)
