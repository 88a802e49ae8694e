"""What every protocol is built from: the problem, who takes part, and what each owner allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import jax
import numpy as np

from coterie import _check, accounting
from coterie._types import PyTree
from coterie.accounting import Claim
from coterie.accounting.persons import check_owners
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, Gaussian, Poisson, ReleasePlan
from coterie.problems.problem import Problem
from coterie.relations import REPLACE_ONE, UNIT, Relation
from coterie.topologies import Topology
from coterie.units import RECORD, Unit

# certified: the owner's budget is a hard limit. paper: the published noise. noiseless: a baseline, no privacy.
Calibration: TypeAlias = Literal["certified", "paper", "noiseless"]
CALIBRATIONS = ("certified", "paper", "noiseless")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One collaboration. Everything here is public."""

    problem: Problem
    sizes: tuple[int, ...]  # records of each owner, or units; public under replace-one adjacency
    clip_norm: float  # bound on one record's gradient: enforced by clipping, whatever the records are
    # A unit's summed gradient is clipped to the same: noise does not grow with the cap, and somebody with few records
    # counts as much as a record does; those of somebody with many agree in what they have in common, or are clipped.
    epsilon: tuple[float, ...]
    delta: float
    topology: Topology
    params: PyTree  # the common starting point
    unit: Unit = RECORD  # whose contribution is clipped, drawn and counted as one
    owners_per_person: int = 1  # how many owners may know one person, to whom the budget is promised then

    def __post_init__(self) -> None:
        for epsilon in self.epsilon:
            _check.positive("epsilon", epsilon)
        _check.probability("delta", self.delta)
        _check.positive("clip_norm", self.clip_norm)
        object.__setattr__(self, "problem", self.problem._replace(mean=self.unit.mean))
        if not len(self.epsilon) == len(self.sizes) == self.topology.owners:
            raise InputError(
                f"epsilon has {len(self.epsilon)} entries, sizes {len(self.sizes)}, the topology "
                f"{self.topology.owners} owners: must be one for each owner."
            )
        check_owners(self.owners_per_person, self.owners)

    def __repr__(self) -> str:
        problem = self.problem
        return (
            f"<Task: {self.owners} owners, {problem.model.name} model of {self.dimension} numbers, "
            f"{problem.loss.name} loss, topology {self.topology.name}>"
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
    # Not jax.numpy's arrays, which compile a program for each shape: a node starts with this.
    return jax.tree.map(
        lambda leaf: jax.device_put(np.asarray(leaf if np.ndim(leaf) else np.full(owners, leaf), np.float32)),
        numbers,
    )


def stated(task: Task, epsilon: float | None, source: str, note: str) -> Claim:
    """What a paper's theorem says of everything that owners send, one record replaced; None: it says nothing."""
    return Claim(
        epsilon=epsilon,
        delta=task.delta,
        relation=REPLACE_ONE,
        unit=UNIT,
        view="public transcript",
        source=source,
        note=note,
    )


def full_batch_plan(
    task: Task,
    releases: int,
    noise_like: PyTree = None,
    relation: Relation = REPLACE_ONE,
    clip: float = 1.0,
) -> ReleasePlan:
    """Releases of sums over all of an owner's records with Gaussian noise, each owner charged for its own.

    `clip`: a share of the task's clip norm. The noise is not sized yet: hand the plan to `calibrated`. Messages
    look like the parameters, unless told.
    """
    return ReleasePlan(
        sampler=FullBatch(),
        clip_norm=clip * task.clip_norm,
        noise=Gaussian(),
        noise_multiplier=(1.0,) * task.owners,
        releases=(releases,) * task.owners,
        sizes=task.sizes,
        noise_like=params_like(task.params) if noise_like is None else noise_like,
        relation=relation,
    )


def radius_for(task: Task, radius: float | None) -> float:
    """How far from zero a model is expected, public: as given, or what its loss guesses, over its reach.

    Steps are chosen so that the noise in the last point is about as long as the radius. A record of norm one sees a
    √d-th of that length, and a network more of it, as its hidden values are longer than its features (`Model.reach`).
    """
    if radius is not None:
        return _check.positive("radius", radius)
    return task.problem.loss.length(task.dimension) / task.problem.model.reach


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
    multipliers: dict[tuple, float] = {}
    everyone = list(zip(plan.sizes, plan.releases, task.epsilon, plan.extra or (None,) * task.owners))
    for who in set(everyone):
        size, releases, epsilon, extra = who
        owner_plan = replace(
            plan,
            sizes=(size,),
            releases=(releases,),
            noise_multiplier=(1.0,),
            extra=None if extra is None else (extra,),
        )
        multipliers[who] = accounting.calibrate(
            lambda z, owner_plan=owner_plan: replace(owner_plan, noise_multiplier=(z,)).event(0),
            epsilon=epsilon,
            delta=task.delta,
            relation=plan.relation,
        )
    return replace(plan, noise_multiplier=tuple(multipliers[who] for who in everyone))
