"""All owners in one process: `vmap` over owners, `scan` over rounds. The reference the other engines match."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from coterie._types import Array, PyTree
from coterie.engines import steps
from coterie.engines.schedule import Tick, ticks_of
from coterie.engines.steps import RunWorld, Seen, Static
from coterie.mechanisms.normals import WIDE
from coterie.program import Holdings, Program, Trace
from coterie.topologies.mixing import Mixer


def simulate(
    program: Program,
    shards: Holdings,
    mixer: Mixer | None = None,
    *,
    seed: int,
    every: int | None = None,
    probe: Callable[[PyTree], PyTree] | None = None,
    transcript: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Run the program on everyone's records.

    `probe` is called with the owners' models (a leading axis of owners) every `every` steps and at the end;
    `progress` with (steps done, steps in all). The transcript of all messages is kept when asked for.
    """
    static = steps.compile_key(program, shards, mixer, steps.keep_message if transcript else None)
    world = steps.build_world(program, shards, mixer, seed)
    ticks, turns = ticks_of(program)
    total = len(ticks.step)
    every = min(every or total, total)
    block = steps.block_length(static, world.shards, every)
    past = steps.PastSteps([], [], [], [])
    with jax.threefry_partitionable(False):  # the same generator, two to three times faster on a CPU
        carry = steps.start(static, world, program.params)
        for first in range(0, total, every):
            chunk = jax.tree.map(lambda leaf, first=first: leaf[first : first + every], ticks)
            carry, (info, message) = steps.advance(static, block, world, carry, chunk)
            past.infos.append(info)
            past.messages.append(message)
            past.points.append(min(first + every, total))
            if probe is not None:
                past.looks.append(jax.tree.map(np.asarray, probe(steps.models(static, carry))))
            if progress is not None:
                jax.block_until_ready(carry)
                progress(past.points[-1], total)
    return past.trace(steps.models(static, carry), turns, transcript)


def play(
    program: Program,
    shards: Holdings,
    mixer: Mixer | None,
    *,
    seeds: Array,
    watch: Callable[[Seen, Holdings, PyTree], PyTree],
    aside: PyTree = (),
) -> PyTree:
    """Many runs side by side, one for each of `seeds`: (games, steps, ...) of what `watch` keeps of each step.

    A game with seed s is the run that `simulate` makes with it. Transcripts are not stored unless `watch` keeps them.
    """
    static = steps.compile_key(program, shards, mixer, watch)
    world = steps.build_world(program, shards, mixer, 0)._replace(aside=aside)
    ticks, _ = ticks_of(program)
    block = steps.block_length(static, shards, len(ticks.step), len(seeds))
    with jax.threefry_partitionable(False):
        return _games(static, block, world, ticks, program.params, seeds)


@partial(jax.jit, static_argnums=(0, 1), compiler_options=WIDE)
def _games(static: Static, block: int, world: RunWorld, ticks: Tick, params: PyTree, seeds: Array) -> PyTree:
    def game(seed: Array) -> PyTree:
        own = steps.keyed(world, seed)
        _, (_, watched) = steps.take(static, block, own, steps.start(static, own, params), ticks)
        return watched

    return jax.vmap(game)(seeds)
