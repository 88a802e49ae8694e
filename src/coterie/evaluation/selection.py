"""Charged selection: which of several models that the same releases give is the best on the owners' records.

Candidates are functions of public values: the model that training ends with and, where a protocol has one, its last
iterate, each as it is, shorter and longer. Each owner adds up, over its records, how much more or less each candidate
loses than the first; the vector of a record is clipped, the sum gets Gaussian noise, and the sum over owners decides.
Losses lie within [0, 1], and none but an honest probability does best (`Sheet.lost`): log losses that are cut off would
make a model that is too sure of itself look good.
What is chosen follows from the noisy sums alone, so everybody who has them chooses the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.evaluation.sheet import UNIT, Sheet, shortened
from coterie.evaluation.tables import in_places, padded, pieces
from coterie.evaluation.told import costs, digest
from coterie.mechanisms.plan import ReleasePlan
from coterie.problems.penalties import Penalty, prox
from coterie.problems.problem import Problem
from coterie.program import Program, Rounds, Visits

MEAN, LATEST = "the model", "its last iterate"
LENGTHS = {MEAN: (1.0, 0.25, 0.5, 2.0, 4.0), LATEST: (0.5, 1.0)}  # what candidates are multiplied with
AT_ONCE = 1 << 14  # records scored at a time
CLIP = 1.0  # how much more or less than the first the candidates may lose on one record, in 2-norm over all of them
SURE = 2.0  # standard deviations of noise by which a candidate must be better than the first

Functions = TypeVar("Functions", Rounds, Visits)


class Candidate(NamedTuple):
    """One of the models to choose from."""

    what: str
    length: float

    @property
    def words(self) -> str:
        """The candidate as people say it.

        >>> Candidate(MEAN, 0.5).words
        'the model, 0.5 times as long'
        """
        return self.what if self.length == 1 else f"{self.what}, {self.length:g} times as long"


def candidates(functions: Rounds | Visits) -> tuple[Candidate, ...]:
    """The models to choose from; the first is what training ends with if nothing is chosen."""
    sources = (MEAN,) if functions.latest is None else (MEAN, LATEST)
    return tuple(Candidate(what, length) for what in sources for length in LENGTHS[what])


def offering(program: Program, problem: Problem) -> Program:
    """The program, whose model is all candidates, along a first axis; the same where nothing is to be chosen."""
    if program.plan.selection is None:
        return program
    return program._replace(functions=_offering(program.functions, problem.penalty))


@lru_cache(maxsize=64)
def _offering(functions: Functions, penalty: Penalty) -> Functions:
    """Cached, so that equal functions compile once. All of it is made of public values."""

    def model(public: PyTree) -> PyTree:
        known = {MEAN: functions.model(public)}
        if functions.latest is not None:
            known[LATEST] = functions.latest(public)
        several = [_scaled(known[what], length, penalty) for what, length in candidates(functions)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *several)

    return functions._replace(model=model)


def _scaled(params: PyTree, length: float, penalty: Penalty) -> PyTree:
    """Longer or shorter, and not outside of where the penalty lets a model be."""
    if length == 1:
        return params
    return prox(penalty, jax.tree.map(lambda leaf: length * leaf, params), 0.0)


def candidate(several: PyTree, at: int, axis: int = 0) -> PyTree:
    """One of the models of `offering`."""
    return jax.tree.map(lambda leaf: leaf.take(at, axis=axis), several)


@dataclass(frozen=True)
class Ballot:
    """The form of an owner's sums, one for each candidate but the first.

    Guarantee: a record's vector of whole numbers is at most `reach` long: one that is added moves the sums by at most
    `reach`, one that is replaced by at most 2 `reach`. Gaussian noise of z `reach` costs `GaussianDpEvent(z)`.
    """

    table = "selection"  # which of a plan's tables it is, and what views call it
    words = "sums of losses"

    candidates: tuple[Candidate, ...]
    sheet: Sheet  # what a score costs

    @property
    def width(self) -> int:
        """How many numbers there are."""
        return len(self.candidates) - 1

    @property
    def reach(self) -> float:
        """What a record's vector is shortened to."""
        return CLIP * UNIT

    def tally(
        self,
        problem: Problem,
        several: PyTree,
        x: np.ndarray,
        y: np.ndarray,
        unit: np.ndarray | None = None,
        most: int = 1,
    ) -> np.ndarray:
        """(width,) int64. Reads records: leaves their owner only with noise, charged.

        `unit`: which unit each record is of, in ascending order, where a unit may have several, `most` at most.
        """
        total = np.zeros(self.width, np.int64)
        for some in pieces(len(y), AT_ONCE, unit, most):
            own = None if unit is None else unit[some] - unit[some.start]
            scores = in_places(partial(_scores_of, problem, several), x[some], own, most)
            losses = np.stack([self.sheet.lost(score, y[some]) for score in scores.swapaxes(0, 1)])
            total += self.added(losses, own).sum(axis=0)
        return total

    def added(self, losses: np.ndarray, unit: np.ndarray | None = None) -> np.ndarray:
        """(rows, width) int64, what each record adds, of its losses: (candidates, rows) within [0, 1].

        A record's differences are shortened together. Cutting to whole numbers goes towards zero: it makes no vector
        longer. A unit of several records adds the mean of theirs, (units, width): no longer than the longest of them.
        """
        return np.trunc(UNIT * shortened((losses[1:] - losses[0]).T, CLIP, unit)).astype(np.int64)


