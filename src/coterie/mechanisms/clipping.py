"""Sums of clipped per-record gradients: a clipped sum knows its sensitivity.

Guarantee (every function): one record changes the sum by at most `clip_norm` when it is added or removed, and
by at most 2 `clip_norm` when it is replaced, in the 2-norm for `order=2` and in the 1-norm for `order=1`.
Argument: the sum is Σ g_i with ‖g_i‖ <= clip_norm for every record whatever its content; adding one adds one
such term, replacing one exchanges a term for another, and the triangle inequality gives twice the bound.

The bound holds for hostile records too. A record whose gradient norm is not a float32 number below 1e38 (NaN,
infinity, overflow) contributes zero. Squares that underflow are paid for by a floor in the norm, so that a
gradient made of tiny features and a huge slope is not mistaken for zero.

What remains is float32 rounding. Each term may exceed `clip_norm` by a part in 2²⁴ / d, with d numbers in it; and
adding up m records rounds by up to m² 2⁻²⁴ `clip_norm`, differently for neighbours: hostile records have moved a sum
of 32,768 nine times as far as the bound allows (the attack of Casacuberta, Shoemate, Vadhan & Wagaman 2022, see
`test_careful_sums`). `careful` sums add up `TOGETHER` records at a time and those parts without loss, and
`noise.rounding_slack` pays for what is left: so do real owners. A simulation, whose noise protects nobody, need not.
Sums over the places of a record (`places`), and over the records of a unit (`gathering`), cancel, so they pay for
their rounding by themselves. Where a unit of several records takes a record's place, read unit for record above.
Products are asked for at full float32 precision: accelerators otherwise round their factors to ten bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.mechanisms import places
from coterie.mechanisms.places import Places
from coterie.program import Batch

Order: TypeAlias = Literal[1, 2]
Rows: TypeAlias = Any  # a `Batch`, or a tuple of a batch's arrays and more

_TINY = float(jnp.finfo(jnp.float32).tiny)  # the most that one underflowed square or absolute value can hide
_HUGE = 1e38  # a norm from here on is taken for none

TOGETHER = 128  # records that a real owner adds up in one go
_BROAD = 64  # outputs of a layer from which on its product need not lie on its side (measured with 32 to 600 records)


class Clipped(NamedTuple):
    """A clipped sum, and each record's norm before clipping: private, as the records are."""

    total: PyTree
    norms: Array  # (rows,)


class Outer(NamedTuple):
    """One array's gradient for each record: inputs ⊗ slopes, or the slopes alone where inputs is None."""

    inputs: Array | None  # (rows, fan_in)
    slopes: Array  # (rows, fan_out); alone, of any shape, float32 or bfloat16


class Lying(NamedTuple):
    """A matrix on its side: the transpose of what it stands for, until `upright`."""

    matrix: Array


class KnownInputs(NamedTuple):
    """Inputs that `finite` was applied to, and their norms: what need not be computed again."""

    inputs: Array
    norms: Array  # (rows,); of `Places`, their `gram`


def clip_outer(
    factors: PyTree,
    mask: Array,
    clip_norm: Array | float,
    order: Order = 2,
    known: KnownInputs | None = None,
    careful: bool = False,
) -> Clipped:
    """Σ_i mask_i clip(gradient of record i); `factors`: a tree like the parameters, `Outer` or `Places` an array.

    The norm of an outer product is the product of the norms (Frobenius for 2, entrywise for 1), so no
    per-record gradient is ever formed: one matrix product an array does it all. Guarantee: see the module.
    `known`: the inputs of some of them. Narrow matrices of the total are `Lying`, until `upright`.
    Gradients of `Places` are formed where `careful` needs them (see `places`), and for the 1-norm, which has no closed
    form there.
    """
    old = known.inputs if known is not None else None
    leaves, tree = jax.tree.flatten(factors, is_leaf=is_factor)
    leaves, leaf_norms = zip(*(_measured(leaf, order, known, careful or order == 1) for leaf in leaves))
    norms = _joined(leaf_norms, order)
    factor = _factor(norms, mask, clip_norm)[:, None]
    return Clipped(tree.unflatten([_outer_sum(old, factor, leaf) for leaf in leaves]), norms)


