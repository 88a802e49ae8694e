"""Worst-case neighbours: two data sets that differ in one record, built so that the record acts as much as it may.

For every protocol on clipped gradients the worst record is one whose gradient is +clip_norm e₁ in one world and
−clip_norm e₁ in the other, in every release, among records whose gradients are zero. A loss that is linear in the score
makes it so at any parameters: it is an ordinary `Loss`, and the protocol's own clipping, noise and steps run on it.
Where units of several records are protected, the worst one is that record in one world, and in the other as many as the
cap allows, all of them opposite: their sum is far above the clip norm, and only clipping the sum holds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check, topologies
from coterie._types import Array
from coterie.accounting.exposure import colluders
from coterie.engines.owners import context_of
from coterie.errors import InputError
from coterie.mechanisms import FixedSize, Poisson
from coterie.problems.losses import Loss, huber
from coterie.problems.models import linear
from coterie.problems.penalties import l2, none
from coterie.problems.problem import Problem
from coterie.program import Program, Shards
from coterie.protocols import Task, build
from coterie.protocols.mixing import mixer_of
from coterie.topologies.mixing import Mixer
from coterie.units import RECORD, Unit

STRENGTH = 0.01  # of the l2 penalty, where a protocol wants one
RECORDS, HIDDEN_RECORDS = 3, 2000  # an owner's, in audits of full batches and of hidden samples
_RECORDS = {"deep_q": 4}  # visits of a record each: the first acts on what stays hidden until a release


class Neighbours(NamedTuple):
    """Two data sets of the same shape. They differ in the record, or unit, `row` of `owner`, and in nothing else."""

    without: Shards
    with_: Shards
    owner: int
    row: int


class Side(NamedTuple):
    """What runs in one of the two worlds, and what it mixes over."""

    program: Program
    mixer: Mixer | None


class Attacked(NamedTuple):
    """A world to attack."""

    program: Program
    neighbours: Neighbours
    mixer: Mixer | None
    without: Side | None = None  # the world without the record, where sizes are private; None: the same
    table: float = 0.0  # how far the record moves tables that are released beside training (`table.shift`)
    words: str = ""  # the world in a line

    @property
    def sides(self) -> tuple[Side, Side]:
        """What runs without the record, and with it."""
        own = Side(self.program, self.mixer)
        return self.without or own, own


@dataclass(frozen=True, kw_only=True)
class AuditWorld:
    """What may be chosen of a worst-case world; None means what suits the protocol."""

    owners: int = 2
    records: int | None = None  # of each owner
    dim: int = 1
    epsilon: float = 1.0
    delta: float = 1e-5
    calibration: str = "certified"
    unit: Unit = RECORD


@lru_cache
def steady() -> Loss:
    """y s: every record's slope is its target, whatever the parameters are."""
    return Loss(
        name="steady",
        outputs=1,
        value=lambda scores, y: y * scores[:, 0],
        slope=lambda scores, y: y[:, None],
        lipschitz=1.0,
        smoothness=0.0,
        strong_convexity=0.0,
        length=math.sqrt,
    )


def worst_case(protocol: str, world: AuditWorld, options: dict[str, Any] | None = None) -> Attacked:
    """The named protocol, and records that are all zero or alike but one, which is ±e₁ times the longest allowed.

    The noise, the sampling, the releases and their number are the protocol's own for this task and these options.
    """
    _check.count("owners", world.owners)
    _check.count("dim", world.dim)
    if world.records is not None:
        _check.count("records", world.records)
    options = least_options(protocol, world.calibration) | (options or {})
    records = world.records or _RECORDS.get(protocol, RECORDS)
    task, program = _built(protocol, world, records, options)
    if world.records is None and is_hidden(program.plan.sampler):
        records = HIDDEN_RECORDS
        task, program = _built(protocol, world, records, options)
    without = None
    if not program.plan.relation.sizes_are_public:  # one record less: other data, and a program of its own
        fewer = replace(task, sizes=(records - 1, *task.sizes[1:]))
        program_without = build(protocol, fewer, options, world.calibration)
        without = Side(program_without, mixer_of(fewer, program_without))
    mixer = mixer_of(task, program)
    if program.plan.shared is not None:
        program = _among(program, honest(program, 0))
        mixer = topologies.mixer(topologies.build("complete", len(program.plan.sizes)))
    pair = canary(program.plan.sizes, task.clip_norm / task.problem.loss.lipschitz, program)
    return Attacked(program, pair, mixer, without, words=_words(task, program))


