"""Independent runs side by side: one compiled program, `vmap` over seeds, budgets and other numbers of a sweep.

A run here is the run that `simulate` makes with the same program and seed, up to the order of floating-point sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.engines import steps
from coterie.engines.schedule import Tick, ticks_of
from coterie.engines.steps import RunWorld, Static
from coterie.errors import InputError
from coterie.mechanisms.normals import WIDE
from coterie.program import Holdings, Program
from coterie.topologies.mixing import Mixer


class Lane(NamedTuple):
    """One run of a sweep."""

    program: Program
    mixer: Mixer | None
    seed: int


class LaneArrays(NamedTuple):
    """Which of the arrays that a run depends on differ between the lanes of a sweep, and whether seeds do.

    Arrays that all lanes share are kept once, without an axis of lanes. So a product with everyone's records is one
    matrix product for all lanes together, and what depends on shared arrays alone is computed once.
    """

    tree: Any  # jax.tree_util.PyTreeDef
    own: tuple[bool, ...]

    def world(self, shared: list, own: list) -> RunWorld:
        """One lane's world."""
        rest = {True: iter(own), False: iter(shared)}
        world, seed = jax.tree.unflatten(self.tree, [next(rest[mine]) for mine in self.own])
        return steps.keyed(world, seed)


def alike(lane: Lane, shards: Holdings) -> Hashable:
    """Lanes for which this is equal can run side by side: same functions, schedule and shapes."""
    schedule = lane.program.schedule
    arrays = (lane.program.numbers, lane.program.params, () if lane.mixer is None else lane.mixer.arrays)
    leaves, tree = jax.tree.flatten(arrays)
    return (
        steps.compile_key(lane.program, shards, lane.mixer, None),
        schedule if isinstance(schedule, int) else np.asarray(schedule).tobytes(),
        lane.program.plan.releases,
        lane.program.plan.shared and lane.program.plan.shared.links,
        lane.program.plan.shared is None,
        tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves),
        tree,
    )


def sweep(
    lanes: Sequence[Lane],
    shards: Holdings,
    *,
    every: int,
    probe: Callable[[PyTree], Any],
    progress: Callable[[int, int], None] | None = None,
    piece: int | None = None,
) -> tuple[np.ndarray, list[Any]]:
    """Run all lanes; the steps after which `probe` looked, and what it saw.

    `probe` gets the models with leading axes (lanes, owners), every `every` steps and at the end. With `piece`,
    steps are taken so many at once, and the last of them filled up with steps that change nothing: sweeps of as many
    lanes with the same piece share a compilation, however long they are.
    """
    first = lanes[0]
    # Of lanes that differ in their seed alone, only the last.
    unlike = {_but_seed(lane): lane for lane in lanes}
    if len({alike(lane, shards) for lane in unlike.values()}) > 1:
        raise InputError(
            f"lanes: {len(lanes)} runs differ in functions, schedule or shapes. Group them by `alike`."
        )
    static = steps.compile_key(first.program, shards, first.mixer, None)._replace(padded=piece is not None)
    built = {who: steps.build_world(lane.program, shards, lane.mixer, 0) for who, lane in unlike.items()}
    spread, *worlds = _stacked([(built[_but_seed(lane)], np.uint32(lane.seed)) for lane in lanes])
    ticks, _ = ticks_of(first.program)
    total = len(ticks.step)
    block = steps.block_length(static, shards, piece or min(every, total), len(lanes))
    points, looks = [], []
    with jax.threefry_partitionable(False):  # as `simulate` does
        params = jax.tree.map(lambda *leaves: _rows(leaves), *[lane.program.params for lane in lanes])
        carry = _start(static, spread, worlds, params)
        for begin in range(0, total, every):
            points.append(min(begin + every, total))
            for chunk, done in _pieces(ticks, begin, points[-1], piece):
                carry = _advance((static, spread, block), worlds, carry, chunk)
                if progress is not None:
                    jax.block_until_ready(carry)
                    progress(done, total)
            looks.append(probe(_models(static, carry)))
    return np.asarray(points), looks


def _pieces(ticks: Tick, begin: int, end: int, piece: int | None) -> Iterator[tuple[Tick, int]]:
    """Ticks from `begin` to `end` and how many are done after them: all at once, or so many at a time, where the last
    one stands again, not live, as often as it takes."""
    length = piece or end - begin
    for first in range(begin, end, length):
        rows = np.arange(first, first + length)
        at = np.minimum(rows, end - 1)
        chunk = jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at], ticks)
        yield chunk._replace(live=chunk.live & (rows < end)), min(first + length, end)


def _but_seed(lane: Lane) -> tuple[int, int]:
    """Which program and mixer a lane has."""
    return id(lane.program), id(lane.mixer)


def _stacked(worlds: list[tuple[RunWorld, np.uint32]]) -> tuple[LaneArrays, list, list]:
    leaves, trees = zip(*(jax.tree.flatten(world) for world in worlds))
    differ = tuple(any(not _same(base, leaf) for leaf in every) for base, *every in zip(*leaves))
    shared = [first for first, own in zip(leaves[0], differ) if not own]
    stacked = [_rows(every) for every, own in zip(zip(*leaves), differ) if own]
    return LaneArrays(trees[0], differ), shared, stacked


def _rows(leaves: tuple) -> Array:
    """Stacked by NumPy, which is many times as fast as JAX for many small arrays."""
    return jnp.asarray(np.stack(leaves))


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
        left, right = jax.random.key_data(left), jax.random.key_data(right)
    return np.array_equal(left, right)


@partial(jax.jit, static_argnums=(0, 1))
def _start(static: Static, spread: LaneArrays, worlds: list, params: PyTree) -> PyTree:
    def start(shared: list, own: list, params: PyTree) -> PyTree:
        return steps.start(static, spread.world(shared, own), params)

    shared, own = worlds
    return jax.vmap(start, (None, 0, 0))(shared, own, params)


@partial(jax.jit, static_argnums=0, donate_argnums=2, compiler_options=WIDE)
def _advance(fixed: tuple[Static, LaneArrays, int], worlds: list, carry: PyTree, ticks: Tick) -> PyTree:
    static, spread, block = fixed

    def advance(shared: list, own: list, carry: PyTree) -> PyTree:
        return steps.take(static, block, spread.world(shared, own), carry, ticks)[0]

    shared, own = worlds
    return jax.vmap(advance, (None, 0, 0))(shared, own, carry)


@partial(jax.jit, static_argnums=0)
def _models(static: Static, carry: PyTree) -> PyTree:
    return jax.vmap(partial(steps.models, static))(carry)
