"""The best certified settings for a budget and a deadline, by predicted excess risk. Reads no record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie import _check, topologies
from coterie.accounting.plans import certificates_of
from coterie.errors import InputError
from coterie.planning.candidates import Candidate, candidates, protocols_for
from coterie.planning.constants import Constants, assumed, quadratic, scenarios
from coterie.planning.dynamics import Excess, excess
from coterie.program import Program, Rounds
from coterie.protocols import Task, build

USEFUL = 0.8  # of what knowing nothing costs: a forecast above it promises nothing
_FEWEST = 5  # rounds
OFF = 1.7  # how far the stand-in itself is taken to be off, either way: see docs/planning.md for what was measured


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One setting of one protocol and the excess risk it is expected to leave over the owners' records."""

    protocol: str
    settings: dict[str, Any]  # the protocol's own, as `coterie run --set` takes them
    rounds: int
    batch: int | None  # records of an owner in a release; None: all
    clip: float  # share of the gradient's bound
    predicted: float
    low: float  # over what the problem's constants might be instead, and `OFF`
    high: float
    distance: float  # the parts of `predicted`
    noise: float
    disagreement: float
    clipping: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The best forecast of each protocol, and what the winner would really release."""

    best: Forecast
    others: tuple[Forecast, ...]  # of the other protocols, best first
    refused: dict[str, str]  # protocols that cannot run here, with the reason
    nothing: float  # excess risk of a model that knows nothing
    gossip_steps: int
    messages: int
    clip_norm: float
    noise_multiplier: tuple[float, ...]
    noise_scale: tuple[float, ...]  # on the released sum
    certified: float  # the largest owner's ε
    view: str
    constants: Constants

    @property
    def useful(self) -> bool:
        """Whether the forecast is clearly below what knowing nothing costs."""
        return self.best.predicted < USEFUL * self.nothing


def plan(task: Task, rounds_at_most: int, constants: Constants | None = None) -> Plan:
    """Settings with the least predicted excess risk among those that meet every owner's budget by the deadline.

    Chosen where the geometric mean over `scenarios` is least, so that a setting that only suits one guess does not win.

    Guarantee: no record is read; `task` and `constants` are public. The winner is built by its own protocol as
    `certified`, and `certified` is the accountant's answer for that very plan.
    """
    most = _check.count("rounds_at_most", rounds_at_most)
    constants = constants or assumed(np.shape(task.params)[0])
    usable, refused = protocols_for(task)
    gossip, left = _gossip(task, usable)
    found = [forecast(task, candidates(task, name, _counts(most)), constants, left) for name in usable]
    ranked = sorted((one for one in found if one is not None), key=lambda one: one.predicted)
    if not ranked:
        reasons = "; ".join(refused.values()) or "no setting fits the deadline"
        raise InputError(f"rounds_at_most={most}: no protocol can run here ({reasons}).")
    best = ranked[0]
    program = build(best.protocol, task, best.settings, "certified")
    return Plan(
        best=best,
        others=tuple(ranked[1:]),
        refused=refused,
        nothing=quadratic(task.problem, constants).gap,
        gossip_steps=gossip if _mixes(program) else 1,
        messages=_messages(task, program, gossip),
        clip_norm=best.clip * task.clip_norm,
        noise_multiplier=tuple(map(float, program.plan.noise_multiplier)),
        noise_scale=tuple(map(float, program.plan.noise_scale)),
        certified=max(one.epsilon for one in certificates_of(program.plan, task.delta)),
        view=program.plan.view,
        constants=constants,
    )


def forecast(
    task: Task, tried: list[Candidate], constants: Constants, disagreement: float
) -> Forecast | None:
    """The best of `tried`, every step size included; None where nothing was to be tried."""
    worlds = [quadratic(task.problem, one) for one in scenarios(task.problem, constants)]
    paths: dict[int, list[Excess]] = {}
    best: tuple[float, Forecast] | None = None
    for one in tried:
        with np.errstate(over="ignore", invalid="ignore"):  # step sizes that diverge
            if one.rounds not in paths:  # clips share a path: they differ in variance and bias alone
                paths[one.rounds] = [excess(world, one.path(world, one.steps), 1.0) for world in worlds]
            apart = _disagreement(task, one, disagreement)
            totals = [
                path.distance + one.variance * (1 + apart) * path.noise + one.bias
                for path in paths[one.rounds]
            ]
            score = np.mean(np.log(totals), axis=0)
        at = int(np.argmin(np.where(np.isfinite(score), score, np.inf)))
        if np.isfinite(score[at]) and (best is None or score[at] < best[0]):
            best = float(score[at]), _forecast(one, paths[one.rounds][0], totals, apart, at)
    return None if best is None else best[1]


def _forecast(one: Candidate, path: Excess, totals: list[np.ndarray], apart: float, at: int) -> Forecast:
    noise = float(one.variance * path.noise[at])
    return Forecast(
        protocol=one.protocol,
        settings=one.settings(float(f"{one.steps[at]:.4g}")),
        rounds=one.rounds,
        batch=one.batch,
        clip=one.clip,
        predicted=float(totals[0][at]),
        low=float(min(total[at] for total in totals)) / OFF,
        high=float(max(total[at] for total in totals)) * OFF,
        distance=float(path.distance[at]),
        noise=noise,
        disagreement=apart * noise,
        clipping=one.bias,
    )


def _disagreement(task: Task, one: Candidate, left: float) -> float:
    """Variance of an owner's own model around the mean of all, over that of the mean's noise.

    Each round an owner's release carries N times the mean's variance, of which mixing leaves c² after one round, c⁴
    after two, …: N c²/(1 − c²) of one round's worth. The mean has gathered about T/3 rounds' worth (weights a(t) = t).
    """
    if not one.mixes:
        return 0.0
    return 3 * task.owners * left**2 / ((1 - left**2) * one.rounds)


def _gossip(task: Task, usable: tuple[str, ...]) -> tuple[int, float]:
    """Gossip steps a round, and what they leave of a disagreement."""
    if task.owners == 1 or not {"dual_averaging", "push_sum"} & set(usable):
        return 1, 0.0
    steps = topologies.gossip_steps_for(task.topology)
    return steps, topologies.contraction(task.topology, steps)


def _mixes(program: Program) -> bool:
    return isinstance(program.functions, Rounds) and program.aggregate is None


def _messages(task: Task, program: Program, gossip: int) -> int:
    if _mixes(program):
        return round(int(program.schedule) * topologies.messages_per_round(task.topology, gossip))
    if program.aggregate is not None:
        return int(program.schedule) * 2 * task.owners
    return len(np.asarray(program.schedule))


def _counts(most: int) -> tuple[int, ...]:
    """Numbers of rounds tried: doubling up to the deadline, and the deadline."""
    doubling = [_FEWEST * 2**power for power in range(int(math.log2(max(most / _FEWEST, 1))) + 1)]
    return tuple(sorted({min(count, most) for count in (*doubling, most)}))
