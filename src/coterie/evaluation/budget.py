"""Which share of an owner's budget pays for centring features, choosing a model and evaluating it, what training has
left, and what the tables can tell.

A share is one of the Gaussian's 1/σ², which is what composes: of a budget (ε, δ) that one Gaussian release of noise σ
would use up, training is built for the ε of σ / √(1 − share), and the table takes what is left of (ε, δ) after what
training really releases. Where that is Gaussian noise too, the table's is σ / √share, and both use the budget up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from coterie.accounting import calibrate
from coterie.accounting.gaussian import epsilon_of, noise_for
from coterie.accounting.plans import with_more
from coterie.errors import InputError
from coterie.evaluation.centre import Sums, noise_length
from coterie.evaluation.estimate import half_width
from coterie.evaluation.groups import RecordGroups
from coterie.evaluation.selection import SURE, Ballot
from coterie.evaluation.sheet import UNIT, Sheet
from coterie.mechanisms.plan import ReleasePlan, TableNoise
from coterie.relations import REPLACE_ONE, named
from coterie.units import RECORD, Unit, counted

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from coterie.problems.problem import Problem
    from coterie.problems.table import Table

NOTHING = 0.25  # the half interval that tells nothing: of accuracy, or of an error in halves of the range
LEAST, MOST = 0.01, 0.2  # shares that are recommended


class TellsNothing(InputError):
    """An evaluation whose noise would drown what it is to tell."""


def sheet_of(
    table: Table, problem: Problem, relation: str, groups: RecordGroups | None = None, unit: Unit = RECORD
) -> Sheet:
    """The form of an owner's table for this problem."""
    classes = {"binary": 2, "multiclass": len(table.classes), "regression": 0}[table.task]
    group_count = len(groups.names) if groups else 0
    public = named(relation).sizes_are_public
    return Sheet(table.task, problem.loss.name, classes, public, group_count, of_units=unit != RECORD)


def for_training(epsilon: float, delta: float, share: float) -> float:
    """What a budget's ε leaves for training.

    >>> round(for_training(1.0, 1e-5, 0.05), 3)
    0.972
    """
    return epsilon_of(noise_for(epsilon, delta) / math.sqrt(1 - share), delta)


def with_table(
    plan: ReleasePlan,
    form: Sheet | Sums | Ballot,
    epsilon: tuple[float, ...],
    delta: float,
    share: float,
    certified: bool,
    sizes: tuple[int, ...] | None = None,
) -> ReleasePlan:
    """The plan with one table of this form an owner on top, where training was built for what `for_training` leaves.

    `sizes`: over how many records of each owner; None: over those that are trained on.
    Guarantee: with `certified`, `certify(plan.event(owner))` is at most the owner's epsilon, the table included. Else
    training has its own noise, whatever it costs, and the table that of a Gaussian release of its share alone. Sums of
    features are released before training, which reads the centre that follows from them; its own sensitivity holds
    whatever the centre is, so both compose as any releases that are made one after the other.
    """
    noise = _noise(plan, epsilon, delta, share, certified)
    grown = replace(plan, **{form.table: TableNoise(noise, form.reach, form.width, sizes or plan.sizes)})
    return replace(grown, view=with_more(plan, grown, f"the owners' {form.words}", delta))


def _noise(
    plan: ReleasePlan, epsilon: tuple[float, ...], delta: float, share: float, certified: bool
) -> tuple[float, ...]:
    """The noise over the reach of one more table, for each owner."""
    apart = plan.relation.reach  # contributions between neighbours, as events are read
    noises: dict[tuple[str, float], float] = {}
    multipliers = []
    for owner, budget in enumerate(epsilon):
        spent = plan.event(owner)
        if (who := (repr(spent), budget)) not in noises:
            noises[who] = (
                _left(spent, budget, delta, plan.relation)
                if certified
                else apart * noise_for(budget, delta) / math.sqrt(share)
            )
        multipliers.append(noises[who])
    return tuple(multipliers)


