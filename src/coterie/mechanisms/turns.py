"""Owners in turn: one owner's part of records stays in a core's cache, the parts of all owners together do not.

`jax.vmap` over owners cuts a part from everyone's records at once. That is right for small batches and for GPUs. Where
owners have many parts, a CPU is faster when it finishes one owner after the other, with both cores on each part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from coterie._types import Array, PyTree
from coterie.mechanisms.clipping import TOGETHER, Clipped, Rows, added_up, even, in_parts, upright


def in_turn(
    clip: Callable[[PyTree, Array, Rows], Clipped],
    size: int,
    careful: bool,
    params: PyTree,
    clip_norm: Array,
    batch: Rows,
) -> Clipped:
    """`in_parts` of clip(params, clip_norm, part), upright; mapped over owners with several parts each, one owner after
    the other.

    Guarantee: that of `clip`, as with `in_parts`: an owner's sum is the same whether it is taken in turn or not.
    """
    rows, most = batch.mask.shape[0], min(size, TOGETHER) if careful else size
    if most >= rows:  # one part is all of it
        return upright(clip(params, clip_norm, batch))
    size = even(rows, most)

    def alone(params: PyTree, clip_norm: Array, batch: Rows) -> Clipped:
        return in_parts(partial(clip, params, clip_norm), batch, size, careful)

    if jax.default_backend() != "cpu":
        return upright(alone(params, clip_norm, batch))
    mapped = custom_vmap(alone)
    mapped.def_vmap(partial(_one_by_one, clip, size, careful))
    return upright(mapped(params, clip_norm, batch))


def _one_by_one(
    clip: Callable, size: int, careful: bool, owners: int, batched: list, *given: PyTree
) -> tuple[Clipped, PyTree]:
    """`batched`: which arrays of `given`, the batch last, have a leading axis of owners. Parts are cut out of those
    directly: one copy, not two."""
    *named, batch = given
    rows = batch.mask.shape[-1]

    def own(owner: Array) -> Clipped:
        def cut(start: Array) -> Rows:
            return jax.tree.map(partial(_part, owner, start, size), batch, batched[-1])

        mine = jax.tree.map(
            lambda leaf, is_batched: leaf[owner] if is_batched else leaf, named, list(batched[:-1])
        )
        return added_up(partial(clip, *mine), cut, rows, size, careful)

    sums = jax.lax.map(own, jnp.arange(owners))
    return sums, jax.tree.map(lambda leaf: True, sums)


def _part(owner: Array, start: Array, size: int, leaf: Array, is_batched: bool) -> Array:
    if not is_batched:
        return jax.lax.dynamic_slice_in_dim(leaf, start, size)
    at = (owner, start, *(0,) * (leaf.ndim - 2))
    return jax.lax.dynamic_slice(leaf, at, (1, size, *leaf.shape[2:]))[0]
