"""Mixers for owners that are spread over devices: each holds a run of owners and fetches what these hear.

The kernels are those of `mixing`, and so is the order in which an owner adds up what it hears: the result is the
same to the bit, except for one sum over everyone, which every device begins with its own owners.
Only rows that somebody hears travel: on a ring two a device, whatever the number of owners.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.topologies import mixing
from coterie.topologies.mixing import AXIS, Links, Mixer, PaddedNeighbours


class Crossing(NamedTuple):
    """Who fetches what: `sent[hop]` are (devices, period, width) rows that each device sends `hop` places back."""

    sent: dict[int, np.ndarray]
    place: np.ndarray  # (devices, period, all owners) where a device finds an owner's row; -1: it does not


def held(owners: int, devices: int) -> int:
    """How many owners each device holds; the last ones may be made up to fill the last device.

    >>> held(10, 4)
    3
    """
    return -(-owners // devices)


def spread(mixer: Mixer, owners: int, devices: int) -> Mixer:
    """The mixer of owners that are spread over the devices of a mesh, to be called inside `shard_map`.

    Its arrays have a leading axis of devices. Owners that were made up hear themselves, and nobody hears them.
    """
    if mixer.apply is mixing.keep:
        return mixer
    if mixer.apply is mixing.weighted_sum:
        weights = np.zeros(held(owners, devices) * devices, np.float32)
        weights[:owners] = np.asarray(mixer.arrays)
        return Mixer(_sum_of_all, weights.reshape(devices, -1))
    plain = isinstance(mixer.arrays, (PaddedNeighbours, Links))
    graph, *coefficients = (mixer.arrays,) if plain else mixer.arrays
    neighbours = isinstance(graph, PaddedNeighbours)
    split = _neighbours(graph, owners, devices) if neighbours else _links(graph, owners, devices)
    tiled = [np.broadcast_to(np.asarray(each), (devices, *each.shape)) for each in coefficients]
    # Where nothing travels, making all leaves one array would copy them for nothing: a quarter of a network's round.
    apply = mixer.apply if devices == 1 else _as_one(mixer.apply)
    return Mixer(apply, (split, *tiled) if tiled else split)


def _neighbours(graph: PaddedNeighbours, owners: int, devices: int) -> PaddedNeighbours:
    sources, weights = np.asarray(graph.sources), np.asarray(graph.weights)
    period, widest, _ = sources.shape
    mine = held(owners, devices)
    made_up = np.arange(owners, mine * devices, dtype=np.int32)
    shape = (period, widest, len(made_up))
    alone = np.zeros(shape, np.float32)
    alone[:, 0] = 1.0
    sources = np.concatenate([sources, np.broadcast_to(made_up, shape)], axis=2)
    weights = np.concatenate([weights, alone], axis=2)
    by_device = sources.reshape(period, widest, devices, mine).transpose(2, 0, 1, 3)
    crossing = _crossing([[step.ravel() for step in device] for device in by_device], mine)
    place = np.take_along_axis(crossing.place[:, :, None], by_device.reshape(devices, period, 1, -1), axis=3)
    return PaddedNeighbours(
        place.reshape(by_device.shape),  # type: ignore[arg-type]
        np.ascontiguousarray(weights.reshape(period, widest, devices, mine).transpose(2, 0, 1, 3)),  # type: ignore[arg-type]
        crossing.sent,  # type: ignore[arg-type]
    )


def _links(graph: Links, owners: int, devices: int) -> Links:
    """Each device's links in the order they had; what is short is filled up with a last owner's zeros."""
    mine = held(owners, devices)
    made_up = np.arange(owners, mine * devices, dtype=np.int32)
    cut: list[list[list[np.ndarray]]] = [[] for _ in range(devices)]
    for step in zip(*(np.asarray(part) for part in graph[:3])):
        alone = (made_up, made_up, np.ones(len(made_up), np.float32))
        links = [np.concatenate(pair) for pair in zip(step, alone)]
        for device, part in enumerate(cut):
            part.append([ends[links[1] // mine == device] for ends in links])
    longest = max(1, *(len(step[0]) for part in cut for step in part))
    crossing = _crossing([[step[0] for step in part] for part in cut], mine)
    shape = (devices, len(cut[0]), longest)
    sources = np.full(shape, mine - 1, np.int32)
    targets, weights = sources.copy(), np.zeros(shape, np.float32)
    for device, part in enumerate(cut):
        for t, (source, target, weight) in enumerate(part):
            at = (device, t, slice(len(source)))
            sources[at] = crossing.place[device, t, source]
            targets[at], weights[at] = target - device * mine, weight
    return Links(sources, targets, weights, crossing.sent)  # type: ignore[arg-type]


def _crossing(heard: list[list[np.ndarray]], mine: int) -> Crossing:
    """`heard[device][step]`: the owners that a device's owners hear in a step of the schedule."""
    devices, period = len(heard), len(heard[0])
    place = np.full((devices, period, devices * mine), -1, np.int32)
    for device in range(devices):
        place[device, :, device * mine : (device + 1) * mine] = np.arange(mine)
    sent, start = {}, mine
    for hop in range(1, devices):
        needed = [
            [np.unique(step[step // mine == (device + hop) % devices]) for step in heard[device]]
            for device in range(devices)
        ]
        width = max(len(step) for device in needed for step in device)
        if not width:
            continue
        sent[hop] = np.zeros((devices, period, width), np.int32)
        for device in range(devices):
            source = (device + hop) % devices
            for t, wanted in enumerate(needed[device]):
                sent[hop][source, t, : len(wanted)] = wanted - source * mine
                place[device, t, wanted] = start + np.arange(len(wanted))
        start += width
    return Crossing(sent, place)


def _sum_of_all(arrays: Array, messages: PyTree, step: Array) -> PyTree:
    """The sum of `mixing.aggregate`: each device adds its own owners up, then all devices' sums are added."""
    del step

    def sum_leaf(leaf: Array) -> Array:
        total = jnp.sum(mixing.scaled(arrays, leaf), axis=0, keepdims=True)
        return jnp.broadcast_to(jax.lax.psum(total, AXIS), leaf.shape)

    return jax.tree.map(sum_leaf, messages)


@cache
def _as_one(apply: Callable) -> Callable:
    """Mix all leaves of a type as one array: an exchange costs milliseconds, however little it carries."""

    def together(arrays: PyTree, messages: PyTree, step: Array) -> PyTree:
        leaves, tree = jax.tree.flatten(jax.lax.optimization_barrier(messages))
        if len(leaves) == 1:
            return apply(arrays, messages, step)
        kinds = sorted({str(leaf.dtype) for leaf in leaves})
        flat = {
            kind: jnp.concatenate([_rows(leaf) for leaf in leaves if str(leaf.dtype) == kind], axis=1)
            for kind in kinds
        }
        mixed, taken = apply(arrays, flat, step), dict.fromkeys(kinds, 0)
        out = []
        for leaf in leaves:
            kind, width = str(leaf.dtype), _rows(leaf).shape[1]
            out.append(mixed[kind][:, taken[kind] : taken[kind] + width].reshape(leaf.shape))
            taken[kind] += width
        return jax.tree.unflatten(tree, out)

    return together


def _rows(leaf: Array) -> Array:
    return leaf.reshape(leaf.shape[0], -1)
