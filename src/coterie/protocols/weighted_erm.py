"""Weighted distributed private risk minimisation, WD-DP (Kang, Liu, Niu & Wang 2021, Algorithm 1).

    party j, T times:  θ_j ← θ_j − η (∇L_j(θ_j) + z),  z ~ N(0, σ² I);   then   θ = Σ_j (n_j/n + z_w) θ_j

Released: each party's noisy steps (only their outcome leaves, but every step is charged), then the weighted sum.
As published (`calibration="paper"`) σ² = c G² T ln(1/δ₁)/(n² ε₁²), σ_w² = c ln(1/δ₂)/(n² ε₂²); c is unpublished and
here, by default, the one that makes the claim exact for one trusted server. The proof takes m independent noises
for one, so the sum has less noise than it assumes, and the certificate is above the claim.

Departures by default (`"certified"`): the sum is formed every round; every party's noise is set by its own size and
budget (`view="untrusted"`), or by its share of what the sum needs (`view="aggregator"`); steps are those of
certified `dual_averaging`, accelerated for smooth losses, with T and γ for the noise in the sum. Sizes are public under
replace-one adjacency, so the weights carry noise only under `relation="add_or_remove_one"`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from coterie import _check
from coterie.accounting import Claim
from coterie.errors import InputError
from coterie.mechanisms import ReleasePlan
from coterie.program import Program
from coterie.protocols import _erm, _erm_noise, _masked
from coterie.protocols._erm import Design
from coterie.protocols._erm_noise import Noised, SumSettings
from coterie.protocols.task import Calibration, Task, full_batch_plan
from coterie.relations import ADD_OR_REMOVE_ONE, named

SOURCE = "Kang, Liu, Niu & Wang 2021, Theorem 1"
SIZES_SHOW = (  # a message's noise has standard deviation σ = √(c T ln(1/δ₁)) G/(n ε₁) in each of its d numbers
    "sizes are private under add_or_remove_one, but the published noise and weights are divided by the number of all "
    "records: in many dimensions the length of one message tells that number"
)


@dataclass(frozen=True, kw_only=True)
class Settings(SumSettings):
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    relation: Literal["replace_one", "add_or_remove_one"] = "replace_one"
    shares: Literal["even", "records"] = "even"  # aggregator: how the noise is divided
    # n_j/n; by how precise a party's gradient is; masked: filled
    weights: Literal["records", "precision"] | None = None
    weight_share: float = 0.2  # of ε and δ for the weights, under add_or_remove_one


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` everything that the stated view sees meets every owner's own (ε, δ)
    under `relation`. In the aggregator's view that holds without the noise of any `missing` parties; the plan's quorum
    says when the sum must not be released. Under masks nobody sees more than the sums, but for what `colluding` know.
    """
    settings = _filled(settings, task, calibration)
    design, plan = (_published if calibration == "paper" else _certified)(task, settings)
    plan = _erm_noise.seen(task, design, plan, settings)
    if calibration == "noiseless":
        design, plan = _erm_noise.noiseless(task, design, plan, settings)
    return _erm.assemble(task, design, plan, _claim(task, settings, plan))


class Multipliers(NamedTuple):
    """Noise over sensitivity of a whole published run."""

    final: float  # of the weighted sum, for a linear loss
    own: float  # of the smallest party's own steps


def published_multipliers(sizes: Sequence[float], epsilon: float, delta: float) -> Multipliers:
    """What the published noise leaves with no weight noise (ε₂ = 0), c such that the central claim is exact.

    The weighted sum's noise is σ √Σ(n_j/n)², and a party's own noise over its own sensitivity is n_j/n of the
    central one's. T cancels: T steps at σ cost what one costs at σ/√T.
    """
    share = np.array(sizes) / sum(sizes)
    central = _erm_noise.central_multiplier(epsilon, delta)
    return Multipliers(central * math.sqrt(np.sum(share**2)), central * float(share.min()))


def _filled(settings: Settings, task: Task, calibration: Calibration) -> Settings:
    paper, relation = calibration == "paper", named(settings.relation)
    settings = _erm_noise.filled(settings, task, calibration)
    _check.probability("weight_share", settings.weight_share)
    if settings.weights == "precision" and (
        paper or not relation.sizes_are_public or settings.view != "untrusted"
    ):
        raise InputError(
            "weights='precision': only for certified, untrusted, replace_one. Use weights='records'."
        )
    if (
        calibration == "certified"
        and not relation.sizes_are_public
        and None in (settings.steps, settings.step_size)
    ):
        raise InputError(
            f"relation={settings.relation!r}: sizes are private, so steps and their size must not follow from them. "
            "Give both steps and step_size."
        )
    if settings.shares == "records" and not relation.sizes_are_public:
        raise InputError(
            f"shares='records': sizes are private under relation={settings.relation!r}, and noise must not follow from "
            "them. Use shares='even'."
        )
    if paper and not relation.sizes_are_public and settings.aggregation != "once":
        raise InputError(
            "aggregation='every_round': the paper adds weight noise to one sum. Use aggregation='once'."
        )
    return settings


