"""Farokhi, Wu, Smith & Kaafar: an asynchronous learner that asks for gradients (Theorem 1).

An owner of n records answers with its mean gradient plus Laplace noise of scale 2ΞT/(nε), Ξ a bound in the 2-norm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.claims.row import Case, Family, Modelled, claimed, published

DELTA, STRENGTH = 1e-6, 1e-5  # a task has both; the published noise reads neither


@dataclass(frozen=True, kw_only=True)
class Answers:
    """One owner. With equal owners and unit clocks an owner answers about horizon / owners of the queries."""

    epsilon: float = 1.0
    delta: float = 0.0  # of the certificate; the theorem is pure
    features: int = 10  # p, the length of a gradient
    horizon: int = 1000  # T, queries that the noise pays for
    answers: int = 1000  # queries that this owner answers


def answers(settings: Answers) -> Case:
    """Laplace noise is charged by the 1-norm.

    Sensitivity: p numbers of 2-norm Ξ have a 1-norm of at most √p Ξ, attained when all are equal. Replacing a
    record moves the sum of gradients by twice that; the noise on the sum is 2ΞT/ε.
    """
    epsilon = _check.positive("epsilon", settings.epsilon)
    features, horizon = _check.count("features", settings.features), _check.count("horizon", settings.horizon)
    given = _check.count("answers", settings.answers)
    if given > horizon:
        raise InputError(f"answers={given}: must be <= horizon={horizon}. Raise horizon, or ask less.")
    problem = Modelled(features=features, strength=STRENGTH)
    program = published("async_learner", (1,), {"ticks": horizon}, problem, (epsilon, DELTA))
    return Case(
        claim=claimed(epsilon, 0.0, program.claim.source),
        event=replace(program.plan, releases=(given,)).event(0),
        delta=settings.delta and _check.probability("delta", settings.delta),
        reason=_why(given, horizon),
    )


def _why(given: int, horizon: int) -> str:
    if given == horizon:
        return "Ξ bounds the 2-norm, Laplace noise needs the 1-norm: √p times larger for p features"
    return (
        f"√p short, as Ξ bounds the 2-norm; but only {given:,} of the {horizon:,} answers paid for are given"
    )


FAMILIES = (
    Family(
        "farokhi_2020",
        "async_learner",
        Answers,
        # One owner asked every time; 3 banks and 86 hospitals, with caps well above what the clocks ask of one.
        (Answers(), Answers(answers=400), Answers(answers=25)),
        answers,
    ),
)
