"""Cost of privacy (Farokhi, Wu, Smith & Kaafar 2020, Theorem 2, equation 6), fitted on past runs.

    cost <= (c̄₁/n) √Σ ε_i⁻² + (c̄₂/n²) Σ ε_i⁻²,     c̄₁ = √(8N) c₁,   c̄₂ = 8N c₂

n records in all, N owners. With `published=True` c₁ and c₂ are free of N as in the theorem; with `published=False`
c̄₁ and c̄₂ themselves are. Which of them holds depends on how the learner's pace goes with N: a visit moves the mean of
its N + 1 models by ρ/(T²σ(N + 1)) of the gradient. With ρ in proportion to N + 1 every consortium settles as far in T
visits and c₁, c₂ are free of N; with one ρ for all, c̄₁ and c̄₂ are nearer to it (docs/planning.md has both measured).
`fit` can keep whichever form the given runs support. Cost is what noise adds to the fitness of the same run without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coterie import _check
from coterie.errors import InputError


class Past(NamedTuple):
    """One past run, or the mean of several: public numbers and what its noise cost."""

    records: int  # n, of all owners
    epsilon: tuple[float, ...]  # one for each owner
    cost: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The two constants. Both at least zero."""

    first: float
    second: float
    published: bool  # whether c̄ contains N as in the theorem

    def at(self, records: int, epsilon: Sequence[float]) -> float:
        """The forecast for n records and these owners' budgets.

        >>> round(Cost(first=0.0, second=1e6, published=False).at(10_000, (1.0, 1.0)), 3)
        0.02
        """
        return float(np.dot((self.first, self.second), _terms(records, epsilon, self.published)))


def fit(runs: Sequence[Past], published: bool | None = None) -> Cost:
    """The constants whose relative errors on past runs have the least squares, neither below zero.

    `published=None` fits both forms and keeps the one with the smaller squares on these very runs.
    """
    if len(runs) < 2:
        raise InputError(f"{len(runs)} past runs: fitting two constants needs at least two.")
    for run in runs:
        _check.positive("cost", run.cost)
    forms = (True, False) if published is None else (published,)
    return min(
        (_fitted(runs, form) for form in forms),
        key=lambda cost: float(np.sum(relative_errors(cost, runs) ** 2)),
    )


def _fitted(runs: Sequence[Past], published: bool) -> Cost:
    from scipy.optimize import nnls

    terms = np.array([_terms(run.records, run.epsilon, published) for run in runs])
    relative = terms / np.array([run.cost for run in runs])[:, None]
    scale = np.linalg.norm(relative, axis=0)
    found = nnls(relative / scale, np.ones(len(runs)))[0] / scale
    return Cost(first=float(found[0]), second=float(found[1]), published=published)


def relative_errors(cost: Cost, runs: Sequence[Past]) -> np.ndarray:
    """(runs,) |forecast / measured − 1|."""
    return np.array([abs(cost.at(run.records, run.epsilon) / run.cost - 1) for run in runs])


def _terms(records: int, epsilon: Sequence[float], published: bool) -> tuple[float, float]:
    """What c₁ and c₂ (or c̄₁ and c̄₂) are multiplied with."""
    spent = sum(1 / _check.positive("epsilon", budget) ** 2 for budget in epsilon)
    many = 8 * len(epsilon) if published else 1
    root = math.sqrt(many * spent) / _check.count("records", records)
    return root, root**2
