"""`coterie run`: train, certify, report."""

from __future__ import annotations

import csv
import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import _shared as options
from coterie.cli._cache import keep_compiled
from coterie.cli._folders import RUNS, RunRequest, carried_out, usual_name
from coterie.cli._progress import progress
from coterie.cli._spread import Spread, check_unused, run_spread
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment


def run(
    context: typer.Context,
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file (TOML); options override it.")
    ] = None,
    protocol: options.Protocol = None,
    data: options.Data = None,
    target: options.Target = None,
    owner_column: options.OwnerColumn = None,
    columns: options.Columns = None,
    owners: options.Owners = None,
    partition: options.Partition = None,
    unit: options.Unit = None,
    records_per_unit: options.RecordsPerUnit = None,
    unit_mean: options.UnitMean = None,
    latest: options.Latest = None,
    owners_per_person: options.OwnersPerPerson = None,
    features: options.Features = None,
    loss: options.Loss = None,
    model: Annotated[str | None, typer.Option(help="linear, two_layer, or one of a plug-in.")] = None,
    topology: options.Topology = None,
    gossip_steps: options.GossipSteps = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Budget: 1; one for each owner: 0.5,1,2; or FILE.csv:COLUMN.")
    ] = None,
    delta: options.Delta = None,
    evaluate: options.Evaluate = None,
    hold_out: options.HoldOut = None,
    evaluate_by: options.EvaluateBy = None,
    select: options.Select = None,
    centre: options.Centre = None,
    calibration: options.Calibration = None,
    engine: Annotated[
        str | None, typer.Option(help="simulate, or spmd: over devices, processes and hosts.")
    ] = None,
    microbatch: options.Microbatch = None,
    processes: Annotated[int, typer.Option(help="spmd: how many processes, started here.")] = 1,
    coordinator: Annotated[
        str | None, typer.Option(help="spmd over hosts: HOST:PORT of process 0. Start each process yourself.")
    ] = None,
    process_id: Annotated[int | None, typer.Option(help="spmd over hosts: which process this is.")] = None,
    timeout: Annotated[float, typer.Option(help="spmd over hosts: seconds to wait for the others.")] = 60.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="spmd: file to continue from; default beside --out.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="spmd: continue from the checkpoint.")] = False,
    seed: Annotated[int | None, typer.Option(help="Of partition, sampling and noise.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="What is shown first: accuracy, auc, recall, log_loss, mse, r2, …")
    ] = None,
    base_rate: options.BaseRate = None,
    class_weight: Annotated[
        str | None, typer.Option(help="balanced: both classes count alike, by the base rate.")
    ] = None,
    threshold: Annotated[
        str | None, typer.Option(help="When the second class is predicted: a probability, or base_rate.")
    ] = None,
    sweep: Annotated[
        str | None, typer.Option(help="epsilon: simulate other budgets too, for accuracy over ε.")
    ] = None,
    set_: options.Set = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default runs/DATA-PROTOCOL-N.")] = None,
    data_dir: options.DataDir = None,
    log: Annotated[
        list[str] | None, typer.Option(help="jsonl[:FILE], tensorboard[:FOLDER] or mlflow[:URI]; repeat.")
    ] = None,
    log_oracles: Annotated[
        bool, typer.Option("--log-oracles", help="Log values of private records, too: for your own eyes.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train one model across owners and tell what it cost in privacy. No argument: the demonstration."""
    chosen = choose(experiment, context.params, epsilon, set_ or [])
    from coterie.experiments import output

    output.check_place(out or RUNS / usual_name(chosen))
    if out is not None:
        output.check_folder(out)
    where = Spread(processes, coordinator, process_id, timeout, checkpoint, resume)
    asked = RunRequest(chosen, data_dir, out, as_json, tuple(log or ()), log_oracles)
    if log or log_oracles:
        from coterie.experiments.logs import wanted

        wanted(asked.log, log_oracles, in_folder=True)  # before any work
    with progress() as tell:
        if chosen.engine == "spmd":
            text = run_spread(asked, where, tell)
        else:
            check_unused(where, chosen.engine)
            keep_compiled()
            text = carried_out(asked, tell)
    print(text)


def choose(file: Path | None, options: dict[str, Any], epsilon: str | None, pairs: list[str]) -> Experiment:
    """The experiment of a file, or the demonstration, changed by the options.

    An option that is named like a key of the experiment is that key; `--epsilon` and `--set` are read first.
    """
    from coterie.experiments.experiment import Experiment, override, read_toml

    base = read_toml(file) if file else Experiment()
    keys = {field.name for field in fields(Experiment)} - {"epsilon"}
    given = {key: value for key, value in options.items() if key in keys and value is not None}
    if "threshold" in given:
        given["threshold"] = parse_threshold(given["threshold"])
    if epsilon is not None:
        given["epsilon"] = parse_epsilon(epsilon, given.get("owner_column", base.owner_column) or "owner")
    if pairs:
        given["settings"] = base.settings | parse_settings(pairs)
    return override(base, given, "command line")


def parse_epsilon(text: str, owner: str | None = None) -> list[float] | dict[str, float]:
    """`1`, `0.5,1,2`, or `FILE.csv:COLUMN`, which goes by the names in the column `owner`; None: owners have none.

    >>> parse_epsilon("0.5,1")
    [0.5, 1.0]
    """
    path, separator, column = text.rpartition(":")
    if separator:
        return _budgets_of(Path(path), column, owner)
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"epsilon={text!r}: must be a number, numbers with commas (one for each owner), or FILE.csv:COLUMN."
        ) from None


def parse_threshold(text: str | None) -> float | str | None:
    """A probability, or the word that an experiment knows."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _budgets_of(path: Path, column: str, owner: str | None) -> list[float] | dict[str, float]:
    """One row for each owner; by its name, unless there is nothing in the file but budgets."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            rows, header = list(reader), list(reader.fieldnames or [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "not a CSV file in UTF-8"
        raise InputError(
            f"epsilon: {str(path)!r} cannot be read ({reason}). Give FILE.csv:COLUMN, or numbers."
        ) from error
    if not rows or column not in header:
        known = ", ".join(header) if rows else "none, no rows"
        raise InputError(f"epsilon: no column {column!r} in {path}. Its columns: {known}.")
    try:
        values = [float(row[column]) for row in rows]
    except ValueError:
        raise InputError(f"epsilon: column {column!r} of {path} holds something that is no number.") from None
    if owner is None:
        return values
    whose = next((name for name in (owner, "owner") if name in header and name != column), None)
    if whose is None:
        return _in_order(path, column, owner, header, values)
    names = [row[whose] for row in rows]
    if len(set(names)) < len(names):
        raise InputError(f"epsilon: {path} names an owner twice in {whose!r}. Give each owner one row.")
    return dict(zip(names, values))


def _in_order(path: Path, column: str, owner: str, header: list[str], values: list[float]) -> list[float]:
    """Budgets without names. Refused where the file may have names, or one budget would go to all owners."""
    if header != [column]:
        raise InputError(
            f"epsilon: {path} has no column {owner!r} that says whose a budget is; it has {', '.join(header)}. "
            f"Call one {owner!r}, or leave {column!r} alone, for owners in the order of their names."
        )
    if len(values) == 1:
        raise InputError(
            f"epsilon: {path} has one row, and needs one for each owner. One budget for all is --epsilon {values[0]:g}."
        )
    return values


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is a number, true, false, or text."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {pair!r}: must look like KEY=VALUE.")
        try:
            settings[key] = json.loads(value)
        except (ValueError, RecursionError):  # no JSON, or more digits or brackets than are read
            settings[key] = value
    return settings
