"""Noise, steps and claims of `weighted_erm`, `average_erm` and `central_erm`.

Noise is sized in the units of the weighted sum. One record of party j enters it with weight a_j = w_j / n_j, so a
party that adds noise of standard deviation z_j C to its sum of clipped gradients adds a_j z_j C to the weighted sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from coterie import _check
from coterie.accounting import Claim, calibrate, certify
from coterie.accounting.plans import against_it
from coterie.errors import InputError
from coterie.mechanisms import NoNoise, ReleasePlan
from coterie.problems.problem import Problem
from coterie.protocols import _dual, _masked
from coterie.protocols._erm import Design, noise_like
from coterie.protocols.task import (
    Calibration,
    ProtocolSettings,
    Task,
    calibrated,
    full_batch_plan,
    radius_for,
    smoothness_for,
    stated,
    with_noise,
)
from coterie.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Aggregation: TypeAlias = Literal["once", "every_round"]
View: TypeAlias = Literal["untrusted", "aggregator", "masked"]

PAPER_STEPS = 100  # the paper cross-validated T and η on the private data and published neither
_ROUNDING = 1e-9
_FEWEST, _MOST = 20, 300  # default rounds of descent: beyond them the bound no longer moves, and time does


@dataclass(frozen=True, kw_only=True)
class StepSettings(ProtocolSettings):
    """What may be set of T and η; None means chosen for the budget (certified) or as published (paper)."""

    steps: int | None = None
    step_size: float | None = None
    radius: float | None = None  # guess of ‖θ*‖, public; enters steps and their size only
    clip: float | None = None  # certified: share of the gradient's bound to clip at; None: the loss's own
    constant: float | None = None  # c of the noise formula


@dataclass(frozen=True, kw_only=True)
class SumSettings(StepSettings):
    """What may be set of the sum, too."""

    aggregation: Aggregation | None = None  # every_round (certified) or once (paper)
    # untrusted (certified), aggregator (paper), or masked: nobody is trusted to add up
    view: View | None = None
    missing: int | None = None  # aggregator: who may collude or stay away; 1 (certified) or 0 (paper)
    colluding: int | None = None  # masked: other owners who may pool what they know, 1
    absent: int | None = None  # masked: who may be left out of a sum, a sixteenth
    spare: int | None = None  # masked: sums that may fail and are charged for, a tenth of the rounds
    degree: int | None = None  # masked: with how many others an owner shares masks; 0: all, up to 64 owners


Chosen = TypeVar("Chosen", bound=SumSettings)


def filled(settings: Chosen, task: Task, calibration: Calibration) -> Chosen:
    """The settings, checked, with what follows from the calibration."""
    paper = calibration == "paper"
    aggregation = settings.aggregation or ("once" if paper else "every_round")
    missing = settings.missing if settings.missing is not None else (0 if paper else min(1, task.owners - 1))
    view = settings.view or ("aggregator" if paper else "untrusted")
    _masked.check_view(view, aggregation, calibration == "certified", settings)
    if _check.count("missing", missing, least=0) >= task.owners:  # somebody's noise has to remain
        raise InputError(
            f"missing={missing}: must be below the {task.owners} parties. Allow fewer to be missing."
        )
    return replace(settings, aggregation=aggregation, view=view, missing=missing)


class Noised(NamedTuple):
    """How much noise each party adds to its sum, and how much the stated view faces, both over clip_norm."""

    own: np.ndarray  # (owners,)
    charged: np.ndarray | None = None  # (owners,) None: the view faces the party's own
    quorum: int = 0


def surviving(variances: np.ndarray, missing: int) -> float:
    """What is left of the noise of a sum when the `missing` largest shares are taken out of it.

    >>> surviving(np.array([4.0, 1.0, 2.0]), 1)
    3.0
    """
    return float(np.sort(variances)[: len(variances) - missing].sum())


def aggregated(needed: np.ndarray, per_record: np.ndarray, parts: np.ndarray, missing: int) -> Noised:
    """Shares such that the weighted sum alone protects everyone, whoever the `missing` parties are.

    `needed` is what each party's budget asks for over clip_norm, `per_record` its a_j, `parts` how the variance is
    divided. Even parts need the least in all: variance / (m − missing) from each.

    Guarantee: without any `missing` of the shares the sum's noise is at least needed_j a_j C for every j; a record of
    party j moves that sum by at most a_j C when added, 2 a_j C when replaced.
    """
    # A hair above, so that rounding in the shares cannot take back what the calibration found.
    wanted = float(np.max(needed * per_record)) ** 2 * (1 + _ROUNDING)
    variances = wanted * parts / surviving(parts, missing)
    return faced(np.sqrt(variances) / per_record, per_record, missing)


def faced(own: np.ndarray, per_record: np.ndarray, missing: int) -> Noised:
    """What a view of the weighted sum alone faces when every party adds `own` to its sum."""
    left = math.sqrt(surviving((own * per_record) ** 2, missing))
    return Noised(own=own, charged=left / per_record, quorum=len(own) - missing)


def spare_sums(settings: StepSettings, rounds: int) -> int:
    """For so many rounds, how many releases more the budget is divided among."""
    if isinstance(settings, SumSettings) and settings.view == "masked":
        return _masked.spares(rounds, settings.spare)
    return 0


def step_plan(task: Task, design: Design, spread: np.ndarray, given: StepSettings) -> Design:
    """The design with rounds and step sizes for noise whose norm, were all of the budget spent on one gradient, is
    `spread`."""
    if given.step_size is not None:
        _check.positive("step_size", given.step_size)
    return (_descent_steps if design.how == "descent" else _dual_steps)(task, design, spread, given)


def _dual_steps(task: Task, design: Design, spread: np.ndarray, given: StepSettings) -> Design:
    """As certified `dual_averaging` has them: each of T releases, spare ones among them, carries T times the variance.

    A given step size is 2/γ, which is stable up to 1/smoothness, as that of descent is; it stands as it is.
    """
    assert design.how != "descent"
    enough = _dual.rounds_for(task, design.how, float(np.min(spread)) ** 2, given.radius)
    rounds = _check.count("steps", enough if given.steps is None else given.steps)
    if given.step_size is None:
        variance = (rounds + spare_sums(given, rounds)) * spread**2
        pace = _dual.pace_for(task, design.how, rounds, variance, given.radius)
    else:
        pace = _dual.Pace(gamma=2 / given.step_size, root=0.0)
    everyone = _dual.Pace(*(np.broadcast_to(row, task.owners) for row in pace))
    return replace(design, steps=rounds, pace=everyone)


def _descent_steps(task: Task, design: Design, spread: np.ndarray, given: StepSettings) -> Design:
    """T rounds carry T times the variance each, so the averaged iterate's bound R²/(2ηT) + η T spread²/2 is smallest at
    η = R/(T spread) and does not depend on T. T is only as large as keeps that η below 1/L, where steps are stable.
    """
    curve, radius = curvature(task), radius_for(task, given.radius)
    least = float(np.min(spread))
    enough = math.ceil(radius * curve / least) if 0 < curve < math.inf and least > 0 else _FEWEST
    chosen = min(max(enough, _FEWEST), _MOST) if least > 0 else _MOST
    rounds = _check.count("steps", chosen if given.steps is None else given.steps)
    smooth = 0 < curve < math.inf
    stable = 1 / curve if smooth else radius / (task.clip_norm * math.sqrt(rounds))
    releases = rounds + spare_sums(given, rounds)
    with np.errstate(divide="ignore"):
        best = np.minimum(stable, radius / (math.sqrt(rounds * releases) * spread))
    step_size = np.broadcast_to(best if given.step_size is None else given.step_size, task.owners)
    return replace(design, steps=rounds, step_size=step_size)


def curvature(task: Task) -> float:
    """Smoothness of the objective, for features as long as clip_norm implies (of norm 1 for unbounded slopes)."""
    penalty = task.problem.penalty
    return smoothness_for(task) + (penalty.smoothness if penalty.smooth else 0.0)


def is_linear(problem: Problem) -> bool:
    """Whether local steps are affine in the parameters, so that sums of T of them are Gaussian at any T."""
    return problem.loss.smoothness == 0.0 and problem.penalty.affine


def central_multiplier(
    epsilon: float, delta: float, constant: float | None = None, relation: Relation = REPLACE_ONE
) -> float:
    """Noise over what a record moves of one release: exact, or from a given c as the theorem states it."""
    from dp_accounting import GaussianDpEvent

    if constant is not None:
        return math.sqrt(_check.positive("constant", constant) * math.log(1 / delta)) / epsilon
    return calibrate(GaussianDpEvent, epsilon=epsilon, delta=delta, relation=relation)


def central_epsilon(multiplier: float, delta: float, constant: float | None = None) -> float:
    """The theorem solved for ε: `central_multiplier` the other way round."""
    from dp_accounting import GaussianDpEvent

    if constant is not None:
        return math.sqrt(_check.positive("constant", constant) * math.log(1 / delta)) / multiplier
    return certify(GaussianDpEvent(multiplier), delta=delta).epsilon


def summed(task: Task, settings: SumSettings) -> bool:
    """Whether the view faces the noise of the sum: T local steps are a Gaussian sum for linear losses alone."""
    return settings.view == "aggregator" and (
        settings.aggregation == "every_round" or is_linear(task.problem)
    )


def sized(
    task: Task, settings: SumSettings, per_record: np.ndarray, parts: np.ndarray, needed: np.ndarray
) -> Noised:
    """What each party adds where each budget asks for `needed`: its share of what the sum needs, or all of it."""
    if (together := _masked.together_of(task, settings)) is not None:
        return Noised(*_masked.shared(needed, per_record, _masked.exposed(together, task.owners)))
    if summed(task, settings):
        return aggregated(needed, per_record, parts, settings.missing or 0)
    return Noised(own=needed)


def certified(
    task: Task,
    design: Design,
    settings: StepSettings,
    size: Callable[[np.ndarray], Noised],
    extra: tuple[DpEvent, ...] | None = None,
) -> tuple[Design, ReleasePlan]:
    """The design with rounds and steps for its noise, and each party's noise sized for its budget by `size`."""
    given: dict[str, Any] = {"relation": REPLACE_ONE if design.sizes == "public" else ADD_OR_REMOVE_ONE}
    share = task.problem.loss.clip if settings.clip is None else _check.positive("clip", settings.clip)
    given |= {"clip_norm": share * task.clip_norm, "extra": extra}
    single = full_batch_plan(task, 1, noise_like=noise_like(task, False, 1, design.sizes), **given)
    needed = np.array(calibrated(single, task).noise_multiplier)
    once = size(needed).own * design.per_record(task)
    alone = design.once and not is_linear(task.problem)  # each party steps by its own noise
    norm = math.sqrt(task.dimension) * single.clip_norm
    spread = norm * (once / design.weights if alone else np.array([math.sqrt(np.sum(once**2))]))
    design = step_plan(task, design, spread, settings)
    noise = noise_like(task, design.once, design.steps, design.sizes)
    releases = design.steps + spare_sums(settings, design.steps)
    plan = calibrated(full_batch_plan(task, releases, noise_like=noise, **given), task)
    return design, noised(plan, size(np.array(plan.noise_multiplier)))


