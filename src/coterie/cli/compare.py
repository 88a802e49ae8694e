"""`coterie compare`: protocols beside each other, over budgets and seeds."""

from __future__ import annotations

import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import _shared as options
from coterie.cli._cache import keep_compiled
from coterie.cli._common import json_line
from coterie.cli._progress import progress
from coterie.cli.run import RUNS, parse_settings
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.experiments.comparing.question import Comparison

PARTLY = 1  # status: some cells were refused, all others are done


def compare(
    context: typer.Context,
    comparison: Annotated[
        Path | None, typer.Argument(help="A comparison file (TOML); options override it.")
    ] = None,
    protocols: Annotated[
        str | None, typer.Option(help="Protocols with commas; differences are from the first.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="Everybody's budgets with commas: 0.5,1,4.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds of noise and sampling.")] = None,
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
    model: Annotated[str | None, typer.Option(help="linear or two_layer")] = None,
    topology: options.Topology = None,
    gossip_steps: options.GossipSteps = None,
    delta: options.Delta = None,
    calibration: options.Calibration = None,
    microbatch: options.Microbatch = None,
    seed: Annotated[int | None, typer.Option(help="The first seed, and that of the partition.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="What is compared: accuracy, auc, recall, log_loss, mse, r2, …")
    ] = None,
    base_rate: options.BaseRate = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, PROTOCOL.KEY=VALUE; a list is a grid; repeat."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default runs/DATA-compare-DIGEST.")] = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Protocols beside each other, over budgets and seeds, each cell certified. Killed, it goes on where it was."""
    started = time.perf_counter()
    own = {"protocols": protocols, "epsilon": epsilon, "seeds": seeds}
    chosen = choose(comparison, context.params, own, set_ or [])
    from coterie.experiments import output
    from coterie.experiments.comparing.compare import compare as run

    folder = output.check_place(out or RUNS / _name(chosen))
    keep_compiled()
    try:
        with progress() as tell:
            compared = run(chosen, folder, data_dir, tell)
    except KeyboardInterrupt:
        print(f"finished cells are kept in {folder}; the same command goes on from there.", file=sys.stderr)
        raise
    for file in compared.damaged:
        print(f"note: {file} was damaged; that cell was done again.", file=sys.stderr)
    if as_json:
        print(json_line(compared.found | {"kept": compared.kept, "out": str(folder)}))
    else:
        from coterie.cli._compare_words import words

        print(words(compared, folder, time.perf_counter() - started))
    if compared.refused:
        raise typer.Exit(PARTLY)


def choose(file: Path | None, options: dict[str, Any], own: dict[str, Any], pairs: list[str]) -> Comparison:
    """The comparison of a file, or the demonstration, changed by the options."""
    from coterie.experiments.comparing.question import from_keys, read_toml
    from coterie.experiments.experiment import Experiment

    keys = {field.name for field in fields(Experiment)} - {"epsilon"}
    given = {key: value for key, value in options.items() if key in keys and value is not None}
    if own["protocols"] is not None:
        given["protocols"] = [name.strip() for name in own["protocols"].split(",") if name.strip()]
    if own["epsilon"] is not None:
        given["epsilon"] = _numbers(own["epsilon"])
    if own["seeds"] is not None:
        given["seeds"] = own["seeds"]
    if pairs:
        given["settings"] = _by_protocol(pairs)
    return read_toml(file, given) if file else from_keys(given, "command line")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"epsilon={text!r}: must be numbers with commas, such as 0.5,1,4.") from None


def _by_protocol(pairs: list[str]) -> dict[str, dict[str, Any]]:
    settings: dict[str, dict[str, Any]] = {}
    for key, value in parse_settings(pairs).items():
        protocol, dot, name = key.partition(".")
        if not dot or not name:
            raise InputError(f"--set {key}: must look like PROTOCOL.KEY=VALUE, such as push_sum.rounds=50.")
        settings.setdefault(protocol, {})[name] = value
    return settings


def _name(comparison: Comparison) -> str:
    """The default folder's name, the same for the same question, so that a repeated command continues."""
    from coterie.experiments.comparing.store import identity
    from coterie.experiments.kept import digest

    return f"{Path(comparison.shared.data).stem}-compare-{digest(identity(comparison))[:8]}"
