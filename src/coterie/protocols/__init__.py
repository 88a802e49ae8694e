"""Every protocol, by name. One file each; a protocol cannot know where it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from types import ModuleType
from typing import Any, NamedTuple

from coterie import _check
from coterie.errors import InputError
from coterie.program import Program
from coterie.protocols import (
    async_learner,
    average_erm,
    central_erm,
    deep_q,
    dual_averaging,
    push_sum,
    random_walk,
    weighted_erm,
    wor_sgd,
)
from coterie.protocols.task import CALIBRATIONS, Calibration, Task


class Protocol(NamedTuple):
    """A row of the registry."""

    settings: type  # a frozen dataclass of what may be set
    build: Callable[[Task, Any, Calibration], Program]


def _row(module: ModuleType) -> Protocol:
    return Protocol(module.Settings, module.build)


PROTOCOLS: dict[str, Protocol] = {
    "async_learner": _row(async_learner),
    "average_erm": _row(average_erm),
    "central_erm": _row(central_erm),
    "deep_q": _row(deep_q),
    "dual_averaging": _row(dual_averaging),
    "push_sum": _row(push_sum),
    "random_walk": _row(random_walk),
    "weighted_erm": _row(weighted_erm),
    "wor_sgd": _row(wor_sgd),
}


def build(name: str, task: Task, options: dict[str, Any], calibration: str) -> Program:
    """The named protocol for this task, with `options` checked against what it knows."""
    protocol = PROTOCOLS[_check.one_of("protocol", name, PROTOCOLS)]
    _check.one_of("calibration", calibration, CALIBRATIONS)
    known = {field.name for field in fields(protocol.settings)}
    for key in options:
        if key not in known:
            raise InputError(f"{name}.{key}: unknown setting. {name} knows: {', '.join(sorted(known))}.")
    return protocol.build(task, protocol.settings(**options), calibration)  # type: ignore[arg-type]


__all__ = ["CALIBRATIONS", "PROTOCOLS", "Calibration", "Protocol", "Task", "build"]
