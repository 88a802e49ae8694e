"""Owners laid out over the devices of a mesh: where their records and states live, and the steps taken there."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from coterie._types import Array, PyTree
from coterie.engines import steps
from coterie.engines.owners import number_of, parts_of
from coterie.engines.schedule import Tick
from coterie.engines.steps import RunWorld, Static
from coterie.mechanisms.normals import WIDE
from coterie.problems.holdings import Group, filled, grouped, places
from coterie.program import Groups, Holdings, Program, Rounds, Shards, Visits
from coterie.topologies.crossing import held, spread
from coterie.topologies.mixing import AXIS, Mixer

_KEYS = ("noise_keys", "sampling_keys", "coin_keys")
_WORLD: Any = RunWorld(*(Spec(AXIS) if name in ("shards", "mixing") else Spec() for name in RunWorld._fields))  # type: ignore[arg-type]
_CARRY: Any = (Spec(), Spec(AXIS))  # everyone has the register; owners' states live with them


class MeshLayout(NamedTuple):
    """How a run is laid out."""

    static: Static
    mesh: Mesh
    owners: int
    block: int


def laid_out(
    program: Program, shards: Holdings, mixer: Mixer | None, seed: int, every: int, transcript: bool
) -> tuple[MeshLayout, RunWorld]:
    """Put every owner's records and everyone's numbers where they are needed."""
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    static = steps.compile_key(program, shards, mixer, steps.keep_message if transcript else None)
    owners, visits = len(program.plan.sizes), isinstance(program.functions, Visits)
    crossed = Mixer(None, ()) if mixer is None or visits else spread(mixer, owners, mesh.size)  # type: ignore[arg-type]
    static = static._replace(axis=AXIS, mix=crossed.apply)
    world = steps.build_world(program, shards, None, seed)
    plain = {name: jax.random.key_data(getattr(world, name)) for name in _KEYS}
    world = world._replace(mixing=crossed.arrays, shards=(), **plain)
    placed = _placed(mesh, world, _WORLD)
    placed = placed._replace(shards=_records(mesh, shards))
    block = steps.block_length(static, shards, every)
    return MeshLayout(static, mesh, owners, block), placed


def _records(mesh: Mesh, holdings: Holdings) -> Holdings:
    """Each device gets its own owners' records alone. Made-up owners have one record of zeros, for nobody.

    A single device holds everyone, as they are: where records lie on it already, nothing is copied.
    """
    if mesh.size == 1:
        return jax.device_put(holdings, NamedSharding(mesh, Spec(AXIS)))
    host: Holdings = jax.tree.map(np.asarray, holdings)
    sizes = [len(host.of(owner)[1]) for owner in range(number_of(host))]
    groups = grouped(sizes, math.prod(parts_of(host)[0].x.shape[2:]), mesh.size)
    shards = tuple(_shards(mesh, host, group) for group in groups)
    if len(shards) == 1:
        return shards[0]
    members, place = zip(*(places(groups, device) for device in range(mesh.size)))
    owners = tuple(np.concatenate(by_device) for by_device in zip(*members))
    spread = Groups((), owners, np.concatenate(place))  # type: ignore[arg-type]
    return _placed(mesh, spread, Groups((), Spec(AXIS), Spec(AXIS)))._replace(shards=shards)  # type: ignore[arg-type]


def _shards(mesh: Mesh, host: Holdings, group: Group) -> Shards:
    """A group's records, each owner's on its device."""
    per_device, some = group.owners.shape[1], parts_of(host)[0]
    held = (some.x, some.y) if some.within is None else (some.x, some.y, some.within)
    like = tuple(np.asarray(values[0, :1]) for values in held)

    def own(owner: int) -> tuple[np.ndarray, ...]:
        return host.rows(owner) if owner < number_of(host) else tuple(map(np.zeros_like, like))

    @cache
    def device(at: int) -> Shards:
        return filled(like, group.rows, group.owners[at], own)

    def place(part: int, shape: tuple[int, ...]) -> Array:
        def cut(index: Any) -> np.ndarray:
            return np.asarray(device((index[0].start or 0) // per_device)[part])

        return jax.make_array_from_callback(
            (per_device * mesh.size, *shape), NamedSharding(mesh, Spec(AXIS)), cut
        )

    x, y, *within = (place(at, (group.rows, *sample.shape[1:])) for at, sample in zip((0, 1, 3), like))
    return Shards(x, y, place(2, ()), *within)


def _placed(mesh: Mesh, tree: PyTree, specs: PyTree) -> PyTree:
    """Arrays that every process holds whole, on the devices that need them; `specs` is a prefix of the tree."""

    def put(spec: Spec, branch: PyTree) -> PyTree:
        sharding = NamedSharding(mesh, spec)

        def leaf(value: Any) -> Array:
            value = np.asarray(value)
            return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

        return jax.tree.map(leaf, branch)

    return jax.tree.map(put, specs, tree, is_leaf=lambda node: isinstance(node, Spec))


def _here(parts: MeshLayout, world: RunWorld) -> RunWorld:
    """Inside `shard_map`: the world as this device sees it. Only records and links differ between devices."""
    first = jax.lax.axis_index(AXIS).astype(jnp.int32) * number_of(world.shards)
    keys = {name: jax.random.wrap_key_data(getattr(world, name)) for name in _KEYS}
    mixing = jax.tree.map(lambda leaf: leaf[0], world.mixing)
    return world._replace(first=first, mixing=mixing, **keys)


def _own(parts: MeshLayout, world: RunWorld) -> RunWorld:
    """The rows of the owners on this device. Devices hold equally many owners, so that the last one may have some that
    do not exist: these get the last owner's numbers, which are finite, and nobody reads what comes of it."""
    rows = jnp.minimum(world.first + jnp.arange(number_of(world.shards)), parts.owners - 1)
    names = ("size", "clip_norm", "noise_scale", "numbers", "sharing", *_KEYS)
    return world._replace(
        **{name: jax.tree.map(lambda leaf: leaf[rows], getattr(world, name)) for name in names}
    )


