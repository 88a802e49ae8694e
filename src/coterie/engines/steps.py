"""The steps that every engine takes: everyone's side of a round or a visit, from what a run's world holds.

`simulate` takes them for all owners in one process, `spmd` for the owners of each device, `sweep` for many runs side by
side. Randomness is drawn in blocks of rounds that stay in cache and handed to `emit`: drawing normals is the
bottleneck of private training, and one draw of a block costs a fraction of many small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.engines.blocks import in_blocks, once
from coterie.engines.owners import (
    AXES,
    drawn,
    drawn_by,
    everything,
    number_of,
    numbers_drawn,
    of_one,
    rows_of,
    with_records,
)
from coterie.engines.schedule import Tick
from coterie.errors import InputError
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import NoiseSpec
from coterie.mechanisms.normals import WIDE
from coterie.mechanisms.sampling import FullBatch, Sampler
from coterie.mechanisms.shared import Sharing, correlated, sharing_of
from coterie.program import Context, Holdings, Program, Rounds, Shards, State, Trace, Visits
from coterie.topologies.mixing import Mixer

_BLOCK = 1 << 19  # numbers drawn or gathered at once: 2 MiB of float32 stay near the cores


class Static(NamedTuple):
    """What a compilation depends on, beside shapes."""

    functions: Rounds | Visits
    sampler: Sampler
    noise: NoiseSpec
    mix: Callable | None
    watch: Callable | None  # (seen, holdings, aside) -> what to keep of a step
    axis: str | None = None  # the mesh axis that owners are spread over; None: all of them are here
    padded: bool = False  # whether some rounds are not live, and change nothing


class RunWorld(NamedTuple):
    """Every number a run depends on: arguments of the compiled program, never part of it."""

    shards: Holdings
    first: Array  # () int32, the number of the first owner whose records are here
    size: Array  # (owners,) float32
    clip_norm: Array  # (owners,) float32
    noise_scale: Array  # (owners,) float32
    numbers: PyTree
    noise_keys: Array  # (owners,)
    sampling_keys: Array
    coin_keys: Array
    sharing: Sharing | tuple[()]  # who shares noise with whom; () where nobody does
    mixing: PyTree
    aside: PyTree = ()  # what `watch` reads beside the run


class Seen(NamedTuple):
    """One step as a watcher sees it: public values alone. Rounds: everyone's, with a leading axis of owners."""

    public: PyTree  # Rounds: public states before the step; Visits: what the visitor was shown
    message: PyTree
    context: Context
    live: Array  # () bool: Visits, whether the visitor spoke


def compile_key(program: Program, shards: Holdings, mixer: Mixer | None, watch: Callable | None) -> Static:
    """What the compiled program is looked up by; checks that the parts fit together."""
    owners = number_of(shards)
    if len(program.plan.sizes) != owners:
        raise InputError(
            f"the plan is for {len(program.plan.sizes)} owners, the data has {owners}: must be equal."
        )
    if isinstance(program.functions, Rounds) and mixer is None:
        raise InputError("mixer=None: a protocol of rounds needs a topology to mix over.")
    return Static(
        functions=program.functions,
        sampler=program.plan.sampler,
        noise=noises.spec(program.plan),
        mix=mixer.apply if mixer is not None else None,
        watch=watch,
    )


def build_world(program: Program, shards: Holdings, mixer: Mixer | None, seed: int) -> RunWorld:
    """Gather every number of the run."""
    return RunWorld(
        shards=shards,
        first=jnp.int32(0),
        size=jnp.asarray(program.plan.sizes, jnp.float32),
        clip_norm=jnp.asarray(program.plan.clip_norms),
        noise_scale=jnp.asarray(program.plan.noise_scale),
        numbers=program.numbers,
        sharing=sharing_of(program.plan, jnp.uint32(seed)) if program.plan.shared else (),
        mixing=mixer.arrays if mixer is not None else (),
        **_keys(jnp.uint32(seed), number_of(shards)),
    )


def keyed(world: RunWorld, seed: Array) -> RunWorld:
    """The same run with another seed."""
    shared = world.sharing.keyed(seed) if isinstance(world.sharing, Sharing) else ()
    return world._replace(sharing=shared, **_keys(seed, number_of(world.shards)))


def _keys(seed: Array, owners: int) -> dict[str, Array]:
    streams = {"noise_keys": noises.NOISE, "sampling_keys": noises.SAMPLING, "coin_keys": noises.COINS}
    return {name: noises.owner_keys(seed, stream, owners) for name, stream in streams.items()}


