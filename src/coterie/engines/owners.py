"""One owner's side of a protocol, mapped over all owners; or over the one that visits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.mechanisms.sampling import Draw, Sampler
from coterie.program import Batch, Context, Groups, Holdings, Program, Shards

T = TypeVar("T")
AXES = Context(owner=0, step=None, turn=None, size=0, clip_norm=0, noise_scale=0, numbers=0, key=0)  # type: ignore[arg-type]


def parts_of(holdings: Holdings) -> tuple[Shards, ...]:
    """The arrays that hold the records."""
    return holdings.shards if isinstance(holdings, Groups) else (holdings,)


def number_of(holdings: Holdings) -> int:
    """How many owners have their records here."""
    return (holdings.place if isinstance(holdings, Groups) else holdings.counts).shape[0]


def context_of(
    program: Program, owner: int, *, step: int = 1, turn: int = 0, key: Array | None = None
) -> Context:
    """One owner's context at one moment, as engines fill it from the program's plan and numbers."""
    plan = program.plan
    return Context(
        owner=jnp.int32(owner),
        step=jnp.int32(step),
        turn=jnp.int32(turn),
        size=jnp.float32(plan.sizes[owner]),
        clip_norm=jnp.asarray(plan.clip_norms[owner]),
        noise_scale=jnp.asarray(plan.noise_scale[owner]),
        numbers=jax.tree.map(lambda leaf: jnp.asarray(leaf)[owner], program.numbers),
        key=jax.random.key(0) if key is None else key,
    )


def rows_of(context: Context, owners: Array) -> Context:
    """The contexts of some owners."""
    return Context(
        *(
            part if axis is None else jax.tree.map(lambda leaf: leaf[owners], part)
            for part, axis in zip(context, AXES)
        )
    )


def flat(message: PyTree) -> Array:
    """All numbers of a message in a row."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(message)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0, jnp.float32)


def with_records(function: Callable, holdings: Holdings, given: tuple, context: Context) -> PyTree:
    """`function(own records, *own rows of given, own context)` of every owner, in the owners' order."""
    mapped = jax.vmap(function, (*(0,) * (len(given) + 1), AXES))
    if isinstance(holdings, Shards):
        return mapped(holdings, *given, context)
    parts = [
        mapped(part, *jax.tree.map(lambda leaf, at=at: leaf[at], given), rows_of(context, at))
        for part, at in zip(holdings.shards, holdings.owners)
    ]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[holdings.place], *parts)


def of_one(function: Callable[[Shards, Array], T], holdings: Holdings, owner: Array) -> T:
    """`function(shards, row)` with the array in which the owner's records are, and their row there."""
    if isinstance(holdings, Shards):
        return function(holdings, owner)
    ends = np.cumsum([shard.counts.shape[0] for shard in holdings.shards])
    place = holdings.place[owner]
    which = jnp.sum(place >= jnp.asarray(ends[:-1], jnp.int32))
    branches = [
        lambda place, part=part, first=int(end) - part.counts.shape[0]: function(
            part, jnp.clip(place - first, 0, part.counts.shape[0] - 1)
        )
        for part, end in zip(holdings.shards, ends)
    ]
    return jax.lax.switch(which, branches, place)


def everything(shard: Shards) -> Batch:
    """All records of the owner whose shard this is."""
    mask = (jnp.arange(shard.x.shape[0]) < shard.counts).astype(jnp.float32)
    return Batch(shard.x, shard.y, mask, shard.within)


def chosen(shard: Shards, sample: Draw) -> Batch:
    """The records that were drawn, of the owner whose shard this is."""
    at = sample.positions
    return Batch(shard.x[at], shard.y[at], sample.mask, None if shard.within is None else shard.within[at])


def drawn(sampler: Sampler, holdings: Holdings, context: Context) -> Batch:
    """Every owner's batch of a round, drawn with the context's keys."""
    longest = _longest(sampler, holdings)

    def draw(shard: Shards, context: Context) -> Batch:
        sample = _drawn(sampler, context.key, shard.x.shape[0], shard.counts, context.turn, longest)
        return chosen(shard, sample)

    return with_records(draw, holdings, (), context)


def drawn_by(sampler: Sampler, holdings: Holdings, owner: Array, key: Array, turn: Array) -> Batch:
    """The visitor's batch."""
    longest = _longest(sampler, holdings)

    def draw(shards: Shards, row: Array) -> Batch:
        sample = _drawn(sampler, key, shards.x.shape[1], shards.counts[row], turn, longest)
        at, within = sample.positions, shards.within
        return Batch(
            shards.x[row, at], shards.y[row, at], sample.mask, None if within is None else within[row, at]
        )

    return of_one(draw, holdings, owner)


def numbers_drawn(sampler: Sampler, holdings: Holdings) -> int:
    """How many numbers all owners' batches of a round take, with what is drawn to choose them."""
    parts = parts_of(holdings)
    choice = sum(part.counts.shape[0] * sampler.cost(part.x.shape[1]) for part in parts)
    record = math.prod(parts[0].x.shape[2:])
    return choice + number_of(holdings) * _longest(sampler, holdings) * record


def _longest(sampler: Sampler, holdings: Holdings) -> int:
    """The length of a batch: the same for all owners."""
    return max(_length(sampler, part.x.shape[1]) for part in parts_of(holdings))


@lru_cache(maxsize=64)
def _length(sampler: Sampler, rows: int) -> int:
    drawn = jax.eval_shape(lambda: sampler.draw(jax.random.key(0), rows, jnp.int32(rows), jnp.int32(0)))
    assert drawn is not None
    return drawn.mask.shape[0]


def _drawn(sampler: Sampler, key: Array, rows: int, count: Array, turn: Array, longest: int) -> Draw:
    drawn = sampler.draw(key, rows, count, turn)
    assert drawn is not None
    more = longest - drawn.mask.shape[0]
    return drawn if more == 0 else Draw(*(jnp.pad(part, (0, more)) for part in drawn))
