"""The same programs over many devices and processes: `jax.shard_map` over owners, one trust domain, in lockstep.

Every device holds a run of owners with their records and states, and takes the steps of `simulate` on them. Messages
cross where the topology needs them (`topologies.crossing`); a visitor's message reaches every device's copy of the
register. An owner's randomness comes from (seed, owner, step), so it does not matter where the owner lives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils as hosts
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from coterie._types import Array, PyTree
from coterie.engines import checkpoint
from coterie.engines import simulate as one
from coterie.engines.simulate import Static, Tick, World
from coterie.errors import InputError, ProcessError
from coterie.program import Program, Rounds, Shards, Trace, Visits
from coterie.topologies.crossing import held, spread
from coterie.topologies.mixing import AXIS, Mixer

_LOST = ("gloo", "nccl", "connection", "socket", "unavailable", "deadline", "heartbeat", "coordination")
_KEYS = ("noise_keys", "sampling_keys", "coin_keys")
_WORLD: Any = World(*(Spec(AXIS) if name in ("shards", "mixing") else Spec() for name in World._fields))  # type: ignore[arg-type]


class Parts(NamedTuple):
    """How a run is laid out."""

    static: Static
    mesh: Mesh
    owners: int
    block: int


class Past(NamedTuple):
    """What a run has left behind so far, as lists of one entry a chunk; looks only where the probe looks."""

    points: list[int]
    looks: list[PyTree]
    infos: list[PyTree]
    messages: list[PyTree]


def spmd(
    program: Program,
    shards: Shards,
    mixer: Mixer | None = None,
    *,
    seed: int,
    every: int | None = None,
    probe: Callable[[PyTree], PyTree] | None = None,
    transcript: bool = False,
    progress: Callable[[int, int], None] | None = None,
    keep: Path | None = None,
    resume: bool = False,
    settings: str = "",
) -> Trace:
    """Run the program over all devices of all processes that have joined; the arguments are those of `simulate`.

    Every process calls this with equal arguments; the trace of the first is whole, and only there `probe` is called.
    With `keep`, the first process writes a checkpoint to that file whenever the probe looks; with `resume` it goes on
    from there, on any number of devices. `settings` is what the caller wants to be equal for that, beside the rest.
    """
    mark = checkpoint.digest(program, shards, mixer, (seed, every, transcript, settings))
    check_agreement(mark)
    ticks, turns = one._ticks(program)
    total = len(ticks.step)
    every = min(every or total, total)
    try:
        with jax.threefry_partitionable(False):  # as `simulate` does
            parts, world = _laid_out(program, shards, mixer, seed, every, transcript)
            carry = _start(parts, world, jax.tree.map(np.asarray, program.params))
            past = Past([], [], [], [])
            if resume:
                carry, past = _resumed(parts, world, carry, _chunk(ticks, 0, every), keep, mark, probe)
            for first in range(past.points[-1] if past.points else 0, total, every):
                carry, out = _advance(parts, world, carry, _chunk(ticks, first, every))
                _look(parts, past, min(first + every, total), out, carry, probe)
                if keep is not None:
                    _keep(parts, carry, past, keep, mark)
                if progress is not None:
                    progress(past.points[-1], total)
            model = _everyones(parts, _models(parts, carry))
    except jax.errors.JaxRuntimeError as error:
        raise lost(error) from error
    return Trace(
        step=np.asarray(past.points),
        probes=one._stack(past.looks) if past.looks else None,
        model=model,
        info=one._concatenate(past.infos),
        messages=one._concatenate(past.messages) if transcript else None,
        turns=turns,
    )


def check_agreement(mark: str) -> None:
    """Stop in every process if the processes were not given the same program, records or settings."""
    if jax.process_count() == 1:
        return
    marks = hosts.process_allgather(np.frombuffer(bytes.fromhex(mark), np.uint8))
    odd = np.flatnonzero((marks != marks[0]).any(axis=1))
    if len(odd):
        raise InputError(
            f"process {odd[0]} has other records, settings or versions than process 0. Give every process the same "
            "options and files."
        )


def lost(error: Exception) -> Exception:
    """What a failure of the machinery means: another process is gone, or else it is the error itself."""
    words = str(error).lower()
    if jax.process_count() > 1 and any(sign in words for sign in _LOST):
        return ProcessError(
            "lost the connection to another process of the run; one lost process stops all. See its own output."
        )
    return error


def _laid_out(
    program: Program, shards: Shards, mixer: Mixer | None, seed: int, every: int, transcript: bool
) -> tuple[Parts, World]:
    """Put every owner's records and everyone's numbers where they are needed."""
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    static = one.compile_key(program, shards, mixer, one._message if transcript else None)
    owners, visits = len(program.plan.sizes), isinstance(program.functions, Visits)
    crossed = Mixer(None, ()) if mixer is None or visits else spread(mixer, owners, mesh.size)  # type: ignore[arg-type]
    static = static._replace(axis=AXIS, mix=crossed.apply)
    block = one._block_length(static, shards, every, visits)
    world = one.build_world(program, shards, None, seed)
    plain = {name: jax.random.key_data(getattr(world, name)) for name in _KEYS}
    world = world._replace(mixing=crossed.arrays, shards=(), **plain)
    placed = _placed(mesh, world, _WORLD)
    return Parts(static, mesh, owners, block), placed._replace(shards=_records(mesh, shards))


def _records(mesh: Mesh, shards: Shards) -> Shards:
    """Each device gets its own owners' records alone. Made-up owners have one record of zeros, for nobody."""
    owners = shards.x.shape[0]
    rows = held(owners, mesh.size) * mesh.size
    host = [np.asarray(part) for part in shards]

    def place(part: np.ndarray, blank: int) -> Array:
        def cut(index: Any) -> np.ndarray:
            first, last = index[0].start or 0, index[0].stop or rows
            real = part[first : min(last, owners)]
            made_up = np.full((last - first - len(real), *part.shape[1:]), blank, part.dtype)
            return np.concatenate([real, made_up]) if len(made_up) else real

        return jax.make_array_from_callback((rows, *part.shape[1:]), NamedSharding(mesh, Spec(AXIS)), cut)

    return Shards(place(host[0], 0), place(host[1], 0), place(host[2], 1))