def block_length(static: Static, shards: Holdings, every: int, games: int = 1) -> int:
    """How many steps' randomness is drawn at once, so that what is drawn stays near the cores."""
    owners, visits = number_of(shards), isinstance(static.functions, Visits)
    numbers = owners * static.noise.size
    if not isinstance(static.sampler, FullBatch):
        numbers += numbers_drawn(static.sampler, shards)
    return int(np.clip(_BLOCK // max(games * numbers // (owners if visits else 1), 1), 1, every))


@partial(jax.jit, static_argnums=0)
def start(static: Static, world: RunWorld, params: PyTree, own: RunWorld | None = None) -> PyTree:
    """What the first step begins from: the register, which is () where owners visit none, and owners' states.

    `own`: the rows of the owners here, where they are spread over devices.
    """
    context = _context(own or world, jnp.int32(0), jnp.int32(0), (own or world).coin_keys)
    states = jax.vmap(static.functions.init, (None, AXES))(params, context)
    functions = static.functions
    return functions.open(params, world.numbers) if isinstance(functions, Visits) else (), states


def take_rounds(static: Static, block: int, world: RunWorld, carry: tuple, ticks: Tick) -> tuple:
    """Rounds: every owner emits, messages are mixed, every owner absorbs."""
    functions = static.functions
    assert isinstance(functions, Rounds)
    assert static.mix is not None
    mix, watch = static.mix, static.watch

    def draw(tick: Tick) -> tuple:
        """Noise and records of all owners for one round; `scan` sees them as data, so nothing is drawn twice."""
        fold = jax.vmap(jax.random.fold_in, (0, None))
        keys = fold(world.noise_keys, tick.step)
        noise = jax.vmap(lambda key: static.noise.kind.unit(key, static.noise.size))(keys)
        if isinstance(world.sharing, Sharing):
            noise = correlated(static.noise, world.sharing, noise, world.first, tick.step, static.axis)
        batch = None  # all records are in it: no copies
        if not isinstance(static.sampler, FullBatch):
            keys = fold(world.sampling_keys, tick.step)
            batch = drawn(static.sampler, world.shards, _context(world, tick.step, tick.turn, keys))
        return (noise, batch), fold(world.coin_keys, tick.step)

    def step(state: State, given: tuple) -> tuple:
        tick, ((noise, batch), coins) = given
        context = _context(world, tick.step, tick.turn, coins)
        noise = jax.vmap(partial(noises.split, static.noise))(noise)
        if batch is None:
            message, private = with_records(
                lambda own, state, noise, context: functions.emit(state, everything(own), noise, context),
                world.shards,
                (state, noise),
                context,
            )
        else:
            message, private = jax.vmap(functions.emit, (0, 0, 0, AXES))(state, batch, noise, context)
        message = once(message, tick.step)  # else XLA computes it anew for every neighbour
        mixed = mix(world.mixing, message, tick.step)
        public, info = jax.vmap(functions.absorb, (0, 0, 0, AXES))(state.public, message, mixed, context)
        watched = watch and watch(Seen(state.public, message, context, tick.live), world.shards, world.aside)
        after = State(public, private)
        if static.padded:
            after = jax.tree.map(partial(jnp.where, tick.live), after, state)
        return after, (info, watched)

    nothing, states = carry
    states, out = in_blocks(step, draw, states, ticks, block)
    return (nothing, states), out


def take_visits(static: Static, block: int, world: RunWorld, carry: tuple, ticks: Tick) -> tuple:
    """Visits: one owner at a time meets the register."""
    functions = static.functions
    assert isinstance(functions, Visits)
    condensed, watch = _condensed(static, world), static.watch

    def draw(tick: Tick) -> tuple:
        def key(keys: Array) -> Array:
            return jax.random.fold_in(keys[tick.owner], tick.step)

        noise = static.noise.kind.unit(key(world.noise_keys), static.noise.size)
        batch = None  # as in rounds
        if not isinstance(static.sampler, FullBatch):
            here, _ = _whereabouts(static, world, tick.owner)
            batch = drawn_by(static.sampler, world.shards, here, key(world.sampling_keys), tick.turn)
        return noise, batch, key(world.coin_keys)

    def step(carry: tuple, given: tuple) -> tuple:
        register, everyones = carry
        tick, (flat, batch, coins) = given
        noise = noises.split(static.noise, flat)
        here, mine = _whereabouts(static, world, tick.owner)
        public = (world.size, world.clip_norm, world.noise_scale, world.numbers)
        size, clip_norm, scale, numbers = _rows_at(tick.owner, public)
        context = Context(tick.owner, tick.step, tick.turn, size, clip_norm, scale, numbers, coins)
        # Stored first, or XLA reads everyone's state after this visit has changed it, and copies all of it for that.
        private = once(_rows_at(here, everyones), tick.step)
        brief = _rows_at(here, condensed)
        query = functions.ask(register, context)
        records = brief if batch is None else batch

        def emit() -> tuple[PyTree, PyTree]:
            if records is not None:
                return functions.emit(private, query, records, noise, context)
            return of_one(
                lambda shards, row: functions.emit(
                    private, query, everything(_rows_at(row, shards)), noise, context
                ),
                world.shards,
                here,
            )

        message, private = _spoken(static, tick.live & mine, private, emit)
        settled, info = functions.settle(register, message, context)
        everyones = jax.tree.map(
            lambda all_, new: jax.lax.dynamic_update_index_in_dim(all_, new, here, 0), everyones, private
        )
        register = jax.tree.map(partial(jnp.where, tick.live), settled, register)
        watched = watch and watch(Seen(query, message, context, tick.live), world.shards, world.aside)
        return (register, everyones), (info, watched)

    return in_blocks(step, draw, carry, ticks, block)


def _rows_at(row: Array, tree: PyTree) -> PyTree:
    """One row of each leaf."""
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, row, 0, keepdims=False), tree)


