"""Noise for a person whom several owners know: budgets are met for units of any m owners that change at once.

Every owner promised its own ε to whomever it knows. A person at owner i and others is promised ε_i, whoever the others
are: all sets that owner i is in must cost at most ε_i together. Everybody may share a person with the strictest owner,
so that all are held to the smallest budget. What each owner may then spend on one unit follows by the Gaussian's 1/σ²,
which is what composes, and is corrected by what the certificate of the plan for m owners says until that is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from coterie.accounting.gaussian import epsilon_of, noise_for
from coterie.accounting.plans import person_of
from coterie.errors import BudgetError
from coterie.program import Program
from coterie.protocols.task import Task

_CLOSE = 0.01  # of the budget, that may be left unspent where noise is not Gaussian
_ROUNDING = 1e-9  # also the least ε that is asked for: no budget may be 0
_TRIES = 20  # each comes nearer by far than halving would


def held(build: Callable[[Task], Program], task: Task) -> Program:
    """The program with the least noise, within a hundredth of ε, that meets every budget for such a person.

    Guarantee: `person_of(plan, task.delta, task.owners_per_person).epsilon` is at most every owner's epsilon; unless no
    noise can help, because the plan is flawed.
    """
    if task.owners_per_person == 1:
        return build(task)
    epsilon, best = min(task.epsilon), None
    factor = math.sqrt(task.owners_per_person) * (1 + _ROUNDING)
    for _ in range(_TRIES):
        own_epsilon = max(epsilon_of(factor * noise_for(epsilon, task.delta), task.delta), _ROUNDING)
        program = build(replace(task, epsilon=(own_epsilon,) * task.owners, owners_per_person=1))
        cost = person_of(program.plan, task.delta, task.owners_per_person).epsilon
        if math.isinf(cost):
            return program
        if cost <= epsilon:
            best = program
            if cost >= epsilon * (1 - _CLOSE):
                return program
        # What the run costs is one Gaussian of this noise: to cost the budget it has to be so many times as large.
        nearer = noise_for(epsilon, task.delta) / noise_for(cost, task.delta)
        factor *= nearer * (1 + (_ROUNDING if best is None else _CLOSE / 10))
    if best is None:
        raise BudgetError(
            f"owners_per_person={task.owners_per_person}: no noise was found that keeps epsilon={epsilon:g} for a "
            "person at so many owners. Allow a larger epsilon, or a smaller delta."
        )
    return best