def _placed(mesh: Mesh, tree: PyTree, specs: PyTree) -> PyTree:
    """Arrays that every process holds whole, on the devices that need them; `specs` is a prefix of the tree."""

    def put(spec: Spec, branch: PyTree) -> PyTree:
        sharding = NamedSharding(mesh, spec)

        def leaf(value: Any) -> Array:
            value = np.asarray(value)
            return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

        return jax.tree.map(leaf, branch)

    return jax.tree.map(put, specs, tree, is_leaf=lambda node: isinstance(node, Spec))


def _here(parts: Parts, world: World) -> World:
    """Inside `shard_map`: the world as this device sees it. Only records and links differ between devices."""
    first = jax.lax.axis_index(AXIS).astype(jnp.int32) * world.shards.counts.shape[0]
    keys = {name: jax.random.wrap_key_data(getattr(world, name)) for name in _KEYS}
    mixing = jax.tree.map(lambda leaf: leaf[0], world.mixing)
    return world._replace(first=first, mixing=mixing, **keys)


def _own(parts: Parts, world: World) -> World:
    """The rows of the owners here; a made-up owner has the last one's numbers, so that all of its are finite."""
    rows = jnp.minimum(world.first + jnp.arange(world.shards.counts.shape[0]), parts.owners - 1)
    names = ("size", "noise_scale", "numbers", *_KEYS)
    return world._replace(
        **{name: jax.tree.map(lambda leaf: leaf[rows], getattr(world, name)) for name in names}
    )


def _carried(parts: Parts) -> Any:
    """Owners' states live with them; everyone has the register."""
    return Spec(AXIS) if isinstance(parts.static.functions, Rounds) else (Spec(), Spec(AXIS))


@partial(jax.jit, static_argnums=0)
def _start(parts: Parts, world: World, params: PyTree) -> PyTree:
    def start(world: World, params: PyTree) -> PyTree:
        world, functions = _here(parts, world), parts.static.functions
        states = one._states(parts.static, _own(parts, world), params)
        return states if isinstance(functions, Rounds) else (functions.open(params, world.numbers), states)

    return _mapped(parts, start, (_WORLD, Spec()), _carried(parts))(world, params)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def _advance(parts: Parts, world: World, carry: PyTree, ticks: Tick) -> tuple:
    rounds = isinstance(parts.static.functions, Rounds)

    def advance(world: World, carry: PyTree, ticks: Tick) -> tuple:
        world = _here(parts, world)
        if rounds:
            return one._rounds(parts.static, parts.block, _own(parts, world), carry, ticks)
        return one._visits(parts.static, parts.block, world, carry, ticks)

    out = (_carried(parts), Spec(None, AXIS) if rounds else Spec())
    return _mapped(parts, advance, (_WORLD, _carried(parts), Spec()), out)(world, carry, ticks)


@partial(jax.jit, static_argnums=0)
def _models(parts: Parts, carry: PyTree) -> PyTree:
    spec = Spec(AXIS) if isinstance(parts.static.functions, Rounds) else Spec()
    return _mapped(parts, partial(one._models, parts.static), (_carried(parts),), spec)(carry)


def _mapped(parts: Parts, function: Callable, given: tuple, back: Any) -> Callable:
    return jax.shard_map(function, mesh=parts.mesh, in_specs=given, out_specs=back, check_vma=False)


