"""The best certified settings for a budget and a deadline, by predicted excess risk. Reads no record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from coterie import _check, topologies
from coterie.accounting.plans import against_all_others, certificates_of
from coterie.errors import InputError
from coterie.planning.candidates import Contender, candidates, protocols_for
from coterie.planning.constants import Constants, assumed, quadratic, scenarios
from coterie.planning.dynamics import Excess, Quadratic, side_by_side
from coterie.program import Program
from coterie.protocols import Task, build

Tell = Callable[[str, int, int], None]

USEFUL = 0.8  # of what knowing nothing costs: a forecast above it promises nothing
_FEWEST = 5  # rounds
OFF = 1.7  # how far the stand-in itself is taken to be off, either way: see docs/planning.md for what was measured


class End(NamedTuple):
    """Where a run is expected to end, by direction of the features' second moment, the largest first."""

    reached: np.ndarray  # share of the way from zero to the optimum
    scatter: np.ndarray  # variance of a coordinate around it


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
    ends: tuple[End, ...]  # where the model is expected, under each scenario


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
    all_others: float | None  # masked sums: the same against all other owners together
    view: str
    hub: str | None  # where owners meet in the topology's place
    constants: Constants

    @property
    def useful(self) -> bool:
        """Whether the forecast is clearly below what knowing nothing costs."""
        return self.best.predicted < USEFUL * self.nothing


def plan(
    task: Task,
    rounds_at_most: int,
    constants: Constants | None = None,
    tell: Tell = lambda what, done, of: None,
    protocol: str | None = None,
    colluding: int | None = None,
) -> Plan:
    """Settings with the least predicted excess risk among those that meet every owner's budget by the deadline.

    Of all protocols that have a forecast, or of the one that is named. With `colluding`, sums are added under masks,
    and every certificate holds against so many of the others who pool what they know.

    Chosen where the geometric mean over `scenarios` is least, so that a setting that only suits one guess does not win.
    `tell` hears (what, done, of).

    Guarantee: no record is read; `task` and `constants` are public. The winner is built by its own protocol as
    `certified`, and `certified` is the accountant's answer for that very plan.
    """
    most = _check.count("rounds_at_most", rounds_at_most)
    constants = constants or assumed(np.shape(task.params)[0])
    usable, refused = protocols_for(task, partial(tell, "choosing noise"), protocol, colluding)
    gossip, left = _gossip(task, usable)
    forecasts = []
    for done, name in enumerate(usable):
        tell("forecasting", done, len(usable))
        forecasts.append(
            forecast(
                task, candidates(task, name, _counts(most), colluding, constants.persons), constants, left
            )
        )
    ranked = sorted(
        (prediction for prediction in forecasts if prediction is not None),
        key=lambda prediction: prediction.predicted,
    )
    if not ranked:
        reasons = "; ".join(refused.values()) or "no setting fits the deadline"
        raise InputError(f"rounds_at_most={most}: no protocol can run here ({reasons}).")
    best = ranked[0]
    program = build(best.protocol, task, best.settings, "certified")
    together = [] if colluding is None else against_all_others(program.plan, task.delta)
    return Plan(
        best=best,
        others=tuple(ranked[1:]),
        refused=refused,
        nothing=quadratic(task.problem, constants).gap,
        gossip_steps=gossip if program.hub is None else 1,
        messages=_messages(task, program, gossip),
        clip_norm=best.clip * task.clip_norm,
        noise_multiplier=tuple(map(float, program.plan.noise_multiplier)),
        noise_scale=tuple(map(float, program.plan.noise_scale)),
        certified=max(certificate.epsilon for certificate in certificates_of(program.plan, task.delta)),
        all_others=max((certificate.epsilon for certificate in together), default=None),
        view=program.plan.view,
        hub=program.hub,
        constants=constants,
    )


