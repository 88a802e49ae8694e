"""Weighted distributed private risk minimisation, WD-DP (Kang, Liu, Niu & Wang 2021, Algorithm 1).

    party j, T times:  θ_j ← θ_j − η (∇L_j(θ_j) + z),  z ~ N(0, σ² I);   then   θ = Σ_j (n_j/n + z_w) θ_j

Released: each party's noisy steps (only their outcome leaves, but every step is charged), then the weighted sum.
As published (`calibration="paper"`) σ² = c G² T ln(1/δ₁)/(n² ε₁²), σ_w² = c ln(1/δ₂)/(n² ε₂²); c is unpublished and
here, by default, the one that makes the claim exact for one trusted server. The proof takes m independent noises
for one, so the sum has less noise than it assumes, and the certificate is above the claim.

Departures by default (`"certified"`): the sum is formed every round; every party's noise is set by its own size and
budget (`view="untrusted"`), or by its share of what the sum needs (`view="aggregator"`); T and η follow from the
noise; the later half of the iterates is averaged. Sizes are public under replace-one adjacency, so the weights carry
noise only under `relation="add_or_remove_one"`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from coterie import _check
from coterie.accounting import Claim, calibrate, certify
from coterie.errors import InputError
from coterie.mechanisms import ReleasePlan
from coterie.program import Program
from coterie.protocols import _erm, _erm_noise
from coterie.protocols._erm import Design
from coterie.protocols._erm_noise import Aggregation, Noised, Steps, View
from coterie.protocols.task import Calibration, Task

Relation = Literal["replace_one", "add_or_remove_one"]
SOURCE = "Kang, Liu, Niu & Wang 2021, Theorem 1"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    aggregation: Aggregation | None = None  # every_round (certified) or once (paper)
    view: View | None = None  # untrusted (certified) or aggregator (paper)
    relation: Relation = "replace_one"
    steps: int | None = None
    step_size: float | None = None
    radius: float = 20.0  # guess of ‖θ*‖, public; enters steps and their size only
    missing: int | None = None  # aggregator: who may collude or stay away; 1 (certified) or 0 (paper)
    shares: Literal["even", "records"] = "even"  # aggregator: how the noise is divided
    weights: Literal["records", "precision"] = "records"  # n_j/n, or by how precise a party's gradient is
    weight_share: float = 0.2  # of ε and δ for the weights, under add_or_remove_one
    constant: float | None = None  # c of Theorem 1


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` everything that the stated view sees meets every owner's own (ε, δ)
    under `relation`. In the aggregator's view that holds without the noise of any `missing` parties; the plan's quorum
    says when the sum must not be released.
    """
    settings = _filled(settings, task, calibration)
    once = settings.aggregation == "once"
    design, plan, noised = (_published if calibration == "paper" else _certified)(task, settings)
    plan = _erm_noise.with_noise(plan, noised, "public transcript")
    if settings.view == "aggregator":
        plan = replace(plan, view=_erm_noise.seen(plan, task.delta, once, settings.missing or 0))
    if calibration == "noiseless":
        design, plan = _erm_noise.noiseless(task, design, plan, _steps(settings))
    return _erm.assemble(task, design, plan, _claim(task, settings, plan))


class Worth(NamedTuple):
    """The paper's claims beside what holds, for the published noise with no weight noise (ε₂ = 0)."""

    claimed: float  # Theorem 1: ε of the final model
    certified_linear: float  # what a linear loss attains: refutes the claim where it is above it
    claimed_own: float  # Theorem 2: ε of the smallest party's own model
    certified_own: float  # that party's steps; also the bound on the final model for general losses


