"""Write a run's folder: result, trace, experiment, pictures and a page about them. It appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING

import numpy as np

from coterie import _files
from coterie.errors import InputError
from coterie.experiments import recompute
from coterie.experiments.oracle import ORACLE, is_oracle
from coterie.model.format import FILE as MODEL
from coterie.reports.amounts import many
from coterie.reports.charts import curve
from coterie.reports.figures import drawn, gauged, png
from coterie.reports.gauges import gauges
from coterie.reports.html import page
from coterie.reports.reading import FILES, read
from coterie.units import counted

if TYPE_CHECKING:
    from coterie.experiments.result import Result


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
    try:
        Path(mkdtemp(prefix=".coterie-", dir=above)).rmdir()  # permissions alone do not tell it
    except OSError as error:
        raise InputError(
            f"out={str(out)!r}: {above} is not a folder that may be written ({error.strerror}). Name another."
        ) from error
    return out


def write(result: Result, out: Path) -> Path:
    """Make everything in memory, write it beside its place, and move it there in one step.

    InputError where that fails, and says where each file is kept instead: training may have taken hours.
    """
    files = {
        MODEL: result.model.to_bytes(),  # first: nothing else makes it again
        "result.json": json.dumps(
            result.to_json(str(out)), indent=2, allow_nan=False, ensure_ascii=False
        ).encode()
        + b"\n",
        "experiment.toml": result.experiment.to_toml().encode(),
        "trace.csv": trace(result).encode(),
    }
    run = read(files)
    unit = run.privacy.unit
    units = f", {counted(sum(run.sizes), unit)}" if result.program.plan.relation.sizes_are_public else ""
    what = f"{Path(run.data).stem}: {many(len(run.names), 'owner')}{units}"
    files["metric.png"] = png(drawn(curve(run), f"{what}, {run.protocol}"))
    files["epsilon.png"] = png(gauged(gauges(run), f"{what}: privacy of one {unit}"))
    files["report.html"] = page(run, files)
    try:
        _write_all(files, out)
    except OSError as error:
        where = _kept_elsewhere(files, out)
        raise InputError(f"out={str(out)!r}: cannot be written ({error.strerror}). {where}") from error
    return out


def report(files: Mapping[str, bytes]) -> bytes:
    """The page about a run, from its other files alone: whoever has these can make it again."""
    return page(read(files), files)


def rewrite_report(folder: Path) -> Path:
    """Make report.html of a run's folder again, as after an audit added its finding to result.json."""
    place = folder / "report.html"
    try:
        files = {name: (folder / name).read_bytes() for name in FILES}
        content = report(files)
        _check_agrees(files["result.json"], folder)
        _files.put(place, content)
    except OSError as error:
        raise InputError(
            f"folder={str(folder)!r}: {Path(error.filename or place).name}: {error.strerror}. "
            "Give the folder of a run, which may be written."
        ) from error
    return place


def _check_agrees(result: bytes, folder: Path) -> None:
    """A page speaks in this tool's name: it says of privacy only what the certificates bear out, computed again."""
    problems = [
        problem
        for check in recompute.check_result(json.loads(result), f"folder={str(folder)!r}")
        for problem in check.problems
    ]
    if problems:
        raise InputError(
            f"folder={str(folder)!r}: result.json does not agree with its certificates. {problems[0]}. "
            "No page is made of it."
        )


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


def _kept_elsewhere(files: Mapping[str, bytes], out: Path) -> str:
    """Keep each file in the first place with room for it, beside `out` or among temporary files, and say where it is.

    A folder of a run stays whole or absent: what is kept is under another name, and readable by its user alone.
    """
    left, locations = dict(files), []
    for parent in (out.absolute().parent, Path(gettempdir())):
        try:
            place = Path(mkdtemp(prefix=f"{out.name}-incomplete-", dir=parent))
        except OSError:
            continue
        there = [name for name, content in left.items() if _put(place / name, content)]
        left = {name: content for name, content in left.items() if name not in there}
        if there:
            locations.append(f"{', '.join(there)} in {place}")
        else:
            place.rmdir()
        if not left:
            break
    lost = f"; not written: {', '.join(left)}" if left else ""
    remake = " `coterie report FOLDER` makes report.html again." if "report.html" in left else ""
    summary = f"Kept are {' and '.join(locations)}{lost}." if locations else "Nothing could be kept."
    return f"{summary} Make room, and put them into a folder of their own.{remake}"


def _put(place: Path, content: bytes) -> bool:
    """Whether the file is there now, whole."""
    try:
        place.write_bytes(content)
    except OSError:
        place.unlink(missing_ok=True)
        return False
    return True


def trace(result: Result) -> str:
    """CSV, one row for each look: step, joint metric, disagreement, then each model (a register has one).

    A column that no owner released says so in its name, like the values that result.json lists under "oracle": tables
    are copied without the page that explains them. Models are made of releases, and so is their disagreement.
    """
    several = result.curve.shape[1] > 1
    names = result.prepared.partition.names if several else ("model",)
    by_size = several and result.program.plan.relation.sizes_are_public
    weights = result.prepared.task.sizes if by_size else None
    joint = np.average(result.curve, axis=1, weights=weights)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    mark, metric = ORACLE if is_oracle(result.curve) else "", result.prepared.judge.metric
    writer.writerow(["step", f"{metric}{mark}", "disagreement", *(f"{name}{mark}" for name in names)])
    for step, mean, apart, row in zip(result.steps, joint, result.disagreement, result.curve):
        writer.writerow([int(step), *(f"{value:.6g}" for value in (mean, apart, *row))])
    return text.getvalue()
