"""Jin, He & Dai: decentralised SGD without replacement (Theorem 2), and with a deep-Q agent (Theorem 5).

Each record is in one release of a model, with noise √(2 ln(1.25/δ)) · 2L/ε on the sum of a batch's gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.claims.row import Case, Family, Modelled, claimed, published

if TYPE_CHECKING:
    from dp_accounting import DpEvent

PAPER = "jin_2020"
DELTA = 1 / 60_000**2  # δ = 1/n²
STRENGTH = 1e-4  # λ of the strongly convex experiments
MNIST, COVERTYPE = 10, 7  # classes


@dataclass(frozen=True, kw_only=True)
class PublishedWalk:
    """Algorithm 1."""

    epsilon: float = 1.0
    delta: float = DELTA
    classes: int = MNIST  # one-vs-all models that are released; 1: a single binary model
    strongly_convex: bool = False


def walk(settings: PublishedWalk) -> Case:
    """The models are released together, so a record is in as many releases as there are models.

    Sensitivity: a record's gradient in one model is at most 1 long, so replacing it moves that model's sum by 2.
    The paper's L = 1 + λR = 2 (R = 1/λ) of the strongly convex case adds the penalty's, which holds no record.
    """
    epsilon, delta = _check.positive("epsilon", settings.epsilon), _check.probability("delta", settings.delta)
    classes = _check.count("classes", settings.classes)
    problem = Modelled(classes=classes, strength=STRENGTH if settings.strongly_convex else 0.0)
    note = "" if epsilon < 1 else "outside the range ε < 1 of the paper's Theorem 1"
    return Case(
        claim=claimed(epsilon, delta, "Jin, He & Dai, Theorem 2", note),
        event=published("wor_sgd", (1,), {}, problem, (epsilon, delta)).plan.event(0),
        delta=delta,
        reason=_why(classes, settings.strongly_convex),
    )


def _why(classes: int, strongly_convex: bool) -> str:
    if strongly_convex:
        first = (
            f"{classes} models read each record, counted as one"
            if classes > 1
            else "√(2 ln(1.25/δ)) is loose"
        )
        return f"{first}; L = 1 + λR doubles the noise for a penalty without data"
    if classes > 1:
        return f"all {classes} one-vs-all models read the same records: {classes} releases, counted as one"
    return "√(2 ln(1.25/δ)) is loose for small ε and fails for large; this is its noise's exact cost"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Algorithms 2 and 3: what everybody sees of the agent, its choices between local and global."""

    epsilon: float = 1.0
    delta: float = 0.0  # of the choices' certificate: 0 for a pure bound
    choices: int = 120  # of one owner
    annealed: int = 60  # choices over which exploration falls linearly from 1
    least: float = 0.1  # exploration from then on
    models: int = 1  # binary models, each with an agent
    strongly_convex: bool = False


def choices(settings: Choices) -> Case:
    """Each choice is a fair coin with its exploration probability p, otherwise a function of private losses.

    Sensitivity: a record of the first batch may turn every later greedy choice, through w^L and the network. So
    each is charged as randomised response: one of two answers at odds of (1 − p/2) to p/2.
    """
    expansive = settings.strongly_convex  # steps too large for Lemma 5
    epsilon = _check.positive("epsilon", settings.epsilon)
    return Case(
        claim=claimed(epsilon, DELTA, "Jin, He & Dai, Theorem 5", "says nothing of the choices"),
        event=_expansive_steps() if expansive else _answers(settings),
        delta=settings.delta and _check.probability("delta", settings.delta),
        view="public transcript" if expansive else "the visible choices alone",
        flaw=_EXPANSIVE if expansive else "",
        reason=_EXPANSIVE if expansive else _VISIBLE,
    )


def _expansive_steps() -> DpEvent:
    strongly = Modelled(strength=STRENGTH)
    return published("deep_q", (1, 1), {"policy": "q"}, strongly, (1.0, DELTA)).plan.event(0)


def _answers(settings: Choices) -> DpEvent:
    from coterie.protocols.deep_q import choices_event

    count, annealed = _check.count("choices", settings.choices), _check.count("annealed", settings.annealed)
    models, least = _check.count("models", settings.models), settings.least
    if not 0 <= least <= 1:
        raise InputError(f"least={least}: must lie between 0 and 1. Give the lowest exploration probability.")
    return choices_event(count, models, annealed, least)


_VISIBLE = "everybody sees choices made from private losses; the theorem charges the models alone"
# η_t = 1/(λt) is at most 1/(2μ), μ = 1 + λ, from t = 2μ/λ on.
_EXPANSIVE = (
    f"Lemma 5 needs η ≤ 1/(2μ); η = 1/(λt) meets it from t = {2 * (1 + STRENGTH) / STRENGTH:,.0f} on, before which "
    "no bound is known"
)

FAMILIES = (
    Family(
        PAPER,
        "wor_sgd",
        PublishedWalk,
        tuple(
            PublishedWalk(classes=classes, strongly_convex=strongly)
            for classes in (MNIST, COVERTYPE, 1)
            for strongly in (False, True)
        ),
        walk,
    ),
    Family(PAPER, "deep_q", Choices, (Choices(), Choices(strongly_convex=True)), choices),
)
