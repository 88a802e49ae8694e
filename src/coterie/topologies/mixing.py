"""Mixing messages over a topology inside the training loop: JAX alone, nothing of size owners².

A `Mixer` is a static function and the arrays it reads. Functions are module-level or cached, and every number
of the graph travels in the arrays: another topology of the same shapes never compiles again.

Three kernels, chosen by measurement on prototypes of them (2 CPU cores, best of 5,
microseconds an application inside a scan; - was not measured or does not apply):
                            ring         ring           ring        4-regular      28 links
                          20 x 200    20 x 2,000    10,000 x 50    10,000 x 50    10,000 x 50
    gather, unrolled         0.6           6.5             58            189            722
    gather, scanned          1.7            14            237            429          1,327
    segment sum              1.8            24              -          1,538              -
    rolls, fixed shifts      0.5           9.3             55              -          3,229
    rolls, traced shifts     1.0            13            211              -            756
So: gather over padded in-neighbours; segment sums only where padding would waste most of it (a star); a
rank-one sum where everyone receives the same. Rolls by fixed shifts are slightly faster on two of the rings,
slower elsewhere, and would compile anew for each graph, so there is no kernel for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.topologies import gossip
from coterie.topologies.topology import Topology
from coterie.topologies.weights import Edges

# (arrays, one leaf, index into the period) -> mixed leaf
Kernel = Callable[[PyTree, Array, Array | int], Array]

AXIS = "owners"  # of the mesh, where owners are spread over devices (`topologies.crossing`)
_UNROLL = 32  # in-neighbours; a scan takes about twice as long, but its program does not grow with them
_PADDING = 4  # a padded gather entry costs a third to an eighth of a segment-sum edge (table above)


class PaddedNeighbours(NamedTuple):
    """The owners that each owner hears, padded to equal numbers."""

    sources: Array  # (period, widest, owners) rows of messages
    weights: Array
    fetch: dict[int, Array]  # rows that live on other devices, see `_with_fetched`; empty where all are here


class Links(NamedTuple):
    """The links between owners, sorted by target."""

    sources: Array  # (period, longest) rows of messages
    targets: Array
    weights: Array
    fetch: dict[int, Array]  # as for `PaddedNeighbours`


class Mixer(NamedTuple):
    """mixed_i = Σ_j w_ij(step) messages_j, on every leaf of a pytree; leaves start with the owners axis."""

    apply: Callable[[PyTree, PyTree, Array], PyTree]  # (arrays, messages, step from 1) -> mixed; static
    arrays: PyTree


def mixer(topology: Topology, gossip_steps: int = 1, accelerate: bool = True, exact: bool = False) -> Mixer:
    """The mixer of a topology: `gossip_steps` steps a round, Chebyshev-accelerated where that applies.

    `exact`: where so many steps are enough for owners to agree exactly (`gossip.annihilating`), they are taken so.

    >>> from coterie.topologies import build
    >>> apply, arrays = mixer(build("ring", 4))
    >>> apply(arrays, jnp.asarray([[3.0], [0.0], [0.0], [0.0]]), jnp.int32(1)).ravel().round(2).tolist()
    [1.0, 1.0, 0.0, 1.0]
    """
    _check.count("gossip_steps", gossip_steps)
    if is_average(topology):
        return aggregate(np.full(topology.owners, 1.0 / topology.owners))
    widest = max(int(np.bincount(e.target, minlength=topology.owners).max()) for e in topology.schedule)
    longest = max(len(e.source) for e in topology.schedule)
    kernel, arrays = _gather, _padded_neighbours(topology, widest)
    if widest * topology.owners > _PADDING * longest:
        kernel, arrays = _segments, _padded_edges(topology, longest)
    numbers = gossip.annihilating(topology) if exact else None
    if numbers is not None and len(numbers) <= gossip_steps:
        return Mixer(_accelerated(kernel), (arrays, jnp.asarray(numbers, jnp.float32)))
    if accelerate and gossip.accelerates(topology, gossip_steps):
        coefficients = jnp.asarray(gossip.chebyshev(topology, gossip_steps), jnp.float32)
        return Mixer(_accelerated(kernel), (arrays, coefficients))
    return Mixer(_plain(kernel, topology.period, gossip_steps), arrays)


def aggregate(weights: np.ndarray) -> Mixer:
    """Everyone receives Σ_j weights_j message_j, as from an aggregator; O(owners)."""
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 1 or not np.isfinite(weights).all():
        raise InputError(f"weights of shape {weights.shape}: must be one finite number for each owner.")
    return Mixer(weighted_sum, jnp.asarray(weights, jnp.float32))


def _padded_neighbours(topology: Topology, widest: int) -> PaddedNeighbours:
    """Padding hears the owner itself with weight zero."""
    shape = (topology.period, widest, topology.owners)
    sources = np.broadcast_to(np.arange(topology.owners, dtype=np.int32), shape).copy()
    weights = np.zeros(shape, np.float32)
    for t, edges in enumerate(topology.schedule):
        counts = np.bincount(edges.target, minlength=topology.owners)
        first = np.cumsum(counts) - counts  # edges are sorted by target
        place = np.arange(len(edges.target)) - np.repeat(first, counts)
        sources[t, place, edges.target] = edges.source
        weights[t, place, edges.target] = _single(edges)
    return PaddedNeighbours(jnp.asarray(sources), jnp.asarray(weights), {})


def _padded_edges(topology: Topology, longest: int) -> Links:
    """Padding goes to the last owner: targets stay sorted."""
    sources = np.full((topology.period, longest), topology.owners - 1, np.int32)
    targets, weights = sources.copy(), np.zeros(sources.shape, np.float32)
    for t, edges in enumerate(topology.schedule):
        place = slice(len(edges.source))
        sources[t, place], targets[t, place] = edges.source, edges.target
        weights[t, place] = _single(edges)
    return Links(jnp.asarray(sources), jnp.asarray(targets), jnp.asarray(weights), {})


def _single(edges: Edges) -> np.ndarray:
    """The weights in single precision, each sender's own share adjusted so that its column sum stays.

    Three times float32(1/3) is 1 + 3e-8. Measured on a ring whose owners disagree anew in every round, the
    mean grows by 5e-4 in 20,000 rounds without the adjustment, and moves by less than 1e-4 with it.
    """
    weights = edges.weight.astype(np.float32)
    error = np.bincount(edges.source, weights=edges.weight - weights)
    own = edges.source == edges.target
    weights[own] += error[edges.source[own]].astype(np.float32)
    return weights


def is_average(topology: Topology) -> bool:
    """Whether every step is exactly W = 11ᵀ/n (the complete graph): rank one, no edge list needed."""
    n = topology.owners
    return topology.averages or all(
        len(e.weight) == n * n and np.allclose(e.weight, 1.0 / n, rtol=0, atol=1e-12)
        for e in topology.schedule
    )


def _gather(arrays: PaddedNeighbours, leaf: Array, index: Array | int) -> Array:
    sources, weights = arrays.sources[index], arrays.weights[index]
    rows = _with_fetched(leaf, arrays.fetch, index) if arrays.fetch else leaf
    if len(sources) > _UNROLL:

        def heard(total: Array, link: tuple[Array, Array]) -> tuple[Array, None]:
            return total + scaled(link[1], rows[link[0]]), None

        return jax.lax.scan(heard, jnp.zeros_like(leaf), (sources, weights))[0]
    total = scaled(weights[0], rows[sources[0]])
    for k in range(1, len(sources)):
        total = total + scaled(weights[k], rows[sources[k]])
    return total


def _segments(arrays: Links, leaf: Array, index: Array | int) -> Array:
    sources, targets, weights = (a[index] for a in arrays[:3])
    rows = _with_fetched(leaf, arrays.fetch, index) if arrays.fetch else leaf
    return jax.ops.segment_sum(
        scaled(weights, rows[sources]), targets, leaf.shape[0], indices_are_sorted=True
    )


def _with_fetched(leaf: Array, fetch: dict[int, Array], index: Array | int) -> Array:
    """The rows here, then those that come from the device `hop` places on, for each hop of `fetch`.

    `fetch[hop]` are the rows that this device sends to the one `hop` places before it.
    """
    devices = jax.lax.axis_size(AXIS)
    fetched = [
        jax.lax.ppermute(leaf[rows[index]], AXIS, [(p, (p - hop) % devices) for p in range(devices)])
        for hop, rows in fetch.items()
    ]
    return jnp.concatenate([leaf, *fetched])


def scaled(weights: Array, rows: Array) -> Array:
    return weights.astype(rows.dtype).reshape(weights.shape + (1,) * (rows.ndim - 1)) * rows


@cache
def _plain(kernel: Kernel, period: int, steps: int) -> Callable[[PyTree, PyTree, Array], PyTree]:
    """Apply `steps` matrices in the order of the schedule, going on where the last round stopped."""

    def apply(arrays: PyTree, messages: PyTree, step: Array) -> PyTree:
        def once(j: Array | int, x: PyTree) -> PyTree:
            index = ((step - 1) * steps + j) % period if period > 1 else 0  # a constant, which XLA folds away
            return jax.tree.map(lambda leaf: kernel(arrays, leaf, index), x)

        return once(0, messages) if steps == 1 else jax.lax.fori_loop(0, steps, once, messages)

    return apply


@cache
def _accelerated(kernel: Kernel) -> Callable[[PyTree, PyTree, Array], PyTree]:
    """Chebyshev gossip on a static W: x⁺ = x + a (W x - x) + c (x - x⁻)."""

    def apply(arrays: PyTree, messages: PyTree, step: Array) -> PyTree:
        graph, coefficients = arrays

        def once(pair: tuple[Array, Array], ac: Array) -> tuple[tuple[Array, Array], None]:
            x, before = pair
            a, c = (ac[k].astype(x.dtype) for k in (0, 1))
            return (x + a * (kernel(graph, x, 0) - x) + c * (x - before), x), None

        return jax.tree.map(lambda leaf: jax.lax.scan(once, (leaf, leaf), coefficients)[0][0], messages)

    return apply


def keep(arrays: PyTree, messages: PyTree, step: Array) -> PyTree:
    del arrays, step
    return messages


IDENTITY = Mixer(keep, ())  # no communication: everyone keeps its own message


def weighted_sum(arrays: PyTree, messages: PyTree, step: Array) -> PyTree:
    del step

    def sum_leaf(leaf: Array) -> Array:
        total = jnp.sum(scaled(arrays, leaf), axis=0, keepdims=True)
        return jnp.broadcast_to(total, leaf.shape)

    return jax.tree.map(sum_leaf, messages)
