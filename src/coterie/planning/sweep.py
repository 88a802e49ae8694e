"""A plan for each of several budgets or numbers of owners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from coterie.planning.constants import Constants
from coterie.planning.public import Consortium
from coterie.planning.search import Plan, plan

Over: TypeAlias = Literal["epsilon", "owners"]
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of everyone's budget
OWNERS = (1, 2, 4, 8, 16, 32, 64)


class SweepPoint(NamedTuple):
    """One place of a sweep: everyone's largest ε, or how many owners, and the plan there."""

    at: float
    plan: Plan


def sweep(
    base: Consortium,
    over: Over,
    rounds_at_most: int,
    constants: Constants | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> list[SweepPoint]:
    """Plans over everyone's budget (multiples of the given ones), or over owners that all have the mean size and the
    strictest budget of those given."""
    cases = _budgets(base) if over == "epsilon" else _owners(base)
    points = []
    for done, (at, case) in enumerate(cases, 1):
        points.append(SweepPoint(at, plan(case.task(), rounds_at_most, constants)))
        tell(done, len(cases))
    return points


def _budgets(base: Consortium) -> list[tuple[float, Consortium]]:
    return [
        (
            factor * max(base.epsilon),
            replace(base, epsilon=tuple(factor * epsilon for epsilon in base.epsilon)),
        )
        for factor in FACTORS
    ]


def _owners(base: Consortium) -> list[tuple[float, Consortium]]:
    size = max(1, round(sum(base.sizes) / len(base.sizes)))
    return [
        (float(owners), replace(base, sizes=(size,) * owners, epsilon=(min(base.epsilon),)))
        for owners in OWNERS
    ]
