"""The likelihood ratio of a program that keeps private state: hidden steps are followed from message to message.

An owner's private state is a function of its records, its coin flips and the noise of its earlier releases. The
attacker, who knows the records of either world, starts both of them as the program does and carries each on: from a
message it infers the noise that this world would have needed, and hands that to the program's own `emit` for what the
owner keeps. So a record that was used in secret is charged to the release in which it shows, many visits later.

Coin flips are given to the attacker. Where they choose between public actions on public grounds they say nothing of the
records; where they are themselves what protects (`plan.extra` charges them) this score must not be used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.audit import neighbours as pairs
from coterie.audit import scores
from coterie.audit.scores import Believed, Known, Mechanics, OwnerStep
from coterie.engines.schedule import ticks_of
from coterie.engines.steps import Seen
from coterie.mechanisms import noise as noises
from coterie.program import Holdings, Program, Rounds

_PASSES = 3  # infer what choices depend on, then what that choice released; then what the owner keeps of it


def can_follow(program: Program, parts: Mechanics) -> bool:
    """Whether each message tells its noise, samples are public, and no coin flip is charged as protection."""
    return parts.separate and program.plan.extra is None and not pairs.is_hidden(program.plan.sampler)


def notes(seen: Seen, shards: Holdings, known: Known) -> OwnerStep:
    """A watcher that keeps what the attacked owner was shown and said."""
    del shards
    return scores.of_owner(seen, known)


def own_steps(program: Program, owner: int) -> np.ndarray:
    """The steps at which the owner releases something."""
    ticks, _ = ticks_of(program)
    if isinstance(program.functions, Rounds):
        return np.arange(len(ticks.step))
    return np.flatnonzero((np.asarray(ticks.owner) == owner) & np.asarray(ticks.live))


@lru_cache(maxsize=16)
def likelihood_ratio(parts: Mechanics) -> Callable[[OwnerStep, Array, Known, PyTree], Array]:
    """(games,) log P(seen | with) − log P(seen | without), of notes (games, own steps, ...) and the games' seeds."""
    density = scores.density_of(parts)

    def in_world(at: Array, note: OwnerStep, seed: Array, known: Known, params: PyTree) -> Array:
        believed, records = known.believed.of(at), jax.tree.map(lambda leaf: leaf[at], known.records)

        def step(private: PyTree, note: OwnerStep) -> tuple[PyTree, Array]:
            context = believed.told(note.context, known.owner)
            batches = scores.batches_of(parts.sampler, records, known, context.turn)
            batch = jax.tree.map(lambda leaf: leaf[0], batches)
            speak, zeros = scores.speaker(parts, private, note.public, batch, context)
            fit = _fitted(speak, zeros + scores.NUDGE, note.message, private)
            return fit.private, density(note.message, fit.mean, fit.spread)

        start = _start(parts, believed, note, seed, known, params)
        return jnp.sum(jax.lax.scan(step, start, note)[1])

    def game(note: OwnerStep, seed: Array, known: Known, params: PyTree) -> Array:
        worlds = jax.vmap(in_world, (0, None, None, None, None))
        without, with_ = worlds(jnp.arange(2), note, seed, known, params)
        return with_ - without

    return jax.jit(jax.vmap(game, (0, 0, None, None)))


class _Fit(NamedTuple):
    """A message as an affine function of its noise, next to the noise that explains it."""

    unit: Array
    mean: Array
    spread: Array
    private: PyTree  # what the owner keeps with that noise


def _start(
    parts: Mechanics, believed: Believed, note: OwnerStep, seed: Array, known: Known, params: PyTree
) -> PyTree:
    """The owner's private state before its first step, as the engine makes it."""
    key = noises.owner_keys(seed, noises.COINS, believed.size.shape[0])[known.owner]
    first = jax.tree.map(lambda leaf: leaf[0], note.context)
    zero = jnp.int32(0)
    context = believed.told(first, known.owner)._replace(owner=known.owner, step=zero, turn=zero, key=key)
    return parts.functions.begin(params, believed.numbers, context)[1]


def _fitted(speak: Callable, unit: Array, observed: Array, private: PyTree) -> _Fit:
    """Newton's steps to the noise with which the message would have been the observed one."""

    def again(fit: _Fit, _: None) -> tuple[_Fit, None]:
        value, slope_along, carried = jax.linearize(speak, fit.unit, has_aux=True)
        slope = slope_along(jnp.ones_like(fit.unit))
        gap = jnp.where(slope != 0, (observed - value) / jnp.where(slope != 0, jnp.square(slope), 1.0), 0.0)
        (step,) = jax.linear_transpose(slope_along, fit.unit)(gap)
        return _Fit(fit.unit + step, value - slope_along(fit.unit), jnp.abs(slope), carried), None

    start = _Fit(unit, jnp.zeros_like(observed), jnp.zeros_like(observed), private)
    return jax.lax.scan(again, start, None, length=_PASSES)[0]