def _outer_sum(old: Array | None, factor: Array, leaf: Outer | Places) -> Array | Lying:
    """The sum of one array's gradients, each times its factor (rows, 1)."""
    if isinstance(leaf, Places):
        if leaf.inputs is not old:
            return places.weighted_sum(leaf, factor[:, 0])
        # A unit's records one after the other, as if each were a unit: the sums are added up in any order.
        factor = jnp.repeat(factor, leaf.slopes.shape[1], axis=0)
        leaf = Outer(*(part.reshape(len(factor), -1) for part in leaf))
    if leaf.inputs is None:
        slopes = leaf.slopes.reshape(leaf.slopes.shape[0], -1).astype(jnp.float32)
        weighted = jnp.where(factor > 0, slopes * factor, 0.0)  # where, as zero times NaN is NaN
        return jnp.sum(weighted, axis=0).reshape(leaf.slopes.shape[1:])
    weighted = jnp.where(factor > 0, leaf.slopes * factor, 0.0)
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    if weighted.shape[1] >= _BROAD:
        return product(leaf.inputs.T, weighted)
    # This way round, as a CPU multiplies with a short left factor four times as fast as with a short right one,
    # and stored so, which is worth two times; without the barrier XLA would turn it back.
    return Lying(product(jax.lax.optimization_barrier(weighted.T), leaf.inputs))


def upright(clipped: Clipped) -> Clipped:
    """A sum of `clip_outer` with its matrices as the parameters have them. Once, after all parts were added."""
    total = jax.tree.map(
        lambda leaf: jax.lax.optimization_barrier(leaf.matrix).T if isinstance(leaf, Lying) else leaf,
        clipped.total,
        is_leaf=lambda node: isinstance(node, Lying),
    )
    return clipped._replace(total=total)


def clip_per_record(
    gradient: Callable[..., PyTree],
    batch: Batch,
    clip_norm: Array | float,
    microbatch: int = 64,
    order: Order = 2,
    careful: bool = False,
) -> Clipped:
    """Σ_i mask_i clip(gradient(x_i, y_i)), with `microbatch` gradients in memory at a time.

    `gradient` sees one record alone: (x (...), y ()) -> a tree like the parameters. Or one unit, and how many of its
    places hold a record: (x (k, ...), y (k,), within ()).
    Guarantee: see the module.
    """

    def clip(part: Batch) -> Clipped:
        rows = (part.x, part.y) if part.within is None else (part.x, part.y, part.within)
        gradients = jax.vmap(gradient)(*rows)
        norms = _tree_norm(gradients, order)
        factor = _factor(norms, part.mask, clip_norm)
        return Clipped(jax.tree.map(partial(_weighted_sum, factor), gradients), norms)

    return in_parts(clip, batch, microbatch, careful)


def in_parts(clip: Callable[[Rows], Clipped], batch: Rows, size: int, careful: bool = False) -> Clipped:
    """`clip` of the batch, `size` records at a time: memory is bounded by the parts, and so is time, in cache.

    Guarantee: that of `clip`. Each record is in one part; the last part starts early, with those before it masked.
    `careful`: parts are no larger than `TOGETHER` and are added without loss. As only the part with the replaced
    record changes, rounding moves neighbours apart within that part alone.
    """
    rows, most = batch.mask.shape[0], min(size, TOGETHER) if careful else size
    if most >= rows:
        return clip(batch)
    size = even(rows, most)

    def cut(start: Array) -> Rows:
        return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), batch)

    return added_up(clip, cut, rows, size, careful)