def _condensed(static: Static, world: RunWorld) -> PyTree | None:
    """What owners' emits need of all their records, where the program can say so; once for all visits."""
    assert isinstance(static.functions, Visits)
    condense = static.functions.condense
    if condense is None or not isinstance(static.sampler, FullBatch):
        return None
    here = jnp.minimum(world.first + jnp.arange(number_of(world.shards)), world.size.shape[0] - 1)
    own = rows_of(_context(world, jnp.int32(0), jnp.int32(0), world.coin_keys), here)._replace(owner=here)

    def brief(shards: Shards, context: Context) -> PyTree:
        return condense(everything(shards), context)

    return jax.lax.optimization_barrier(with_records(brief, world.shards, (), own))


def _whereabouts(static: Static, world: RunWorld, owner: Array) -> tuple[Array, Array | bool]:
    """The owner's row among the records here, and whether it has one: where owners are spread, some are elsewhere."""
    if static.axis is None:
        return owner, True
    here, rows = owner - world.first, number_of(world.shards)
    return jnp.clip(here, 0, rows - 1), (here >= 0) & (here < rows)


def _spoken(
    static: Static, speaks: Array, private: PyTree, emit: Callable[[], tuple]
) -> tuple[PyTree, PyTree]:
    """What everyone hears of the visitor, and what it keeps: nothing, unless it speaks.

    An owner that has made all its releases says nothing: its message is blanked before anyone sees it. Where
    owners are spread, only the visitor's own device computes; the others add zeros to what it says.
    """
    if static.axis is None:
        message, after = emit()
        message = jax.tree.map(lambda leaf: jnp.where(speaks, leaf, jnp.zeros_like(leaf)), message)
        return message, jax.tree.map(partial(jnp.where, speaks), after, private)
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(emit)[0])
    message, after = jax.lax.cond(speaks, emit, lambda: (blank, private))
    return jax.lax.psum(message, static.axis), after


def take(static: Static, block: int, world: RunWorld, carry: PyTree, ticks: Tick) -> tuple:
    """The steps of these ticks: the carry after them, and (info, what `watch` kept) of each."""
    if isinstance(static.functions, Rounds):
        return take_rounds(static, block, world, carry, ticks)
    return take_visits(static, block, world, carry, ticks)


advance = jax.jit(take, static_argnums=(0, 1), donate_argnums=3, compiler_options=WIDE)


def compilations() -> int:
    """How often the steps of a run in one process were compiled."""
    return advance._cache_size()  # type: ignore[attr-defined]


def keep_message(seen: Seen, shards: Holdings, aside: PyTree) -> PyTree:
    """The watcher that keeps the transcript."""
    del shards, aside
    return seen.message


def _context(world: RunWorld, step: Array, turn: Array, keys: Array) -> Context:
    """All owners' contexts of one round, to be mapped over by `owners.AXES`."""
    owner = world.first + jnp.arange(len(world.size), dtype=jnp.int32)
    return Context(owner, step, turn, world.size, world.clip_norm, world.noise_scale, world.numbers, keys)


@partial(jax.jit, static_argnums=0)
def models(static: Static, carry: PyTree) -> PyTree:
    """The owners' models, with a leading axis of owners; a register counts as one owner."""
    register, states = carry
    if isinstance(static.functions, Rounds):
        return jax.vmap(static.functions.model)(states.public)
    return jax.tree.map(lambda leaf: leaf[None], static.functions.model(register))


class PastSteps(NamedTuple):
    """What a run has left behind so far, as lists of one entry a chunk; looks only where the probe looks."""

    points: list[int]
    looks: list[PyTree]
    infos: list[PyTree]
    messages: list[PyTree]

    def trace(self, model: PyTree, turns: np.ndarray, transcript: bool) -> Trace:
        """All of it, joined."""
        return Trace(
            step=np.asarray(self.points),
            probes=joined(self.looks, np.stack) if self.looks else None,
            model=model,
            info=joined(self.infos, np.concatenate),
            messages=joined(self.messages, np.concatenate) if transcript else None,
            turns=turns,
        )


def joined(trees: list, how: Callable[[list], np.ndarray]) -> PyTree:
    """Equal trees as one, leaf by leaf: `np.stack`, or `np.concatenate`."""
    return jax.tree.map(lambda *leaves: how([np.asarray(leaf) for leaf in leaves]), *trees)
