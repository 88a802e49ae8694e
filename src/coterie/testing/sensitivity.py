"""How far one record moves an owner's messages, in units of the noise on them.

A message is A(records) + B(noise). Whatever a changed record does to it must be explained by B alone, as a shift of
the noise: no longer than the plan is charged for. Two turns are taken, so that what private state carries over from
the first to the second counts too; in between, the public state is the same in both worlds, as it is made of messages
that the adversary knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from coterie._types import Array, PyTree
from coterie.accounting.atoms import flatten
from coterie.engines.owners import context_of, flat
from coterie.mechanisms import ReleasePlan
from coterie.program import Batch, Program, Rounds, Shards
from coterie.testing.failure import ContractError

OWNER = 0
SLACK = 1e-3  # float32 arithmetic and its derivatives
_SCALES = (1.0, 100.0, 1e6, math.inf)  # of the changed record's features: nobody promises their norm
_AWAY = (0.0, 3.0, 30.0)  # how far from the start an owner is met


class Shift(NamedTuple):
    """The worst neighbours found: what the noise must be shifted by, and what the plan is charged for."""

    allowed: float
    measured: float


_Held: TypeAlias = tuple[
    np.ndarray, ...
]  # an owner's features and targets; of units also how many records each has


class _Pair(NamedTuple):
    """An owner's batches at its first turns in two worlds, and in how many of them the record is that differs."""

    first: tuple[Batch, ...]
    second: tuple[Batch, ...]
    times: int


def measure(program: Program, records: Shards, smaller: Program | None, seed: int) -> Shift:
    """The worst shift over hostile neighbours; fails where noise cannot explain what a record did.

    `smaller`: the program that is built when the owner has a record less, where the relation keeps sizes private.
    """
    rng, turns = np.random.default_rng(seed), min(2, messages_of(program, OWNER))
    speaker = _speaker(program, turns)
    worst = Shift(charged(program, 1), 0.0)
    for trial in range(len(_SCALES) * len(_AWAY) * 2):
        pair = _pair(program, records, turns, rng, _SCALES[trial % len(_SCALES)], (True, smaller is None))
        far = _AWAY[trial % len(_AWAY)]
        away = jax.tree.map(lambda leaf, far=far: leaf + _normal(rng, far, leaf), program.params)
        shift = _shift(speaker, program, smaller, pair, away, int(rng.integers(2**31)))
        allowed = charged(program, pair.times)
        if shift / allowed > worst.measured / worst.allowed:
            worst = Shift(allowed, shift)
    masked = _pair(program, records, turns, rng, 1.0, (False, False))
    if _shift(speaker, program, None, masked, program.params, seed) > SLACK * worst.allowed:
        raise ContractError(
            "sensitivity: a record whose mask is 0 moves a message; allowed: no effect. Multiply by batch.mask."
        )
    return Shift(float(worst.allowed), float(worst.measured))


def charged(program: Program, times: int) -> float:
    """How far the plan's events let the noise of `times` messages with a record be shifted, in the noise's norm.

    Sensitivity: a replaced record moves a sum by 2 clip norms, an added one by 1: over the noise's scale, 2/z or 1/z a
    release. Releases of Gaussian noise add up in the 2-norm, those of Laplace noise in the 1-norm.
    """
    plan = program.plan
    step, norm = plan.relation.reach, plan.noise.norm
    # Others' noise is on no message of this owner alone.
    with_others = bool(plan.quorum) or plan.shared is not None
    faced = plan.noise_multiplier if with_others or plan.charged is None else plan.charged
    releases = times * plan.releases[OWNER] / messages_of(program, OWNER)
    total = releases * (step / faced[OWNER]) ** norm
    if plan.extra is not None:
        total += flatten(plan.extra[OWNER]).precision * step**2
    return total ** (1 / norm)


def messages_of(program: Program, owner: int) -> int:
    """How many messages an owner may send: all its releases, or one for all of them where steps are taken at home."""
    at_home = isinstance(program.functions, Rounds) and int(program.schedule) == 1
    return 1 if at_home else program.plan.releases[owner]


