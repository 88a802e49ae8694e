"""Whether joining pays for one owner: its own model without privacy against the joint, private one.

Reads the asking owner's records and nobody else's, on the owner's machine. The answer is not a release: it is exact,
unprotected and for the owner's eyes. A decision made on it is visible to the others, and no budget counts that.

On new records, a model of m records has an excess risk near c/m, whoever they belong to, if partners' records are like
the owner's. The joint model has c over everyone's records, and on top what privacy costs by the forecast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.planning.candidates import VISITS, candidates
from coterie.planning.constants import Constants, from_public_rows
from coterie.planning.metric import EVEN, OFF, on_made_up
from coterie.planning.public import MOST_OWNERS, Consortium, problem_for
from coterie.planning.search import Forecast, Plan, Tell, forecast, plan
from coterie.problems.problem import Problem
from coterie.problems.reference import central_optimum, objective_value
from coterie.topologies import AGREEMENT, TOPOLOGIES

FOLDS = 5
FEWEST = 20  # records below which held-out losses say nothing
BUDGETS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
PARTNERS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """What an owner found out about itself. Made of private records: it must not leave the owner."""

    records: int
    classes: int
    excess: float  # estimated excess risk on new records of its own model without privacy
    constants: Constants
    rate: float  # share of the rarer of two classes


@dataclass(frozen=True, kw_only=True)
class Point:
    """The joint model's predicted excess risk on new records, with its interval."""

    at: float
    predicted: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What joining adds to a metric on new records, against the owner's own model without privacy."""

    name: str
    gain: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class JoinAnswer:
    """Whether joining pays, and from where on."""

    owner: Owner
    plan: Plan
    joint: Point  # at the number of partners asked for
    in_metric: tuple[Gain, ...]
    over_epsilon: tuple[Point, ...]
    over_partners: tuple[Point, ...]
    break_even_epsilon: float | None  # None: at no ε that was tried; the smallest one tried where all pay
    break_even_partners: int | None

    @property
    def gain(self) -> float:
        """Excess risk saved by joining; below zero where staying alone is better."""
        return self.owner.excess - self.joint.predicted


def look(x: np.ndarray, y: np.ndarray, classes: int, tell: Tell = lambda what, done, of: None) -> Owner:
    """What the owner's own records say: the excess risk of its own model, the spectrum, and how much can be learnt.

    Over `FOLDS` folds of m records, held-out minus training loss is about 2c/m: half of it for fitting the training
    rows too well, half for missing the optimum. So c/n is half of it, times m/n. Reads private records.
    """
    if len(y) < FEWEST:
        raise InputError(
            f"owner: {len(y)} record{'s' * (len(y) != 1)} to learn from; must be at least {FEWEST} to judge a model "
            "of its own."
        )
    problem = problem_for(x.shape[1], classes)
    fold = np.random.default_rng(0).permutation(len(y)) % FOLDS
    if classes > 1 and any(len(np.unique(y[fold != held])) < 2 for held in range(FOLDS)):
        raise InputError(
            "owner: all its records, or nearly all, are of one class: a model of its own needs two."
        )
    optimism = []
    for held in range(FOLDS):
        tell("your own model", held, FOLDS)
        optimism.append(_optimism(problem, x, y, fold == held))
    return Owner(
        records=len(y),
        classes=classes,
        excess=max(0.5 * float(np.mean(optimism)) * (FOLDS - 1) / FOLDS, 1e-9),
        constants=from_public_rows(x, y, classes),  # private here: it stays with the owner
        rate=float(min(np.mean(y > 0), np.mean(y <= 0))) if classes == 2 else EVEN,
    )