def _by_records(task: Task) -> np.ndarray:
    return np.array(task.sizes) / sum(task.sizes)


def _weights(task: Task, settings: Settings) -> np.ndarray:
    together = _masked.together_of(task, settings)
    if together is not None and settings.weights is None:
        return _masked.weights(task, _masked.exposed(together, task.owners))
    return _precise(task) if settings.weights == "precision" else _by_records(task)


def _certified(task: Task, settings: Settings) -> tuple[Design, ReleasePlan]:
    weights, once = _weights(task, settings), settings.aggregation == "once"
    design, extra = Design(weights=weights, once=once, how=_erm.how_for(task)), None
    if not named(settings.relation).sizes_are_public:
        noise = [_size_multiplier(epsilon, task, settings) for epsilon in task.epsilon]
        design, extra = replace(design, sizes="noisy", size_noise=np.array(noise)), _gaussians(noise)
    parts = np.full(task.owners, 1 / task.owners) if settings.shares == "even" else _by_records(task)
    # Private sizes enter with noise of their own, after the sum: a record weighs 1 in it, whatever they are.
    per_record = design.per_record(task) if design.sizes == "public" else np.ones(task.owners)
    size = partial(_erm_noise.sized, task, settings, per_record, parts)
    return _erm_noise.certified(task, design, settings, size, extra)


def _precise(task: Task) -> np.ndarray:
    """Inverse-variance weights: a party's mean gradient has sampling variance C²/n_j and noise d (z_j C)²/n_j².

    Unlike n_j/n they hold for parties whose records are alike; z_j from a release of the whole budget at once.
    """
    multipliers = np.array([_erm_noise.central_multiplier(epsilon, task.delta) for epsilon in task.epsilon])
    sizes = np.array(task.sizes, float)
    precision = sizes**2 / (sizes + task.dimension * multipliers**2)
    return precision / precision.sum()


def _published(task: Task, settings: Settings) -> tuple[Design, ReleasePlan]:
    """Equations 4 and 5. The server assigns one budget to all: the strictest."""
    weights, relation = _by_records(task), named(settings.relation)
    start = Design(weights=weights, once=settings.aggregation == "once", how="descent")
    design = _erm_noise.published(task, start, settings)
    epsilon, delta = _first_part(min(task.epsilon), task, settings)
    central = _erm_noise.central_multiplier(epsilon, delta, settings.constant) * math.sqrt(design.steps)
    noised = Noised(own=central * weights)
    if not relation.sizes_are_public:
        multiplier = _size_multiplier(min(task.epsilon), task, settings)  # σ_w n
        size_noise = multiplier / sum(task.sizes) / weights
        design = replace(design, sizes="noisy_weights", size_noise=size_noise)
    elif _erm_noise.summed(task, settings):
        noised = _erm_noise.faced(noised.own, design.per_record(task), settings.missing or 0)
    noise = _erm.noise_like(task, design.once, design.steps, design.sizes)
    flaw = "" if relation.sizes_are_public else SIZES_SHOW
    plan = full_batch_plan(task, design.steps, noise_like=noise, relation=relation, flaw=flaw)
    return design, _erm_noise.noised(plan, noised)


def _first_part(epsilon: float, task: Task, settings: Settings) -> tuple[float, float]:
    """(ε₁, δ₁): all of the budget, but for what the weights take under add/remove."""
    left = 1.0 if named(settings.relation).sizes_are_public else 1 - settings.weight_share
    return left * epsilon, left * task.delta


def _size_multiplier(epsilon: float, task: Task, settings: Settings) -> float:
    """Noise on a size for (ε₂, δ₂); one record moves it by 1."""
    epsilon, delta = settings.weight_share * epsilon, settings.weight_share * task.delta
    return _erm_noise.central_multiplier(epsilon, delta, settings.constant, ADD_OR_REMOVE_ONE)


def _gaussians(multipliers: Sequence[float]) -> tuple:
    from dp_accounting import GaussianDpEvent

    return tuple(GaussianDpEvent(multiplier) for multiplier in multipliers)


def _claim(task: Task, settings: Settings, plan: ReleasePlan) -> Claim:
    """Theorem 1 solved for ε at the least noise a party adds to its mean; Theorem 2 for the smallest in the note."""
    if plan.noise.spread == 0:
        return _erm_noise.claimed(None, task, SOURCE, "", plan.relation)
    sizes, total = np.array(task.sizes), sum(task.sizes)
    multiplier = float(np.min(np.array(plan.noise_multiplier) / sizes)) * total / math.sqrt(plan.releases[0])
    _, delta = _first_part(1.0, task, settings)
    first = _erm_noise.central_epsilon(multiplier, delta, settings.constant)
    second = 0.0 if plan.relation.sizes_are_public else settings.weight_share * min(task.epsilon)
    own = first * total / int(sizes.min())
    note = f"Theorem 2 claims {own:.3g} for the smallest party's own model"
    return _erm_noise.claimed(first + second, task, SOURCE, note, plan.relation)
