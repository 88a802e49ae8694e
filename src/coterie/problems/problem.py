"""What is learnt: a model, a loss and a penalty, and the one private quantity that protocols release."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.mechanisms import gathering, onepass, places
from coterie.mechanisms.clipping import (
    Clipped,
    KnownInputs,
    Order,
    clip_outer,
    clip_per_record,
    clip_whole,
    finite,
    in_parts,
    is_factor,
    row_norms,
)
from coterie.mechanisms.turns import in_turn
from coterie.problems.losses import Loss, softmax
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
    # Of units: their records' gradients are averaged before they are clipped, not added up.
    mean: bool = False


class _Measured(NamedTuple):
    """A batch, and the norms of its features."""

    x: Array
    y: Array
    mask: Array
    within: Array | None
    norms: Array | None  # of units, `gathering.gram`


def clipped(
    problem: Problem,
    params: PyTree,
    batch: Batch,
    clip_norm: Array | float,
    order: Order = 2,
) -> Clipped:
    """Σ over the batch of mask · clip(gradient of the record's loss), and all records' norms.

    The penalty has no part in it. Models with `factors` take the closed form (one matrix product a layer);
    others form each record's gradient. Either way `microbatch` records at a time: the problem's, else
    the model's, else as many as stay in cache (closed form) or 64.

    Guarantee: one record changes the sum by at most `clip_norm` when added, 2 `clip_norm` when replaced
    (2-norm, or 1-norm with `order=1`), for any parameters and any content of the record; see `clipping`.
    That is up to rounding, which only a `careful` problem bounds. The norms are not protected in any way: what is
    made of them must be charged.

    Of units (`batch.within`): Σ of clip(Σ over the unit's records of their gradients, or their mean), and all units'
    norms, with the same guarantee for a unit in a record's place.
    """
    size = problem.microbatch or problem.model.microbatch
    if batch.within is not None:
        return _clipped_units(problem, params, batch, clip_norm, order, size)
    if problem.model.factors is not None:
        layers = problem.model.factors

        def clip(params: PyTree, clip_norm: Array, part: _Measured) -> Clipped:
            x = finite(part.x)
            factors = layers(params, x, lambda scores: problem.loss.slope(scores, part.y))
            assert part.norms is not None
            known = KnownInputs(x, part.norms)
            return clip_outer(factors, part.mask, clip_norm, order, known, problem.careful)

        size = size or max(_LEAST, _CACHED // math.prod(batch.x.shape[1:]))
        # All at once: where an owner's records are the same in all rounds, XLA does it once for all of them.
        norms = row_norms(batch.x, order)
        measured, bound = _Measured(*batch, norms=norms), jnp.asarray(clip_norm, jnp.float32)
        closed = partial(in_turn, clip, size, problem.careful)
        if _plain(problem) and onepass.serves(problem.model.outputs, batch.x):
            return onepass.in_one_pass(closed, order, params, bound, measured)
        return closed(params, bound, measured)

    def record_loss(params: PyTree, x: Array, y: Array) -> Array:
        return problem.loss.value(problem.model.scores(params, x[None]), y[None])[0]

    gradient = partial(jax.grad(record_loss), params)
    return clip_per_record(gradient, batch, clip_norm, size or _GRADIENTS, order, problem.careful)


def _clipped_units(
    problem: Problem, params: PyTree, batch: Batch, clip_norm: Array | float, order: Order, size: int | None
) -> Clipped:
    """`clipped` of units; `size`: records at a time. A unit too large to stay in cache is added up in parts."""
    most, width = batch.y.shape[1], math.prod(batch.x.shape[2:])
    layers = problem.model.factors
    if layers is None or most * width > _CACHED:
        batch = batch._replace(mask=batch.mask * gathering.numbers(batch))
        at_once = max(1, (size or _GRADIENTS) // most)
        gradient = partial(_unit_gradient, problem, size or max(_LEAST, _CACHED // width), params)
        return clip_per_record(gradient, batch, clip_norm, at_once, order, problem.careful)

    def clip(params: PyTree, clip_norm: Array, part: _Measured) -> Clipped:
        units, laid = part.mask.shape[0], gathering.laid(Batch(*part[:4]), problem.mean)
        # A linear model's slopes are zero where there is no record, whatever its features are, if they are numbers.
        x = finite(laid.x) if problem.model.is_linear else gathering.features(laid)
        by_unit = x.reshape(units, most, -1)
        factors = layers(
            params, x, lambda scores: gathering.weighed(problem.loss.slope(scores, laid.y), laid.weight)
        )
        factors = jax.tree.map(
            lambda leaf: gathering.gathered(leaf, units, x, by_unit), factors, is_leaf=is_factor
        )
        known = None if part.norms is None else KnownInputs(by_unit, part.norms)
        return clip_outer(factors, part.mask, clip_norm, order, known, problem.careful)

    # All at once, as norms of records are: once for all rounds where the records are the same in all of them.
    broadest = max(leaf.size for leaf in jax.tree.leaves(params)) // width
    ghost = order == 2 and not problem.careful and places.pays(most, width, broadest)
    served = ghost and _plain(problem) and onepass.serves(problem.model.outputs, batch.x, units=True)
    gram = (onepass.gram(batch) if served else gathering.gram(batch)) if ghost else None
    fine = gathering.numbers(batch) if gram is None else gathering.measured(gram)
    measured = _Measured(*batch._replace(mask=batch.mask * fine), norms=gram)
    at_once = max(1, size // most) if size else max(-(-_LEAST // most), _CACHED // (most * width))
    bound = jnp.asarray(clip_norm, jnp.float32)
    closed = partial(in_turn, clip, at_once, problem.careful)
    if served:
        return onepass.in_one_pass(closed, order, params, bound, measured, problem.mean)
    return closed(params, bound, measured)


def _plain(problem: Problem) -> bool:
    """Whether the C function serves this problem: its slopes are those of `softmax`, and of no loss like it."""
    is_softmax = problem.loss.outputs > 1 and problem.loss is softmax(problem.loss.outputs)
    return problem.model.is_linear and is_softmax and not problem.careful


def _unit_gradient(problem: Problem, size: int, params: PyTree, x: Array, y: Array, within: Array) -> PyTree:
    """The sum, or the mean, of the gradients of one unit's records, formed: `size` of them at a time."""
    records = gathering.as_records(Batch(x[None], y[None], jnp.ones(1), within[None]), problem.mean)

    def add_up(part: Batch) -> Clipped:
        def summed_loss(params: PyTree) -> Array:
            losses = problem.loss.value(problem.model.scores(params, part.x), part.y)
            return jnp.sum(gathering.weighed(losses, part.mask))

        return Clipped(jax.grad(summed_loss)(params), part.mask)

    return in_parts(add_up, records, size).total


def clipped_sum(
    problem: Problem, params: PyTree, batch: Batch, clip_norm: Array | float, order: Order = 2
) -> PyTree:
    """The sum of `clipped` alone, with its guarantee."""
    return clipped(problem, params, batch, clip_norm, order).total


def clipped_mean(problem: Problem, params: PyTree, batch: Batch, clip_norm: Array | float) -> Clipped:
    """clip(mean over the batch of the gradient of the record's loss): one backward pass, clipped as a whole.

    Guarantee: replacing one record, or all, moves it by at most 2 `clip_norm`; the mean is over the batch's public
    length. A record's share of it is not bounded by anything smaller, whatever the batch: see `clip_whole`. Of units
    it is the mean of their sums, or of their means, and what is said of a record holds for a unit.
    """

    rows = gathering.as_records(batch, problem.mean)

    def mean_loss(params: PyTree) -> Array:
        losses = problem.loss.value(problem.model.scores(params, rows.x), rows.y)
        if batch.within is None:
            return jnp.mean(jnp.where(batch.mask > 0, losses, 0.0))
        return jnp.sum(gathering.weighed(losses, rows.mask)) / batch.mask.shape[0]

    return clip_whole(jax.grad(mean_loss)(params), clip_norm)


def clip_norm(problem: Problem, feature_norm: float) -> float:
    """What a record's gradient is clipped to, where features have norm at most `feature_norm`: its bound, else 1.

    Guarantee: where a bound is known, clipping at it changes nothing for a linear model with targets in the table's
    coding. Argument: ‖x slopeᵀ‖ = ‖x‖ ‖slope‖ <= feature_norm × Lipschitz constant. Other models have no bound.
    """
    bound = problem.loss.lipschitz * feature_norm if problem.model.is_linear else math.inf
    return bound if math.isfinite(bound) else 1.0


def objective(problem: Problem, params: PyTree, batch: Batch) -> Array:
    """Mean loss over the masked records plus the penalty. Reads records: oracle, never part of a release."""
    batch = gathering.as_records(batch)
    losses = problem.loss.value(problem.model.scores(params, batch.x), batch.y)
    total = jnp.sum(jnp.where(batch.mask > 0, losses, 0.0))
    return total / jnp.maximum(jnp.sum(batch.mask), 1.0) + problem.penalty.value(params)
