"""Write a run's folder: result, trace, experiment and pictures. It appears whole or not at all."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

from coterie.errors import InputError
from coterie.experiments.run import Result
from coterie.reports import figures

RESULT = "result.json"


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, … that does not exist yet."""
    number = 1
    while (parent / f"{name}-{number}").exists():
        number += 1
    return parent / f"{name}-{number}"


def check_folder(out: Path) -> Path:
    """Refuse a folder that holds anything: a run never overwrites another."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(
            f"out={out}: exists and is not empty. Name a new folder; a run never overwrites another."
        )
    return out


def write(result: Result, out: Path) -> Path:
    """Write the folder beside its place, then move it there: a killed process leaves nothing half done."""
    check_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        (staging / RESULT).write_text(json.dumps(result.to_json(str(out)), indent=2) + "\n", encoding="utf-8")
        (staging / "experiment.toml").write_text(result.experiment.to_toml(), encoding="utf-8")
        _write_trace(result, staging / "trace.csv")
        _write_figures(result, staging)
        staging.chmod(0o755)
        if out.exists():
            out.rmdir()
        staging.replace(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return out


def _write_trace(result: Result, path: Path) -> None:
    """One row for each look: round, joint metric, disagreement, then each owner's own model."""
    names = result.prepared.partition.names if result.curve.shape[1] > 1 else ("register",)
    weights = result.sizes if result.curve.shape[1] > 1 else None
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["step", result.metric, "disagreement", *names])
        for step, row, apart in zip(result.steps, result.curve, result.disagreement):
            joint = float(np.average(row, weights=weights))
            writer.writerow([int(step), f"{joint:.6g}", f"{apart:.6g}", *(f"{value:.6g}" for value in row)])


def _write_figures(result: Result, folder: Path) -> None:
    task, experiment = result.prepared.task, result.experiment
    what = f"{experiment.data}: {task.owners} owners, {sum(task.sizes):,} records"
    figures.metric_over_rounds(
        result.steps,
        result.curve,
        result.sizes,
        result.local_mean,
        result.central,
        result.metric,
        f"{what}, {experiment.protocol}",
    ).savefig(folder / "metric.png")
    certified = np.array([one.epsilon for one in result.certificates])
    figures.epsilon_by_owner(
        result.prepared.partition.names,
        result.sizes,
        certified,
        np.array(task.epsilon),
        f"{what}: privacy of one record, δ = {task.delta:g}",
    ).savefig(folder / "epsilon.png")
