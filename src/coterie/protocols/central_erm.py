"""Private risk minimisation by one trusted server with all records (Wang, Ye & Xu 2017): the ceiling.

    θ ← θ − η (∇L(θ) + z),  T times,  z ~ N(0, σ² I),  L over all n records,   σ² = c G² T ln(1/δ)/(n² ε²)

All records count as those of one party. The parties hand the server their sums and it adds one noise; here that
noise comes in even parts from the parties, which is the same sum in law and the same number with one party.
With the default c the published noise is exact, so "paper" and "certified" differ in steps and clipping alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from coterie.program import Program
from coterie.protocols import _erm, _erm_noise
from coterie.protocols._erm import Design
from coterie.protocols._erm_noise import Noised
from coterie.protocols._erm_noise import StepSettings as Settings
from coterie.protocols.task import Calibration, Task, full_batch_plan

SOURCE = "Wang, Ye & Xu 2017, as stated in Kang et al. 2021, Table 1"
VIEW = "what the server publishes, to who drew no part of the noise; the server is trusted with all records"


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The baseline for this task.

    Guarantee: with `calibration="certified"` every iterate that the server publishes meets every owner's (ε, δ) under
    replace-one adjacency. Nothing protects a record from the server, and a party knows its own part of the noise.
    """
    weights, even = np.array(task.sizes) / sum(task.sizes), np.full(task.owners, 1 / task.owners)
    design = Design(weights=weights, how=_erm.how_for(task))

    def size(needed: np.ndarray) -> Noised:
        return _erm_noise.aggregated(needed, design.per_record(task), even, missing=0)

    if calibration == "paper":
        design = _erm_noise.published(task, design, settings)
        noise = _erm.noise_like(task, False, design.steps, "public")
        central = _erm_noise.central_multiplier(min(task.epsilon), task.delta, settings.constant)
        sized = size(np.full(task.owners, central * math.sqrt(design.steps)))
        plan = _erm_noise.noised(full_batch_plan(task, design.steps, noise_like=noise), sized)
    else:
        design, plan = _erm_noise.certified(task, design, settings, size)
    plan = replace(plan, view=VIEW)
    if calibration == "noiseless":
        design, plan = _erm_noise.noiseless(task, design, plan, settings)
    epsilon = None
    if plan.noise.spread > 0 and plan.charged is not None:
        multiplier = min(plan.charged) / math.sqrt(plan.releases[0])
        epsilon = _erm_noise.central_epsilon(multiplier, task.delta, settings.constant)
    return _erm.assemble(task, design, plan, _erm_noise.claimed(epsilon, task, SOURCE, ""))
