"""What the attacker makes of a transcript: the likelihood ratio where it is known, a trained statistic elsewhere.

The ratio is known for every program without private state whose messages are affine in independent noise: the
attacker, who knows every record but one, calls the program's own `emit` for both candidates with noise zero for the
mean, and takes its derivative in the noise for the spread. So nothing of a protocol is written down twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from coterie._types import Array, PyTree
from coterie.audit import neighbours as pairs
from coterie.audit.neighbours import Neighbours
from coterie.engines.owners import everything, with_records
from coterie.engines.simulate import Seen
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import NoiseSpec
from coterie.mechanisms.sampling import Sampler
from coterie.program import Batch, Context, Holdings, Program, Rounds, Shards, State, Visits

_EXACT = (
    1e-5  # a coordinate without noise tells worlds apart when it differs by more than rounding, relatively
)
_FARTHEST = 1e4  # standard deviations after which a density is as good as zero


class Known(NamedTuple):
    """What the attacker knows beside the run: arrays, so that another pair of worlds never compiles again."""

    records: Shards  # (2, rows, ...) the owner's records, without and with
    owner: Array  # ()
    weights: Array  # (owners,) the view: it sees Σ weights × messages
    chance: Array  # (cases,) of each hidden sample
    positions: Array  # (cases, batch)
    mask: Array  # (cases, batch)


class Mechanics(NamedTuple):
    """What a compilation of the score depends on."""

    functions: Rounds | Visits
    sampler: Sampler
    noise: NoiseSpec
    joint: bool  # the view sees a sum of several owners' messages
    separate: bool  # each number of a message has one noise of its own


def known(program: Program, pair: Neighbours) -> Known:
    """The attacker's knowledge, for the view of the program's plan."""
    owner, sampler = pair.owner, program.plan.sampler
    cases = (np.ones(1), np.zeros((1, 1), int), np.ones((1, 1), np.float32))
    if pairs.is_hidden(sampler):
        cases = pairs.hidden_cases(sampler, program.plan.sizes[owner], pair.row)  # type: ignore[arg-type]
    both = jax.tree.map(lambda a, b: jnp.stack([a[owner], b[owner]]), pair.without, pair.with_)
    chance, positions, mask = cases
    return Known(
        records=both,
        owner=jnp.int32(owner),
        weights=jnp.asarray(view(program, owner), jnp.float32),
        chance=jnp.asarray(chance, jnp.float32),
        positions=jnp.asarray(positions, jnp.int32),
        mask=jnp.asarray(mask, jnp.float32),
    )


def view(program: Program, owner: int) -> np.ndarray:
    """(owners,) what is seen is Σ view × messages: the owner's own message, or a sum less what colluders know of it."""
    owners, quorum = len(program.plan.sizes), program.plan.quorum
    if program.aggregate is None or quorum == 0:
        return np.eye(owners)[owner]
    # Those with the largest part of the noise collude; the attacked owner never does.
    part = np.abs(program.aggregate / np.array(program.plan.sizes)) * program.plan.noise_scale
    part[owner] = -1.0
    kept = np.argsort(part, kind="stable")[:quorum]
    return np.where(np.isin(np.arange(owners), kept), program.aggregate, 0.0)


def ratio_is_known(program: Program) -> bool:
    """Whether `likelihood_ratio` scores this program: nothing private is kept, and messages are real numbers."""
    functions, numbers = program.functions, program.numbers
    key = jax.random.key(0)
    one = jax.tree.map(lambda leaf: leaf[0], numbers)
    zero = jnp.int32(0)
    context = Context(zero, zero, zero, jnp.float32(1.0), jnp.float32(1.0), one, key)
    start = jax.eval_shape(functions.init, program.params, context)
    private = start.private if isinstance(functions, Rounds) else start
    return not jax.tree.leaves(private)


def mechanics(program: Program, pair: Neighbours) -> Mechanics:
    """The static side of the score; finds out at the program's start which noise enters which number."""
    joint = int(np.count_nonzero(view(program, pair.owner))) > 1
    parts = Mechanics(program.functions, program.plan.sampler, noises.spec(program.plan), joint, False)
    return parts._replace(separate=_is_separate(program, pair, parts))


@lru_cache(maxsize=64)
def likelihood_ratio(parts: Mechanics) -> Callable[[Seen, Holdings, Known], Array]:
    """A watcher that scores each step with log P(seen | with) − log P(seen | without); add them over steps.

    Exact where the module's conditions hold and other owners release full batches. Cached, as it is static under `jit`.
    """
    density = _log_laplace if parts.noise.kind == "laplace" else _log_normal

    def respond(public: PyTree, batch: Batch, ctx: Context) -> tuple[Array, Array]:
        return _response(parts, public, batch, ctx)

    def answer(own: Shards, public: PyTree, ctx: Context) -> tuple[Array, Array]:
        return respond(public, everything(own), ctx)

    def of_others(seen: Seen, shards: Holdings, known: Known) -> tuple[Array, Array]:
        mean, spread = with_records(answer, shards, (seen.public,), seen.context)
        weights = known.weights.at[known.owner].set(0.0)
        return weights @ mean, jnp.square(weights) @ jnp.square(spread)

    def watch(seen: Seen, shards: Holdings, known: Known) -> Array:
        rounds = isinstance(parts.functions, Rounds)
        flat = jax.vmap(_flat)(seen.message) if rounds else _flat(seen.message)
        public, ctx, observed = seen.public, seen.context, flat
        mean, variance, weight = jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.float32(1.0)
        if rounds:
            public, ctx = _at(known.owner, seen)
            observed, weight = known.weights @ flat, known.weights[known.owner]
            zero = jnp.zeros_like(observed)
            mean, variance = of_others(seen, shards, known) if parts.joint else (zero, zero)

        def log_chance(records: Shards) -> Array:
            def case(batch: Batch) -> Array:
                own, spread = respond(public, batch, ctx)
                total = mean + weight * own
                scale = jnp.sqrt(variance + jnp.square(weight * spread))
                return density(observed, total, scale)

            batches = _batches(parts.sampler, records, known, ctx.turn)
            return jax.nn.logsumexp(jax.vmap(case)(batches) + jnp.log(known.chance))

        without, with_ = (
            log_chance(jax.tree.map(lambda leaf, at=at: leaf[at], known.records)) for at in (0, 1)
        )
        speaks = seen.live if rounds else seen.live & (ctx.owner == known.owner)
        return jnp.where(speaks, with_ - without, 0.0)

    return watch


