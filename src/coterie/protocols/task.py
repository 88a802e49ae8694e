"""What every protocol is built from: the problem, who takes part, and what each owner allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check, accounting
from coterie._types import PyTree
from coterie.accounting import Claim
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, Poisson, ReleasePlan
from coterie.problems.problem import Problem
from coterie.topologies import Topology

# certified: the owner's budget is a hard limit. paper: the published noise. noiseless: a baseline, no privacy.
Calibration: TypeAlias = Literal["certified", "paper", "noiseless"]
CALIBRATIONS = ("certified", "paper", "noiseless")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One collaboration. Everything here is public."""

    problem: Problem
    sizes: tuple[int, ...]  # records of each owner; public under replace-one adjacency
    clip_norm: float  # bound on one record's gradient: enforced by clipping, whatever the records are
    epsilon: tuple[float, ...]
    delta: float
    topology: Topology
    params: PyTree  # the common starting point

    def __post_init__(self) -> None:
        for epsilon in self.epsilon:
            _check.positive("epsilon", epsilon)
        _check.probability("delta", self.delta)
        _check.positive("clip_norm", self.clip_norm)
        if not len(self.epsilon) == len(self.sizes) == self.topology.owners:
            raise InputError(
                f"epsilon has {len(self.epsilon)} entries, sizes {len(self.sizes)}, the topology "
                f"{self.topology.owners} owners: must be one for each owner."
            )

    @property
    def owners(self) -> int:
        """How many take part."""
        return len(self.sizes)

    @property
    def dimension(self) -> int:
        """How many numbers a model has."""
        return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(self.params))


def params_like(params: PyTree) -> PyTree:
    """Shapes of unit noise for a message that looks like the parameters."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)


def per_owner(owners: int, numbers: PyTree) -> PyTree:
    """Scalars, and arrays that already have one row for each owner, as the arrays a program's `numbers` are."""

    def rows(leaf: float | np.ndarray) -> jax.Array:
        leaf = np.asarray(leaf, np.float32)
        return jnp.asarray(np.full(owners, leaf) if leaf.ndim == 0 else leaf)

    return jax.tree.map(rows, numbers)


def stated(task: Task, epsilon: float | None, source: str, note: str) -> Claim:
    """What a paper's theorem says of everything that owners send, one record replaced; None: it says nothing."""
    return Claim(
        epsilon=epsilon,
        delta=task.delta,
        relation="replace_one",
        unit="record",
        view="public transcript",
        source=source,
        note=note,
    )


def sampler_for(task: Task, rate: float | None) -> FullBatch | Poisson:
    """All records, or Poisson sampling with a public cap six standard deviations above the largest owner's mean."""
    if rate is None:
        return FullBatch()
    largest = max(task.sizes) * _check.probability("rate", rate)
    return Poisson(rate, math.ceil(largest + 6 * math.sqrt(largest) + 6))


def calibrated(plan: ReleasePlan, task: Task) -> ReleasePlan:
    """The plan with the least noise that each owner's budget allows.

    Guarantee: for every owner, `certify(plan.event(owner), delta=task.delta, relation=plan.relation)` is at most
    the owner's epsilon. Owners with equal sizes, releases, budgets and extra events share one search.
    """
    found: dict[tuple, float] = {}
    everyone = list(zip(plan.sizes, plan.releases, task.epsilon, plan.extra or (None,) * task.owners))
    for who in set(everyone):
        size, releases, epsilon, extra = who
        one = replace(
            plan,
            sizes=(size,),
            releases=(releases,),
            noise_multiplier=(1.0,),
            extra=None if extra is None else (extra,),
        )
        found[who] = accounting.calibrate(
            lambda z, one=one: replace(one, noise_multiplier=(z,)).event(0),
            epsilon=epsilon,
            delta=task.delta,
            relation=plan.relation,
        )
    return replace(plan, noise_multiplier=tuple(found[who] for who in everyone))
