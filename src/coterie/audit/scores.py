"""What the attacker makes of a transcript: the likelihood ratio where it is known, a trained statistic elsewhere.

The ratio is known for every program without private state whose messages are affine in independent noise: the
attacker, who knows every record but one, calls the program's own `emit` for both candidates with noise zero for the
mean, and takes its derivative in the noise for the spread. So nothing of a protocol is written down twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from coterie._types import Array, PyTree
from coterie.audit import neighbours as pairs
from coterie.audit.neighbours import Neighbours
from coterie.engines.owners import chosen, context_of, everything, flat, rows_of, with_records
from coterie.engines.steps import Seen
from coterie.mechanisms import Noise, NoNoise
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import NoiseSpec
from coterie.mechanisms.sampling import Draw, Sampler
from coterie.program import Batch, Context, Holdings, Program, Rounds, Shards, Visits

_EXACT = 1e-5  # relative: a number without noise tells worlds apart where it differs by more than rounding
NUDGE = 1e-3  # noise to begin with where slopes at zero may not exist, as those of lengths
_FARTHEST = 1e4  # standard deviations after which a density is as good as zero


class Believed(NamedTuple):
    """Public numbers of the two worlds' programs, (2, owners, ...): equal unless they follow from the record."""

    size: Array
    clip_norm: Array
    noise_scale: Array
    numbers: PyTree
    weights: Array  # of the view

    def of(self, world: int | Array) -> Believed:
        """The numbers of one world, (owners, ...)."""
        return jax.tree.map(lambda leaf: leaf[world], self)

    def told(self, context: Context, owner: Array | None = None) -> Context:
        """The context as it would be in this world: of everybody, or of one owner."""
        at = (lambda leaf: leaf) if owner is None else (lambda leaf: leaf[owner])
        size, clip_norm, scale, numbers = jax.tree.map(at, self[:4])
        return context._replace(size=size, clip_norm=clip_norm, noise_scale=scale, numbers=numbers)


class Known(NamedTuple):
    """What the attacker knows beside the run: arrays, so that another pair of worlds never compiles again."""

    records: Shards  # (2, rows, ...) the owner's records, without and with
    owner: Array  # ()
    weights: Array  # (owners,) the view: it sees Σ weights × messages
    covariance: Array  # (owners, owners) of everybody's unit noise
    believed: Believed  # what each of the two worlds would run with
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
    whole: bool  # messages are whole numbers, which have no derivatives


def known(program: Program, pair: Neighbours, without: Program | None = None) -> Known:
    """The attacker's knowledge, for the view of the program's plan; `without` runs in the world without the record."""
    owner, sampler = pair.owner, program.plan.sampler
    cases = (np.ones(1), np.zeros((1, 1), int), np.ones((1, 1), np.float32))
    if pairs.is_hidden(sampler):
        cases = pairs.hidden_cases(sampler, program.plan.sizes[owner], pair.row)  # type: ignore[arg-type]
    both = jax.tree.map(lambda a, b: jnp.stack([a[owner], b[owner]]), pair.without, pair.with_)
    chance, positions, mask = cases
    numbers = [_believed(running, owner) for running in (without or program, program)]
    return Known(
        records=both,
        owner=jnp.int32(owner),
        weights=numbers[1].weights,
        covariance=jnp.asarray(_covariance(program), jnp.float32),
        believed=jax.tree.map(lambda *leaves: jnp.stack(leaves), *numbers),
        chance=jnp.asarray(chance, jnp.float32),
        positions=jnp.asarray(positions, jnp.int32),
        mask=jnp.asarray(mask, jnp.float32),
    )


def _believed(program: Program, owner: int) -> Believed:
    plan = program.plan
    return Believed(
        size=jnp.asarray(plan.sizes, jnp.float32),
        clip_norm=jnp.asarray(plan.clip_norms),
        noise_scale=jnp.asarray(plan.noise_scale),
        numbers=program.numbers,
        weights=jnp.asarray(view(program, owner), jnp.float32),
    )


def alike(program: Program, other: Program) -> bool:
    """Whether two worlds' runs look alike from outside: the same functions, samples, shapes, steps and speakers."""
    return (
        (program.functions, program.plan.sampler, noises.spec(program.plan), program.plan.releases)
        == (other.functions, other.plan.sampler, noises.spec(other.plan), other.plan.releases)
        and np.array_equal(program.schedule, other.schedule)
        and jax.tree.structure(program.numbers) == jax.tree.structure(other.numbers)
    )


def view(program: Program, owner: int) -> np.ndarray:
    """(owners,) what is seen is Σ view × messages: the owner's own message, or a sum less what colluders know of it."""
    owners, quorum = len(program.plan.sizes), program.plan.quorum
    if program.plan.shared is not None:
        # A record moves one owner's message by Δ e_i: the likelihood ratio reads Σ⁻¹ e_i of all. Scaled so that the
        # owner's own message counts once. Who colludes is not among these owners (`neighbours.honest`).
        inverse = np.linalg.inv(_covariance(program))[owner]
        return inverse / inverse[owner]
    if program.aggregate is None or quorum == 0:
        return np.eye(owners)[owner]
    # Those with the largest part of the noise collude; the attacked owner never does.
    part = np.abs(program.aggregate / np.array(program.plan.sizes)) * program.plan.noise_scale
    if program.plan.masked is not None:  # all have the same part; who is absent is not among the colluders
        part, quorum = np.ones(owners), quorum - program.plan.masked.colluding
    part[owner] = -1.0
    summed = np.argsort(part, kind="stable")[:quorum]
    return np.where(np.isin(np.arange(owners), summed), program.aggregate, 0.0)


