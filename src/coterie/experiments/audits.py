"""Audit a protocol at its worst, or a run as it was; write what was found into the run's folder."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie import _check, _files
from coterie.accounting import Certificate
from coterie.accounting.plans import certificates_of
from coterie.audit import whole
from coterie.audit.attack import Audit, audit, check_effort
from coterie.audit.neighbours import AuditWorld, worst_case
from coterie.audit.table import shift
from coterie.errors import InputError
from coterie.evaluation.budget import sheet_of
from coterie.evaluation.groups import groups_of
from coterie.evaluation.selection import ballot_of
from coterie.experiments import evaluating
from coterie.experiments.experiment import Experiment, read_toml
from coterie.experiments.settings import typed
from coterie.experiments.training import Tell, ready
from coterie.protocols import CALIBRATIONS

GAMES = 100_000
CONFIDENCE = 0.999


class Effort(NamedTuple):
    """How hard to try."""

    games: int | None = None  # None: GAMES, or as many as suit a run
    confidence: float = CONFIDENCE
    records: int | None = None  # of each owner in the audit's world; None: what suits the sampling
    dim: int = 1


class Audited(NamedTuple):
    """An audit and the world it was made in, in words."""

    world: str
    audit: Audit

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {"world": self.world} | self.audit.to_json()


def audit_experiment(experiment: Experiment, effort: Effort, tell: Tell) -> Audited:
    """Attack the experiment's mechanism at its worst; no data set is read.

    The world is small: as many records and steps as the attack needs. Noise, sampling and releases are made for it by
    the protocol, so it has its own certificate. The largest of the owners' budgets is attacked.
    """
    options = typed(experiment.protocol, experiment.settings)
    _check.one_of("calibration", experiment.calibration, CALIBRATIONS)
    budgets = experiment.epsilon.values() if isinstance(experiment.epsilon, dict) else experiment.epsilon
    world = AuditWorld(
        owners=experiment.owners or AuditWorld.owners,
        records=effort.records,
        dim=effort.dim,
        epsilon=max(budgets),
        delta=experiment.delta,
        calibration=experiment.calibration,
    )
    tell("choosing noise", 0, 0)
    setting = worst_case(experiment.protocol, world, options)
    audited = audit(
        setting,
        delta=experiment.delta,
        games=GAMES if effort.games is None else effort.games,
        confidence=effort.confidence,
        seed=experiment.seed,
        progress=tell,
    )
    return Audited(setting.words, audited)


def audit_run(folder: Path, effort: Effort, seed: int | None, tell: Tell) -> Audited:
    """Attack a run by its own releases, noise and sampling: those of the owner with the largest certificate.

    The experiment is made ready again as it was for the run, which takes its data; the records themselves are not used.
    """
    result, experiment = read_result(folder), read_toml(folder / "experiment.toml")
    check_effort(GAMES if effort.games is None else effort.games, effort.confidence)
    setup = ready(experiment, None, tell)
    task, program = setup.prepared.task, setup.program
    certificates = certificates_of(program.plan, task.delta)
    _check_same(folder, result, certificates)
    owner = max(range(task.owners), key=lambda member: certificates[member].epsilon)
    options = typed(experiment.protocol, experiment.settings)
    training = evaluating.for_training(experiment, task)
    played = whole.PlayedRun(experiment.protocol, options, experiment.calibration, training, program)
    setting = whole.of_run(played, owner)
    table = setup.prepared.table
    groups = groups_of(table, experiment.evaluate_by)
    sheet = sheet_of(table, task.problem, program.plan.relation, groups, task.unit)
    audited = whole.audit_whole(
        setting._replace(table=shift(ballot_of(program, sheet), program.plan, owner)),
        delta=task.delta,
        games=effort.games,
        confidence=effort.confidence,
        seed=experiment.seed if seed is None else seed,
        progress=tell,
    )
    return Audited(whole.words(setting, setup.prepared.partition.names[owner]), audited)


def _check_same(folder: Path, result: dict[str, Any], certificates: Sequence[Certificate]) -> None:
    """The finding is about the run only if the run's certificates follow from its experiment and data still."""
    certified = result["privacy"].get("certified_epsilon")
    written = certified.get("per_owner") if isinstance(certified, dict) else None
    again = [certificate.to_json()["epsilon"] for certificate in certificates]
    same = isinstance(written, list) and len(written) == len(again)
    if not same or not all(_close(old, new) for old, new in zip(written or [], again)):
        raise InputError(
            f"run={str(folder)!r}: its certificates do not follow from its experiment and data any more. Run it again."
        )


def _close(old: Any, new: Any) -> bool:
    numbers = all(isinstance(value, int | float) for value in (old, new))
    return math.isclose(old, new, rel_tol=1e-6) if numbers else old == new


def read_result(folder: Path) -> dict[str, Any]:
    """A run's result.json, checked to be one before any game is played."""
    path = folder / "result.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"run={str(folder)!r}: result.json cannot be read ({error.strerror}). Give a run's folder."
        ) from error
    except ValueError as error:
        raise InputError(f"run={str(folder)!r}: result.json is not JSON. Give a run's folder.") from error
    if not isinstance(result, dict) or not isinstance(result.get("privacy"), dict):
        raise InputError(f"run={str(folder)!r}: result.json is not a run's result. Give a run's folder.")
    return result


def write_finding(folder: Path, result: dict[str, Any], audited: Audited) -> None:
    """Put the finding into the run's result.json, in one step: a reader sees the old file or the new one."""
    privacy = result["privacy"] | {
        "audited_epsilon": audited.audit.finding.epsilon,
        "audit": audited.to_json(),
    }
    text = json.dumps(result | {"privacy": privacy}, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    try:
        _files.put(folder / "result.json", text.encode())
    except OSError as error:
        raise InputError(f"run={str(folder)!r}: cannot be written ({error.strerror}).") from error