def ask(
    owner: Owner,
    base: Consortium,
    partners: int,
    partner_records: int,
    rounds_at_most: int,
    tell: Tell = lambda what, done, of: None,
) -> JoinAnswer:
    """Compare. `base` gives dimension, budget, δ and topology; its sizes are not used. `tell` hears what is done."""
    check_asked(base.topology, partners, partner_records)
    if len(base.epsilon) != 1:
        raise InputError(f"epsilon: {len(base.epsilon)} budgets; plan join takes one for everyone.")

    def case(count: int, epsilon: float) -> Consortium:
        return replace(base, sizes=(owner.records, *(partner_records,) * count), epsilon=(epsilon,))

    best = plan(case(partners, base.epsilon[0]).task(), rounds_at_most, owner.constants, tell)
    rounds = (max(1, best.best.rounds // 2), best.best.rounds, min(2 * best.best.rounds, rounds_at_most))

    def joint(at: float, count: int, epsilon: float) -> Point:
        task = case(count, epsilon).task()
        tried = candidates(task, best.best.protocol, rounds)
        if not tried:  # so many owners are visited less often
            tried = candidates(task, best.best.protocol, (max(1, VISITS // task.owners),))
        forecasted = forecast(task, tried, owner.constants, AGREEMENT)
        assert forecasted is not None  # the plan's protocol, in as many rounds as it may take here
        return _on_new_records(owner, at, forecasted, sum(task.sizes))

    cases = [(epsilon, partners, epsilon) for epsilon in BUDGETS]
    cases += [(float(count), count, base.epsilon[0]) for count in PARTNERS]
    points = []
    for done, varied in enumerate(cases):
        tell("where it pays", done, len(cases))
        points.append(joint(*varied))
    over_epsilon, over_partners = tuple(points[: len(BUDGETS)]), tuple(points[len(BUDGETS) :])
    needed = crossing(over_partners, owner.excess)
    asked = _on_new_records(owner, float(partners), best.best, owner.records + partners * partner_records)
    return JoinAnswer(
        owner=owner,
        plan=best,
        joint=asked,
        in_metric=_in_metric(owner, base.dimension, asked),
        over_epsilon=over_epsilon,
        over_partners=over_partners,
        break_even_epsilon=crossing(over_epsilon, owner.excess),
        break_even_partners=None if needed is None else int(np.ceil(needed - 1e-9)),
    )


def check_asked(topology: str, partners: int, partner_records: int) -> None:
    """InputError for what cannot be asked, whatever the records are."""
    _check.count("partners", partners, most=MOST_OWNERS)
    _check.count("partner_records", partner_records)
    if topology not in TOPOLOGIES:
        raise InputError(
            f"topology={topology!r}: plan join varies the number of partners. Name a family, such as ring."
        )


def _on_new_records(owner: Owner, at: float, forecasted: Forecast, records: int) -> Point:
    """A forecast for the owners' records, and what a model of so many loses on new ones."""
    more = owner.excess * owner.records / records
    return Point(
        at=at,
        predicted=forecasted.predicted + more,
        low=forecasted.low + more,
        high=forecasted.high + more,
    )


def _in_metric(owner: Owner, dimension: int, joint: Point) -> tuple[Gain, ...]:
    """By made-up rows like the owner's: its spectrum, how much can be learnt, how common its rarer class is. On its few
    records themselves the best model would look better than it is."""
    exchange = on_made_up(problem_for(dimension, owner.classes), owner.constants, owner.classes, owner.rate)
    gains = []
    for name in exchange.names:
        alone, *with_others = (
            exchange.lost_at(name, excess)
            for excess in (owner.excess, joint.predicted, joint.low, joint.high)
        )
        gain, high, low = (alone - joined for joined in with_others)
        gains.append(Gain(name=name, gain=gain, low=low - OFF, high=high + OFF))
    return tuple(gains)


def crossing(points: tuple[Point, ...], level: float) -> float | None:
    """The place where the falling curve comes below `level`, on a straight line in logarithms between two points."""
    for before, after in zip((None, *points), points):
        if after.predicted >= level:
            continue
        if before is None:
            return after.at
        part = np.log(before.predicted / level) / np.log(before.predicted / after.predicted)
        return float(before.at * (after.at / before.at) ** part)
    return None


def _optimism(problem: Problem, x: np.ndarray, y: np.ndarray, held: np.ndarray) -> float:
    params = central_optimum(problem, x[~held], y[~held])
    return objective_value(problem, params, x[held], y[held]) - objective_value(
        problem, params, x[~held], y[~held]
    )