def _normal(rng: np.random.Generator, far: float, leaf: Array) -> Array:
    return jnp.asarray(far * rng.standard_normal(jnp.shape(leaf)), jnp.result_type(leaf))


def _pair(
    program: Program,
    records: Shards,
    turns: int,
    rng: np.random.Generator,
    scale: float,
    there: tuple[bool, bool] = (True, True),
) -> _Pair:
    """Two data sets that differ in one record, or unit, of the first batch: far away on two sides, mislabelled, not
    finite.

    `there`: whether the mask has that record, in each of the two. Either may be the one whose unit has many records.
    """
    held = records.rows(OWNER)
    drawn = [_drawn(program.plan, len(held[0]), turn, rng) for turn in range(turns)]
    row = int(drawn[0][0][np.argmax(drawn[0][1] > 0)])
    times = sum(bool(np.any((positions == row) & (mask > 0))) for positions, mask in drawn)
    apart = _units_apart if len(held) > 2 else _records_apart
    first, second = apart(held, row, rng, scale)
    if len(held) > 2 and there[1] and not rng.integers(2):
        first, second = second, first
    return _Pair(_batches(first, drawn, row, there[0]), _batches(second, drawn, row, there[1]), times)


def _batches(
    held: _Held, drawn: list[tuple[np.ndarray, np.ndarray]], row: int, there: bool
) -> tuple[Batch, ...]:
    """What was drawn of an owner's records at each turn, with the row in the masks or not."""
    batches = []
    for at, mask in drawn:
        x, y, *within = (jnp.asarray(part[at]) for part in held)
        present = np.where(at == row, mask if there else 0.0, mask)
        batches.append(Batch(x, y, jnp.asarray(present, jnp.float32), *within))
    return tuple(batches)


def _records_apart(held: _Held, row: int, rng: np.random.Generator, scale: float) -> tuple[_Held, _Held]:
    """Two data sets that differ in one record."""
    (x, y), first, second = held, _copied(held), _copied(held)
    flipped = bool(rng.integers(2))
    with np.errstate(invalid="ignore"):
        first[0][row] = x[row] * (scale if math.isfinite(scale) else 1.0)
        second[0][row] = x[row] * (scale if flipped else -scale)
    if flipped:
        second[1][row] = _mislabelled(y[row])
    return first, second


def _units_apart(held: _Held, row: int, rng: np.random.Generator, scale: float) -> tuple[_Held, _Held]:
    """Two data sets that differ in one unit: of one record, and of as many as the cap allows.

    Those are the record again and again, on the other side, mislabelled or in pairs that cancel; far away, and one of
    them not finite. So is the single one far away.
    """
    (x, y, _), alone, crowd = held, _copied(held), _copied(held)
    far = scale if math.isfinite(scale) else 1e6
    for unit, records in ((alone, 1), (crowd, y.shape[1])):
        unit[0][row], unit[1][row], unit[2][row] = far * x[row, :1], y[row, :1], records
    way = rng.integers(4)
    if way == 1:
        crowd[0][row] *= -1
    if way == 2:
        crowd[1][row] = _mislabelled(y[row, 0])
    if way == 3:
        crowd[0][row, 1::2] *= -1
    if not math.isfinite(scale):
        crowd[0][row, -1] = np.inf
    return alone, crowd


def _copied(held: _Held) -> _Held:
    return tuple(column.copy() for column in held)


def _mislabelled(label: np.generic) -> float:
    return (0 if label else 1) if np.issubdtype(label.dtype, np.integer) else -float(label)


