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
from coterie.mechanisms import NoNoise, ReleasePlan
from coterie.program import Program
from coterie.protocols import wor_sgd
from coterie.protocols.task import Calibration, Task
from coterie.protocols.wor_sgd import Numbers


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
    plan, pace = (wor_sgd.tuned if calibration == "certified" else _published)(task, settings, passes)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise())
    claim = wor_sgd.claim(task, plan, "Jin, He & Dai, section VI.A, with Theorem 1", passes=passes)
    return wor_sgd.walking(task, plan, pace, walk(plan.releases, settings.walk), claim)


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


def _published(task: Task, settings: Settings, passes: int) -> tuple[ReleasePlan, Numbers]:
    """Each visit at (ε/5, δ/5), and η_t = 1/√t."""
    plan, pace = wor_sgd.published(task, settings, passes)
    step = 1.0 if settings.step is None else pace.step
    return plan, pace._replace(step=step, decay=0.5, weight=math.inf)