def forecast(
    task: Task, tried: list[Contender], constants: Constants, disagreement: float
) -> Forecast | None:
    """The best of `tried`, every step size included; None where nothing was to be tried."""
    worlds = [quadratic(task.problem, scenario) for scenario in scenarios(task.problem, constants)]
    paths: dict[tuple[int, float], list[Excess]] = {}
    best: tuple[float, Forecast] | None = None
    for contender in tried:
        with np.errstate(over="ignore", invalid="ignore"):  # step sizes that diverge
            at = contender.rounds, contender.gain
            if at not in paths:  # clips of records share a path: they differ in variance and bias alone
                paths[at] = _followed(worlds, contender)
            apart = _disagreement(task, contender, disagreement)
            totals = [
                path.distance + contender.variance * (1 + apart) * path.noise + contender.bias
                for path in paths[at]
            ]
            score = np.mean(np.log(totals), axis=0)
        step = int(np.argmin(np.where(np.isfinite(score), score, np.inf)))
        if np.isfinite(score[step]) and (best is None or score[step] < best[0]):
            best = float(score[step]), _forecast(contender, paths[at], totals, apart, step)
    return None if best is None else best[1]


def _followed(worlds: list[Quadratic], candidate: Contender) -> list[Excess]:
    """Every step size's way on each stand-in, noise of variance one a coordinate. Units of several records add up to
    `gain` times a record's gradient beside the same noise and penalty; excess risk is told of a record's loss."""
    gain = candidate.gain
    steeper = [world._replace(curvature=gain * world.curvature) for world in worlds]
    risks = side_by_side(steeper, lambda problem: candidate.path(problem, candidate.steps), 1.0)
    return [risk._replace(distance=risk.distance / gain, noise=risk.noise / gain) for risk in risks]


def _forecast(
    candidate: Contender, paths: list[Excess], totals: list[np.ndarray], apart: float, at: int
) -> Forecast:
    path, variance = paths[0], candidate.variance * (1 + apart)
    noise = float(candidate.variance * path.noise[at])
    return Forecast(
        protocol=candidate.protocol,
        settings=candidate.settings(float(f"{candidate.steps[at]:.4g}")),
        rounds=candidate.rounds,
        batch=candidate.batch,
        clip=candidate.clip,
        predicted=float(totals[0][at]),
        low=float(min(total[at] for total in totals)) / OFF,
        high=float(max(total[at] for total in totals)) * OFF,
        distance=float(path.distance[at]),
        noise=noise,
        disagreement=apart * noise,
        clipping=candidate.bias,
        ends=tuple(End(way.reached[at], variance * way.scatter[at]) for way in paths),
    )


def _disagreement(task: Task, candidate: Contender, left: float) -> float:
    """Variance of an owner's own model around the mean of all, over that of the mean's noise.

    Each round an owner's release carries N times the mean's variance, of which mixing leaves c² after one round, c⁴
    after two, …: N c²/(1 − c²) of one round's worth. The mean has gathered about T/3 rounds' worth (weights a(t) = t).
    """
    if not candidate.mixes:
        return 0.0
    return 3 * task.owners * left**2 / ((1 - left**2) * candidate.rounds)


def _gossip(task: Task, usable: tuple[str, ...]) -> tuple[int, float]:
    """Gossip steps a round, and what they leave of a disagreement."""
    if task.owners == 1 or not {"dual_averaging", "push_sum"} & set(usable):
        return 1, 0.0
    steps = topologies.gossip_steps_for(task.topology)
    return steps, topologies.contraction(task.topology, steps)


def _messages(task: Task, program: Program, gossip: int) -> int:
    if program.hub is None:
        return round(int(program.schedule) * topologies.messages_per_round(task.topology, gossip))
    if program.aggregate is not None:
        return int(program.schedule) * 2 * task.owners
    return len(np.asarray(program.schedule))


def _counts(most: int) -> tuple[int, ...]:
    """Numbers of rounds tried: doubling up to the deadline, and the deadline."""
    doubling = [_FEWEST * 2**power for power in range(int(math.log2(max(most / _FEWEST, 1))) + 1)]
    return tuple(sorted({min(count, most) for count in (*doubling, most)}))
