"""Unit noise for simulation: fast, reproducible from (key, owner, step), and handed to `emit` by the engine.

A shared key lets anyone regenerate everyone's noise: right inside one trust domain, never between owners.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.mechanisms.clipping import TOGETHER
from coterie.mechanisms.distributions import Noise
from coterie.mechanisms.plan import ReleasePlan

# A real owner's unit noise comes as whole numbers, this many to one unit: `noised` adds them without rounding.
LATTICE = 2.0**16
_FARTHEST = 40.0  # standard deviations of a sum's noise that nobody ever draws
_FAR = 2.0**30  # cells; with the noise on top a sum stays within int32

# One root key gives four independent streams, so that adding a coin flip never changes the noise.
NOISE, SAMPLING, COINS, PAIRS = 0, 1, 2, 3


class NoiseSpec(NamedTuple):
    """What one emit is handed, hashable so that it is static under `jit`."""

    kind: Noise
    tree: Any  # jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """How many numbers one emit is handed."""
        return sum(map(math.prod, self.shapes))


def spec(plan: ReleasePlan) -> NoiseSpec:
    """The plan's noise as a static description."""
    leaves, tree = jax.tree.flatten(plan.noise_like)
    return NoiseSpec(plan.noise, tree, tuple(tuple(leaf.shape) for leaf in leaves))


@partial(jax.jit, static_argnums=(1, 2))
def owner_keys(seed: Array, stream: int, owners: int) -> Array:
    """(owners,) keys of one stream; an owner's draw for a step comes from `fold_in(its key, step)`."""
    root = jax.random.fold_in(jax.random.key(seed), stream)
    return jax.vmap(lambda owner: jax.random.fold_in(root, owner))(jnp.arange(owners))


def unit_noise(noise: NoiseSpec, key: Array) -> PyTree:
    """Unit noise of the plan's kind in the shapes of one emit."""
    return split(noise, noise.kind.unit(key, noise.size))  # all in one draw: many small ones cost more


def split(noise: NoiseSpec, flat: Any) -> PyTree:
    """(size,) numbers in the shapes of one emit."""
    leaves, start = [], 0
    for shape in noise.shapes:
        end = start + math.prod(shape)
        leaves.append(flat[start:end].reshape(shape))
        start = end
    return jax.tree.unflatten(noise.tree, leaves)


def noised(total: PyTree, unit: PyTree, scale: Array | float) -> PyTree:
    """total + scale × unit, leaf by leaf: how every protocol adds its noise.

    Guarantee: where the unit noise is whole numbers (int32, `LATTICE` to one unit), the sum is rounded to cells of
    scale / LATTICE and the noise added in integer arithmetic. So what leaves is a function of an exact discrete
    mechanism's output, and the last bits of floating point, which betray the sum that noise was added to (Mironov
    2012), are not there. Rounding moves neighbours apart by at most one cell a coordinate (`rounding_slack`).
    """
    if any(noise.dtype != jnp.int32 for noise in jax.tree.leaves(unit)):
        return jax.tree.map(lambda leaf, noise: leaf + scale * noise, total, unit)
    cells = whole(total, unit, scale, LATTICE)
    return jax.tree.map(lambda leaf, cell: cell.astype(leaf.dtype) * (scale / LATTICE), total, cells)


def whole(total: PyTree, unit: PyTree, scale: Array | float, lattice: Array | float) -> PyTree:
    """total / scale + unit in int32 cells, `lattice` to one unit, leaf by leaf: messages that are added exactly.

    Guarantee: as `noised`, without the way back to real numbers: what leaves is the discrete mechanism's own output. A
    record moves total / scale × lattice by 2 lattice / noise_multiplier at most, in every number system that adds whole
    numbers exactly. A real owner's unit noise is whole already; a simulation's is rounded to cells here.
    """
    return jax.tree.map(lambda leaf, noise: _whole(leaf, noise, scale, lattice), total, unit)


def _whole(total: Array, unit: Array, scale: Array | float, lattice: Array | float) -> Array:
    cells = jnp.clip(jnp.round(total / (scale / lattice)), -_FAR, _FAR).astype(jnp.int32)
    drawn = unit if unit.dtype == jnp.int32 else jnp.round(unit * lattice).astype(jnp.int32)
    return cells + drawn


def rounding_slack(plan: ReleasePlan, owner: int) -> float:
    """The factor, less one, by which an owner's whole-number noise must be wider to cover rounding here and in the sum.

    Replacing a record moves the sum by 2 clip_norm. With z noise over clip_norm, d coordinates, n records and
    u = 2⁻²⁴, float32's half unit, these come on top, in clip_norms and for both of two neighbours together:

    * whole cells: at most 1 a coordinate, √d (2-norm) or d (1-norm) in all, each z / LATTICE wide;
    * last bits of the sum, and of the sum in cells: u each of the norm of what is rounded, at most n;
    * `careful` addition: m u of the m clip_norms of one part, and n / m times 8 u² of n between parts;
    * terms that clipping left too long, as norms, their ratio and products are rounded: (d + 16) u of each.

    Sums of whole numbers protect an owner by the others' noise, too: everyone widens by the largest slack of any owner.
    """
    everyone = (owner,) if plan.lattice is None else range(len(plan.sizes))
    return max(_slack(plan, one) for one in everyone)


def _slack(plan: ReleasePlan, owner: int) -> float:
    size, dimension, unit = plan.sizes[owner], spec(plan).size, 2.0**-24
    lattice = LATTICE if plan.lattice is None else plan.lattice[owner]
    cells = plan.noise.reach(dimension) * plan.noise_multiplier[owner] / lattice
    last_bits = 4 * unit * (size if plan.rounded is None else plan.rounded[owner])
    added = 2 * unit * TOGETHER**2 + 16 * unit**2 * size**2 / TOGETHER
    clipped = 2 * unit * (dimension + 16)
    return (cells + last_bits + added + clipped) / 2.0


def largest_sum(plan: ReleasePlan) -> float:
    """What no number of a masked sum exceeds, in units of an owner's noise: all records at their bound, and noise."""
    records = sum(size / own for size, own in zip(plan.sizes, plan.noise_multiplier))
    return records + _FARTHEST * math.sqrt(len(plan.sizes))