def features(seen: Seen, shards: Holdings, known: Known) -> Array:
    """A watcher that keeps what the attacked owner was shown and what it said, for a statistic that is trained."""
    del shards
    if seen.context.owner.ndim:  # Rounds: everyone's
        public, ctx = _at(known.owner, seen)
        message = jax.tree.map(lambda leaf: leaf[known.owner], seen.message)
        del ctx
        return jnp.concatenate([_flat(message), _flat(public)])
    mine = (seen.live & (seen.context.owner == known.owner)).astype(jnp.float32)
    return mine * jnp.concatenate([_flat(seen.message), _flat(seen.public)])


def _response(parts: Mechanics, public: PyTree, batch: Batch, ctx: Context) -> tuple[Array, Array]:
    """Mean and spread of the owner's message, number by number."""
    said, zeros = _speaker(parts, public, batch, ctx)
    if parts.separate:
        mean, spread = jax.jvp(said, (zeros,), (jnp.ones_like(zeros),))
        return mean, jnp.abs(spread)
    slopes = jax.jacfwd(said)(zeros)
    return said(zeros), jnp.sqrt(jnp.sum(jnp.square(slopes), axis=1))


def _speaker(
    parts: Mechanics, public: PyTree, batch: Batch, ctx: Context
) -> tuple[Callable[[Array], Array], Array]:
    """The message as a function of the unit noise, both flat; and noise zero."""
    functions = parts.functions
    zeros, unflatten = ravel_pytree(noises.unit_noise(parts.noise._replace(kind="none"), ctx.key))

    def said(unit: Array) -> Array:
        noise = unflatten(unit)
        if isinstance(functions, Rounds):
            return _flat(functions.emit(State(public, ()), batch, noise, ctx)[0])
        return _flat(functions.emit((), public, batch, noise, ctx)[0])

    return said, zeros


def _is_separate(program: Program, pair: Neighbours, parts: Mechanics) -> bool:
    """Whether each number of a message has at most one noise and each noise at most one number."""
    start = jax.tree.map(lambda leaf: leaf[pair.owner], program.numbers)
    plan, one = program.plan, jnp.int32(1)
    size, scale = jnp.float32(plan.sizes[pair.owner]), jnp.float32(plan.noise_scale[pair.owner])
    ctx = Context(jnp.int32(pair.owner), one, jnp.int32(0), size, scale, start, jax.random.key(0))
    functions = program.functions
    if isinstance(functions, Rounds):
        public = functions.init(program.params, ctx).public
    else:
        public = functions.ask(functions.open(program.params, program.numbers), ctx)
    found = known(program, pair)
    batches = _batches(parts.sampler, jax.tree.map(lambda leaf: leaf[1], found.records), found, ctx.turn)
    batch = jax.tree.map(lambda leaf: leaf[-1], batches)
    said, zeros = _speaker(parts, public, batch, ctx)
    slopes = np.asarray(jax.jacfwd(said)(zeros)) != 0
    return bool(slopes.sum(axis=1).max(initial=0) <= 1 and slopes.sum(axis=0).max(initial=0) <= 1)


def _batches(sampler: Sampler, records: Shards, known: Known, turn: Array) -> Batch:
    """(cases, ...) what may have entered the release: all records, the turn's batch, or one of the hidden samples."""
    if pairs.is_hidden(sampler):
        return Batch(records.x[known.positions], records.y[known.positions], known.mask)
    draw = sampler.draw(jax.random.key(0), records.x.shape[0], records.counts, turn)
    at = None if draw is None else draw.positions
    batch = everything(records) if draw is None else Batch(records.x[at], records.y[at], draw.mask)
    return jax.tree.map(lambda leaf: leaf[None], batch)


def _at(owner: Array, seen: Seen) -> tuple[PyTree, Context]:
    public = jax.tree.map(lambda leaf: leaf[owner], seen.public)
    ctx = seen.context
    numbers = jax.tree.map(lambda leaf: leaf[owner], ctx.numbers)
    return public, Context(
        owner, ctx.step, ctx.turn, ctx.size[owner], ctx.noise_scale[owner], numbers, ctx.key[owner]
    )


def _flat(tree: PyTree) -> Array:
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0, jnp.float32)


def _standard(observed: Array, mean: Array, scale: Array) -> tuple[Array, Array]:
    """How far off, and by what; a number without noise gets as much as rounding could make."""
    least = _EXACT * (1.0 + jnp.abs(mean))
    scale = jnp.maximum(scale, least)
    return jnp.clip((observed - mean) / scale, -_FARTHEST, _FARTHEST), scale


def _log_normal(observed: Array, mean: Array, scale: Array) -> Array:
    gap, scale = _standard(observed, mean, scale)
    return -jnp.sum(0.5 * jnp.square(gap) + jnp.log(scale))


def _log_laplace(observed: Array, mean: Array, scale: Array) -> Array:
    gap, scale = _standard(observed, mean, scale)
    return -jnp.sum(jnp.abs(gap) + jnp.log(scale))
