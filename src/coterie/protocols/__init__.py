"""Every protocol, by name. One file each; a protocol cannot know where it runs.

It may know problems, topologies, mechanisms and accounting; no engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from coterie import _check
from coterie.errors import InputError
from coterie.program import Program
from coterie.protocols import (
    _private_sizes,
    async_learner,
    average_erm,
    central_erm,
    deep_q,
    dual_averaging,
    persons,
    push_sum,
    random_walk,
    weighted_erm,
    wor_sgd,
)
from coterie.protocols.task import CALIBRATIONS, Calibration, Task
from coterie.registry import Registry


class Protocol(NamedTuple):
    """A row of the registry."""

    settings: type  # a frozen dataclass of what may be set
    build: Callable[[Task, Any, Calibration], Program]


def _row(name: str, thing: Any) -> Protocol:
    """The row of a module, or of anything else that has `Settings` and `build`."""
    settings: Any = getattr(thing, "Settings", None)
    build: Any = getattr(thing, "build", None)
    if not isinstance(settings, type) or not is_dataclass(settings) or not callable(build):
        raise InputError(
            f"protocol={name!r}: must have Settings, a dataclass, and build(task, settings, calibration)."
        )
    return Protocol(settings, thing.build)


_OWN = {
    "async_learner": async_learner,
    "average_erm": average_erm,
    "central_erm": central_erm,
    "deep_q": deep_q,
    "dual_averaging": dual_averaging,
    "push_sum": push_sum,
    "random_walk": random_walk,
    "weighted_erm": weighted_erm,
    "wor_sgd": wor_sgd,
}
PROTOCOLS: Registry[Protocol] = Registry("protocol", "coterie.protocols", _row, _OWN)


def build(name: str, task: Task, options: dict[str, Any], calibration: str) -> Program:
    """The named protocol for this task, with `options` checked against what it knows.

    Guarantee: where the plan's relation keeps sizes private and a public number follows from them, it is flawed.
    Certified noise meets the budgets for a person whom `task.owners_per_person` owners know.
    """
    check_settings(name, options)
    protocol = PROTOCOLS.find(name)
    _check.one_of("calibration", calibration, CALIBRATIONS)
    settings = protocol.settings(**options)

    def make(task: Task) -> Program:
        return protocol.build(task, settings, calibration)  # type: ignore[arg-type]

    # Published noise is what it is, whomever it protects; certified noise is sized for whom budgets are promised to.
    if calibration == "certified" and task.owners_per_person > 1:
        make = partial(persons.held, make)
    program = make(task)
    # A noiseless program protects nothing in any case.
    if not program.plan.relation.sizes_are_public and calibration != "noiseless":
        program = _private_sizes.checked(program, make, task)
    # Plan and claim speak of the unit: whatever is proved of a record holds for what takes its place everywhere.
    return program._replace(
        plan=replace(program.plan, unit=task.unit), claim=replace(program.claim, unit=str(task.unit))
    )


def check_settings(name: str, options: dict[str, Any]) -> None:
    """Refuse a protocol that does not exist, or a setting that it does not have."""
    known = {field.name for field in fields(PROTOCOLS.find(name).settings)}
    for key in options:
        if key not in known:
            hint = _check.meant(key, known)
            raise InputError(
                f"{name}.{key}: unknown setting. {name} knows: {', '.join(sorted(known))}.{hint}"
            )


__all__ = ["CALIBRATIONS", "PROTOCOLS", "Calibration", "Protocol", "Task", "build", "check_settings"]
