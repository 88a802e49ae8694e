"""A collaboration described by public numbers alone: no data set, no record."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from coterie import _check
from coterie.errors import InputError
from coterie.problems import penalties
from coterie.problems.losses import LOSSES
from coterie.problems.models import linear
from coterie.problems.problem import Problem, clip_norm
from coterie.protocols import Task
from coterie.topologies import build as build_topology
from coterie.units import RECORD, Unit

STRENGTH = 1e-4  # of the penalty, as in `coterie run`
MOST_OWNERS = 1_000_000
_MOST = 10_000_000  # parameters


@dataclass(frozen=True, kw_only=True)
class Consortium:
    """Sizes, budgets and bounds. Features have norm at most one, as `coterie run` projects them."""

    sizes: tuple[int, ...]  # records of each owner, or units
    dimension: int  # features, the constant one included
    classes: int = 2  # 1: a regression, with targets scaled onto [-1, 1]
    epsilon: tuple[float, ...] = (1.0,)
    delta: float = 1e-5
    topology: str = "ring"
    unit: Unit = RECORD

    def task(self) -> Task:
        """The task that protocols are built from."""
        for size in self.sizes:
            _check.count("sizes", size)
        owners = _check.count("owners", len(self.sizes), most=MOST_OWNERS)
        _check.count("dimension", self.dimension)
        problem = problem_for(self.dimension, self.classes)
        epsilon = self.epsilon * owners if len(self.epsilon) == 1 else self.epsilon
        if len(epsilon) != owners:
            raise InputError(
                f"epsilon: {len(epsilon)} budgets for {owners} owner{'s' * (owners > 1)}. "
                "Give one for all, or one each."
            )
        return Task(
            problem=problem,
            sizes=self.sizes,
            clip_norm=clip_norm(problem, 1.0),
            epsilon=epsilon,
            delta=self.delta,
            topology=build_topology(self.topology, owners),
            params=jnp.zeros((self.dimension, problem.loss.outputs), jnp.float32),
            unit=self.unit,
        )


def problem_for(dimension: int, classes: int) -> Problem:
    """The linear model that `coterie run` fits by default: logistic, softmax, or Huber's loss for a regression."""
    _check.count("classes", classes)
    name = {1: "huber", 2: "logistic"}.get(classes, "softmax")
    loss = LOSSES.find(name)(classes)
    if dimension * loss.outputs > _MOST:
        raise InputError(
            f"dimension={dimension}, classes={classes}: more than {_MOST:,} parameters. Plan a smaller model."
        )
    return Problem(linear(dimension, loss.outputs), loss, penalties.l2(STRENGTH))
