"""What is learnt: a model, a loss and a penalty, and the one private quantity that protocols release."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.mechanisms.clipping import Clipped, Order, clip_outer, clip_per_record, clip_whole
from coterie.problems.losses import Loss
from coterie.problems.models import Model
from coterie.problems.penalties import Penalty
from coterie.program import Batch


class Problem(NamedTuple):
    """mean over records of loss(model(record)) + penalty(params). Static under `jit`."""

    model: Model
    loss: Loss
    penalty: Penalty


def clipped(
    problem: Problem,
    params: PyTree,
    batch: Batch,
    clip_norm: Array | float,
    order: Order = 2,
    microbatch: int = 64,
) -> Clipped:
    """Σ over the batch of mask · clip(gradient of the record's loss), and all records' norms.

    The penalty has no part in it. Linear and two-layer models take the closed form (one matrix product a
    layer); others form `microbatch` gradients at a time.

    Guarantee: one record changes the sum by at most `clip_norm` when added, 2 `clip_norm` when replaced
    (2-norm, or 1-norm with `order=1`), for any parameters and any content of the record; see `clipping`.
    The norms are not protected in any way: what is made of them must be charged.
    """
    if problem.model.factors is not None:
        factors = problem.model.factors(params, batch.x, lambda scores: problem.loss.slope(scores, batch.y))
        return clip_outer(factors, batch.mask, clip_norm, order)

    def record_loss(params: PyTree, x: Array, y: Array) -> Array:
        return problem.loss.value(problem.model.scores(params, x[None]), y[None])[0]

    return clip_per_record(jax.grad(record_loss), params, batch, clip_norm, microbatch, order)


def clipped_sum(
    problem: Problem,
    params: PyTree,
    batch: Batch,
    clip_norm: Array | float,
    order: Order = 2,
    microbatch: int = 64,
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
