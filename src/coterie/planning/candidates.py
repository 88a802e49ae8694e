"""Protocols as a forecast sees them: which settings may be tried, their noise, and their rounds on the stand-in.

Noise is read off the protocol's own program, built from public numbers for one round or for the round count in
question; with all records in every round, T rounds need √T times the noise of one, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.errors import InputError
from coterie.planning import clipping
from coterie.planning.dynamics import Quadratic, Round, descent, dual_averaging
from coterie.program import Program
from coterie.protocols import Task, build

CLIPS = (0.5, 0.75, 1.0)  # shares of the gradient's bound
SPREAD = 2.0 ** np.arange(
    -3, 8
)  # step sizes tried: these parts of the largest that every record's curvature allows
VISITS = 1000  # a run of more visits is not tried: each waits for the one before
_TRACKED = 0.8  # push_sum's default quantile
_FASTEST = 0.2  # of its threshold's logarithm, times the count's error, a round
_SAMPLED = 0.25  # variance of a record's gradient, over clip_norm²: slopes average about a half


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One protocol with one number of rounds and one clip: step sizes are still open."""

    protocol: str
    rounds: int  # every owner speaks once in each
    batch: int | None  # records of an owner in a release; None: all
    clip: float  # share of the gradient's bound
    bias: float  # excess risk of clipping there
    variance: float  # of the noise in one step's mean gradient, a coordinate
    steps: np.ndarray  # (tries,) step sizes, or γ
    path: Callable[[Quadratic, np.ndarray], Iterator[Round]]
    settings: Callable[[float], dict[str, Any]]  # step size -> the protocol's own settings
    mixes: bool  # over the topology, so that owners disagree a little


def candidates(task: Task, protocol: str, rounds: tuple[int, ...]) -> list[Candidate]:
    """What may be tried of this protocol within these numbers of rounds."""
    return [one for count in rounds for one in _KNOWN[protocol](task, count)]


def protocols_for(task: Task) -> tuple[tuple[str, ...], dict[str, str]]:
    """Protocols that can run on the task's topology, and why the others cannot."""
    usable, refused = [], {}
    for name in _KNOWN:
        try:
            _built(task, name, _PROBES[name])
            usable.append(name)
        except InputError as error:
            refused[name] = str(error)
    return tuple(usable), refused


def _built(task: Task, name: str, options: dict[str, Any]) -> Program:
    return build(name, task, options, "certified")


def _clips(task: Task) -> tuple[float, ...]:
    return CLIPS if task.problem.loss.name in ("logistic", "softmax", "one_vs_all") else (1.0,)


def _smoothness(task: Task) -> float:
    """Of one record's loss in the parameters: the bound that keeps every step stable."""
    loss = task.problem.loss
    return loss.smoothness * (task.clip_norm / loss.lipschitz) ** 2


def _dual_averaging(task: Task, rounds: int) -> list[Candidate]:
    """γ from 2 × smoothness, where accelerated steps are stable, in both directions."""
    found = []
    for clip in _clips(task):
        program = _built(task, "dual_averaging", {"rounds": 1, "clip": clip, "gamma": 1.0})
        weight = np.asarray(program.numbers.weight, float)
        once = float(np.sum((weight * program.plan.noise_scale) ** 2)) / task.owners**2
        found.append(
            Candidate(
                protocol="dual_averaging",
                rounds=rounds,
                batch=None,
                clip=clip,
                bias=clipping.bias(clip),
                variance=rounds * once,
                steps=2 * _smoothness(task) * SPREAD,
                path=lambda problem, gamma: dual_averaging(problem, gamma, rounds, accelerated=True),
                settings=lambda gamma, clip=clip: {"rounds": rounds, "gamma": gamma, "clip": clip},
                mixes=True,
            )
        )
    return found


def _weighted_erm(task: Task, rounds: int) -> list[Candidate]:
    program = _built(task, "weighted_erm", {"steps": 1, "step_size": 1.0})
    assert program.aggregate is not None
    per_record = program.aggregate / np.array(task.sizes)
    late = np.arange(1, rounds + 1) - rounds // 2
    return [
        Candidate(
            protocol="weighted_erm",
            rounds=rounds,
            batch=None,
            clip=1.0,
            bias=0.0,
            variance=rounds * float(np.sum((per_record * program.plan.noise_scale) ** 2)),
            steps=1 / (_smoothness(task) * SPREAD),
            path=lambda problem, step: descent(problem, step, 1 / np.maximum(late, 1)),
            settings=lambda step: {"steps": rounds, "step_size": step},
            mixes=False,
        )
    ]