def _covariance(program: Program) -> np.ndarray:
    owners, shared = len(program.plan.sizes), program.plan.shared
    return np.eye(owners) if shared is None else shared.covariance(owners)


def mechanics(program: Program, pair: Neighbours) -> Mechanics:
    """The static side of the score; finds out at the program's start which noise enters which number."""
    joint = int(np.count_nonzero(view(program, pair.owner))) > 1
    whole = program.plan.masked is not None  # one noise to each number: `mechanisms.noise.whole` adds them so
    parts = Mechanics(program.functions, program.plan.sampler, noises.spec(program.plan), joint, whole, whole)
    return parts if whole else parts._replace(separate=_is_separate(program, pair, parts))


@lru_cache(maxsize=64)
def likelihood_ratio(parts: Mechanics) -> Callable[[Seen, Holdings, Known], Array]:
    """A watcher that scores each step with log P(seen | with) − log P(seen | without); add them over steps.

    Exact where the module's conditions hold and other owners release full batches. Cached, as it is static under `jit`.
    """
    density = density_of(parts)

    def watch(seen: Seen, shards: Holdings, known: Known) -> Array:
        observed, expected = _looked(parts, seen, shards, known)

        def log_chance(world: int) -> Array:
            chances = jax.vmap(density, (None, 0, 0))(observed, *expected(world))
            return jax.nn.logsumexp(chances + jnp.log(known.chance))

        without, with_ = log_chance(0), log_chance(1)
        return jnp.where(_speaks(seen, known), with_ - without, 0.0)

    return watch


@lru_cache(maxsize=64)
def separation(parts: Mechanics) -> Callable[[Seen, Holdings, Known], Array]:
    """A watcher for public samples: (3,) how far the two worlds' means are apart, in standard deviations of the noise,
    and the noise along that line in either of them, were it the true one; NaN where the record does not show."""

    def watch(seen: Seen, shards: Holdings, known: Known) -> Array:
        observed, expected = _looked(parts, seen, shards, known)
        (without, scale), (with_, _) = ([part[0] for part in expected(world)] for world in (0, 1))
        scale = jnp.maximum(scale, _EXACT * (1.0 + jnp.abs(without)))
        apart = (with_ - without) / scale
        size = jnp.sqrt(jnp.sum(jnp.square(apart)))
        noise = [jnp.sum(apart * (observed - mean) / scale) / size for mean in (without, with_)]
        return jnp.where(_speaks(seen, known), jnp.stack([size, *noise]), jnp.array([0.0, jnp.nan, jnp.nan]))

    return watch


class OwnerStep(NamedTuple):
    """What the attacked owner was shown in a step and what it said; of visits, the visitor."""

    message: Array  # flat
    public: PyTree
    context: Context


def of_owner(seen: Seen, known: Known) -> OwnerStep:
    """The attacked owner's part of a step of rounds; of visits the step, whoever visits."""
    if not seen.context.owner.ndim:
        return OwnerStep(flat(seen.message), seen.public, seen.context)
    message, public = jax.tree.map(lambda leaf: leaf[known.owner], (seen.message, seen.public))
    return OwnerStep(flat(message), public, rows_of(seen.context, known.owner))


def _speaks(seen: Seen, known: Known) -> Array:
    """Whether the attacked owner does."""
    everybody = bool(seen.context.owner.ndim)
    return seen.live if everybody else seen.live & (seen.context.owner == known.owner)


def _looked(
    parts: Mechanics, seen: Seen, shards: Holdings, known: Known
) -> tuple[Array, Callable[[int], tuple[Array, Array]]]:
    """What is seen of a step; and of a world, the mean and the spread that it would have for each of the samples that
    may have entered: (cases, numbers)."""
    own = of_owner(seen, known)
    if isinstance(parts.functions, Rounds):
        observed, weigh = known.weights @ jax.vmap(flat)(seen.message), True
    else:
        observed, weigh = own.message, False

    def answer(record: Shards, public: PyTree, ctx: Context) -> tuple[Array, Array]:
        return _response(parts, public, everything(record), ctx)

    def of_others(world: Believed) -> tuple[Array, Array]:
        mean, spread = with_records(answer, shards, (seen.public,), world.told(seen.context))
        weights = world.weights.at[known.owner].set(0.0)
        return weights @ mean, weights[:, None] * spread

    def expected(at: int) -> tuple[Array, Array]:
        world, records = known.believed.of(at), jax.tree.map(lambda leaf: leaf[at], known.records)
        context = world.told(own.context, known.owner)
        rest, spreads = of_others(world) if parts.joint else (jnp.zeros_like(observed), None)
        weight = world.weights[known.owner] if weigh else jnp.float32(1.0)

        def case(batch: Batch) -> tuple[Array, Array]:
            mean, spread = _response(parts, own.public, batch, context)
            return rest + weight * mean, _together(known, spreads, weight * spread)

        return jax.vmap(case)(batches_of(parts.sampler, records, known, own.context.turn))

    return observed, expected


