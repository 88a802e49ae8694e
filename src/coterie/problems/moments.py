"""Squared loss of a linear model: all that its gradients need of an owner's records, computed once.

Σ_i w_i x_i (x_iᵀθ − y_i) = G θ − b with G = Σ w_i x_i x_iᵀ and b = Σ w_i x_i y_i: d² numbers instead of the records.
The weights take the place of clipping. A record's gradient is clipped by its norm at θ; a weight bounds it for all
θ of a ball at once, so that G and b never have to be computed again.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array
from coterie.mechanisms import gathering
from coterie.mechanisms.clipping import TOGETHER, Clipped, in_parts
from coterie.program import Batch

_EXACT = jax.lax.Precision.HIGHEST
_TINY = float(jnp.finfo(jnp.float32).tiny)


class Moments(NamedTuple):
    """An owner's weighted second moments: as private as the records."""

    gram: Array  # (dim, dim)
    cross: Array  # (dim, 1)


def moments(
    batch: Batch, clip_norm: Array | float, reach: Array | float, careful: bool = False, mean: bool = False
) -> Moments:
    """Moments of weighted records: one record's part in any gradient at ‖θ‖ <= `reach` is at most `clip_norm`.

    Guarantee: one record changes `gradient_sum(moments, θ)` by at most `clip_norm` in the 2-norm when it is added,
    2 `clip_norm` when replaced, for every θ with ‖θ‖₂ <= `reach`, whatever the record.
    Argument: its term is w x (xᵀθ − y), of norm at most w ‖x‖ (‖x‖ reach + |y|), and w is clip_norm over that where
    it is larger. A record whose bound is no finite number counts for nothing. Rounding is float32's, of Gθ and b, and
    of adding up records, which `careful` bounds (see `clipping`).
    Of units: their records share one w, clip_norm over the sum of their bounds (or their `mean`) where that is larger.
    So a unit's term is a sum of terms that together are no longer than clip_norm, also where they cancel.
    """

    def weigh(part: Batch) -> Clipped:
        return _weighed(part, clip_norm, reach, mean)

    # As many records in a part as `careful` sums have, for each is an addition of its own here.
    part_size = batch.mask.shape[0] if batch.within is None else max(1, TOGETHER // batch.y.shape[1])
    return in_parts(weigh, batch, part_size if careful else batch.mask.shape[0], careful).total


def _weighed(batch: Batch, clip_norm: Array | float, reach: Array | float, mean: bool) -> Clipped:
    units = batch.mask.shape[0]
    rows = gathering.as_records(batch._replace(mask=jnp.ones_like(batch.mask)), mean)
    norm = jnp.sqrt(jnp.vecdot(rows.x, rows.x, precision=_EXACT) + rows.x.shape[1] * _TINY)
    worst = norm * (norm * reach + jnp.abs(rows.y))
    if batch.within is not None:
        worst = jnp.sum(gathering.weighed(worst, rows.mask).reshape(units, -1), axis=1)
    weight = jnp.where(
        jnp.isfinite(worst), batch.mask * jnp.minimum(1.0, clip_norm / jnp.maximum(worst, _TINY)), 0.0
    )
    if batch.within is not None:
        batch, weight = rows, rows.mask * jnp.repeat(weight, batch.y.shape[1])
    counted = weight > 0
    x, y = jnp.where(counted[:, None], batch.x, 0.0), jnp.where(counted, batch.y, 0.0)
    weighted = (x * weight[:, None]).T
    gram = jnp.matmul(weighted, x, precision=_EXACT)
    return Clipped(Moments(gram, jnp.matmul(weighted, y[:, None], precision=_EXACT)), worst)


def gradient_sum(of: Moments, params: Array) -> Array:
    """Σ_i w_i x_i (x_iᵀθ − y_i), with the guarantee of `moments`."""
    return jnp.matmul(of.gram, params, precision=_EXACT) - of.cross