def honest(program: Program, owner: int) -> list[int]:
    """The owner, then, where noise is shared, everybody except those whose colluding would be worst."""
    shared, owners = program.plan.shared, len(program.plan.sizes)
    if shared is None:
        return [owner]
    gone = colluders(np.ones(owners), shared.variances(owners), shared.colluding, owner)
    return [owner, *(peer for peer in range(owners) if peer != owner and peer not in gone)]


def _among(program: Program, who: list[int]) -> Program:
    """The program of some owners."""
    numbers = jax.tree.map(lambda leaf: leaf[np.array(who)], program.numbers)
    return program._replace(plan=program.plan.among(who), numbers=numbers)


def replaced(shards: Shards, owner: int, row: int, x: np.ndarray, y: float) -> Neighbours:
    """`shards`, and the same with one record replaced: for a user's own records.

    >>> shards = Shards(jnp.zeros((1, 2, 3)), jnp.zeros((1, 2)), jnp.asarray([2]))
    >>> replaced(shards, 0, 1, np.ones(3), 1.0).with_.x[0].tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    if not 0 <= owner < shards.x.shape[0] or not 0 <= row < int(shards.counts[owner]):
        raise InputError(f"owner={owner}, row={row}: no such record. Name one that the shards hold.")
    changed = shards._replace(x=shards.x.at[owner, row].set(x), y=shards.y.at[owner, row].set(y))
    return Neighbours(shards, changed, owner, row)


def _built(protocol: str, world: AuditWorld, records: int, options: dict[str, Any]) -> tuple[Task, Program]:
    task = Task(
        problem=_problem(protocol, world),
        sizes=(records,) * world.owners,
        clip_norm=1.0,
        epsilon=(world.epsilon,) * world.owners,
        delta=world.delta,
        topology=topologies.build("complete", world.owners),
        params=jnp.zeros((world.dim, 1), jnp.float32),
        unit=world.unit,
    )
    return task, build(protocol, task, options, world.calibration)


def _problem(protocol: str, world: AuditWorld) -> Problem:
    """`deep_q` bounds targets itself and needs a curved loss: Huber's slope is ±1 at score 0 for targets ∓1."""
    walking = protocol in ("wor_sgd", "random_walk", "deep_q")  # published without a penalty: convex
    penalty = none() if walking and world.calibration == "paper" else l2(STRENGTH)
    return Problem(linear(world.dim, 1), huber() if protocol == "deep_q" else steady(), penalty)


def least_options(protocol: str, calibration: str) -> dict[str, Any]:
    """What a protocol cannot choose for a loss without curvature, and few enough steps for many games."""
    few = {
        "async_learner": {"ticks": 8, "cap": 2, "smoothness": 1.0},
        "average_erm": {"steps": 2, "step_size": 1.0},
        "central_erm": {"steps": 2, "step_size": 1.0},
        "deep_q": {"batch": 1},
        "random_walk": {"batch": 1, "step": 0.1},
        "weighted_erm": {"steps": 2, "step_size": 1.0},
        "wor_sgd": {"batch": 1, "step": 0.1},
    }
    rounds = (
        {"dual_averaging": {"rounds": 3}, "push_sum": {"rounds": 3}} if calibration == "certified" else {}
    )
    return (few | rounds).get(protocol, {})


