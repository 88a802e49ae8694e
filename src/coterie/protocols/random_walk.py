"""Random-walk SGD, the baseline DP-SGD-5 of Jin, He & Dai (after Hegedűs & Jelasity 2016).

    w ← Π_R[w − η_t (∇f_B(w) + N_t)],   at a uniformly drawn owner; B its next b records

Published: an owner stays silent once its records were visited 5 times; each visit pays (ε/5, δ/5) with the
textbook Gaussian noise; η_t = 1/√t; b = 50. The update, what is released and the joint charge for one-vs-all
are those of `wor_sgd`, whose functions run here.

Departures. Batches are disjoint and go round the owner's records in stored order, so that "visited 5 times" is
kept exactly. The walk is drawn from a public seed, with its silent ticks left out. By default (`"certified"`) the
accountant composes the visits instead of adding (ε/5, δ/5) up, and batch and step follow from the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from coterie import _check
from coterie.mechanisms import Gaussian, NoNoise, Passes, ReleasePlan
from coterie.program import Program
from coterie.protocols import wor_sgd
from coterie.protocols.task import Calibration, Task, calibrated, params_like
from coterie.protocols.wor_sgd import Pace


@dataclass(frozen=True, kw_only=True)
class Settings(wor_sgd.Settings):
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    passes: int = 5  # how often a record may be visited
    walk: int = 0  # public seed of the order in which owners are visited


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` every owner's whole transcript meets its own (ε, δ) under
    replace-one adjacency: each record is in at most `passes` releases, composed by the accountant.
    """
    passes = _check.count("passes", settings.passes)
    plan, pace = _tuned(task, settings) if calibration == "certified" else _published(task, settings)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise())
    return Program(
        functions=wor_sgd.functions(task.problem),
        plan=plan,
        numbers=wor_sgd.numbers(task, pace),
        params=task.params,
        schedule=walk(plan.releases, settings.walk),
        claim=wor_sgd.claim(task, plan, "Jin, He & Dai, section VI.A, with Theorem 1", passes=passes),
    )


def walk(releases: tuple[int, ...], seed: int) -> np.ndarray:
    """Owners drawn uniformly until everyone has spoken as often as it may; silent ticks are left out.

    >>> sorted(walk((2, 1), 0).tolist())
    [0, 0, 1]
    """
    rng, limit = np.random.default_rng(seed), np.asarray(releases)
    draws = np.empty(0, np.int64)
    while (np.bincount(draws, minlength=len(limit)) < limit).any():
        draws = np.concatenate([draws, rng.integers(0, len(limit), int(limit.sum()))])
    turn = np.empty_like(draws)
    for owner in range(len(limit)):
        turn[draws == owner] = np.arange((draws == owner).sum())
    return draws[turn < limit[draws]]


def _published(task: Task, settings: Settings) -> tuple[ReleasePlan, Pace]:
    """Each visit at (ε/5, δ/5), and η_t = 1/√t."""
    pace = wor_sgd.published_pace(task, settings)
    step = 1.0 if settings.step is None else pace.step
    pace = pace._replace(step=step, decay=0.5, weight=math.inf)
    passes = settings.passes
    scale = [wor_sgd.published_scale(task, epsilon / passes, task.delta / passes) for epsilon in task.epsilon]
    return _plan(task, pace.batch, passes, tuple(np.array(scale) / task.clip_norm)), pace


def _tuned(task: Task, settings: Settings) -> tuple[ReleasePlan, Pace]:
    # The noise depends on the passes alone: a record is in one release of each, whatever the batch.
    any_batch = calibrated(_plan(task, 1, settings.passes, (1.0,) * task.owners), task)
    scale, largest = any_batch.noise_scale.tolist(), wor_sgd.steepest(task)
    pace = wor_sgd.tuned(task, settings, scale, largest, settings.passes)
    return _plan(task, pace.batch, settings.passes, any_batch.noise_multiplier), pace


def _plan(task: Task, batch: int, passes: int, multiplier: tuple[float, ...]) -> ReleasePlan:
    return ReleasePlan(
        sampler=Passes(batch),
        clip_norm=task.clip_norm,
        noise=Gaussian(),
        noise_multiplier=multiplier,
        releases=wor_sgd.visits(task, batch, passes),
        sizes=task.sizes,
        noise_like=params_like(task.params),
    )
