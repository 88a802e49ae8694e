"""The same programs over many devices and processes: `jax.shard_map` over owners, one trust domain, in lockstep.

Every device holds a run of owners with their records and states, and takes the steps of `simulate` on them. Messages
cross where the topology needs them (`topologies.crossing`); a visitor's message reaches every device's copy of the
register. An owner's randomness comes from (seed, owner, step), so it does not matter where the owner lives.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from coterie._types import PyTree
from coterie.engines import checkpoint, resuming
from coterie.engines.layout import MeshLayout, advance, everyones, laid_out, models, start
from coterie.engines.processes import check_agreement, losing
from coterie.engines.schedule import Tick, ticks_of
from coterie.engines.steps import PastSteps
from coterie.program import Holdings, Program, Trace
from coterie.topologies.mixing import Mixer


def spmd(
    program: Program,
    shards: Holdings,
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
    compared = keep is not None or resume or jax.process_count() > 1
    # Hashing all records takes as long as many rounds, so it is left out where nobody compares.
    mark = checkpoint.digest(program, shards, mixer, (seed, every, transcript, settings)) if compared else ""
    ticks, turns = ticks_of(program)
    total = len(ticks.step)
    every = min(every or total, total)
    with losing(), jax.threefry_partitionable(False):  # as `simulate` does
        check_agreement(mark)
        parts, world = laid_out(program, shards, mixer, seed, every, transcript)
        carry = start(parts, world, jax.tree.map(np.asarray, program.params))
        past = PastSteps([], [], [], [])
        if resume:
            _, like = advance.eval_shape(parts, world, carry, _chunk(ticks, 0, every))
            carry, past = resuming.resume(parts, carry, like, keep, mark, probe)
        for first in range(past.points[-1] if past.points else 0, total, every):
            carry, out = advance(parts, world, carry, _chunk(ticks, first, every))
            _note(parts, past, min(first + every, total), out)
            _look(parts, past, carry, probe)
            if keep is not None:
                resuming.keep(parts, carry, past, keep, mark)
            if progress is not None:
                progress(past.points[-1], total)
        model = everyones(parts, models(parts, carry))
    return past.trace(model, turns, transcript)


def _chunk(ticks: Tick, first: int, every: int) -> Tick:
    return jax.tree.map(lambda leaf: np.asarray(leaf[first : first + every]), ticks)


def _note(parts: MeshLayout, past: PastSteps, point: int, out: tuple) -> None:
    info, message = everyones(parts, out, axis=1)
    past.points.append(point)
    past.infos.append(info)
    past.messages.append(message)


def _look(parts: MeshLayout, past: PastSteps, carry: PyTree, probe: Callable | None) -> None:
    if probe is None:
        return
    gathered = everyones(parts, models(parts, carry))
    if jax.process_index() == 0:
        past.looks.append(resuming.look(probe, gathered))