def worth(sizes: Sequence[int], epsilon: float, delta: float) -> Worth:
    """What Theorems 1 and 2 are worth for parties of these sizes, c such that the central claim is exact.

    The weighted sum's noise is σ √Σ(n_j/n)², and a party's own noise over its own sensitivity is n_j/n of the
    central one's. T cancels: T steps at σ cost what one costs at σ/√T.

    >>> [round(value, 2) for value in worth([100] * 32, 0.25, 1e-5)]
    [0.25, 1.67, 8.0, 12.6]
    """
    from dp_accounting import GaussianDpEvent

    share = np.array(sizes) / sum(sizes)
    central = _erm_noise.central_multiplier(epsilon, delta)
    final, own = central * math.sqrt(np.sum(share**2)), central * float(share.min())
    return Worth(
        claimed=epsilon,
        certified_linear=certify(GaussianDpEvent(final), delta=delta).epsilon,
        claimed_own=epsilon / float(share.min()),
        certified_own=certify(GaussianDpEvent(own), delta=delta).epsilon,
    )


def _filled(settings: Settings, task: Task, calibration: Calibration) -> Settings:
    paper = calibration == "paper"
    aggregation = settings.aggregation or ("once" if paper else "every_round")
    missing = settings.missing if settings.missing is not None else (0 if paper else min(1, task.owners - 1))
    _check.one_of("aggregation", aggregation, ("once", "every_round"))
    view = _check.one_of(
        "view", settings.view or ("aggregator" if paper else "untrusted"), ("untrusted", "aggregator")
    )
    _check.one_of("relation", settings.relation, ("replace_one", "add_or_remove_one"))
    _check.one_of("shares", settings.shares, ("even", "records"))
    _check.one_of("weights", settings.weights, ("records", "precision"))
    _check.probability("weight_share", settings.weight_share)
    _erm_noise.check_missing(missing, task.owners)
    if settings.weights == "precision" and (
        paper or settings.relation != "replace_one" or view == "aggregator"
    ):
        raise InputError(
            "weights='precision': only for certified, untrusted, replace_one. Use weights='records'."
        )
    if (
        calibration == "certified"
        and settings.relation != "replace_one"
        and None in (settings.steps, settings.step_size)
    ):
        raise InputError(
            "relation='add_or_remove_one': sizes are private, so steps and their size must not follow from them. "
            "Give both steps and step_size."
        )
    if settings.shares == "records" and settings.relation != "replace_one":
        raise InputError(
            "shares='records': sizes are private under relation='add_or_remove_one', and noise must not follow from "
            "them. Use shares='even'."
        )
    if paper and settings.relation != "replace_one" and aggregation != "once":
        raise InputError(
            "aggregation='every_round': the paper adds weight noise to one sum. Use aggregation='once'."
        )
    return replace(settings, aggregation=aggregation, view=view, missing=missing)  # type: ignore[arg-type]


def _steps(settings: Settings) -> Steps:
    return Steps(settings.steps, settings.step_size, settings.radius)


def _by_records(task: Task) -> np.ndarray:
    return np.array(task.sizes) / sum(task.sizes)


def _summed(task: Task, settings: Settings) -> bool:
    """Whether the view faces the noise of the sum: T local steps are a Gaussian sum for linear losses alone."""
    return settings.view == "aggregator" and (
        settings.aggregation == "every_round" or _erm_noise.is_linear(task.problem)
    )


def _certified(task: Task, settings: Settings) -> tuple[Design, ReleasePlan, Noised]:
    design = Design(
        weights=_precise(task) if settings.weights == "precision" else _by_records(task),
        once=settings.aggregation == "once",
        steps=1,
        step_size=np.ones(task.owners),
        averaged=True,
    )
    extra = None
    if settings.relation == "add_or_remove_one":
        noise = [_size_multiplier(epsilon, task, settings) for epsilon in task.epsilon]
        design, extra = replace(design, sizes="noisy", size_noise=np.array(noise)), _gaussians(noise)

    def size(needed: np.ndarray) -> Noised:
        if not _summed(task, settings):
            return Noised(own=needed)
        parts = np.full(task.owners, 1 / task.owners) if settings.shares == "even" else _by_records(task)
        return _erm_noise.aggregated(needed, design.per_record(task), parts, settings.missing or 0)

    return _erm_noise.certified(task, design, size, extra, _steps(settings))


