"""How a program's messages are mixed: one sum, or gossip; and how much of it noise that owners share needs.

Shared noise (`_shared`) cancels in the mean; an owner's own value holds what gossip has not evened out yet. With P what
a round of gossip does, and U the covariance of everybody's noise in units of an owner's own, the rounds' leftovers add
up to R = mean diag Σ_k P^k U P^kᵀ (without the mean's part; `topologies.residue` computes it). The mean itself has
gathered T/3 rounds' worth of 1/m each by then (weights a(t) = t); local noise, 1/exposure times that. So:

    R ≤ a tenth of what the mean gathered    enough gossip: what is left does not matter
    more                                     owners' models are mixed once more after the last round, until it is
    more than with local noise alone         refused: too little gossip is worse than no shared noise
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import PyTree
from coterie.errors import InputError
from coterie.program import Program
from coterie.protocols.task import Task
from coterie.topologies import Mixer, Topology, aggregate, gossip_steps_for, mixer, residue

ENOUGH = 0.1  # of the variance that the mean gathered


class Mixing(NamedTuple):
    """How a run is mixed."""

    gossip_steps: int  # of each round
    mixer: Mixer
    consensus: int = 0  # gossip steps over owners' models after the last round; 0: not needed


def mixer_of(task: Task, program: Program) -> Mixer:
    """The program's own sum; or one step of gossip over the topology."""
    return mixer(task.topology) if program.aggregate is None else aggregate(program.aggregate)


def mixing_of(task: Task, program: Program, gossip_steps: int | None = None) -> Mixing:
    """The program's own sum; or gossip over the topology, of as many steps as asked for, or as it takes."""
    if program.aggregate is not None:
        return Mixing(1, mixer_of(task, program))
    if program.plan.shared is not None:
        return _of_shared(task, program, gossip_steps)
    steps = gossip_steps_for(task.topology) if gossip_steps is None else gossip_steps
    return Mixing(steps, mixer(task.topology, steps))


def agreed(topology: Topology, steps: int, models: PyTree) -> PyTree:
    """Owners' models (a leading axis of owners), mixed until they are nearly their mean; public as they are.

    Beside them ones are mixed, by which what each owner got is divided: so it is a mean over uneven digraphs, too.
    """
    owners = len(jax.tree.leaves(models)[0])
    together = (jax.tree.map(jnp.asarray, models), jnp.ones(owners))
    apply, arrays = mixer(topology, steps)
    mixed, weight = apply(arrays, together, jnp.int32(1))
    return jax.tree.map(lambda leaf: leaf / weight.reshape(-1, *(1,) * (leaf.ndim - 1)), mixed)


def _of_shared(task: Task, program: Program, gossip_steps: int | None) -> Mixing:
    topology = task.topology
    if gossip_steps is None:
        steps = _fewest(topology, program)
        return Mixing(steps, mixer(topology, steps, exact=True))
    mixing = mixer(topology, gossip_steps, exact=True)
    left, gathered, local = leftovers(topology, program, gossip_steps)
    if left + gathered > local:
        raise InputError(
            f"gossip_steps={gossip_steps}: shared noise would leave owners {math.sqrt((left + gathered) / local):.2g} "
            f"times the noise of view=untrusted. Use {_fewest(topology, program)} steps, or view=untrusted."
        )
    if left <= ENOUGH * gathered:
        return Mixing(gossip_steps, mixing)
    target = math.sqrt(ENOUGH * gathered / left)
    return Mixing(gossip_steps, mixing, gossip_steps_for(topology, target))


def leftovers(topology: Topology, program: Program, gossip_steps: int) -> tuple[float, float, float]:
    """Variances in an owner's last value, in units of its own noise: what gossip leaves of everybody's noise, what the
    mean gathered, and what both would be if every owner's noise were its own."""
    plan, owners = program.plan, topology.owners
    assert plan.shared is not None
    assert plan.charged is not None
    rounds = int(program.schedule)
    own, everybodys = residue(topology, plan.shared.covariance(owners), gossip_steps, rounds)
    gathered = rounds / 3 / owners
    wider = (plan.charged[0] / plan.noise_multiplier[0]) ** 2
    return everybodys, gathered, wider * (gathered + own)


def _fewest(topology: Topology, program: Program) -> int:
    """The fewest gossip steps that are enough."""

    def enough(steps: int) -> bool:
        left, gathered, _ = leftovers(topology, program, steps)
        return left <= ENOUGH * gathered

    high = 1
    while not enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=high // 2 + 1, key=enough)