def _drawn(
    plan: ReleasePlan, size: int, turn: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and mask of an owner's batch; of a hidden draw, one in which there is a record."""
    while True:
        key = jax.random.key(int(rng.integers(2**31)))
        draw = plan.sampler.draw(key, size, jnp.int32(size), jnp.int32(turn))
        if draw is None:
            return np.arange(size), np.ones(size, np.float32)
        if np.any(np.asarray(draw.mask) > 0):
            return np.asarray(draw.positions), np.asarray(draw.mask)


class _Speaker(NamedTuple):
    """What an owner says at its first turns, compiled once for all neighbours."""

    says: Callable  # (flat unit noise, params, numbers, contexts, batches, publics) -> flat messages, public states
    through: Callable  # the same, but the derivative of the messages in the noise


def _speaker(program: Program, turns: int) -> _Speaker:
    functions = program.functions
    zeros = tuple(
        jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), program.plan.noise_like) for _ in range(turns)
    )
    unravel = ravel_pytree(zeros)[1]

    def says(
        unit: Array, params: PyTree, numbers: PyTree, contexts: list, batches: tuple, publics: Any
    ) -> tuple:
        public, private = functions.begin(params, numbers, contexts[0])
        messages, reached = [], []
        for turn, (ctx, batch, noise) in enumerate(zip(contexts, batches, unravel(unit))):
            message, private = functions.say(private, functions.shown(public, ctx), batch, noise, ctx)
            messages.append(flat(message))
            public = functions.heard(public, message, ctx) if publics is None else publics[turn]
            reached.append(public)
        return jnp.concatenate(messages), tuple(reached)

    def moved(unit: Array, *given: Any) -> Array:
        """Whole numbers have no derivatives: what one unit of each noise adds to them."""
        whole = [says(unit + axis, *given)[0] for axis in jnp.eye(len(unit))]
        return jnp.stack(whole, axis=1) - says(unit, *given)[0][:, None]

    through = moved if program.plan.masked else jax.jacfwd(lambda *given: says(*given)[0])
    return _Speaker(jax.jit(says), jax.jit(through))


def _shift(
    speaker: _Speaker, program: Program, smaller: Program | None, pair: _Pair, params: PyTree, seed: int
) -> float:
    """How far noise must move to turn one world's messages into the other's."""
    turns = len(pair.first)
    zero = jnp.zeros(turns * sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(program.plan.noise_like)))

    def given(of: Program, batches: tuple) -> tuple:
        keys = jax.random.split(jax.random.key(seed), turns)
        contexts = [context_of(of, OWNER, step=at + 1, turn=at, key=keys[at]) for at in range(turns)]
        return zero, params, of.numbers, contexts, batches

    lesser = smaller or program
    other_speaker = speaker if lesser.functions == program.functions else _speaker(lesser, turns)
    messages, publics = speaker.says(*given(program, pair.first), None)
    other_messages, _ = other_speaker.says(*given(lesser, pair.second), publics)
    change = np.asarray(other_messages, np.float64) - np.asarray(messages, np.float64)
    if not np.all(np.isfinite(change)):
        raise ContractError(
            "sensitivity: a record that is far away or not finite makes a message that is not finite, and so shows. "
            "Clip with coterie.problems.problem.clipped_sum, which leaves such records out."
        )
    noise = np.asarray(speaker.through(*given(program, pair.first), publics), np.float64)
    if smaller is not None:
        _check_scale(program, noise, other_speaker.through(*given(lesser, pair.second), publics))
    return _explained(program, noise, change)


def _check_scale(program: Program, noise: np.ndarray, without: Any) -> None:
    """The noise is the same in both worlds: else its size alone tells how many records there are."""
    if not np.allclose(noise, np.asarray(without, np.float64), rtol=SLACK, atol=1e-9):
        raise ContractError(
            "sensitivity: the noise on a message changes with the number of records, which the plan's relation "
            f"{program.plan.relation!r} keeps private; allowed: no change. Let no scale follow from sizes."
        )


def _explained(program: Program, noise: np.ndarray, change: np.ndarray) -> float:
    """The norm of the shift of the noise that makes this change; fails where there is none."""
    needed, *_ = np.linalg.lstsq(noise, change, rcond=1e-9)
    left = float(np.abs(noise @ needed - change).max(initial=0.0))
    if left > SLACK * max(float(np.abs(change).max(initial=0.0)), 1e-6):
        raise ContractError(
            f"sensitivity: one record moves a number of a message by {left:.3g} that no noise is on; allowed: 0. "
            "Add noise with coterie.mechanisms.noise.noised to everything that depends on records, and charge it."
        )
    return float(np.linalg.norm(needed, program.plan.noise.norm))