def _precise(task: Task) -> np.ndarray:
    """Inverse-variance weights: a party's mean gradient has sampling variance C²/n_j and noise d (z_j C)²/n_j².

    Unlike n_j/n they hold for parties whose records are alike; z_j from a release of the whole budget at once.
    """
    multipliers = np.array([_erm_noise.central_multiplier(epsilon, task.delta) for epsilon in task.epsilon])
    sizes = np.array(task.sizes, float)
    precision = sizes**2 / (sizes + task.dimension * multipliers**2)
    return precision / precision.sum()


def _published(task: Task, settings: Settings) -> tuple[Design, ReleasePlan, Noised]:
    """Equations 4 and 5. The server assigns one budget to all: the strictest."""
    once, total, weights = settings.aggregation == "once", sum(task.sizes), _by_records(task)
    start = Design(weights=weights, once=once, steps=1, step_size=np.ones(task.owners), averaged=False)
    design = _erm_noise.published(task, start, _steps(settings))
    epsilon, delta = _first_part(min(task.epsilon), task, settings)
    central = _erm_noise.central_multiplier(epsilon, delta, settings.constant) * math.sqrt(design.steps)
    noised, extra = Noised(own=central * weights), None
    if settings.relation == "add_or_remove_one":
        multiplier = _size_multiplier(min(task.epsilon), task, settings)  # σ_w n
        design = replace(design, sizes="noisy_weights", size_noise=multiplier / total / weights)
        # The party divides by its exact, private size: adding a record moves its mean by (g − mean)/(n_j + 1), up to
        # 2C/n_j, twice what a sum over a public count moves by. All weights move with n: by √2/n in the 2-norm.
        noised, extra = (
            replace(noised, charged=noised.own / 2),
            _gaussians([multiplier / math.sqrt(2)] * task.owners),
        )
    elif _summed(task, settings):
        noised = _erm_noise.faced(noised.own, design.per_record(task), settings.missing or 0)
    noise = _erm.noise_like(task, once, design.steps, design.sizes)
    return (
        design,
        replace(_erm_noise.own_plan(task, design.steps, noise, settings.relation), extra=extra),
        noised,
    )


def _first_part(epsilon: float, task: Task, settings: Settings) -> tuple[float, float]:
    """(ε₁, δ₁): all of the budget, but for what the weights take under add/remove."""
    left = 1 - settings.weight_share if settings.relation == "add_or_remove_one" else 1.0
    return left * epsilon, left * task.delta


def _size_multiplier(epsilon: float, task: Task, settings: Settings) -> float:
    """Noise on a size for (ε₂, δ₂); one record moves it by 1."""
    from dp_accounting import GaussianDpEvent

    epsilon, delta = settings.weight_share * epsilon, settings.weight_share * task.delta
    if settings.constant is not None:
        return math.sqrt(_check.positive("constant", settings.constant) * math.log(1 / delta)) / epsilon
    return calibrate(GaussianDpEvent, epsilon=epsilon, delta=delta, relation="add_or_remove_one")


def _gaussians(multipliers: Sequence[float]) -> tuple:
    from dp_accounting import GaussianDpEvent

    return tuple(GaussianDpEvent(one) for one in multipliers)


def _claim(task: Task, settings: Settings, plan: ReleasePlan) -> Claim:
    """Theorem 1 solved for ε at the least noise a party adds to its mean; Theorem 2 for the smallest in the note."""
    if plan.noise == "none":
        return _erm_noise.claimed(None, task, settings.relation, SOURCE, "")
    sizes, total = np.array(task.sizes), sum(task.sizes)
    multiplier = float(np.min(np.array(plan.noise_multiplier) / sizes)) * total / math.sqrt(plan.releases[0])
    _, delta = _first_part(1.0, task, settings)
    first = _erm_noise.central_epsilon(multiplier, delta, settings.constant)
    second = settings.weight_share * min(task.epsilon) if settings.relation == "add_or_remove_one" else 0.0
    own = first * total / int(sizes.min())
    note = f"Theorem 2 claims {own:.3g} for the smallest party's own model"
    return _erm_noise.claimed(first + second, task, settings.relation, SOURCE, note)
