"""`coterie run --engine spmd`: in this process, in several here, or as one of many on other hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from coterie.cli._folders import RUNS, RunRequest, carried_out, usual_name
from coterie.cli._progress import Tell
from coterie.errors import InputError


class Spread(NamedTuple):
    """The options about processes."""

    processes: int
    coordinator: str | None
    process_id: int | None
    timeout: float
    checkpoint: Path | None
    resume: bool


def check_unused(where: Spread, engine: str) -> None:
    """Refuse options that only mean something over processes."""
    given = {
        "processes": where.processes if where.processes != 1 else None,
        "coordinator": where.coordinator,
        "process_id": where.process_id,
        "checkpoint": where.checkpoint,
        "resume": where.resume or None,
    }
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name}={value}: means nothing to engine={engine!r}. Add --engine spmd.")


def run_spread(asked: RunRequest, where: Spread, tell: Tell) -> str:
    """Run over all devices of all processes; return the words to print."""
    if (where.coordinator is None) != (where.process_id is None):
        raise InputError(
            f"coordinator={where.coordinator}, process_id={where.process_id}: go together. "
            "Give both for several hosts, neither to start all processes here."
        )
    file = _checkpoint(asked, where)
    if where.processes == 1 and where.coordinator is None:
        return in_this_process(asked, file, where.resume, tell)
    from coterie.cli._supervise import cores, here, supervise
    from coterie.engines.processes import Place, check_place

    alone = where.coordinator is None
    place = Place(where.coordinator or here(), where.process_id or 0, where.processes, where.timeout)
    check_place(place)
    job: dict[str, Any] = {
        "experiment": asked.experiment.to_toml(),
        "data_dir": None if asked.data_dir is None else str(asked.data_dir),
        "out": None if asked.out is None else str(asked.out),
        "json": asked.as_json,
        "log": list(asked.log),
        "log_oracles": asked.log_oracles,
        "checkpoint": str(file),
        "resume": where.resume,
        **place._asdict(),
        "cores": [],
    }
    if not alone:
        return supervise([job], tell)
    ids = range(place.processes)
    return supervise([job | {"process": at, "cores": cores(at, place.processes)} for at in ids], tell)


def in_this_process(asked: RunRequest, file: Path, resume: bool, tell: Tell) -> str:
    """Carry out the run in the process that writes: train, write the folder, then delete the checkpoint."""
    from coterie.experiments.training import Keeping

    text = carried_out(asked, tell, Keeping(file, resume))
    file.unlink(missing_ok=True)
    return text


def _checkpoint(asked: RunRequest, where: Spread) -> Path:
    """The checkpoint's file; an existing one is never overwritten by another run."""
    folder = asked.out or RUNS / usual_name(asked.experiment)
    file = where.checkpoint or folder.with_name(f"{folder.name}.checkpoint")
    if where.process_id in (None, 0) and not where.resume and file.exists():
        raise InputError(
            f"checkpoint={str(file)!r}: exists, of a run that did not end. Add --resume, delete it, or name another."
        )
    return file