def ballot_of(program: Program, sheet: Sheet) -> Ballot:
    """The form of this program's sums."""
    return Ballot(candidates(program.functions), sheet)


def _scores_of(problem: Problem, several: PyTree, x: np.ndarray) -> np.ndarray:
    """(rows, candidates, outputs)"""
    return np.asarray(_scores(problem, several, jnp.asarray(padded(x)))).swapaxes(0, 1)[: len(x)]


def _of_all(problem: Problem, several: PyTree, x: Array) -> Array:
    return jax.vmap(problem.model.scores, (0, None))(several, x)


_scores = jax.jit(_of_all, static_argnums=0)


def chosen(total: Sequence[float] | np.ndarray, variance: float) -> int:
    """Which candidate the noisy sums over all owners are for; the first unless another is clearly better.

    Post-processing. `variance`: of the noise on each sum, public.
    """
    best = int(np.argmin(total))
    return best + 1 if float(total[best]) < -SURE * math.sqrt(variance) else 0


@dataclass(frozen=True, kw_only=True)
class Selected:
    """What was chosen, and by what: all of it follows from releases that were charged."""

    share: float  # of every owner's budget
    epsilon: float  # what it costs the owner who pays most, by itself; certificates include it
    owners: int  # whose sums are in it
    of: int
    choice: int  # which candidate
    candidates: tuple[Candidate, ...]
    differences: tuple[float, ...]  # noisy sums of what each but the first loses more than it, in records
    noise: float  # standard deviation of each
    sums: str  # SHA-256 of all owners' sums

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        compared = zip(self.candidates, (0.0, *self.differences))
        return {
            "share": self.share,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "owners": self.owners,
            "of": self.of,
            "choice": self.candidates[self.choice].words,
            "candidates": [
                {"model": model.words, "difference": difference} for model, difference in compared
            ],
            "noise": self.noise,
            "sums": self.sums,
        }


def selected(
    ballot: Ballot,
    plan: ReleasePlan,
    sums: dict[int, np.ndarray],
    choice: int,
    *,
    share: float,
    delta: float,
) -> Selected:
    """What these owners' sums say. `choice`: what was made of them."""
    assert plan.selection is not None
    total = np.sum([sums[owner] for owner in sorted(sums)], axis=0) if sums else np.zeros(ballot.width)
    return Selected(
        share=share,
        epsilon=costs(plan.selection, delta, plan.relation),
        owners=len(sums),
        of=len(plan.sizes),
        choice=choice,
        candidates=ballot.candidates,
        differences=tuple(float(value) / UNIT for value in total),
        noise=math.sqrt(plan.selection.variance(sorted(sums))) / UNIT,
        sums=digest(sums),
    )
