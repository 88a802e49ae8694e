"""Audit an experiment: the worst case for its protocol, settings and budget; write findings into a run's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from coterie import _check
from coterie.audit.attack import Audit, audit
from coterie.audit.neighbours import Setting, World, words, worst_case
from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.experiments.settings import typed
from coterie.protocols import CALIBRATIONS, PROTOCOLS

GAMES = 100_000
CONFIDENCE = 0.999


class Effort(NamedTuple):
    """How hard to try."""

    games: int = GAMES
    confidence: float = CONFIDENCE
    records: int | None = None  # of each owner in the audit's world; None: what suits the sampling
    dim: int = 1


class Audited(NamedTuple):
    """An audit and the world it was made in."""

    setting: Setting
    audit: Audit

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {"world": words(self.setting)} | self.audit.to_json()


def audit_experiment(
    experiment: Experiment, effort: Effort, progress: Callable[[str, int, int], None] | None = None
) -> Audited:
    """Attack the experiment's mechanism at its worst; no data set is read.

    The world is small: as many records and steps as the attack needs. Noise, sampling and releases are made for it by
    the protocol, so it has its own certificate. The largest of the owners' budgets is attacked.
    """
    known = PROTOCOLS[_check.one_of("protocol", experiment.protocol, PROTOCOLS)].settings
    _check.one_of("calibration", experiment.calibration, CALIBRATIONS)
    options = typed(experiment.protocol, known, experiment.settings)
    budgets = experiment.epsilon.values() if isinstance(experiment.epsilon, dict) else experiment.epsilon
    world = World(
        owners=experiment.owners or World.owners,
        records=effort.records,
        dim=effort.dim,
        epsilon=max(budgets),
        delta=experiment.delta,
        calibration=experiment.calibration,
    )
    tell = progress or (lambda what, done, of: None)
    tell("choosing noise", 0, 0)
    setting = worst_case(experiment.protocol, world, options)
    found = audit(
        setting.program,
        setting.neighbours,
        setting.mixer,
        delta=experiment.delta,
        games=effort.games,
        confidence=effort.confidence,
        seed=experiment.seed,
        progress=tell,
    )
    return Audited(setting, found)


def read_result(folder: Path) -> dict[str, Any]:
    """A run's result.json, checked to be one before any game is played."""
    path = folder / "result.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"run={str(folder)!r}: result.json cannot be read ({error.strerror}). Give a run's folder."
        ) from error
    except ValueError as error:
        raise InputError(f"run={str(folder)!r}: result.json is not JSON. Give a run's folder.") from error
    if not isinstance(found, dict) or not isinstance(found.get("privacy"), dict):
        raise InputError(f"run={str(folder)!r}: result.json is not a run's result. Give a run's folder.")
    return found


def write_finding(folder: Path, result: dict[str, Any], audited: Audited) -> None:
    """Put the finding into the run's result.json, in one step: a reader sees the old file or the new one."""
    privacy = result["privacy"] | {
        "audited_epsilon": audited.audit.finding.epsilon,
        "audit": audited.to_json(),
    }
    text = json.dumps(result | {"privacy": privacy}, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    staging = folder / f".result-{os.getpid()}.json"
    try:
        staging.write_text(text, encoding="utf-8")
        staging.replace(folder / "result.json")
    except OSError as error:
        raise InputError(f"run={str(folder)!r}: cannot be written ({error.strerror}).") from error
    finally:
        staging.unlink(missing_ok=True)
