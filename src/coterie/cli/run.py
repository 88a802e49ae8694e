"""`coterie run`: train, certify, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli._common import exits, print_json
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.run import Result


def run(
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
        str | None, typer.Option(help="Budget: 1, or one each: 0.5,1,2, or FILE.csv:COLUMN.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of every owner's budget.")] = None,
    calibration: Annotated[str | None, typer.Option(help="certified, paper or noiseless")] = None,
    engine: Annotated[str | None, typer.Option(help="simulate")] = None,
    seed: Annotated[int | None, typer.Option(help="Of partition, sampling and noise.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A protocol setting, KEY=VALUE; repeat.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default runs/DATA-PROTOCOL-N.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; default COTERIE_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Train one model across owners and tell what it cost in privacy. No argument: the demonstration."""
    with exits():
        from coterie.experiments import output
        from coterie.experiments.experiment import Experiment, override, read_toml
        from coterie.experiments.run import run as run_experiment

        given: dict[str, Any] = {
            "protocol": protocol, "data": data, "target": target, "owner_column": owner_column, "bounds": bounds, "owners": owners,
            "partition": partition, "features": features, "loss": loss, "model": model, "topology": topology,
            "gossip_steps": gossip_steps, "delta": delta, "calibration": calibration, "engine": engine, "seed": seed,
        }  # fmt: skip
        given = {key: value for key, value in given.items() if value is not None}
        if epsilon is not None:
            given["epsilon"] = parse_epsilon(epsilon)
        base = read_toml(experiment) if experiment else Experiment()
        if set_:
            given["settings"] = base.settings | parse_settings(set_)
        chosen = override(base, given, "command line")
        folder = out or output.free_folder(Path("runs"), f"{Path(chosen.data).stem}-{chosen.protocol}")
        output.check_folder(folder)
        with progress_bar() as progress:
            result = run_experiment(chosen, data_dir, progress)
        output.write(result, folder)
        if as_json:
            print_json(result.to_json(str(folder)))
        else:
            show(result, chosen, folder)


def parse_epsilon(text: str) -> list[float]:
    """`1`, `0.5,1,2`, or `FILE.csv:COLUMN`.

    >>> parse_epsilon("0.5,1")
    [0.5, 1.0]
    """
    path, separator, column = text.rpartition(":")
    if separator:
        import pandas as pd

        if not Path(path).is_file():
            raise InputError(f"epsilon={text!r}: {path} is not a file. Give FILE.csv:COLUMN, or numbers.")
        frame = pd.read_csv(path)
        if column not in frame:
            raise InputError(f"epsilon={text!r}: no column {column!r}. Columns: {', '.join(frame.columns)}.")
        return [float(value) for value in frame[column]]
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"epsilon={text!r}: must be a number, or numbers with commas, one for each owner."
        ) from None


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


class progress_bar:
    """A bar on standard error, only where somebody can see it."""

    def __enter__(self):
        import sys

        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())
        self._bar.start()
        self._tasks: dict[str, Any] = {}
        return self._tell

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _tell(self, what: str, done: int, of: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=of)
        self._bar.update(self._tasks[what], completed=done, total=of)


def show(result: Result, experiment: Experiment, folder: Path) -> None:
    """The result in words, for people."""
    from rich.console import Console
    from rich.table import Table

    task, console = result.prepared.task, Console(highlight=False)
    console.print(
        f"\n[bold]{experiment.data}[/bold]: {task.owners} owners, {sum(task.sizes):,} records; "
        f"{experiment.protocol} ({experiment.calibration}), {int(result.steps[-1]):,} rounds on a {task.topology.name}"
    )
    metric = Table(box=None, show_header=False, padding=(0, 2))
    metric.add_row(
        f"[bold]{result.metric}[/bold] of the joint private model", f"[bold]{result.joint:.4f}[/bold]"
    )
    metric.add_row(
        "each owner alone, same budget", f"{result.local_mean:.4f}", "[dim]size-weighted mean[/dim]"
    )
    metric.add_row("everyone's records, no privacy", f"{result.central:.4f}", "[dim]the ceiling[/dim]")
    console.print(metric)
    summary = result.to_json(str(folder))["privacy"]
    budget = (
        f"{min(task.epsilon):g}"
        if len(set(task.epsilon)) == 1
        else f"{min(task.epsilon):g} … {max(task.epsilon):g}"
    )
    privacy = Table(box=None, show_header=False, padding=(0, 2))
    privacy.add_row("budget", f"ε = {budget}, δ = {task.delta:g}", "[dim]each owner's own[/dim]")
    claimed = summary["claimed_epsilon"]
    privacy.add_row("claimed", _epsilon(claimed), f"[dim]{result.claim.source}[/dim]")
    worst = _epsilon(summary["certified_epsilon"]["max"])
    privacy.add_row("[bold]certified[/bold]", f"[bold]{worst}[/bold]", f"[dim]{summary['accountant']}[/dim]")
    privacy.add_row("audited", "not yet", "")
    console.print(f"privacy of one {summary['unit']} ({summary['relation']}, {summary['view']})")
    console.print(privacy)
    for line in [summary["reason"], *summary["warnings"]]:
        if line:
            console.print(f"[yellow]note:[/yellow] {line}")
    console.print(f"report: {folder}  ({result.seconds:.1f} s)")


def _epsilon(value: float | str | None) -> str:
    if value is None:
        return "none stated"
    return "ε = ∞" if value == "inf" else f"ε = {value:.4g}"