def noised(plan: ReleasePlan, by: Noised) -> ReleasePlan:
    """The plan with its noise filled in."""
    return replace(with_noise(plan, by.own, by.charged), quorum=by.quorum)


def seen(task: Task, design: Design, plan: ReleasePlan, settings: SumSettings) -> ReleasePlan:
    """The plan with the view that its certificate is for: the aggregator's, with the ε against it; or under masks."""
    together = _masked.together_of(task, settings)
    if together is not None:
        return _masked.finished(plan, together, design.steps)
    if settings.view != "aggregator":
        return plan
    if plan.charged is None or plan.quorum == 0:
        words = "final model (bound by each party's own steps: holds against the aggregator too)"
        return replace(plan, view=words)
    what = "final model" if design.once else "weighted sum of each round"
    return replace(
        plan,
        view=f"{what}, less the noise of any {settings.missing} parties; aggregator trusted unless sums are secure "
        f"({against_it(plan, task.delta)})",
    )


def published(task: Task, design: Design, given: StepSettings) -> Design:
    """The paper's steps: T as given (it published none), η = 1/L of its Theorem 3, the last iterate."""
    curve = curvature(task)
    if given.step_size is None and not 0 < curve < math.inf:
        raise InputError(f"step_size=None: 1/L needs a smooth loss, here L={curve}. Give step_size.")
    rate = 1 / curve if given.step_size is None else _check.positive("step_size", given.step_size)
    steps = _check.count("steps", PAPER_STEPS if given.steps is None else given.steps)
    step_size = np.full(task.owners, rate)
    return replace(design, steps=steps, step_size=step_size, how="descent", averaged=False)


def noiseless(
    task: Task, design: Design, plan: ReleasePlan, given: StepSettings
) -> tuple[Design, ReleasePlan]:
    """The same without noise, at the largest stable step and the gradient's bound: a baseline that protects nothing."""
    design = step_plan(task, design, np.zeros(1), given)
    clip = task.clip_norm * (1.0 if given.clip is None else given.clip)
    noise = noise_like(task, design.once, design.steps, design.sizes)
    releases = (design.steps,) * task.owners
    return design, replace(plan, noise=NoNoise(), releases=releases, noise_like=noise, clip_norm=clip)


def claimed(
    epsilon: float | None, task: Task, source: str, note: str, relation: Relation = REPLACE_ONE
) -> Claim:
    """A theorem's statement about the final model; None where it says nothing, for want of noise."""
    note = "no noise: the theorem does not speak of it" if epsilon is None else note
    return stated(task, epsilon, source, note, relation=relation, view="final model")
