"""A charged centre of the features: their noisy mean over all owners, which is taken off before training.

Records that use a small part of their ranges are far from zero and close to each other. Around their mean, and made as
long again as records may be, they are easier to tell apart under the same noise (docs/radius.md has what it gains, and
where it loses). Everything but an owner's own sum is computed from releases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coterie.evaluation.sheet import shortened
from coterie.mechanisms.plan import ReleasePlan

CONSTANT = 0.5  # the constant column, beside records of about length one
WHOLE = 1 << 20  # what a feature of one is counted as, so that parts of it are whole numbers too
NEAREST = 0.1  # records are taken to be at least so far from their centre


@dataclass(frozen=True)
class Sums:
    """The form of an owner's sums, one for each feature.

    Guarantee: a record's vector of whole numbers is at most `reach` long: one that is added moves the sums by at most
    `reach`, one that is replaced by at most 2 `reach`. Gaussian noise of z `reach` costs `GaussianDpEvent(z)`.
    """

    table = "centre"  # which of a plan's tables it is, and what views call it
    words = "sums of features"

    width: int

    @property
    def reach(self) -> float:
        """How long a record's vector is at most."""
        return float(WHOLE)

    def tally(self, x: np.ndarray, unit: np.ndarray | None = None) -> np.ndarray:
        """(width,) int64. Reads records: leaves their owner only with noise, charged.

        Sensitivity: rows are shortened to length 1, and cutting to whole numbers goes towards zero, which makes none
        longer; rows that are no numbers count nothing. A unit of several records adds their mean, no longer than the
        longest of them. `unit`: which unit each record is of, in ascending order, where a unit may have several.
        """
        rows = np.asarray(x, np.float64)
        rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
        return np.trunc(self.reach * shortened(rows, 1.0, unit)).astype(np.int64).sum(axis=0)


class Centre(NamedTuple):
    """The point that records lie around, and how far from it: both follow from the releases."""

    mean: np.ndarray
    distance: float


def centre_of(noisy: np.ndarray, deviation: float) -> Centre:
    """Post-processing: shortened by its noise (James and Stein), and how far records of length one are from it.

    >>> centre_of(np.array([0.6, 0.0]), 0.0)
    Centre(mean=array([0.6, 0. ]), distance=0.8)
    """
    noise, squared = len(noisy) * deviation**2, float(noisy @ noisy)
    shrink = max(0.0, 1 - noise / squared) if squared else 0.0
    true = max(squared - noise, 0.0)
    around = max(1 - true, NEAREST**2)
    return Centre(shrink * noisy, math.sqrt(min(1.0, around + true * (1 - shrink) ** 2 + shrink**2 * noise)))


def deviation_of(plan: ReleasePlan, owners: Iterable[int] | None = None) -> float:
    """Standard deviation of the noise on each feature's mean over these owners; None: over all. Sizes are public."""
    assert plan.centre is not None
    who = sorted(range(len(plan.sizes)) if owners is None else owners)
    return math.sqrt(plan.centre.variance(who)) / plan.centre.reach / sum(plan.sizes[owner] for owner in who)


def noise_length(plan: ReleasePlan, owners: Iterable[int] | None = None) -> float:
    """How long the noise on the mean over these owners is, beside records of length one at most."""
    assert plan.centre is not None
    return math.sqrt(plan.centre.width) * deviation_of(plan, owners)


def found(plan: ReleasePlan, sums: Mapping[int, np.ndarray]) -> Centre:
    """The centre that owners' noisy sums give."""
    assert plan.centre is not None
    total = np.asarray(np.sum([sums[owner] for owner in sorted(sums)], axis=0), np.float64)
    many = sum(plan.sizes[owner] for owner in sums)
    return centre_of(total / plan.centre.reach / many, deviation_of(plan, sums))


@dataclass(frozen=True, kw_only=True)
class Centred:
    """What was taken off, and what that cost: all of it follows from releases that were charged."""

    share: float  # of every owner's budget
    epsilon: float  # what it costs the owner who pays most, by itself; certificates include it
    owners: int  # whose sums are in it
    length: float  # of the mean
    distance: float  # what is left of records was divided by it
    noise: float  # length of the noise on the mean
    sums: str  # SHA-256 of all owners' sums

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        epsilon = self.epsilon if math.isfinite(self.epsilon) else "inf"
        return {**vars(self), "epsilon": epsilon}
