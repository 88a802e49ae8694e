"""`coterie run`: train, certify, report."""

from __future__ import annotations

import csv
import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli._cache import keep_compiled
from coterie.cli._common import exits, json_line
from coterie.cli._progress import Tell, progress
from coterie.cli._spread import Asked, Spread, check_unused, run_spread
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.run import Result

RUNS = Path("runs")  # where results go when --out is not given


def run(
    context: typer.Context,
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file (TOML); options override it.")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Which protocol, such as dual_averaging.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A data set's name, or a CSV, Parquet or NPZ file.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of your file that is to be learnt.")] = None,
    owner_column: Annotated[
        str | None, typer.Option(help="Column of your file that says whose a row is.")
    ] = None,
    bounds: Annotated[str | None, typer.Option(help="File with the public ranges of your columns.")] = None,
    owners: Annotated[int | None, typer.Option(help="How many owners share the data.")] = None,
    partition: Annotated[
        str | None, typer.Option(help="iid, column, dirichlet:0.3, two_groups:4, random_sizes:50")
    ] = None,
    features: Annotated[str | None, typer.Option(help="Cost-free feature maps, such as scale,ball.")] = None,
    loss: Annotated[
        str | None, typer.Option(help="logistic, softmax, one_vs_all, squared, hinge, huber")
    ] = None,
    model: Annotated[str | None, typer.Option(help="linear or two_layer")] = None,
    topology: Annotated[
        str | None, typer.Option(help="ring, torus, star, complete, …, or an edge list.")
    ] = None,
    gossip_steps: Annotated[int | None, typer.Option(help="Mixing steps for each release.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Budget: 1; one for each owner: 0.5,1,2; or FILE.csv:COLUMN.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of every owner's budget.")] = None,
    calibration: Annotated[str | None, typer.Option(help="certified, paper or noiseless")] = None,
    engine: Annotated[
        str | None, typer.Option(help="simulate, or spmd: over devices, processes and hosts.")
    ] = None,
    microbatch: Annotated[
        int | None, typer.Option(help="Records of an owner worked on at once: memory and speed only.")
    ] = None,
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
    sweep: Annotated[
        str | None, typer.Option(help="epsilon: simulate other budgets too, for accuracy over ε.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A protocol setting, KEY=VALUE; repeat.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default runs/DATA-PROTOCOL-N.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; default COTERIE_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Train one model across owners and tell what it cost in privacy. No argument: the demonstration."""
    with exits():
        chosen = choose(experiment, context.params, epsilon, set_ or [])
        from coterie.experiments import output

        output.check_place(out or RUNS / name(chosen))
        if out is not None:
            output.check_folder(out)
        where = Spread(processes, coordinator, process_id, timeout, checkpoint, resume)
        asked = Asked(chosen, data_dir, out, as_json)
        with progress() as tell:
            text = (
                run_spread(asked, where, tell) if chosen.engine == "spmd" else _run_here(asked, where, tell)
            )
        print(text)


def _run_here(asked: Asked, where: Spread, tell: Tell) -> str:
    check_unused(where, asked.experiment.engine)
    from coterie.experiments.run import run as run_experiment

    keep_compiled()
    result = run_experiment(asked.experiment, asked.data_dir, tell)
    tell("drawing", 0, 0)
    return written(result, asked.out, asked.as_json)


def written(result: Result, out: Path | None, as_json: bool) -> str:
    """Write the run's folder, and say what it holds."""
    from coterie.experiments import output

    folder = output.write(result, out or output.free_folder(RUNS, name(result.experiment)))
    if as_json:
        return json_line(result.to_json(str(folder)))
    from coterie.cli._words import words

    return words(result, folder)


def choose(file: Path | None, options: dict[str, Any], epsilon: str | None, pairs: list[str]) -> Experiment:
    """The experiment of a file, or the demonstration, with what the options say instead.

    An option that is named like a key of the experiment is that key; `--epsilon` and `--set` are read first.
    """
    from coterie.experiments.experiment import Experiment, override, read_toml

    base = read_toml(file) if file else Experiment()
    keys = {one.name for one in fields(Experiment)} - {"epsilon"}
    given = {key: value for key, value in options.items() if key in keys and value is not None}
    if epsilon is not None:
        given["epsilon"] = parse_epsilon(epsilon, given.get("owner_column", base.owner_column) or "owner")
    if pairs:
        given["settings"] = base.settings | parse_settings(pairs)
    return override(base, given, "command line")


def name(experiment: Experiment) -> str:
    """What a run's folder is called when nobody names it."""
    return f"{Path(experiment.data).stem}-{experiment.protocol}"


def parse_epsilon(text: str, owner: str = "owner") -> list[float] | dict[str, float]:
    """`1`, `0.5,1,2`, or `FILE.csv:COLUMN`, which goes by name where the file has the column `owner`.

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


def _budgets_of(path: Path, column: str, owner: str) -> list[float] | dict[str, float]:
    """One row for each owner."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "not a CSV file in UTF-8"
        raise InputError(
            f"epsilon: {str(path)!r} cannot be read ({reason}). Give FILE.csv:COLUMN, or numbers."
        ) from error
    if not rows or column not in rows[0]:
        known = ", ".join(rows[0]) if rows else "none, no rows"
        raise InputError(f"epsilon: no column {column!r} in {path}. Its columns: {known}.")
    try:
        values = [float(row[column]) for row in rows]
    except ValueError:
        raise InputError(f"epsilon: column {column!r} of {path} holds something that is no number.") from None
    if owner not in rows[0]:
        return values
    names = [row[owner] for row in rows]
    if len(set(names)) < len(names):
        raise InputError(f"epsilon: {path} names an owner twice in {owner!r}. Give each owner one row.")
    return dict(zip(names, values))


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is a number, true, false, or text."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {pair!r}: must look like KEY=VALUE.")
        try:
            found[key] = json.loads(value)
        except json.JSONDecodeError:
            found[key] = value
    return found
