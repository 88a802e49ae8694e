"""Write a run's folder: result, trace, experiment, pictures and a page about them. It appears whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coterie.errors import InputError
from coterie.reports import figures
from coterie.reports.html import page
from coterie.reports.reading import FILES, read

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coterie.experiments.run import Result


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, … that does not exist yet."""
    number = 1
    while (parent / f"{name}-{number}").exists():
        number += 1
    return parent / f"{name}-{number}"


def check_folder(out: Path) -> Path:
    """Refuse what holds anything: a run never overwrites another."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise InputError(
            f"out={str(out)!r}: exists and is not empty. Name a new folder; a run never overwrites another."
        )
    return out


def check_place(out: Path) -> Path:
    """Refuse, before any work is done, a folder that could not be made."""
    above = out.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"out={str(out)!r}: {above} is not a folder that may be written. Name another.")
    return out


def write(result: Result, out: Path) -> Path:
    """Make everything in memory, write it beside its place, and move it there in one step."""
    files = {
        "result.json": json.dumps(
            result.to_json(str(out)), indent=2, allow_nan=False, ensure_ascii=False
        ).encode()
        + b"\n",
        "experiment.toml": result.experiment.to_toml().encode(),
        "trace.csv": trace(result).encode(),
        **{f"{name}.png": _png(figure) for name, figure in pictures(result).items()},
    }
    try:
        _write_all({"report.html": report(files), **files}, out)
    except OSError as error:
        raise InputError(f"out={str(out)!r}: cannot be written ({error.strerror}). Name another.") from error
    return out


def report(files: Mapping[str, bytes]) -> bytes:
    """The page about a run, from its other files alone: whoever has these can make it again."""
    checksums = {name: hashlib.sha256(files[name]).hexdigest() for name in FILES}
    return page(read(files), checksums).encode("utf-8", "replace")


def rewrite_report(folder: Path) -> Path:
    """Make report.html of a run's folder again, as after an audit added its finding to result.json."""
    place = folder / "report.html"
    try:
        content = report({name: (folder / name).read_bytes() for name in FILES})
        staging = place.with_name(f".{place.name}-{os.getpid()}")
        try:
            staging.write_bytes(content)
            staging.replace(place)
        finally:
            staging.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"folder={str(folder)!r}: {Path(error.filename or place).name}: {error.strerror}. "
            "Give the folder of a run, which may be written."
        ) from error
    return place


def _write_all(files: dict[str, bytes], out: Path) -> None:
    """Neither a full disk nor Ctrl-C leaves a part: until the rename there is only a hidden folder, which goes."""
    check_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = out.absolute().with_name(f".{out.absolute().name}-{os.getpid()}")
    try:
        staging.mkdir(mode=0o700)  # oracle values are in it, made of records: for the researcher's eyes
        for name, content in files.items():
            (staging / name).write_bytes(content)
        staging.replace(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def trace(result: Result) -> str:
    """CSV, one row for each look: step, joint metric, disagreement, then each model (a register has one)."""
    several = result.curve.shape[1] > 1
    names = result.prepared.partition.names if several else ("model",)
    joint = np.average(result.curve, axis=1, weights=result.sizes if several else None)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", result.metric, "disagreement", *names])
    for step, mean, apart, row in zip(result.steps, joint, result.disagreement, result.curve):
        writer.writerow([int(step), *(f"{value:.6g}" for value in (mean, apart, *row))])
    return text.getvalue()


def pictures(result: Result) -> dict[str, Figure]:
    """The metric over rounds between floor and ceiling, and what each owner spent of its budget."""
    task, experiment = result.prepared.task, result.experiment
    owners = f"{task.owners:,} owner{'s' * (task.owners > 1)}"
    what = f"{Path(experiment.data).stem}: {owners}, {sum(task.sizes):,} records"
    return {
        "metric": figures.metric_over_rounds(
            figures.Curve(result.steps, result.curve, result.sizes, result.local_mean, result.central),
            f"{result.metric} on {result.test_rows}",
            result.step,
            f"{what}, {experiment.protocol}",
        ),
        "epsilon": figures.epsilon_by_owner(
            result.prepared.partition.names,
            result.sizes,
            np.array([one.epsilon for one in result.certificates]),
            np.array(task.epsilon),
            f"{what}: privacy of one {result.certificates[0].unit}, δ = {task.delta:g}",
        ),
    }


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()