def canary(sizes: Sequence[int], length: float, program: Program) -> Neighbours:
    """One of the first owner's records: y = −1 against +1; or there against not there.

    It is the last; or the first where the program keeps private state, which then carries it from release to release.
    Where one of several records is drawn in secret the others are −e₁ too: then a draw moves a release by 2 clip_norm
    from what all other draws give, and not by half of that from the middle.
    Of units: the others have one record each, and so has this one, against as many as the cap allows.
    """
    plan, dim = program.plan, jax.tree.leaves(program.params)[0].shape[0]
    leaves = not plan.relation.sizes_are_public  # the last record goes, and nothing else moves
    row = 0 if keeps_private(program) and not leaves else sizes[0] - 1
    x = np.zeros((len(sizes), max(sizes), dim), np.float32)
    x[0, : sizes[0] if isinstance(plan.sampler, FixedSize) else 0, 0] = length
    x[0, row, 0] = length
    y, counts = np.full(x.shape[:2], -1.0, np.float32), np.array(sizes, np.int32)
    other_y, other_counts = y.copy(), counts.copy()
    other_y[0, row] = 1.0
    counts[0] -= leaves
    worlds = [Shards(*map(jnp.asarray, parts)) for parts in ((x, y, counts), (x, other_y, other_counts))]
    if plan.unit == RECORD:
        return Neighbours(worlds[0], worlds[1], 0, row)
    within = jnp.ones(x.shape[:2], jnp.int32)
    full = within.at[0, row].set(plan.unit.records)
    without, with_ = (_of_units(*world, plan.unit) for world in zip(worlds, (within, full)))
    return Neighbours(without, with_, 0, row)


def _of_units(records: Shards, within: Array, unit: Unit) -> Shards:
    """Each record as a unit, as often as it has places."""
    x, y = (jnp.repeat(column[:, :, None], unit.records, axis=2) for column in (records.x, records.y))
    return Shards(x, y, records.counts, within)


def keeps_private(program: Program) -> bool:
    """Whether an owner carries anything that it does not show from one release to the next."""
    ctx = context_of(program, 0, step=0)
    _, private = jax.eval_shape(program.functions.begin, program.params, program.numbers, ctx)
    return bool(jax.tree.leaves(private))


def _words(task: Task, program: Program) -> str:
    what = "record" if task.unit == RECORD else "unit"
    size = f"{task.sizes[0]:,} {what}{'s' * (task.sizes[0] > 1)}"
    return (
        f"{task.owners} owner{'s' * (task.owners > 1)} of {size}, {program.steps:,} steps, dimension {task.dimension}; "
        f"one {what} of the first owner has gradient ±{task.clip_norm:g} e₁"
    )


def hidden_cases(
    sampler: FixedSize | Poisson, size: int, row: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hidden samples without the record and with it: their probabilities (2,), positions and masks (2, batch).

    All other records are taken to be alike, so it does not matter which of them were drawn; for Poisson sampling
    they are taken to contribute nothing, so it does not matter how many. Where that is not so, the score made of it
    is weaker, and what follows from its games still valid.
    """
    if isinstance(sampler, Poisson):
        chance, batch, mask = sampler.rate, 1, np.zeros(1, np.float32)
    else:
        chance, batch = sampler.batch / size, sampler.batch
        mask = np.ones(batch, np.float32)
    rest = np.array([place for place in range(min(size, batch + 1)) if place != row][:batch] or [0])
    rest = np.resize(rest, batch)
    inside = rest.copy()
    inside[0] = row
    masks = np.stack([mask, np.maximum(mask, np.eye(1, batch, dtype=np.float32)[0])])
    return np.array([1 - chance, chance]), np.stack([rest, inside]), masks


def is_hidden(sampler: Any) -> bool:
    """Whether the adversary has to guess which records were drawn."""
    return isinstance(sampler, (FixedSize, Poisson))