@partial(jax.jit, static_argnums=0)
def start(parts: MeshLayout, world: RunWorld, params: PyTree) -> PyTree:
    """Every owner's first state, where the owner lives; and the register, everywhere."""

    def begin(world: RunWorld, params: PyTree) -> PyTree:
        world = _here(parts, world)
        return steps.start(parts.static, world, params, _own(parts, world))

    return _mapped(parts, begin, (_WORLD, Spec()), _CARRY)(world, params)


@partial(jax.jit, static_argnums=0, donate_argnums=2, compiler_options=WIDE)
def advance(parts: MeshLayout, world: RunWorld, carry: PyTree, ticks: Tick) -> tuple:
    """The steps of `simulate`, on each device for the owners there."""
    rounds = isinstance(parts.static.functions, Rounds)

    def take(world: RunWorld, carry: PyTree, ticks: Tick) -> tuple:
        world = _here(parts, world)
        return steps.take(parts.static, parts.block, _own(parts, world) if rounds else world, carry, ticks)

    out = (_CARRY, Spec(None, AXIS) if rounds else Spec())
    return _mapped(parts, take, (_WORLD, _CARRY, Spec()), out)(world, carry, ticks)


@partial(jax.jit, static_argnums=0)
def models(parts: MeshLayout, carry: PyTree) -> PyTree:
    """The owners' models where they live, or the register's."""
    spec = Spec(AXIS) if isinstance(parts.static.functions, Rounds) else Spec()
    return _mapped(parts, partial(steps.models, parts.static), (_CARRY,), spec)(carry)


def _mapped(parts: MeshLayout, function: Callable, given: tuple, back: Any) -> Callable:
    return jax.shard_map(function, mesh=parts.mesh, in_specs=given, out_specs=back, check_vma=False)


@cache
def _copier(mesh: Mesh) -> Callable[[PyTree], PyTree]:
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, Spec()))


def everyones(parts: MeshLayout, tree: PyTree, axis: int | None = 0) -> PyTree:
    """All owners' rows in every process, without those of made-up owners; axis None: what everyone has already."""
    whole = jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), _copier(parts.mesh)(tree))
    if axis is None or isinstance(parts.static.functions, Visits):
        return whole
    return _cut(parts, whole, axis)


def _cut(parts: MeshLayout, tree: PyTree, axis: int = 0) -> PyTree:
    real = (slice(None),) * axis + (slice(parts.owners),)
    return jax.tree.map(lambda leaf: leaf[real], tree)


def real(parts: MeshLayout, carry: PyTree) -> PyTree:
    """A carry without made-up owners: it can go on over another number of devices."""
    return carry[0], _cut(parts, carry[1])


def restored(parts: MeshLayout, whole: PyTree) -> PyTree:
    """Put a carry back on the devices. Owners that fill a device up get the last owner's state; nobody reads it."""
    more = held(parts.owners, parts.mesh.size) * parts.mesh.size - parts.owners
    register, states = whole
    padded = jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], more, axis=0)]), states)
    return _placed(parts.mesh, (register, padded), _CARRY)
