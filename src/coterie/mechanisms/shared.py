"""Unit noise that pairs of owners share, for simulation: it has the covariance that the plan is charged for.

With own noise ξ_i and a pair's noise ζ_ij = −ζ_ji of ratio ρ, owner i is handed ξ_i + ρ Σ_j ζ_ij. Where few share, each
pair has a key of its own, and both ends draw the same numbers from it: nothing has to travel. Where everybody shares
with everybody, pairs are as many as owners², and a root of the covariance 1 + ρ² (m − 11ᵀ) does the same with one
number an owner: √(1 + ρ² m) (ξ_i − mean ξ) + mean ξ.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import NoiseSpec
from coterie.mechanisms.plan import ReleasePlan, Shared


class Sharing(NamedTuple):
    """A row for each owner, so that owners may live on many devices."""

    owners: Array  # (owners,) int32, how many there are: rows beyond are made up
    spread: Array  # (owners,) √(1 + ρ² m) where all share with all; ρ where pairs are listed
    links: Array  # (owners, widest) int32, the numbers of an owner's pairs; none where all share with all
    signs: Array  # (owners, widest) ±1, or 0 where an owner has fewer pairs
    keys: Array  # (owners, widest, 2) uint32, of the pairs: the same at both ends

    def keyed(self, seed: Array) -> Sharing:
        """The same pairs in a run with another seed."""
        root = jax.random.fold_in(jax.random.key(seed), noises.PAIRS)
        keys = jax.vmap(lambda link: jax.random.fold_in(root, link))(self.links.ravel())
        return self._replace(keys=jax.random.key_data(keys).reshape(*self.links.shape, 2))


def sharing_of(plan: ReleasePlan, seed: Array) -> Sharing:
    """The arrays that a run reads where owners share noise."""
    shared, owners = plan.shared, len(plan.sizes)
    assert shared is not None
    everybody = 1.0 if shared.links == () else float(np.sqrt(1 + shared.ratio**2 * owners))
    spread = shared.ratio if shared.links else everybody
    links, signs = _padded(shared, owners)
    rows = (np.full(owners, owners, np.int32), np.full(owners, spread, np.float32), links, signs)
    return Sharing(*map(jnp.asarray, rows), keys=jnp.zeros(0, jnp.uint32)).keyed(seed)


def _padded(shared: Shared, owners: int) -> tuple[np.ndarray, np.ndarray]:
    """Each owner's pairs and its sign in them, filled up to the most that any owner has."""
    own: list[list[tuple[int, float]]] = [[] for _ in range(owners)]
    for number, (lower, higher) in enumerate(shared.links or ()):
        own[lower].append((number, 1.0))
        own[higher].append((number, -1.0))
    widest = max(map(len, own))
    links, signs = np.zeros((owners, widest), np.int32), np.zeros((owners, widest), np.float32)
    for owner, pairs in enumerate(own):
        for at, (number, sign) in enumerate(pairs):
            links[owner, at], signs[owner, at] = number, sign
    return links, signs


def correlated(
    spec: NoiseSpec, sharing: Sharing, own: Array, first: Array, step: Array, axis: str | None
) -> Array:
    """(owners, size) what the owners here are handed, of their own unit noise; `first` is the first one's number.

    Guarantee: over all owners, each number has covariance 1 + ρ² L.
    """
    if sharing.links.shape[1]:
        return own + sharing.spread[:, None] * _of_pairs(spec, sharing, step, own)
    real = (first + jnp.arange(len(own)) < sharing.owners).astype(own.dtype)
    total = jnp.sum(real[:, None] * own, axis=0, keepdims=True)
    mean = (total if axis is None else jax.lax.psum(total, axis)) / sharing.owners[0].astype(own.dtype)
    return sharing.spread[:, None] * (own - mean) + mean


def _of_pairs(spec: NoiseSpec, sharing: Sharing, step: Array, like: Array) -> Array:
    """Each owner's signed sum over its pairs, one pair at a time: memory does not grow with them."""

    def drawn(key: Array) -> Array:
        return spec.kind.unit(jax.random.fold_in(jax.random.wrap_key_data(key), step), spec.size)

    def add_pair(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        return total + pair[1][:, None] * jax.vmap(drawn)(pair[0]), None

    pairs = (jnp.moveaxis(sharing.keys, 1, 0), sharing.signs.T)
    return jax.lax.scan(add_pair, jnp.zeros_like(like), pairs)[0]
