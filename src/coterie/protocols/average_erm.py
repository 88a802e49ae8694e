"""Distributed private risk minimisation by a plain average (Jayaraman, Wang, Evans & Gu 2018), the paper's rival.

    party j, T times:  θ_j ← θ_j − η (∇L_j(θ_j) + z);   then   θ = (1/m) Σ_j θ_j

The noise on a party's mean gradient is the same for all and set by the smallest party, n₍₁₎. As published
(`calibration="paper"`) σ² = c G² T ln(1/δ)/(m² n₍₁₎² ε²), in the form in which Kang et al. compare with it: each party
adds it at home. In the original it is added once, to the average inside a secure computation: that is
`aggregation="every_round"`, `view="aggregator"`, `missing=0` of the certified version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coterie import _check
from coterie.mechanisms import ReleasePlan
from coterie.program import Program
from coterie.protocols import _erm, _erm_noise, _masked
from coterie.protocols._erm import Design
from coterie.protocols._erm_noise import Aggregation, Noised, Steps, View
from coterie.protocols.task import Calibration, Task, full_batch_plan
from coterie.relations import REPLACE_ONE

SOURCE = "Jayaraman, Wang, Evans & Gu 2018, as stated in Kang et al. 2021, Table 1"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    aggregation: Aggregation | None = None  # every_round (certified) or once (paper)
    view: View | None = (
        None  # untrusted (certified), aggregator (paper), or masked: nobody is trusted to add up
    )
    steps: int | None = None
    step_size: float | None = None
    radius: float | None = None  # guess of ‖θ*‖, public; enters steps and their size only
    clip: float | None = None  # certified: share of the gradient's bound to clip at; None: the loss's own
    missing: int | None = (
        None  # aggregator: parties that may collude or stay away; 1 (certified) or 0 (paper)
    )
    constant: float | None = None  # c of the noise formula
    colluding: int | None = None  # masked: these four as in `weighted_erm`
    absent: int | None = None
    spare: int | None = None
    degree: int | None = None


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` everything that the stated view sees meets every owner's own (ε, δ)
    under replace-one adjacency; see `weighted_erm` for the views.
    """
    settings = _filled(settings, task, calibration)
    given = Steps(settings.steps, settings.step_size, settings.radius, settings.clip)
    missing = settings.missing or 0
    once = settings.aggregation == "once"
    even = np.full(task.owners, 1 / task.owners)
    design = Design(weights=even, once=once, steps=1, step_size=np.ones(task.owners), how=_erm.how_for(task))
    sizes, per_record = np.array(task.sizes), design.per_record(task)
    summed = settings.view == "aggregator" and (not once or _erm_noise.is_linear(task.problem))

    masked = None
    if settings.view == "masked":
        masked = _masked.masks(task.owners, settings.colluding, settings.absent, settings.degree)

    def size(needed: np.ndarray) -> Noised:
        if masked is not None:
            return Noised(*_masked.shared(needed, per_record, _masked.shown(masked, task.owners)))
        if summed:
            return _erm_noise.aggregated(needed, per_record, even, missing)
        return Noised(own=sizes * np.max(needed / sizes))  # one noise on everyone's mean, the largest needed

    if calibration == "paper":
        design = _erm_noise.published(task, design, given)
        plan = full_batch_plan(task, design.steps, _erm.noise_like(task, once, design.steps, "public"))
        own = _multiplier(task, settings) * math.sqrt(design.steps) * sizes / (task.owners * min(task.sizes))
        noised = _erm_noise.faced(own, per_record, missing) if summed else Noised(own=own)
    else:
        spare = partial(_masked.spares, spare=settings.spare) if masked else lambda rounds: 0
        design, plan, noised = _erm_noise.certified(task, design, size, None, given, spare)
    plan = _erm_noise.with_noise(plan, noised, "public transcript")
    if settings.view == "aggregator":
        plan = replace(plan, view=_erm_noise.seen(plan, task.delta, once, missing))
    if masked is not None:
        plan = _masked.finished(plan, masked, design.steps)
    if calibration == "noiseless":
        design, plan = _erm_noise.noiseless(task, design, plan, given)
    epsilon = _claim(task, settings, plan)
    note = "stated for noise drawn inside a secure computation; here every party draws it"
    return _erm.assemble(task, design, plan, _erm_noise.claimed(epsilon, task, REPLACE_ONE, SOURCE, note))


def _filled(settings: Settings, task: Task, calibration: Calibration) -> Settings:
    paper = calibration == "paper"
    aggregation = settings.aggregation or ("once" if paper else "every_round")
    view = settings.view or ("aggregator" if paper else "untrusted")
    missing = settings.missing if settings.missing is not None else (0 if paper else min(1, task.owners - 1))
    _check.one_of("aggregation", aggregation, ("once", "every_round"))
    _check.one_of("view", view, _erm_noise.VIEWS)
    _masked.check_view(view, aggregation, calibration == "certified", settings)
    _erm_noise.check_missing(missing, task.owners)
    return replace(settings, aggregation=aggregation, view=view, missing=missing)


def _multiplier(task: Task, settings: Settings) -> float:
    return _erm_noise.central_multiplier(min(task.epsilon), task.delta, settings.constant)


def _claim(task: Task, settings: Settings, plan: ReleasePlan) -> float | None:
    """The formula solved for ε at the least noise that a party adds to its mean."""
    if plan.noise.spread == 0:
        return None
    spread = float(np.min(np.array(plan.noise_multiplier) / np.array(task.sizes)))
    multiplier = spread * task.owners * min(task.sizes) / math.sqrt(plan.releases[0])
    return _erm_noise.central_epsilon(multiplier, task.delta, settings.constant)
