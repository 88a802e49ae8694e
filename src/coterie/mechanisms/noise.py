"""Unit noise for simulation: fast, reproducible from (key, owner, step), and handed to `emit` by the engine.

A shared key lets anyone regenerate everyone's noise: right inside one trust domain, never between owners.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.mechanisms.plan import NoiseKind, ReleasePlan

# One root key gives three independent streams, so that adding a coin flip never changes the noise.
NOISE, SAMPLING, COINS = 0, 1, 2


class NoiseSpec(NamedTuple):
    """What one emit is handed, hashable so that it is static under `jit`."""

    kind: NoiseKind
    tree: Any  # jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """How many numbers one emit is handed."""
        return sum(_length(shape) for shape in self.shapes)


def spec(plan: ReleasePlan) -> NoiseSpec:
    """The plan's noise as a static description."""
    leaves, tree = jax.tree.flatten(plan.noise_like)
    return NoiseSpec(plan.noise, tree, tuple(tuple(leaf.shape) for leaf in leaves))


def owner_keys(seed: Array, stream: int, owners: int) -> Array:
    """(owners,) keys of one stream; an owner's draw for a step comes from `fold_in(its key, step)`."""
    root = jax.random.fold_in(jax.random.key(seed), stream)
    return jax.vmap(lambda owner: jax.random.fold_in(root, owner))(jnp.arange(owners))


def unit_noise(noise: NoiseSpec, key: Array) -> PyTree:
    """Standard normal or unit Laplace numbers (or zeros) in the shapes of one emit.

    All leaves are cut from one draw: many small draws cost more than one.
    """
    if noise.kind == "none":
        flat = jnp.zeros((noise.size,), jnp.float32)
    elif noise.kind == "laplace":
        flat = jax.random.laplace(key, (noise.size,), jnp.float32)
    else:
        flat = jax.random.normal(key, (noise.size,), jnp.float32)
    leaves, start = [], 0
    for shape in noise.shapes:
        leaves.append(flat[start : start + _length(shape)].reshape(shape))
        start += _length(shape)
    return jax.tree.unflatten(noise.tree, leaves)


def _length(shape: tuple[int, ...]) -> int:
    length = 1
    for extent in shape:
        length *= extent
    return length
