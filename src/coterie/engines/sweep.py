"""Independent runs side by side: one compiled program, `vmap` over seeds, budgets and other numbers of a sweep.

A run here is the run that `simulate` makes with the same program and seed, up to the order of floating-point sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import PyTree
from coterie.engines import simulate as one
from coterie.engines.simulate import Static, Tick, World
from coterie.errors import InputError
from coterie.mechanisms.normals import WIDE
from coterie.program import Program, Rounds, Shards, Visits
from coterie.topologies.mixing import Mixer


class Lane(NamedTuple):
    """One run of a sweep."""

    program: Program
    mixer: Mixer | None
    seed: int


# Records are shared by all lanes, so that a product with them is one matrix product for the whole sweep.
_AXES: Any = World(*(0 if name not in ("shards", "aside") else None for name in World._fields))  # type: ignore[arg-type]


def alike(lane: Lane, shards: Shards) -> Hashable:
    """Lanes for which this is equal can run side by side: same functions, schedule and shapes."""
    schedule = lane.program.schedule
    arrays = (lane.program.numbers, lane.program.params, () if lane.mixer is None else lane.mixer.arrays)
    leaves, tree = jax.tree.flatten(arrays)
    return (
        one.compile_key(lane.program, shards, lane.mixer, None),
        schedule if isinstance(schedule, int) else np.asarray(schedule).tobytes(),
        lane.program.plan.releases,
        tuple((np.shape(leaf), str(jnp.asarray(leaf).dtype)) for leaf in leaves),
        tree,
    )


def sweep(
    lanes: Sequence[Lane],
    shards: Shards,
    *,
    every: int,
    probe: Callable[[PyTree], Any],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, list[Any]]:
    """Run all lanes; the steps after which `probe` looked, and what it saw.

    `probe` gets the models with leading axes (lanes, owners), every `every` steps and at the end.
    """
    first = lanes[0]
    if any(alike(lane, shards) != alike(first, shards) for lane in lanes[1:]):
        raise InputError(
            f"lanes: {len(lanes)} runs differ in functions, schedule or shapes. Group them by `alike`."
        )
    static = one.compile_key(first.program, shards, first.mixer, None)
    worlds = _stacked(
        [one.build_world(lane.program, shards, lane.mixer, lane.seed) for lane in lanes], shards
    )
    ticks, _ = one._ticks(first.program)
    total = len(ticks.step)
    visits = isinstance(static.functions, Visits)
    block = one._block_length(static, shards, min(every, total), visits, len(lanes))
    points, looks = [], []
    with jax.threefry_partitionable(False):  # as `simulate` does
        params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[lane.program.params for lane in lanes])
        carry = _start(static, worlds, params)
        for begin in range(0, total, every):
            chunk = jax.tree.map(lambda leaf, begin=begin: leaf[begin : begin + every], ticks)
            carry = _advance(static, block, worlds, carry, chunk)
            points.append(min(begin + every, total))
            looks.append(probe(_models(static, carry)))
            if progress is not None:
                progress(points[-1], total)
    return np.asarray(points), looks


def _stacked(worlds: list[World], shards: Shards) -> World:
    rest = [world._replace(shards=(), aside=()) for world in worlds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rest)._replace(shards=shards)


@partial(jax.jit, static_argnums=0)
def _start(static: Static, worlds: World, params: PyTree) -> PyTree:
    return jax.vmap(partial(one._start, static), in_axes=(_AXES, 0))(worlds, params)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3, compiler_options=WIDE)
def _advance(static: Static, block: int, worlds: World, carry: PyTree, ticks: Tick) -> PyTree:
    steps = one._rounds if isinstance(static.functions, Rounds) else one._visits
    carry, _ = jax.vmap(partial(steps, static, block), in_axes=(_AXES, 0, None))(worlds, carry, ticks)
    return carry


@partial(jax.jit, static_argnums=0)
def _models(static: Static, carry: PyTree) -> PyTree:
    return jax.vmap(partial(one._models, static))(carry)
