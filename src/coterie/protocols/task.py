"""What every protocol is built from: the problem, who takes part, and what each owner allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias, get_args, get_origin, get_type_hints

import jax
import numpy as np

from coterie import _check, accounting
from coterie._types import PyTree
from coterie.accounting import Claim
from coterie.accounting.persons import check_owners
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, Gaussian, Poisson, ReleasePlan
from coterie.mechanisms.sampling import Sampler
from coterie.problems.problem import Problem
from coterie.relations import REPLACE_ONE, UNIT
from coterie.topologies import Topology
from coterie.units import RECORD, Unit

# certified: the owner's budget is a hard limit. paper: the published noise. noiseless: a baseline, no privacy.
Calibration: TypeAlias = Literal["certified", "paper", "noiseless"]
CALIBRATIONS = ("certified", "paper", "noiseless")


@dataclass(frozen=True, kw_only=True)
class ProtocolSettings:
    """What may be set of a protocol. A field that lists its words (`Literal`) takes no other."""

    _words: ClassVar[dict[str, tuple[str, ...]]] = {}  # of the fields that list them, beside None

    def __init_subclass__(cls) -> None:
        parts = {name: (hint, *get_args(hint)) for name, hint in get_type_hints(cls).items()}
        cls._words = {
            name: get_args(part)
            for name, known in parts.items()
            for part in known
            if get_origin(part) is Literal
        }

    def __post_init__(self) -> None:
        for name, words in self._words.items():
            if (value := getattr(self, name)) is not None:
                _check.one_of(name, value, words)


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
    # Derived from the others.
    owners: int = field(init=False)  # how many take part
    dimension: int = field(init=False)  # how many numbers a model has

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", len(self.sizes))
        object.__setattr__(
            self, "dimension", sum(int(np.size(leaf)) for leaf in jax.tree.leaves(self.params))
        )
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


def stated(task: Task, epsilon: float | None, source: str, note: str, **given: Any) -> Claim:
    """What a paper's theorem says of everything that owners send, one record replaced; None: it says nothing.

    `given`: what else the theorem is about.
    """
    usual = {"delta": task.delta, "relation": REPLACE_ONE, "unit": UNIT, "view": "public transcript"}
    return Claim(epsilon=epsilon, source=source, note=note, **usual | given)


def plan_of(task: Task, sampler: Sampler, releases: int | tuple[int, ...], **given: Any) -> ReleasePlan:
    """Releases of sums of clipped gradients with Gaussian noise; `given`: what is otherwise in this plan.

    The noise is not sized yet: hand the plan to `calibrated`.
    """
    usual = {
        "clip_norm": task.clip_norm,
        "noise": Gaussian(),
        "noise_multiplier": (1.0,) * task.owners,
        "noise_like": params_like(task.params),  # messages look like the parameters
    }
    everyones = (releases,) * task.owners if isinstance(releases, int) else releases
    return ReleasePlan(sampler=sampler, releases=everyones, sizes=task.sizes, **usual | given)


def full_batch_plan(task: Task, releases: int, **given: Any) -> ReleasePlan:
    """`plan_of` sums over all of an owner's records, each owner charged for its own."""
    return plan_of(task, FullBatch(), releases, **given)


def with_noise(plan: ReleasePlan, own: np.ndarray, charged: np.ndarray | None = None) -> ReleasePlan:
    """The plan with everybody's own noise, and with what its view faces where that is another; both over clip_norm."""
    faced = None if charged is None else tuple(map(float, charged))
    return replace(plan, noise_multiplier=tuple(map(float, own)), charged=faced)


def radius_for(task: Task, radius: float | None) -> float:
    """How far from zero a model is expected, public: as given, or what its loss guesses, over its reach.

    Steps are chosen so that the noise in the last point is about as long as the radius. A record of norm one sees a
    √d-th of that length, and a network more of it, as its hidden values are longer than its features (`Model.reach`).
    """
    if radius is not None:
        return _check.positive("radius", radius)
    return task.problem.loss.length(task.dimension) / task.problem.model.reach


def smoothness_for(task: Task, unbounded: float = 1.0, bend: float | None = None) -> float:
    """How much a unit's loss bends in the parameters of a linear model, public.

    Features are as long as the gradient's bound implies, or `unbounded` where the loss has no bound. `bend`: how much
    it does in the scores; None: the most that it does.
    """
    slope = task.problem.loss.lipschitz
    length = task.clip_norm / slope if math.isfinite(slope) else unbounded
    return task.unit.bends * (task.problem.loss.smoothness if bend is None else bend) * length**2


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