def _together(known: Known, spreads: Array | None, own: Array) -> Array:
    """Standard deviation of what is seen: of the attacked owner's weighted noise, with that of the others."""
    if spreads is None:
        return jnp.abs(own)
    every = spreads.at[known.owner].set(own)
    return jnp.sqrt(jnp.sum(every * (known.covariance @ every), axis=0))


def density_of(parts: Mechanics) -> Callable[[Array, Array, Array], Array]:
    """log P(observed | mean, scale) of the plan's noise, up to a constant."""
    return partial(_log_density, parts.noise.kind)


def features(seen: Seen, shards: Holdings, known: Known) -> Array:
    """A watcher that keeps what the attacked owner was shown and what it said, for a statistic that is trained."""
    del shards
    own = of_owner(seen, known)
    return _speaks(seen, known).astype(jnp.float32) * jnp.concatenate([own.message, flat(own.public)])


def _response(parts: Mechanics, public: PyTree, batch: Batch, ctx: Context) -> tuple[Array, Array]:
    """Mean and spread of the owner's message, number by number."""
    speak, zeros = speaker(parts, (), public, batch, ctx)
    if parts.whole:
        mean = speak(zeros)[0]
        return mean, jnp.abs(speak(jnp.ones_like(zeros))[0] - mean)
    if parts.separate:
        mean, spread = jax.jvp(lambda unit: speak(unit)[0], (zeros,), (jnp.ones_like(zeros),))
        return mean, jnp.abs(spread)
    slopes = jax.jacfwd(lambda unit: speak(unit)[0])(zeros)
    return speak(zeros)[0], jnp.sqrt(jnp.sum(jnp.square(slopes), axis=1))


def speaker(
    parts: Mechanics, private: PyTree, public: PyTree, batch: Batch, ctx: Context
) -> tuple[Callable[[Array], tuple[Array, PyTree]], Array]:
    """The message, flat, and what the owner keeps, as functions of the flat unit noise; and noise zero."""
    zeros, unflatten = ravel_pytree(noises.unit_noise(parts.noise._replace(kind=NoNoise()), ctx.key))

    def speak(unit: Array) -> tuple[Array, PyTree]:
        message, carried = parts.functions.say(private, public, batch, unflatten(unit), ctx)
        return flat(message), carried

    return speak, zeros


def _is_separate(program: Program, pair: Neighbours, parts: Mechanics) -> bool:
    """Whether each number of a message has at most one noise and each noise at most one number."""
    ctx, knowledge = context_of(program, pair.owner), known(program, pair)
    slopes = np.asarray(_slopes(parts, program.params, program.numbers, ctx, knowledge)) != 0
    return bool(slopes.sum(axis=1).max(initial=0) <= 1 and slopes.sum(axis=0).max(initial=0) <= 1)


@partial(jax.jit, static_argnums=0)  # by itself each operation of a network's message would be compiled
def _slopes(parts: Mechanics, params: PyTree, numbers: PyTree, ctx: Context, known: Known) -> Array:
    """How each number of the owner's first message follows each number of its noise."""
    public, private = parts.functions.begin(params, numbers, ctx)
    batches = batches_of(parts.sampler, jax.tree.map(lambda leaf: leaf[1], known.records), known, ctx.turn)
    batch = jax.tree.map(lambda leaf: leaf[-1], batches)
    speak, zeros = speaker(parts, private, parts.functions.shown(public, ctx), batch, ctx)
    return jax.jacfwd(lambda unit: speak(unit)[0])(zeros + NUDGE)


def batches_of(sampler: Sampler, records: Shards, known: Known, turn: Array) -> Batch:
    """(cases, ...) what may have entered the release: all records, the turn's batch, or one of the hidden samples."""
    if pairs.is_hidden(sampler):
        return chosen(records, Draw(known.positions, known.mask))
    draw = sampler.draw(jax.random.key(0), records.x.shape[0], records.counts, turn)
    batch = everything(records) if draw is None else chosen(records, draw)
    return jax.tree.map(lambda leaf: leaf[None], batch)


def _standard(observed: Array, mean: Array, scale: Array) -> tuple[Array, Array]:
    """The gap in standard deviations, and that deviation: without noise, what rounding could make."""
    least = _EXACT * (1.0 + jnp.abs(mean))
    scale = jnp.maximum(scale, least)
    return jnp.clip((observed - mean) / scale, -_FARTHEST, _FARTHEST), scale


def _log_density(noise: Noise, observed: Array, mean: Array, scale: Array) -> Array:
    """The log density of all numbers of a message together, up to a constant."""
    gap, scale = _standard(observed, mean, scale)
    return jnp.sum(noise.log_density(gap) - jnp.log(scale))
