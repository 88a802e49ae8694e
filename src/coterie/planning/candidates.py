"""Protocols as a forecast sees them: which settings may be tried, their noise, and their rounds on the stand-in.

Noise is read off the protocol's own program, built from public numbers for one round or for the round count in
question; with all records in every round, T rounds need √T times the noise of one, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.planning.dynamics import Quadratic, Round, descent, dual_averaging
from coterie.planning.persons import EVERYBODY_ONE, Persons
from coterie.program import Program
from coterie.protocols import Task, build

CLIPS = (0.5, 0.75, 1.0)  # shares of the gradient's bound
SPREAD = 2.0 ** np.arange(-3, 8)  # of the largest step that every record's curvature allows: what is tried
VISITS = 1000  # a run of more visits is not tried: each waits for the one before
_TRACKED = 0.8  # push_sum's default quantile
_FASTEST = 0.2  # of its threshold's logarithm, times the count's error, a round
_PLACES = 2000  # at which an integral is taken
_SAMPLED = 0.25  # variance of a record's gradient, over clip_norm²: slopes average about a half


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One protocol with one number of rounds and one clip: step sizes are still open."""

    protocol: str
    rounds: int  # every owner speaks once in each
    variance: float  # of the noise in one step's mean gradient, a coordinate
    steps: np.ndarray  # (tries,) step sizes, or γ
    path: Callable[[Quadratic, np.ndarray], Iterator[Round]]
    settings: Callable[[float], dict[str, Any]]  # step size -> the protocol's own settings
    batch: int | None = None  # records of an owner in a release; None: all
    clip: float = 1.0  # share of the gradient's bound
    mixes: bool = False  # over the topology, so that owners disagree a little
    gain: float = 1.0  # how many times a record's gradient a unit adds, on average
    bias: float = 0.0  # excess risk of clipping there


def candidates(
    task: Task,
    protocol: str,
    rounds: tuple[int, ...],
    colluding: int | None = None,
    persons: Persons = EVERYBODY_ONE,
) -> list[Contender]:
    """What may be tried of this protocol within these numbers of rounds; under masks where `colluding` is given.

    `persons`: how many records they are declared to have, where the task's unit is a person.
    """
    tried = KNOWN[protocol] if colluding is None else partial(_masked_erm, colluding=colluding)
    return [_of_units(task, persons, record) for count in rounds for record in tried(task, count)]


def _of_units(task: Task, persons: Persons, record: Contender) -> Contender:
    """A unit adds `gain` times as much as a record beside the same noise, so that steps are so many times shorter."""
    gain = persons.gain(task.unit.records, record.clip)
    steps = record.steps * gain if record.protocol == "dual_averaging" else record.steps / gain
    bias = bias_of(record.clip) if task.problem.loss.classes else 0.0
    return replace(record, gain=gain, steps=steps, bias=bias)


