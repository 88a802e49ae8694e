"""Features around a centre that owners release before they train, charged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coterie.errors import InputError
from coterie.evaluation import centre as centres
from coterie.evaluation.centre import Centre, Centred, Sums
from coterie.evaluation.tables import simulated_noise, step_of
from coterie.evaluation.told import costs, digest
from coterie.problems import features
from coterie.problems.features import FeatureMap
from coterie.problems.holdings import listed

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.mechanisms.plan import ReleasePlan
    from coterie.problems.holdings import Own
    from coterie.problems.table import Table
    from coterie.program import Program


def around(mapped: FeatureMap, centre: Centre, quantity: bool) -> FeatureMap:
    """What is left of features around a centre, made as long again as records are, with a constant column."""
    moved = features.centre(centre.mean, centre.distance)
    constant = features.EVEN if quantity else centres.CONSTANT
    return features.compose(mapped, moved, features.unit_ball(constant, steady=quantity))


def not_yet(mapped: FeatureMap, table: Table, share: float) -> FeatureMap:
    """The same map around zero: as many features as there will be, before anything is released."""
    if mapped.norm_bound > 1:
        raise InputError(
            f"centre={share:g}: features={mapped.name!r} have no length that is known to be at most 1. End them with "
            "ball, or use --centre 0."
        )
    return around(mapped, Centre(np.zeros(width_of(mapped, table)), 1.0), table.task == "regression")


def width_of(mapped: FeatureMap, table: Table) -> int:
    """How many features there are."""
    return mapped.apply(np.zeros((1, *table.x.shape[1:]), table.x.dtype)).shape[1]


def release(
    experiment: Experiment, table: Table, trained: Sequence[Own], program: Program, mapped: FeatureMap
) -> tuple[FeatureMap, Centred]:
    """Each simulated owner's noisy sums of features, and the map around what they say. `mapped`: without a centre."""
    plan = program.plan
    assert plan.centre is not None
    form, step = Sums(plan.centre.width), step_of(program, "centre")
    sums = {}
    for owner, own in enumerate(trained):
        rows, unit = listed(own)
        exact = form.tally(mapped.apply(table.x[rows]), unit)
        sums[owner] = exact + simulated_noise(plan.centre, experiment.seed, owner, step)
    return found(experiment, table, plan, mapped, sums)


def found(
    experiment: Experiment,
    table: Table,
    plan: ReleasePlan,
    mapped: FeatureMap,
    sums: Mapping[int, np.ndarray],
) -> tuple[FeatureMap, Centred]:
    """The map around what these owners' noisy sums say. Post-processing: sums, plan and sizes are public."""
    assert plan.centre is not None
    centre = centres.found(plan, sums)
    told = Centred(
        share=experiment.centre,
        epsilon=costs(plan.centre, experiment.delta, plan.relation),
        owners=len(sums),
        length=math.sqrt(float(centre.mean @ centre.mean)),
        distance=centre.distance,
        noise=centres.noise_length(plan, sums),
        sums=digest(dict(sums)),
    )
    return around(mapped, centre, table.task == "regression"), told
