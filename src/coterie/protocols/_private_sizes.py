"""Whether a protocol's public numbers follow from what its relation keeps private: the owners' numbers of records.

Under `replace_one` sizes are public. Under any other relation one record more or less is another data set, and whatever
a program says openly or scales its noise by must be the same for both: else the noise's spread, a weight or the length
of the run gives the record away, and no accountant that reads the plan alone can see it. So the protocol is built
again for other sizes, and everything but the sizes themselves is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np

from coterie.errors import InputError
from coterie.program import Program
from coterie.protocols.task import Task

_OWN = ("sizes", "flaw")  # of a plan: the sizes themselves, which no engine sends, and what is found here
_MOST_ALONE = 4  # owners that are tried one by one


def checked(program: Program, build: Callable[[Task], Program], task: Task) -> Program:
    """The program that was built for this task; flawed, with the reason, where private sizes show in what should not
    follow from them.

    Guarantee: under a relation that keeps sizes private, a plan without a flaw has the noise, weights, numbers, sampler
    and schedule that it has with one record more, one less, or many more of an owner.
    """
    if program.plan.flaw:
        return program
    for neighbour in _neighbouring(task):
        if names := _differences(program, build, neighbour):
            return program._replace(plan=replace(program.plan, flaw=_reason(program.plan.relation, names)))
    return program


def _reason(relation: str, names: list[str]) -> str:
    return (
        f"sizes are private under {relation}, but {', '.join(names)} would be different with other sizes: "
        "the record shows in them"
    )


def _neighbouring(task: Task) -> Iterator[Task]:
    """One record more and one less, of single owners and of all; and many more, where rounding cannot hide them."""
    everyone = np.ones(task.owners, int)
    changes = [
        sign * row for row in (*np.eye(task.owners, dtype=int)[:_MOST_ALONE], everyone) for sign in (1, -1)
    ]
    for change in [*changes, 2 * np.array(task.sizes) + 7 * np.arange(task.owners) + 1]:
        sizes = np.array(task.sizes) + change
        if sizes.min() > 0:
            yield replace(task, sizes=tuple(sizes.tolist()))


def _differences(program: Program, build: Callable[[Task], Program], task: Task) -> list[str]:
    """What is not the same in the program for `task`, by name."""
    try:
        rebuilt = build(task)
    except InputError:
        return ["whether it can run at all"]
    names = [
        name
        for name in (field.name for field in fields(program.plan) if field.init and field.name not in _OWN)
        if not _same(getattr(program.plan, name), getattr(rebuilt.plan, name))
    ]
    return names + [
        name
        for name in program._fields
        if name not in ("plan", "claim") and not _same(getattr(program, name), getattr(rebuilt, name))
    ]


def _same(left: Any, right: Any) -> bool:
    """Equal trees of equal numbers; events by their text, which has all their numbers."""
    ours, shape = jax.tree.flatten(left)
    theirs, other_shape = jax.tree.flatten(right)
    return shape == other_shape and all(map(_equal, ours, theirs))


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray | jax.Array):
        return np.array_equal(np.asarray(left), np.asarray(right))
    return left is right or left == right or repr(left) == repr(right)
