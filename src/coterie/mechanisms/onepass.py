"""Clipped sums of everyone's linear softmax models in one pass over the records: a C function, for simulated owners.

XLA reads a batch three times (it copies a slice, then multiplies with it twice), and its products with few columns do
not fill a processor's vectors. `onepass.c` scores, clips and adds up a few records while they are in the nearest
cache: 1.7 times as fast (benchmarks/softmax.py); with one column there is nothing to gain. It is compiled when
coterie is installed, for x86-64 with AVX2 or AVX-512; where there is no C compiler or another processor, XLA's products
serve, with the same result to float tolerance (`available` says which).

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
from coterie.mechanisms.clipping import Clipped, Order, Rows

Alone: TypeAlias = Callable[[Array, Array, Rows], Clipped]  # (params, clip_norm, an owner's batch)

_MOST_OUTPUTS = 128  # as in onepass.c
_WORTH = 1 << 15  # numbers of a batch: fewer are not worth the call
_PART = 1024  # records of a task: a sum must follow from shapes, not from the number of threads


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
    """Tell XLA of the function for vectors of `width` bytes."""
    name = f"coterie_onepass_{width}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, f"onepass_{width}")), platform="cpu")
    return name


def serves(outputs: int, x: Array) -> bool:
    """Whether everyone's sums of such models, with an owner's batch like `x`, had better be computed so."""
    fits = outputs <= _MOST_OUTPUTS and x.ndim == 2 and x.dtype == jnp.float32
    return fits and x.size >= _WORTH and jax.default_backend() == "cpu" and available() is not None


def in_one_pass(alone: Alone, order: Order, params: Array, clip_norm: Array, batch: Rows) -> Clipped:
    """alone(params, clip_norm, batch); mapped over owners with records of their own, one call for all of them.

    `batch` has x, y, mask and the norms of x in the norm of `order`.
    Guarantee: that of `clipping`, as the C function clips by the same norms, with the same floors, and a record whose
    norm is none has no weight: it is not multiplied with at all.
    """
    mapped = custom_vmap(alone)
    mapped.def_vmap(partial(_everyones, alone, order))
    return mapped(params, clip_norm, batch)


def _everyones(alone: Alone, order: Order, owners: int, many: list, *given: PyTree) -> tuple[Clipped, PyTree]:
    """`many`: which arrays of `given` have a leading axis of owners."""
    if not many[2].x:  # runs on the same records: one product with all their columns
        found = jax.vmap(alone, _axes(many))(*given)
    else:
        whole = custom_vmap(partial(_called, order))
        whole.def_vmap(partial(_side_by_side, alone))
        found = whole(*jax.tree.map(partial(_for_each, owners), given, tuple(many)))
    return found, jax.tree.map(lambda leaf: True, found)


def _side_by_side(alone: Alone, lanes: int, many: list, *given: PyTree) -> tuple[Clipped, PyTree]:
    """Many runs of everyone."""
    del lanes
    found = jax.vmap(jax.vmap(alone), _axes(many))(*given)
    return found, jax.tree.map(lambda leaf: True, found)


def _axes(many: list) -> PyTree:
    return jax.tree.map(lambda each: 0 if each else None, tuple(many))


def _for_each(owners: int, leaf: Array, each: bool) -> Array:
    return leaf if each else jnp.broadcast_to(leaf, (owners, *leaf.shape))


def _called(order: Order, params: Array, clip_norm: Array, batch: Rows) -> Clipped:
    """Everything with a leading axis of owners."""
    name = available()
    assert name is not None
    (owners, rows, dim), outputs = batch.x.shape, params.shape[2]
    parts = -(-rows // _PART)
    shapes = (
        jax.ShapeDtypeStruct((owners, parts, outputs, dim), jnp.float32),
        jax.ShapeDtypeStruct((owners, rows), jnp.float32),
    )
    columns, y = params.transpose(0, 2, 1), batch.y.astype(jnp.float32)
    call = jax.ffi.ffi_call(name, shapes)
    sums, norms = call(batch.x, columns, y, batch.mask, batch.norms, clip_norm, jnp.int32(order))
    return Clipped(jnp.sum(sums, axis=1).transpose(0, 2, 1), norms)