def even(rows: int, most: int) -> int:
    """Records of a part where as few parts as can be, none larger than `most`, are of like size.

    >>> even(1000, 300), even(1000, 1001)
    (250, 1000)
    """
    return -(-rows // -(-rows // most))


def added_up(
    clip: Callable[[Rows], Clipped], cut: Callable[[Array], Rows], rows: int, size: int, careful: bool
) -> Clipped:
    """What `in_parts` does with more than one part; `cut(start)`: the `size` records from there."""

    def add(index: Array, so_far: tuple[Clipped, PyTree]) -> tuple[Clipped, PyTree]:
        (total, norms), rest = so_far
        start = jnp.minimum(index * size, rows - size)
        part = cut(start)
        new = start + jnp.arange(size) >= index * size
        clipped = clip(part._replace(mask=jnp.where(new, part.mask, 0.0)))
        norms = jax.lax.dynamic_update_slice_in_dim(norms, clipped.norms, start, 0)
        if careful:
            total, rest = _added(total, rest, clipped.total)
        else:
            total = jax.tree.map(jnp.add, total, clipped.total)
        return Clipped(total, norms), rest

    like = jax.eval_shape(lambda: clip(cut(jnp.int32(0)))).total
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    nothing = Clipped(zero, jnp.zeros(rows, jnp.float32)), zero if careful else ()
    (total, norms), _ = jax.lax.fori_loop(0, -(-rows // size), add, nothing)
    return Clipped(total, norms)


def _added(total: PyTree, rest: PyTree, more: PyTree) -> tuple[PyTree, PyTree]:
    """total + rest + more, as a sum in float32 and what it lacks: twice the digits.

    Adding p parts so is wrong by at most p 2⁻⁴⁷ of the largest sum on the way.
    """
    higher = jax.tree.map(jnp.add, total, more)
    rest = jax.tree.map(lambda missing, *sums: missing + _lost(*sums), rest, total, more, higher)
    whole = jax.tree.map(jnp.add, higher, rest)
    return whole, jax.tree.map(_lost, higher, rest, whole)


def _lost(first: Array, second: Array, total: Array) -> Array:
    """What rounding took from first + second, exactly (Knuth 1969, section 4.2.2, Theorem B)."""
    part = total - first
    return (first - (total - part)) + (second - part)


def finite(rows: Array) -> Array:
    """Rows with the largest finite number in place of NaN and infinity.

    The norm of such a row overflows, so that its factor is 0 and it adds nothing; and 0 times a finite number is 0,
    where 0 times NaN or infinity would be NaN and spoil the whole sum.
    """
    return jnp.where(jnp.isfinite(rows), rows, float(jnp.finfo(rows.dtype).max))


def clip_whole(gradient: PyTree, clip_norm: Array | float) -> Clipped:
    """clip(gradient) of a whole batch, as if it were one record's; `norms` has its one norm.

    Guarantee: the result's 2-norm is at most `clip_norm`, so replacing any records of the batch moves it by at most
    2 `clip_norm`. Adding or removing one does too: for batches of a fixed, public size only.
    """
    norms = _tree_norm(jax.tree.map(lambda leaf: leaf[None], gradient), 2)
    factor = _factor(norms, jnp.ones(1, jnp.float32), clip_norm)[0]
    return Clipped(jax.tree.map(lambda leaf: jnp.where(factor > 0, factor * leaf, 0.0), gradient), norms)


def _factor(norm: Array, mask: Array, clip_norm: Array | float) -> Array:
    """What a record is multiplied with: min(1, clip_norm / norm), and zero where the norm is none."""
    factor = jnp.minimum(1.0, clip_norm / jnp.maximum(norm, _TINY))
    return jnp.where(norm < _HUGE, mask * factor, 0.0)  # not where NaN


def row_norms(rows: Array, order: Order) -> Array:
    """(rows,) norms of rows of any shape, in float32; the floor is for what underflows.

    XLA has faster code for a product than for a sum of squares.
    """
    rows = rows.reshape(rows.shape[0], -1).astype(jnp.float32)
    floor = rows.shape[1] * _TINY
    if order == 1:
        return jnp.sum(jnp.abs(rows), axis=1) + floor
    return jnp.sqrt(jnp.vecdot(rows, rows, precision=jax.lax.Precision.HIGHEST) + floor)


def is_factor(node: PyTree) -> bool:
    """Whether this is one array's gradients, where a tree of them is gone through."""
    return isinstance(node, Outer | Places)


def _measured(
    leaf: Outer | Places, order: Order, known: KnownInputs | None, form: bool
) -> tuple[Outer | Places, Array]:
    """One array's gradients, fit for a sum, and their norms (rows,); `form`: those of `Places` are formed.

    Inputs are `finite`, and what norm and sum read in turn is the same array, in memory.
    """
    given = known.norms if known is not None and leaf.inputs is known.inputs else None
    if isinstance(leaf, Places) and not form:
        if given is None:
            leaf = places.settled(leaf)
        else:  # known inputs lie in memory already, and no number of theirs is rounded on the way
            leaf = leaf._replace(slopes=jax.lax.optimization_barrier(leaf.slopes))
        return leaf, places.norms(leaf, given)
    if isinstance(leaf, Places):
        leaf = Outer(None, places.formed(leaf))
    elif leaf.inputs is None and leaf.slopes.ndim != 2:
        leaf = Outer(None, jax.lax.optimization_barrier(leaf.slopes))
    elif leaf.inputs is not None and given is None:
        leaf = leaf._replace(inputs=finite(leaf.inputs))
    norms = row_norms(leaf.slopes, order)
    if leaf.inputs is None:
        return leaf, norms
    return leaf, (row_norms(leaf.inputs, order) if given is None else given) * norms


def _joined(norms: Sequence[Array], order: Order) -> Array:
    """The norm of several arrays together, relative to the largest: squares neither overflow nor vanish."""
    if len(norms) == 1:
        return norms[0]
    stacked = jnp.stack(norms)
    if order == 1:
        return jnp.sum(stacked, axis=0)
    largest = jnp.maximum(jnp.max(stacked, axis=0), _TINY)
    return largest * jnp.sqrt(jnp.sum(jnp.square(stacked / largest[None]), axis=0))


def _tree_norm(gradients: PyTree, order: Order) -> Array:
    """Array by array: all of them side by side would be a second copy of the gradients."""
    return _joined([row_norms(leaf, order) for leaf in jax.tree.leaves(gradients)], order)


def _weighted_sum(factor: Array, leaf: Array) -> Array:
    flat = jnp.where(factor[:, None] > 0, leaf.reshape(leaf.shape[0], -1), 0.0)
    return jnp.matmul(factor, flat, precision=jax.lax.Precision.HIGHEST).reshape(leaf.shape[1:])
