"""Sums of clipped per-record gradients: a clipped sum knows its sensitivity.

Guarantee (every function): one record changes the sum by at most `clip_norm` when it is added or removed, and
by at most 2 `clip_norm` when it is replaced, in the 2-norm for `order=2` and in the 1-norm for `order=1`.
Argument: the sum is Σ g_i with ‖g_i‖ <= clip_norm for every record whatever its content; adding one adds one
such term, replacing one exchanges a term for another, and the triangle inequality gives twice the bound.

The bound holds for hostile records too. A record whose gradient norm is not a finite float32 number (NaN,
infinity, overflow) contributes zero. Squares that underflow are paid for by a floor in the norm, so that a
gradient made of tiny features and a huge slope is not mistaken for zero. What remains is float32 rounding:
each term may exceed `clip_norm` by a relative 1e-5, and the sum carries the rounding of its own magnitude.
Products are asked for at full float32 precision: accelerators otherwise round their factors to ten bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.program import Batch

Order: TypeAlias = Literal[1, 2]
Relation: TypeAlias = Literal["add_remove", "replace_one"]

_TINY = float(jnp.finfo(jnp.float32).tiny)  # the most that one underflowed square or absolute value can hide


def sensitivity(clip_norm: float, relation: Relation = "replace_one") -> float:
    """The most that one record changes a clipped sum, in the norm it was clipped in.

    >>> sensitivity(0.5), sensitivity(0.5, "add_remove")
    (1.0, 0.5)
    """
    return clip_norm * {"add_remove": 1.0, "replace_one": 2.0}[relation]


class Clipped(NamedTuple):
    """A clipped sum, and each record's norm before clipping: private, as the records are."""

    total: PyTree
    norms: Array  # (rows,)


class Outer(NamedTuple):
    """One array's gradient for each record: inputs ⊗ slopes, or the slopes alone where inputs is None."""

    inputs: Array | None  # (rows, fan_in)
    slopes: Array  # (rows, fan_out)


def clip_linear(x: Array, slopes: Array, mask: Array, clip_norm: Array | float, order: Order = 2) -> Array:
    """Σ_i mask_i clip(x_i slope_iᵀ): x (rows, dim), slopes (rows, outputs) -> (dim, outputs)."""
    return clip_outer(Outer(x, slopes), mask, clip_norm, order).total


def clip_outer(factors: PyTree, mask: Array, clip_norm: Array | float, order: Order = 2) -> Clipped:
    """Σ_i mask_i clip(gradient of record i); `factors`: a tree like the parameters, an `Outer` an array.

    The norm of an outer product is the product of the norms (Frobenius for 2, entrywise for 1), so no
    per-record gradient is ever formed: one matrix product an array does it all. Guarantee: see the module.
    """
    leaves = jax.tree.leaves(factors, is_leaf=_is_outer)
    norms = _joined([_outer_norm(leaf, order) for leaf in leaves], order)
    factor = _factor(norms, mask, clip_norm)[:, None]
    kept = factor > 0

    def add_up(leaf: Outer) -> Array:
        weighted = jnp.where(kept, leaf.slopes * factor, 0.0)  # where, as zero times NaN is NaN
        if leaf.inputs is None:
            return jnp.sum(weighted, axis=0)
        return jnp.matmul(jnp.where(kept, leaf.inputs, 0.0).T, weighted, precision=jax.lax.Precision.HIGHEST)

    return Clipped(jax.tree.map(add_up, factors, is_leaf=_is_outer), norms)