def protocols_for(
    task: Task,
    tell: Callable[[int, int], None] = lambda done, of: None,
    only: str | None = None,
    colluding: int | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Protocols that can run on the task's topology, and why the others cannot; `only` one of them, where named."""
    known = tuple(KNOWN) if colluding is None else MASKED
    tried = known if only is None else (_check.one_of("protocol", only, known),)
    usable, refused = [], {}
    for done, name in enumerate(tried):
        tell(done, len(tried))
        try:
            _built(task, name, _PROBES[name] | _masks(colluding))
            usable.append(name)
        except InputError as error:
            refused[name] = str(error)
    return tuple(usable), refused


def _masks(colluding: int | None) -> dict[str, Any]:
    """Settings of a protocol that adds under masks."""
    return {} if colluding is None else {"view": "masked", "colluding": colluding}


def _built(task: Task, name: str, options: dict[str, Any]) -> Program:
    return build(name, task, options, "certified")


def _clips(task: Task) -> tuple[float, ...]:
    """Clips to try: several for classes; for a quantity its default, as nobody knows how far records are off."""
    loss = task.problem.loss
    return CLIPS if loss.classes and loss.clip < 1 else (loss.clip,)


def _smoothness(task: Task) -> float:
    """The smoothness of one record's loss in the parameters: the bound that keeps every step stable."""
    loss = task.problem.loss
    return loss.smoothness * (task.clip_norm / loss.lipschitz) ** 2


def _dual_averaging(task: Task, rounds: int) -> list[Contender]:
    """γ from 2 × smoothness, where accelerated steps are stable, in both directions."""

    def tried(clip: float) -> Contender:
        program = _built(task, "dual_averaging", {"rounds": 1, "clip": clip, "gamma": 1.0})
        weight = np.asarray(program.numbers.weight, float)
        once = float(np.sum((weight * program.plan.noise_scale) ** 2)) / task.owners**2
        return Contender(
            protocol="dual_averaging",
            rounds=rounds,
            clip=clip,
            variance=rounds * once,
            steps=2 * _smoothness(task) * SPREAD,
            path=lambda problem, gamma: dual_averaging(problem, gamma, rounds),
            settings=lambda gamma: {"rounds": rounds, "gamma": gamma, "clip": clip},
            mixes=True,
        )

    return [tried(clip) for clip in _clips(task)]


def _weighted_erm(task: Task, rounds: int) -> list[Contender]:
    """All owners' noise in the sum of their weighted gradients."""

    def tried(clip: float) -> Contender:
        program = _built(task, "weighted_erm", {"steps": 1, "step_size": 1.0, "clip": clip})
        assert program.aggregate is not None
        per_record = program.aggregate / np.array(task.sizes)
        variance = rounds * float(np.sum((per_record * program.plan.noise_scale) ** 2))
        return _summed(task, rounds, clip, variance, {"steps": rounds, "clip": clip})

    return [tried(clip) for clip in _clips(task)]


def _masked_erm(task: Task, rounds: int, colluding: int) -> list[Contender]:
    """The same under masks, where owners share the noise that their sum needs. Spare sums are charged for, so that the
    noise is that of this very number of rounds; in the mean, every owner's share of it is one lattice of its cell."""

    def tried(clip: float) -> Contender:
        options = {"steps": rounds, "clip": clip} | _masks(colluding)
        program = _built(task, "weighted_erm", options | {"step_size": 1.0})
        assert program.plan.lattice is not None
        share = float(np.ravel(program.numbers.cell)[0]) * program.plan.lattice[0]
        return _summed(task, rounds, clip, task.owners * share**2, options)

    return [tried(clip) for clip in _clips(task)]


def _summed(task: Task, rounds: int, clip: float, variance: float, options: dict[str, Any]) -> Contender:
    """Steps of 1 / smoothness, where they are stable, in both directions: dual averaging on the sum, γ = 2 / step."""
    return Contender(
        protocol="weighted_erm",
        rounds=rounds,
        clip=clip,
        variance=variance,
        steps=1 / (_smoothness(task) * SPREAD),
        path=lambda problem, step: dual_averaging(problem, 2 / step, rounds),
        settings=lambda step: options | {"step_size": step},
    )


def _push_sum(task: Task, rounds: int) -> list[Contender]:
    """The clipping threshold falls from the bound towards where calibrated, uniform predictions have their quantile;
    counted is where it is in the middle of the run, since the output forgets the beginning."""
    program = _built(task, "push_sum", {"rounds": 1, "step": 1.0})
    numbers = program.numbers
    slowest = math.exp(-_FASTEST * (1 - _TRACKED) * rounds / 2)  # while no gradient reaches the threshold
    clip = max(typical_slope(_TRACKED), slowest) if len(_clips(task)) > 1 else 1.0
    unit = clip * task.clip_norm / math.sqrt(1 - float(numbers.count_share[0]))
    once = (
        float(np.sum((np.asarray(numbers.weight, float) * program.plan.noise_scale * unit) ** 2))
        / task.owners**2
    )
    forgets = 1 + float(numbers.averaging[0])
    return [
        Contender(
            protocol="push_sum",
            rounds=rounds,
            clip=clip,
            variance=rounds * once,
            steps=1 / (_smoothness(task) * SPREAD),
            path=lambda problem, step: descent(problem, step, 1 / (1 + np.arange(rounds) / forgets)),
            settings=lambda step: {"rounds": rounds, "step": step},
            mixes=True,
        )
    ]


def _async_learner(task: Task, rounds: int) -> list[Contender]:
    """N visits with pace γ make one round with step Nγ: what each owner's memory took is given back by the others'."""
    ticks = rounds * task.owners
    strength = task.problem.penalty.strong_convexity
    if ticks > VISITS or strength <= 0:
        return []
    program = _built(task, "async_learner", {"ticks": ticks})
    return [
        Contender(
            protocol="async_learner",
            rounds=rounds,
            variance=float(np.sum((program.plan.noise_scale / sum(task.sizes)) ** 2)),
            steps=1 / (_smoothness(task) * SPREAD[3:]),
            path=lambda problem, step: descent(problem, step, 2 / np.arange(2, rounds + 2)),
            settings=lambda step: {"ticks": ticks, "rho": step / task.owners * ticks**2 * strength},
        )
    ]


def _wor_sgd(task: Task, rounds: int) -> list[Contender]:
    """Each record in one release; noise of one release whatever the batch, and the noise of sampling people."""
    batch = math.ceil(max(task.sizes) / rounds)
    visits = sum(math.ceil(size / batch) for size in task.sizes)
    if visits > VISITS:
        return []
    program = _built(task, "wor_sgd", {"batch": batch, "step": 1.0})
    noise = float(np.average(program.plan.noise_scale.astype(float) ** 2, weights=task.sizes)) / batch**2
    people = _SAMPLED * task.clip_norm**2 / (batch * task.dimension)
    return [
        Contender(
            protocol="wor_sgd",
            rounds=rounds,
            batch=batch,
            variance=noise + people,
            steps=1 / (_smoothness(task) * SPREAD),
            path=lambda problem, step: descent(problem, step, 2 / np.arange(2, visits + 2)),
            settings=lambda step: {"batch": batch, "step": step},
        )
    ]


@lru_cache(maxsize=64)
def bias_of(share: float) -> float:
    """Excess logistic loss of the best model whose slopes are clipped at `share` of their bound.

    Where the label is +1 with probability p > ½, slopes σ(−m) (label +1) and σ(m) (label −1) balance at
    p σ(−m) = (1 − p) min(σ(m), share), so that above p = share the model is too sure: 1 − σ(m) = share (1 − p)/p.
    The loss that this costs is the divergence of p from σ(m), here averaged over p uniform on [½, 1].

    >>> bias_of(1.0), round(bias_of(0.75), 4), round(bias_of(0.5), 3)
    (0.0, 0.0005, 0.014)
    """
    if share >= 1:
        return 0.0
    p = 0.5 + (np.arange(_PLACES) + 0.5) / (2 * _PLACES)
    wrong = np.where(p > share, share * (1 - p) / p, 1 - p)
    return float(np.mean(p * np.log(p / (1 - wrong)) + (1 - p) * np.log((1 - p) / wrong)))


def typical_slope(quantile: float) -> float:
    """The slope, over its bound, that a `quantile` of records stays below when predictions are calibrated and uniform.

    A record's own label has probability p with density 2p, and its slope is 1 − p.

    >>> round(typical_slope(0.8), 3)
    0.553
    """
    return 1 - float(np.sqrt(1 - quantile))


KNOWN: dict[str, Callable[[Task, int], list[Contender]]] = {
    "dual_averaging": _dual_averaging,
    "push_sum": _push_sum,
    "weighted_erm": _weighted_erm,
    "async_learner": _async_learner,
    "wor_sgd": _wor_sgd,
}
MASKED = ("weighted_erm",)  # forecast under masks, too
_PROBES: dict[str, dict[str, Any]] = {
    "dual_averaging": {"rounds": 1, "gamma": 1.0},
    "push_sum": {"rounds": 1, "step": 1.0},
    "weighted_erm": {"steps": 1, "step_size": 1.0},
    "async_learner": {"ticks": 1},
    "wor_sgd": {"step": 1.0},
}
