"""Distributed private risk minimisation by a plain average (Jayaraman, Wang, Evans & Gu 2018), the paper's rival.

    party j, T times:  θ_j ← θ_j − η (∇L_j(θ_j) + z);   then   θ = (1/m) Σ_j θ_j

The noise on a party's mean gradient is the same for all and set by the smallest party, n₍₁₎. As published
(`calibration="paper"`) σ² = c G² T ln(1/δ)/(m² n₍₁₎² ε²), in the form in which Kang et al. compare with it: each party
adds it at home. In the original it is added once, to the average inside a secure computation: that is
`aggregation="every_round"`, `view="aggregator"`, `missing=0` of the certified version.
"""

from __future__ import annotations

import math

import numpy as np

from coterie.mechanisms import ReleasePlan
from coterie.program import Program
from coterie.protocols import _erm, _erm_noise
from coterie.protocols._erm import Design
from coterie.protocols._erm_noise import Noised
from coterie.protocols._erm_noise import SumSettings as Settings
from coterie.protocols.task import Calibration, Task, full_batch_plan

SOURCE = "Jayaraman, Wang, Evans & Gu 2018, as stated in Kang et al. 2021, Table 1"


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` everything that the stated view sees meets every owner's own (ε, δ)
    under replace-one adjacency; see `weighted_erm` for the views.
    """
    settings = _erm_noise.filled(settings, task, calibration)
    even, sizes = np.full(task.owners, 1 / task.owners), np.array(task.sizes)
    design = Design(weights=even, once=settings.aggregation == "once", how=_erm.how_for(task))
    per_record, missing = design.per_record(task), settings.missing or 0

    def size(needed: np.ndarray) -> Noised:
        sized = _erm_noise.sized(task, settings, per_record, even, needed)
        # By itself: one noise on everyone's mean, the largest needed.
        return sized if sized.charged is not None else Noised(own=sizes * np.max(needed / sizes))

    if calibration == "paper":
        design = _erm_noise.published(task, design, settings)
        noise = _erm.noise_like(task, design.once, design.steps, "public")
        own = _multiplier(task, settings) * math.sqrt(design.steps) * sizes / (task.owners * min(task.sizes))
        summed = _erm_noise.summed(task, settings)
        sized = _erm_noise.faced(own, per_record, missing) if summed else Noised(own)
        plan = _erm_noise.noised(full_batch_plan(task, design.steps, noise_like=noise), sized)
    else:
        design, plan = _erm_noise.certified(task, design, settings, size)
    plan = _erm_noise.seen(task, design, plan, settings)
    if calibration == "noiseless":
        design, plan = _erm_noise.noiseless(task, design, plan, settings)
    note = "stated for noise drawn inside a secure computation; here every party draws it"
    claim = _erm_noise.claimed(_claim(task, settings, plan), task, SOURCE, note)
    return _erm.assemble(task, design, plan, claim)


def _multiplier(task: Task, settings: Settings) -> float:
    return _erm_noise.central_multiplier(min(task.epsilon), task.delta, settings.constant)


def _claim(task: Task, settings: Settings, plan: ReleasePlan) -> float | None:
    """The formula solved for ε at the least noise that a party adds to its mean."""
    if plan.noise.spread == 0:
        return None
    spread = float(np.min(np.array(plan.noise_multiplier) / np.array(task.sizes)))
    multiplier = spread * task.owners * min(task.sizes) / math.sqrt(plan.releases[0])
    return _erm_noise.central_epsilon(multiplier, task.delta, settings.constant)