def clip_per_record(
    gradient: Callable[[PyTree, Array, Array], PyTree],
    params: PyTree,
    batch: Batch,
    clip_norm: Array | float,
    microbatch: int = 64,
    order: Order = 2,
) -> Clipped:
    """Σ_i mask_i clip(gradient(params, x_i, y_i)), with `microbatch` gradients in memory at a time.

    `gradient` sees one record alone: (params, x (...), y ()) -> a tree like params.
    Guarantee: see the module.
    """
    per_record = jax.vmap(gradient, in_axes=(None, 0, 0))

    def add(total: PyTree, part: Batch) -> tuple[PyTree, Array]:
        gradients = per_record(params, part.x, part.y)
        norms = _tree_norm(gradients, order)
        factor = _factor(norms, part.mask, clip_norm)
        return jax.tree.map(lambda sum_, leaf: sum_ + _weighted_sum(factor, leaf), total, gradients), norms

    zero = jax.tree.map(jnp.zeros_like, params)
    total, norms = jax.lax.scan(add, zero, _in_parts(batch, microbatch))
    return Clipped(total, norms.reshape(-1)[: batch.mask.shape[0]])


def clip_whole(gradient: PyTree, clip_norm: Array | float, order: Order = 2) -> Clipped:
    """clip(gradient) of a whole batch, as if it were one record's; `norms` has its one norm.

    Guarantee: the result's norm is at most `clip_norm`, so replacing any records of the batch moves it by at most
    2 `clip_norm`. Adding or removing one does too: for batches of a fixed, public size only.
    """
    norms = _tree_norm(jax.tree.map(lambda leaf: leaf[None], gradient), order)
    factor = _factor(norms, jnp.ones(1, jnp.float32), clip_norm)[0]
    return Clipped(jax.tree.map(lambda leaf: jnp.where(factor > 0, factor * leaf, 0.0), gradient), norms)


def _factor(norm: Array, mask: Array, clip_norm: Array | float) -> Array:
    """What a record is multiplied with: min(1, clip_norm / norm), and zero where the norm is no number."""
    factor = jnp.minimum(1.0, clip_norm / jnp.maximum(norm, _TINY))
    return jnp.where(jnp.isfinite(norm), mask * factor, 0.0)


def _row_norm(rows: Array, order: Order) -> Array:
    """The floor is for what underflows. A product, not a sum of squares: XLA has faster code for it on a CPU."""
    floor = rows.shape[1] * _TINY
    if order == 1:
        return jnp.sum(jnp.abs(rows), axis=1) + floor
    return jnp.sqrt(jnp.vecdot(rows, rows, precision=jax.lax.Precision.HIGHEST) + floor)


def _is_outer(node: PyTree) -> bool:
    return isinstance(node, Outer)


def _outer_norm(leaf: Outer, order: Order) -> Array:
    slopes = _row_norm(leaf.slopes, order)
    return slopes if leaf.inputs is None else _row_norm(leaf.inputs, order) * slopes


def _joined(norms: list[Array], order: Order) -> Array:
    """The norm of several arrays together, relative to the largest: squares neither overflow nor vanish."""
    each = jnp.stack(norms)
    if order == 1:
        return jnp.sum(each, axis=0)
    largest = jnp.maximum(jnp.max(each, axis=0), _TINY)
    return largest * jnp.sqrt(jnp.sum(jnp.square(each / largest[None]), axis=0))


def _tree_norm(gradients: PyTree, order: Order) -> Array:
    """Array by array: all of them side by side would be a second copy of the gradients."""
    rows = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(gradients)]
    return _joined([_row_norm(leaf, order) for leaf in rows], order)


def _weighted_sum(factor: Array, leaf: Array) -> Array:
    flat = jnp.where(factor[:, None] > 0, leaf.reshape(leaf.shape[0], -1), 0.0)
    return jnp.matmul(factor, flat, precision=jax.lax.Precision.HIGHEST).reshape(leaf.shape[1:])


def _in_parts(batch: Batch, size: int) -> Batch:
    """(rows, ...) -> (parts, size, ...), filled up with masked rows."""
    rows = batch.mask.shape[0]
    size = min(size, rows)
    fill = -rows % size

    def split(leaf: Array) -> Array:
        padded = jnp.pad(leaf, [(0, fill)] + [(0, 0)] * (leaf.ndim - 1))
        return padded.reshape(-1, size, *leaf.shape[1:])

    return jax.tree.map(split, batch)
