"""A requested run: the request, its default folder, and carrying it out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.cli._common import json_line

if TYPE_CHECKING:
    from coterie.cli._progress import Tell
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.training import Keeping

RUNS = Path("runs")  # where results go when --out is not given


class RunRequest(NamedTuple):
    """A run as requested by the options."""

    experiment: Experiment
    data_dir: Path | None
    out: Path | None
    as_json: bool
    log: tuple[str, ...] = ()
    log_oracles: bool = False


def usual_name(experiment: Experiment) -> str:
    """The default name of a run's folder."""
    return f"{Path(experiment.data_name).stem}-{experiment.protocol}"


def carried_out(asked: RunRequest, tell: Tell, keeping: Keeping | None = None) -> str:
    """Run it, write its folder and its logs, and return the words to print."""
    from coterie.experiments import logs, output
    from coterie.experiments.run import run

    result = run(asked.experiment, asked.data_dir, tell, keeping)
    tell("drawing", 0, 0)
    folder = output.write(result, asked.out or output.free_folder(RUNS, usual_name(result.experiment)))
    logged = []
    if asked.log:
        logged = logs.send(result, logs.wanted(asked.log, asked.log_oracles, in_folder=True), folder)
    if asked.as_json:
        return json_line(result.to_json(str(folder)))
    from coterie.cli._words import words

    return "\n".join([words(result, folder), *(f"log: {place}" for place in logged)])
