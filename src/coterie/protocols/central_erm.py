"""Private risk minimisation by one trusted server with all records (Wang, Ye & Xu 2017): the ceiling.

    θ ← θ − η (∇L(θ) + z),  T times,  z ~ N(0, σ² I),  L over all n records,   σ² = c G² T ln(1/δ)/(n² ε²)

All records count as those of one party. The parties hand the server their sums and it adds one noise; here that
noise comes in even parts from the parties, which is the same sum in law and the same number with one party.
With the default c the published noise is exact, so "paper" and "certified" differ in steps and clipping alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coterie.program import Program
from coterie.protocols import _erm, _erm_noise
from coterie.protocols._erm import Design
from coterie.protocols._erm_noise import Noised, Steps
from coterie.protocols.task import Calibration, Task, full_batch_plan
from coterie.relations import REPLACE_ONE

SOURCE = "Wang, Ye & Xu 2017, as stated in Kang et al. 2021, Table 1"
VIEW = "what the server publishes, to who drew no part of the noise; the server is trusted with all records"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    steps: int | None = None
    step_size: float | None = None
    radius: float | None = None  # guess of ‖θ*‖, public; enters steps and their size only
    clip: float | None = None  # certified: share of the gradient's bound to clip at; None: the loss's own
    constant: float | None = None  # c of the noise formula


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The baseline for this task.

    Guarantee: with `calibration="certified"` every iterate that the server publishes meets every owner's (ε, δ) under
    replace-one adjacency. Nothing protects a record from the server, and a party knows its own part of the noise.
    """
    given = Steps(settings.steps, settings.step_size, settings.radius, settings.clip)
    weights = np.array(task.sizes) / sum(task.sizes)
    design = Design(
        weights=weights, once=False, steps=1, step_size=np.ones(task.owners), how=_erm.how_for(task)
    )
    even = np.full(task.owners, 1 / task.owners)

    def size(needed: np.ndarray) -> Noised:
        return _erm_noise.aggregated(needed, design.per_record(task), even, missing=0)

    if calibration == "paper":
        design = _erm_noise.published(task, design, given)
        plan = full_batch_plan(task, design.steps, _erm.noise_like(task, False, design.steps, "public"))
        central = _erm_noise.central_multiplier(min(task.epsilon), task.delta, settings.constant)
        noised = size(np.full(task.owners, central * math.sqrt(design.steps)))
    else:
        design, plan, noised = _erm_noise.certified(task, design, size, None, given)
    plan = _erm_noise.with_noise(plan, noised, VIEW)
    if calibration == "noiseless":
        design, plan = _erm_noise.noiseless(task, design, plan, given)
    epsilon = None
    if plan.noise.spread > 0 and plan.charged is not None:
        multiplier = min(plan.charged) / math.sqrt(plan.releases[0])
        epsilon = _erm_noise.central_epsilon(multiplier, task.delta, settings.constant)
    return _erm.assemble(task, design, plan, _erm_noise.claimed(epsilon, task, REPLACE_ONE, SOURCE, ""))