def check_tells(plan: ReleasePlan, sheet: Sheet, share: float) -> float:
    """The half interval that accuracy, or the absolute error, will have at most; InputError where it tells nothing."""
    assert plan.evaluation is not None
    noise, rows = plan.evaluation.variance(), sum(plan.evaluation.sizes)
    width = half_width(sheet, noise, rows, 0.5)
    if width <= NOTHING:
        return width
    what = (
        "the mean absolute error, in halves of the target's range,"
        if sheet.task == "regression"
        else "accuracy"
    )
    enough = _smallest(lambda part: half_width(sheet, noise * share / part, rows, 0.5), share, 0.5)
    needed = _smallest(lambda size: half_width(sheet, noise, math.ceil(size), 0.5), rows, 1e9)
    raise TellsNothing(
        f"evaluate={share:g}: {what} over {counted(rows, plan.unit.words)} would be known to ±{width:.2g} only, which "
        f"tells nothing. {_takes(plan, enough, needed or 1e9)}; --evaluate 0 leaves the evaluation out."
    )


def check_chooses(plan: ReleasePlan, share: float) -> float:
    """The least difference that a choice can rest on, in parts of what counts; InputError where it tells nothing."""
    assert plan.selection is not None
    unsure, rows = SURE * math.sqrt(plan.selection.variance()) / UNIT, sum(plan.selection.sizes)
    if unsure / rows <= NOTHING:
        return unsure / rows
    takes = _takes(plan, share * (unsure / rows / NOTHING) ** 2, unsure / NOTHING)
    raise TellsNothing(
        f"select={share:g}: over {counted(rows, plan.unit.words)}, noise would hide that one model's mean loss is "
        f"{NOTHING:g} below another's. {takes}; --select 0 leaves the choice out."
    )


def check_centres(plan: ReleasePlan, share: float) -> float:
    """How long the noise on the mean of features is, beside records of length 1; InputError where it is longer."""
    if not plan.relation.sizes_are_public:
        raise InputError(
            f"centre={share:g}: a mean needs the number of records, which is private under relation="
            f"{str(plan.relation)!r}. Use relation={str(REPLACE_ONE)!r}, or --centre 0."
        )
    length = noise_length(plan)
    if length <= 1:
        return length
    rows = sum(plan.sizes)
    raise InputError(
        f"centre={share:g}: over {counted(rows, plan.unit.words)}, noise on the mean of the features would be "
        f"{length:.2g} times as long as a record. {_takes(plan, share * length**2, rows * length)}; --centre 0 leaves "
        "it out."
    )


def _takes(plan: ReleasePlan, share: float | None, rows: float) -> str:
    """What a table takes to tell something, in words: a larger share, where half at most is enough, or more rows."""
    by_share = "" if share is None or share > 0.5 else f"a share of {_rounded_up(share):g}, or "
    return f"It takes {by_share}{counted(math.ceil(rows), plan.unit.words)}"


def recommended(sheet: Sheet, variance: float, share: float, rows: int, likely: float) -> float:
    """The share at which noise adds as much as sampling does, within bounds; `variance`: of a table with `share`."""
    sampled = half_width(sheet, 0.0, rows, likely)
    noise = half_width(sheet, variance, rows, likely) ** 2 - sampled**2
    return min(max(share * noise / sampled**2, LEAST), MOST)


def _left(spent: DpEvent, epsilon: float, delta: float, relation: str) -> float:
    """The least noise with which a table fits into what training leaves."""
    from dp_accounting import ComposedDpEvent, GaussianDpEvent

    return calibrate(
        lambda z: ComposedDpEvent([spent, GaussianDpEvent(z)]),
        epsilon=epsilon,
        delta=delta,
        relation=relation,
    )


def _smallest(width: Callable[[float], float], low: float, high: float) -> float | None:
    """The place where a falling width comes down to `NOTHING`; None where it stays above that up to `high`."""
    if width(high) > NOTHING:
        return None
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if width(middle) > NOTHING else (low, middle)
    return high


def _rounded_up(share: float) -> float:
    step = 10.0 ** (math.floor(math.log10(share)) - 1)
    return math.ceil(share / step) * step
