"""Compare protocols: train what is not there yet, then say what all of it shows. Only the store writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.experiments.comparing import files, jobs, store, summary
from coterie.experiments.comparing.question import Comparison
from coterie.experiments.describe import plain
from coterie.experiments.measured import central_of
from coterie.experiments.prepare import Prepared, prepare
from coterie.experiments.training import Tell


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison found, as plain values that JSON holds; see docs/compare.md for its keys."""

    comparison: Comparison
    found: dict[str, Any]
    kept: int  # cells that were there already
    damaged: tuple[Path, ...]

    @property
    def cells(self) -> list[dict[str, Any]]:
        """One for each series and budget: metric by seed, mean, deviation, claimed and certified ε, or the refusal."""
        return self.found["cells"]

    @property
    def differences(self) -> list[dict[str, Any]]:
        """The differences of each series from the first one, paired by seed, with intervals."""
        return self.found["differences"]

    @property
    def refused(self) -> list[dict[str, Any]]:
        """Cells that could not be run, each with its reason."""
        return [cell for cell in self.cells if cell["refused"]]

    def to_csv(self) -> str:
        """One row for each run."""
        return files.table(self.found)


def compare(
    comparison: Comparison,
    out: Path | str | None = None,
    data_dir: Path | None = None,
    progress: Tell | None = None,
) -> Compared:
    """Every series at every budget with every seed, certified, beside the baselines.

    With `out`, finished cells are kept there and the result is written there; called again, it goes on where it was.
    A protocol that refuses the data, the topology or a budget has its reason in its cell, and the others go on.
    """
    tell = progress or (lambda what, done, of: None)
    held = None if out is None else store.store_of(Path(out), comparison)
    tell("loading data", 0, 0)
    prepared = prepare(comparison.shared, data_dir)
    tell("choosing noise", 0, 0)
    wanted = _wanted(comparison, prepared)
    if held:
        held.begin()
    results = {place: held and held.get(_name(*place)) for place in wanted}
    missing = [job for place, job in wanted.items() if isinstance(job, jobs.Job) and not results[place]]
    done = _counted(missing, tell)
    for _, group in groupby(missing, key=lambda job: job.series):
        for job in jobs.train(list(group), prepared, done):
            results[job.series, job.epsilon] = cell = jobs.told_of(job, comparison.shared)
            if held:
                held.put(_name(job.series, job.epsilon), cell)
    tell("all records, no privacy", 0, 0)
    central = _central(held, prepared)
    rows = [(*place, job if isinstance(job, str) else "", results[place]) for place, job in wanted.items()]
    shown = summary.summarise(comparison, prepared, rows, central)
    tell("drawing", 0, 0)
    if held:
        held.finish(files.all_of(comparison, shown))
    return Compared(
        comparison=comparison,
        found=shown,
        kept=sum(isinstance(job, jobs.Job) for job in wanted.values()) - len(missing),
        damaged=tuple(held.damaged) if held else (),
    )


def _wanted(comparison: Comparison, prepared: Prepared) -> dict[tuple[str, float], jobs.Job | str]:
    """What has to be trained, or why it cannot be, by series and budget; an error where nothing can."""
    cells = {
        (series.name, epsilon): jobs.job_of(comparison, series, epsilon, prepared)
        for series in comparison.series()
        for epsilon in comparison.epsilon
    }
    reasons = [job for job in cells.values() if isinstance(job, str)]
    if len(reasons) == len(cells):
        raise InputError(reasons[0])
    alone = {
        (jobs.ALONE, budget): jobs.alone_of(comparison, budget, prepared) for budget in comparison.epsilon
    }
    return cells | alone


def _central(held: store.Store | None, prepared: Prepared) -> float | str:
    """Oracle: the metric of the non-private optimum over everyone's records."""
    cell = held and held.get("central")
    if not cell:
        cell = {"value": plain(central_of(prepared))}
        if held:
            held.put("central", cell)
    return cell["value"]


def _name(series: str, epsilon: float) -> str:
    return f"{series}, epsilon {epsilon!r}"


def _counted(missing: list[jobs.Job], tell: Tell) -> Callable[[int], None]:
    """Steps of all runs that have to be trained."""
    total, so_far = sum(job.steps * len(job.lanes) for job in missing), 0

    def done(more: int) -> None:
        nonlocal so_far
        so_far += more
        tell("training", so_far, total)

    if total:
        tell("training", 0, total)
    return done