def _push_sum(task: Task, rounds: int) -> list[Candidate]:
    """The clipping threshold falls from the bound towards where calibrated, uniform predictions have their quantile;
    counted is where it is in the middle of the run, since the output forgets the beginning."""
    program = _built(task, "push_sum", {"rounds": 1, "step": 1.0})
    numbers = program.numbers
    slowest = math.exp(-_FASTEST * (1 - _TRACKED) * rounds / 2)  # while no gradient reaches the threshold
    clip = max(clipping.typical_slope(_TRACKED), slowest) if len(_clips(task)) > 1 else 1.0
    unit = clip * task.clip_norm / math.sqrt(1 - float(numbers.count_share[0]))
    once = (
        float(np.sum((np.asarray(numbers.weight, float) * program.plan.noise_scale * unit) ** 2))
        / task.owners**2
    )
    forgets = 1 + float(numbers.averaging[0])
    return [
        Candidate(
            protocol="push_sum",
            rounds=rounds,
            batch=None,
            clip=clip,
            bias=clipping.bias(clip),
            variance=rounds * once,
            steps=1 / (_smoothness(task) * SPREAD),
            path=lambda problem, step: descent(problem, step, 1 / (1 + np.arange(rounds) / forgets)),
            settings=lambda step: {"rounds": rounds, "step": step},
            mixes=True,
        )
    ]


def _async_learner(task: Task, rounds: int) -> list[Candidate]:
    """N visits with pace γ make one round with step Nγ: what each owner's memory took is given back by the others'."""
    ticks = rounds * task.owners
    strength = task.problem.penalty.strong_convexity
    if ticks > VISITS or strength <= 0:
        return []
    program = _built(task, "async_learner", {"ticks": ticks})
    return [
        Candidate(
            protocol="async_learner",
            rounds=rounds,
            batch=None,
            clip=1.0,
            bias=0.0,
            variance=float(np.sum((program.plan.noise_scale / sum(task.sizes)) ** 2)),
            steps=1 / (_smoothness(task) * SPREAD[3:]),
            path=lambda problem, step: descent(problem, step, 2 / np.arange(2, rounds + 2)),
            settings=lambda step: {"ticks": ticks, "rho": step / task.owners * ticks**2 * strength},
            mixes=False,
        )
    ]


def _wor_sgd(task: Task, rounds: int) -> list[Candidate]:
    """Each record in one release; noise of one release whatever the batch, and the noise of sampling people."""
    batch = math.ceil(max(task.sizes) / rounds)
    visits = sum(math.ceil(size / batch) for size in task.sizes)
    if visits > VISITS:
        return []
    program = _built(task, "wor_sgd", {"batch": batch, "step": 1.0})
    noise = float(np.average(program.plan.noise_scale.astype(float) ** 2, weights=task.sizes)) / batch**2
    people = _SAMPLED * task.clip_norm**2 / (batch * task.dimension)
    return [
        Candidate(
            protocol="wor_sgd",
            rounds=rounds,
            batch=batch,
            clip=1.0,
            bias=0.0,
            variance=noise + people,
            steps=1 / (_smoothness(task) * SPREAD),
            path=lambda problem, step: descent(problem, step, 2 / np.arange(2, visits + 2)),
            settings=lambda step: {"batch": batch, "step": step},
            mixes=False,
        )
    ]


_KNOWN: dict[str, Callable[[Task, int], list[Candidate]]] = {
    "dual_averaging": _dual_averaging,
    "push_sum": _push_sum,
    "weighted_erm": _weighted_erm,
    "async_learner": _async_learner,
    "wor_sgd": _wor_sgd,
}
_PROBES: dict[str, dict[str, Any]] = {
    "dual_averaging": {"rounds": 1, "gamma": 1.0},
    "push_sum": {"rounds": 1, "step": 1.0},
    "weighted_erm": {"steps": 1, "step_size": 1.0},
    "async_learner": {"ticks": 1},
    "wor_sgd": {"step": 1.0},
}