def _chunk(ticks: Tick, first: int, every: int) -> Tick:
    return jax.tree.map(lambda leaf: np.asarray(leaf[first : first + every]), ticks)


@cache
def _copier(mesh: Mesh) -> Callable[[PyTree], PyTree]:
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, Spec()))


def _everyones(parts: Parts, tree: PyTree, axis: int | None = 0) -> PyTree:
    """All owners' rows in every process, without those of made-up owners; axis None: what everyone has already."""
    whole = jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), _copier(parts.mesh)(tree))
    if axis is None or isinstance(parts.static.functions, Visits):
        return whole
    return _cut(parts, whole, axis)


def _cut(parts: Parts, tree: PyTree, axis: int = 0) -> PyTree:
    real = (slice(None),) * axis + (slice(parts.owners),)
    return jax.tree.map(lambda leaf: leaf[real], tree)


def _look(parts: Parts, past: Past, point: int, out: tuple, carry: PyTree, probe: Callable | None) -> None:
    info, message = _everyones(parts, out, axis=1)
    past.points.append(point)
    past.infos.append(info)
    past.messages.append(message)
    if probe is not None:
        models = _everyones(parts, _models(parts, carry))
        if jax.process_index() == 0:
            past.looks.append(_seen(probe, models))


def _seen(probe: Callable, models: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, probe(jax.tree.map(jnp.asarray, models)))


def _keep(parts: Parts, carry: PyTree, past: Past, file: Path, mark: str) -> None:
    """Gather everyone's states, and write them where the first process runs."""
    whole = _everyones(parts, carry, axis=None)
    if jax.process_index() > 0:
        return
    arrays = {
        "points": np.asarray(past.points),
        **checkpoint.flat("carry", _real(parts, whole)),
        **checkpoint.flat("looks", one._stack(past.looks) if past.looks else ()),
        **checkpoint.flat("out", (one._concatenate(past.infos), one._concatenate(past.messages))),
    }
    checkpoint.write(file, mark, arrays)


def _real(parts: Parts, carry: PyTree) -> PyTree:
    """A carry without made-up owners: it can go on over another number of devices."""
    if isinstance(parts.static.functions, Rounds):
        return _cut(parts, carry)
    return carry[0], _cut(parts, carry[1])


def _resumed(
    parts: Parts,
    world: World,
    carry: PyTree,
    ticks: Tick,
    file: Path | None,
    mark: str,
    probe: Callable | None,
) -> tuple[PyTree, Past]:
    """What the checkpoint says, in every process; only the first one reads it."""
    like = _real(parts, jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), carry))
    found, problem = {}, None
    if jax.process_index() == 0:
        try:
            if file is None:
                raise InputError("resume=True: needs the file of a checkpoint. Name it with --checkpoint.")
            found = checkpoint.read(file, mark)
        except InputError as error:
            problem = error
    points = _told(np.asarray(len(found.get("points", ())), np.int32))
    if problem is not None or not points:
        raise problem or InputError("resume: process 0 cannot read the checkpoint. Its own error says why.")
    points = _told(np.asarray(found.get("points", np.zeros(int(points))), np.int32))
    whole = _told(checkpoint.shaped("carry", found, like) if found else like)
    past = Past(points.tolist(), [], [], [])
    if found:
        shapes = jax.eval_shape(partial(_advance, parts), world, carry, ticks)[1]
        info, message = checkpoint.shaped("out", found, shapes)
        past.infos.append(info)
        past.messages.append(message)
    restored = _restored(parts, whole)
    if probe is not None:
        models = _everyones(parts, _models(parts, restored))
        if found:
            looks = checkpoint.shaped("looks", found, _seen(probe, models))
            past.looks.extend(jax.tree.map(lambda leaf: leaf[at], looks) for at in range(len(points)))  # noqa: B023
    return restored, past


def _told(tree: PyTree) -> PyTree:
    """What the first process has, in all of them; as bytes, since only these add up whatever the type."""
    raw = jax.tree.map(lambda leaf: np.frombuffer(leaf.tobytes(), np.uint8), tree)
    heard = hosts.broadcast_one_to_all(raw)
    return jax.tree.map(
        lambda leaf, told: np.frombuffer(np.asarray(told).tobytes(), leaf.dtype).reshape(leaf.shape),
        tree,
        heard,
    )


def _restored(parts: Parts, whole: PyTree) -> PyTree:
    """Put a carry back on the devices; made-up owners get the last one's state, which nobody hears."""
    more = held(parts.owners, parts.mesh.size) * parts.mesh.size - parts.owners

    def padded(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], more, axis=0)]), tree)

    rounds = isinstance(parts.static.functions, Rounds)
    full = padded(whole) if rounds else (whole[0], padded(whole[1]))
    return _placed(parts.mesh, full, _carried(parts))
