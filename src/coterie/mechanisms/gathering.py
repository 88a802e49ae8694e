"""Units of several records (`coterie.units`): their gradients are added up, and each unit's sum is clipped as one.

A unit is to its records what a record is to the places of a convolution: with inputs a_t and slopes g_t of its record
t, its gradient is G = Σ_t a_t ⊗ g_t, and `places` has the norm of G without G. Where G is the cheaper one it is formed.

Guarantee: what a unit adds to a sum is no longer than `clip_norm`, whatever its records are and however many; it is
zero where one of them is no number, and what fills the places without a record is never seen.
Argument: a unit's norm is that of `places`, which pays for what cancels among its records, or that of the very G that
is added. Where there is no record, features are numbers and the slope is exactly zero, which adds exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array
from coterie.mechanisms import places
from coterie.mechanisms.clipping import Outer, finite
from coterie.mechanisms.places import Places
from coterie.program import Batch


class Laid(NamedTuple):
    """Records of several units, one after the other: k for each unit."""

    x: Array  # (units × k, ...)
    y: Array  # (units × k,)
    weight: Array  # (units × k,) what a record's slope is multiplied with; 0.0: no record there


def real(batch: Batch) -> Array:
    """(units, k) bool: which places hold a record."""
    assert batch.within is not None
    return jnp.arange(batch.y.shape[1])[None, :] < batch.within[:, None]


def laid(batch: Batch, mean: bool) -> Laid:
    """A batch of units as records, each with its weight in the unit's sum, or in its mean; padding as it is."""
    assert batch.within is not None
    there = real(batch)
    weight = there.astype(jnp.float32)
    if mean:
        weight = weight / jnp.maximum(batch.within, 1).astype(jnp.float32)[:, None]
    y = jnp.where(there, batch.y, batch.y[:, :1])
    return Laid(batch.x.reshape(-1, *batch.x.shape[2:]), y.reshape(-1), weight.reshape(-1))


def features(of: Laid) -> Array:
    """(units × k, ...) finite features, zero where there is no record: then all values of a network are finite, too."""
    there = of.weight.reshape(-1, *(1,) * (of.x.ndim - 1)) > 0
    return jnp.where(there, finite(of.x), jnp.zeros((), of.x.dtype))


def as_records(batch: Batch, mean: bool = False) -> Batch:
    """One record a row, as it is where units are records; the mask has each record's weight in its unit's sum."""
    if batch.within is None:
        return batch
    there = real(batch)
    # The unit's first record where there is none: whatever a model of one's own makes of a record, it can of this one.
    x = jnp.where(there.reshape(*there.shape, *(1,) * (batch.x.ndim - 2)), batch.x, batch.x[:, :1])
    records = laid(batch._replace(x=x), mean)
    mask = jnp.repeat(batch.mask, batch.y.shape[1])
    return Batch(records.x, records.y, mask * records.weight.astype(mask.dtype))


def weighed(values: Array, weight: Array) -> Array:
    """Each record's row times its weight; zero, not a number times zero, where there is no record."""
    weight = weight.reshape(-1, *(1,) * (values.ndim - 1))
    return jnp.where(weight > 0, values * weight.astype(values.dtype), jnp.zeros_like(values))


def numbers(batch: Batch) -> Array:
    """(units,) 1.0 where all features of a unit's records are finite, else 0.0."""
    there = real(batch)
    bad = ~jnp.isfinite(batch.x.reshape(*there.shape, -1)).all(axis=2)
    return 1.0 - jnp.any(there & bad, axis=1).astype(jnp.float32)


def measured(products: Array) -> Array:
    """(units,) 1.0 where all of a unit's `gram` is below infinity: then so are its features; else 0.0."""
    return jnp.isfinite(jnp.sum(products, axis=(1, 2))).astype(jnp.float32)


def gram(batch: Batch) -> Array:
    """(units, k, k) products of the features of each unit's records, zero where there is no record."""
    there = real(batch)
    products = places.gram(batch.x.reshape(*there.shape, -1))
    return jnp.where(there[:, :, None] & there[:, None, :], products, 0.0)


def gathered(leaf: Outer | Places, units: int, old: Array, new: Array) -> Outer | Places:
    """One array's gradient for each unit, of those of its records. `old` inputs are taken as `new`, by unit already."""
    if leaf.inputs is None:
        slopes = leaf.slopes.reshape(units, -1, *leaf.slopes.shape[1:]).astype(jnp.float32)
        # In memory, so that norm and sum read the same numbers: rounding here cannot part them.
        return Outer(None, jax.lax.optimization_barrier(jnp.sum(slopes, axis=1)))
    fan_in = leaf.inputs.shape[2:] if isinstance(leaf, Places) else leaf.inputs.shape[1:]
    inputs = new if leaf.inputs is old else finite(leaf.inputs).reshape(units, -1, *fan_in)
    by_unit = Places(inputs, leaf.slopes.reshape(units, -1, leaf.slopes.shape[-1]))
    if places.pays(by_unit.slopes.shape[1], inputs[0, 0].size, by_unit.slopes.shape[2]):
        return by_unit
    return Outer(None, jax.lax.optimization_barrier(places.formed(by_unit)))
