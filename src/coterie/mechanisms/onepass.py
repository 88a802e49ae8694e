"""Clipped sums of everyone's linear softmax models in one pass over the records: a C function, for simulated owners.

XLA reads a batch three times (it copies a slice, then multiplies with it twice), and its products with few columns do
not fill a processor's vectors. `onepass.c` scores, clips and adds up a few records while they are in the nearest
cache, which is 1.7 times as fast (benchmarks/softmax.py). A model with one output gains nothing by it. The function is
compiled when coterie is installed, for x86-64 with AVX2 or AVX-512. Without a C compiler, or on another processor, XLA
does the same in its own way, and the results agree to float tolerance; `available` says which of the two it is.

Real owners do not use it: their sums are careful (see `clipping`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from coterie._types import Array, PyTree
from coterie.mechanisms import gathering
from coterie.mechanisms.clipping import Clipped, Order, Rows
from coterie.program import Batch

Alone: TypeAlias = Callable[[Array, Array, Rows], Clipped]  # (params, clip_norm, an owner's batch)

_MOST_OUTPUTS = 128  # as in onepass.c
_NEAR = 32  # records at a time, as in onepass.c; a unit of several records has at most so many
_WORTH = 1 << 15  # numbers of a batch: fewer are not worth the call
_PART = 1024  # records of a thread's task: fixed, so that sums do not depend on how many threads there are


@cache
def available() -> str | None:
    """The name that XLA knows the function by; None: not compiled here, or not for this processor."""
    built = find_spec("coterie.mechanisms._onepass")
    if built is None or built.origin is None:
        return None
    library = ctypes.CDLL(built.origin)
    width = library.onepass_vectors()
    return register(library, width) if width else None


def register(library: ctypes.CDLL, width: int) -> str:
    """Tell XLA of the functions for vectors of `width` bytes."""
    for name in ("onepass", "onepass_gram"):
        capsule = jax.ffi.pycapsule(getattr(library, f"{name}_{width}"))
        jax.ffi.register_ffi_target(f"coterie_{name}_{width}", capsule, platform="cpu")
    return f"coterie_onepass_{width}"


def serves(outputs: int, x: Array, units: bool = False) -> bool:
    """Whether everyone's sums of such models, with an owner's batch like `x`, had better be computed so."""
    shaped = x.ndim == 3 and x.shape[1] <= _NEAR if units else x.ndim == 2
    fits = outputs <= _MOST_OUTPUTS and shaped and x.dtype == jnp.float32
    return fits and x.size >= _WORTH and jax.default_backend() == "cpu" and available() is not None


def in_one_pass(
    alone: Alone, order: Order, params: Array, clip_norm: Array, batch: Rows, mean: bool = False
) -> Clipped:
    """alone(params, clip_norm, batch); mapped over owners with records of their own, one call for all of them.

    `batch` has x, y, mask and the norms of x in the norm of `order`. Of units (`within`), for the 2-norm, it has
    `gathering.gram` for norms, and `mean` says whether their records' gradients are averaged.
    Guarantee: that of `clipping`, as the C function clips by the same norms, with the same floors, and a record whose
    norm is none has no weight: it is not multiplied with at all.
    """
    mapped = custom_vmap(alone)
    mapped.def_vmap(partial(_everyones, alone, order, mean))
    return mapped(params, clip_norm, batch)


def gram(batch: Batch) -> Array:
    """`gathering.gram`; mapped over owners with units of their own, one call for all of them.

    Each product is a sum over the features in some order, as the norm of `places` needs it.
    """

    def alone(x: Array, within: Array) -> Array:
        return gathering.gram(Batch(x, x[..., 0], within, within))

    def everyones(owners: int, batched: list, *given: Array) -> tuple[Array, bool]:
        if not batched[0]:
            return jax.vmap(alone, _axes(batched))(*given), True
        whole = custom_vmap(_multiplied)
        whole.def_vmap(
            lambda lanes, batched, *given: (jax.vmap(jax.vmap(alone), _axes(batched))(*given), True)
        )
        return whole(*map(partial(_for_each, owners), given, batched)), True

    mapped = custom_vmap(alone)
    mapped.def_vmap(everyones)
    assert batch.within is not None
    return mapped(batch.x, batch.within)


def _multiplied(x: Array, within: Array) -> Array:
    """(owners, units, k, k)"""
    name = available()
    assert name is not None
    most = x.shape[2]
    shape = jax.ShapeDtypeStruct((*x.shape[:2], most, most), jnp.float32)
    products = jax.ffi.ffi_call(name.replace("onepass", "onepass_gram"), shape)(x)
    there = jnp.arange(most)[None, None, :] < within[..., None]
    return jnp.where(there[..., :, None] & there[..., None, :], products, 0.0)


def _everyones(
    alone: Alone, order: Order, mean: bool, owners: int, batched: list, *given: PyTree
) -> tuple[Clipped, PyTree]:
    """`batched`: which arrays of `given` have a leading axis of owners."""
    if not batched[2].x:  # runs on the same records: one product with all their columns
        sums = jax.vmap(alone, _axes(batched))(*given)
    else:
        whole = custom_vmap(partial(_called, order, mean=mean))
        whole.def_vmap(partial(_side_by_side, alone))
        sums = whole(*jax.tree.map(partial(_for_each, owners), given, tuple(batched)))
    return sums, jax.tree.map(lambda leaf: True, sums)


def _side_by_side(alone: Alone, lanes: int, batched: list, *given: PyTree) -> tuple[Clipped, PyTree]:
    """The sums of many runs, each of everyone."""
    del lanes
    sums = jax.vmap(jax.vmap(alone), _axes(batched))(*given)
    return sums, jax.tree.map(lambda leaf: True, sums)


def _axes(batched: list) -> PyTree:
    return jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))


def _for_each(owners: int, leaf: Array, is_batched: bool) -> Array:
    return leaf if is_batched else jnp.broadcast_to(leaf, (owners, *leaf.shape))


def _called(order: Order, params: Array, clip_norm: Array, batch: Rows, mean: bool = False) -> Clipped:
    """Everything with a leading axis of owners."""
    name = available()
    assert name is not None
    owners, units = batch.mask.shape
    weights = ()
    if batch.within is not None:
        assert order == 2  # the norm of a sum has no other closed form
        laid = jax.vmap(partial(gathering.laid, mean=mean))(Batch(*batch[:4]))
        batch, weights = batch._replace(x=laid.x, y=laid.y), (laid.weight,)
    (_, rows, dim), outputs = batch.x.shape, params.shape[2]
    parts = min(units, -(-rows // _PART))
    shapes = (
        jax.ShapeDtypeStruct((owners, parts, outputs, dim), jnp.float32),
        jax.ShapeDtypeStruct((owners, units), jnp.float32),
    )
    columns, y = params.transpose(0, 2, 1), batch.y.astype(jnp.float32)
    call = jax.ffi.ffi_call(name, shapes)
    sums, norms = call(batch.x, columns, y, batch.mask, batch.norms, clip_norm, jnp.int32(order), *weights)
    return Clipped(jnp.sum(sums, axis=1).transpose(0, 2, 1), norms)
