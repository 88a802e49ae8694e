"""`coterie plan`: the best certified settings for a budget, a forecast, and whether joining pays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie import _check
from coterie.cli import _plan_asked as asked
from coterie.cli import _shared as options
from coterie.cli._common import App, print_json
from coterie.cli._progress import progress
from coterie.errors import InputError
from coterie.reports.amounts import many

if TYPE_CHECKING:
    import numpy as np

    from coterie.experiments.prepare import Prepared
    from coterie.planning.constants import Constants
    from coterie.planning.join import JoinAnswer, Point
    from coterie.planning.metric import Exchange
    from coterie.planning.public import Consortium
    from coterie.planning.sweep import SweepPoint

app = App(
    help="Settings and a forecast from public numbers; plan join: whether joining pays.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

Deadline = Annotated[int, typer.Option(help="The deadline: each owner speaks once in a round.")]


@app.callback()
def plan(
    context: typer.Context,
    sizes: Annotated[str | None, typer.Option(help="Records of each owner: 1000,2000,500.")] = None,
    owners: Annotated[
        int | None, typer.Option(help="In place of --sizes: how many owners, with --records each.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="With --owners: how many records each of them has.")
    ] = None,
    dimension: Annotated[
        int | None, typer.Option(help="Features of a record, the constant included.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Classes to tell apart; 1: a regression.")] = 2,
    epsilon: Annotated[
        str, typer.Option(help="Budget: 1; one for each owner: 0.5,1,2; or FILE.csv:COLUMN.")
    ] = "1",
    delta: Annotated[float, typer.Option(help="δ of every owner's budget.")] = 1e-5,
    topology: Annotated[str, typer.Option(help="ring, torus, star, complete, …, or an edge list.")] = "ring",
    protocol: Annotated[
        str | None, typer.Option(help="Plan this protocol; default: all that have a forecast.")
    ] = None,
    colluding: Annotated[
        int | None, typer.Option(help="Add under masks; so many of the other owners may collude.")
    ] = None,
    rounds_at_most: Deadline = 200,
    evaluate: options.Evaluate = None,
    public_rows: Annotated[
        Path | None,
        typer.Option(
            help="CSV or NPY of features that are public, as the model sees them, for the forecast."
        ),
    ] = None,
    public_target: Annotated[
        str | None, typer.Option(help="Column of --public-rows that is to be learnt: sharpens the forecast.")
    ] = None,
    base_rate: options.BaseRate = None,
    unit: Annotated[
        str, typer.Option(help="Whom to protect: record, or owner: all that one owner holds.")
    ] = "record",
    records_per_person: Annotated[
        str | None,
        typer.Option(
            help="Protect persons, not records, who have so many: a mean, 5, or shares of them, 1:0.5,4:0.3,20:0.2."
        ),
    ] = None,
    records_per_unit: Annotated[
        int | None,
        typer.Option(
            help="With units of several records: the most that a unit keeps; default 20, of an owner 1000."
        ),
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="epsilon or owners: a plan for each of several.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the sweep's picture here (PNG).")] = None,
    as_json: options.AsJson = False,
) -> None:
    """The best certified settings for a budget and a deadline, with the excess risk to expect. Reads no records."""
    if context.invoked_subcommand is not None:
        return
    if out is not None and sweep is None:
        raise InputError("--out: the picture is that of a sweep. Add --sweep epsilon or --sweep owners.")
    _check.count("rounds_at_most", rounds_at_most)
    share = asked.share(evaluate, sweep)
    if sweep is not None and (protocol is not None or colluding is not None):
        raise InputError(
            "--sweep: takes the best protocol at every point. Leave --protocol, --colluding out."
        )
    base = asked.consortium(sizes, owners, records, dimension, classes, epsilon, delta, topology)
    base, persons = asked.protecting(base, unit, records_per_person, records_per_unit)
    asked.check_rate(base_rate, classes, public_target)
    constants, exchange = asked.public(public_rows, public_target, base, base_rate, persons)
    if sweep is not None:
        return _sweep(base, sweep, rounds_at_most, (constants, exchange), out, as_json)
    from coterie.cli._plan_words import Told, all_json, words
    from coterie.planning.caps import compare
    from coterie.planning.evaluation import after, foreseen
    from coterie.planning.gains import by_sizes
    from coterie.planning.search import plan as search
    from coterie.units import RECORD

    task = base.task()
    table = foreseen(task, base.classes, share)
    with progress() as tell:
        trained = after(task, share) if share else task
        best = search(trained, rounds_at_most, constants, tell, protocol, colluding)
        caps = compare(trained, best, rounds_at_most, constants, colluding) if base.unit != RECORD else ()
    who = by_sizes(trained, best)
    advice = Told(base, rounds_at_most, best, exchange, table, share, caps, who)
    return print_json(all_json(advice)) if as_json else print(words(advice))


def _sweep(
    base: Consortium,
    over: str,
    most: int,
    rests: tuple[Constants, Exchange],
    out: Path | None,
    as_json: bool,
) -> None:
    from coterie.cli._plan_words import sweep_table, to_json
    from coterie.planning.sweep import sweep

    _check.one_of("sweep", over, ("epsilon", "owners"))
    place(out)
    base.task()  # every mistake in the input shows before any work
    with progress() as tell:
        points = sweep(base, over, most, rests[0], lambda done, of: tell("planning", done, of))  # type: ignore[arg-type]
    if out is not None:
        _picture(points, over, base, out)
    if as_json:
        rows = [{over: point.at, **to_json(point.plan, rests[1])} for point in points]
        return print_json({"sweep": over, "points": rows, "out": None if out is None else str(out)})
    print(sweep_table(points, over, rests[1]))
    if out is not None:
        print(f"written: {out}")


def _picture(points: list[SweepPoint], over: str, base: Consortium, out: Path) -> None:
    import numpy as np

    from coterie.reports.planning import ForecastBand, forecast_over
    from coterie.units import counted

    def column(name: str) -> np.ndarray:
        return np.array([getattr(point.plan.best, name) for point in points])

    band = ForecastBand(
        np.array([point.at for point in points]), column("predicted"), column("low"), column("high")
    )
    title = f"What a budget buys: {many(base.dimension, 'feature')}, {many(base.classes, 'class')}, δ = {base.delta:g}"
    xlabel = (
        "everyone's ε"
        if over == "epsilon"
        else f"owners of {counted(round(sum(base.sizes) / len(base.sizes)), base.unit.words)}"
    )
    forecast_over(band, points[0].plan.nothing, xlabel, title).savefig(out)


def place(out: Path | None) -> None:
    """InputError unless the picture's folder exists and its name ends in .png."""
    if out is None:
        return
    if out.suffix.lower() != ".png":
        raise InputError(f"out={str(out)!r}: must end in .png.")
    if not out.parent.is_dir():
        raise InputError(f"out={str(out)!r}: its folder does not exist. Create it first.")


@app.command()
def join(
    owner: Annotated[str, typer.Option(help="Who asks: only this owner's rows are used.")],
    data: Annotated[str, typer.Option(help="A data set's name, or a CSV, Parquet or NPZ file.")],
    target: options.Target = None,
    owner_column: Annotated[
        str | None,
        typer.Option(help="Column that says whose a row is. None: all rows of the file are yours."),
    ] = None,
    columns: options.Columns = None,
    features: options.Features = None,
    partners: Annotated[int, typer.Option(help="How many others would take part …")] = 5,
    partner_records: Annotated[int, typer.Option(help="… with how many records each.")] = 1000,
    epsilon: Annotated[float, typer.Option(help="Everyone's budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of everyone's budget.")] = 1e-5,
    topology: Annotated[str, typer.Option(help="ring, complete, exponential, …")] = "ring",
    rounds_at_most: Deadline = 200,
    out: Annotated[Path | None, typer.Option(help="Write the picture here (PNG).")] = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Whether joining pays for one owner. Reads that owner's rows, here; the answer is not a release."""
    place(out)
    _check.count("rounds_at_most", rounds_at_most)
    from coterie.experiments.experiment import Experiment

    chosen = Experiment(
        data=data,
        target=target,
        owner_column=owner_column,
        owners=1 if _own_file(data, owner_column) else None,
        columns=columns,
        features=features,
        topology="complete",
        delta=delta,
        epsilon=(epsilon,),
        unit="record",
    )
    from coterie.cli import _join_words
    from coterie.cli._words import about_file
    from coterie.planning.join import ask, check_asked, look
    from coterie.planning.public import Consortium

    check_asked(topology, partners, partner_records)
    from coterie.experiments.prepare import prepare

    with progress() as tell:
        tell("loading data", 0, 0)
        whose = None if _own_file(data, owner_column) else owner
        prepared = prepare(chosen, data_dir)
        x, y, classes = rows_of(prepared, whose)
        base = Consortium(
            sizes=(len(y),),
            dimension=x.shape[1],
            classes=classes,
            epsilon=(epsilon,),
            delta=delta,
            topology=topology,
        )
        own = look(x, y, classes, tell)
        answer = ask(own, base, partners, partner_records, rounds_at_most, tell)
    if out is not None:
        _join_picture(answer, owner, epsilon, partners, out)
    if as_json:
        return print_json(
            {"owner": owner, **_join_words.to_json(answer), "out": None if out is None else str(out)}
        )
    print(_join_words.words(answer, owner, epsilon, partners, partner_records))
    table = prepared.table
    for line in about_file(table, table.findings if whose is None else (), warn=True):
        print(line)  # findings count all rows, so they are shown only if all are the asking owner's
    if out is not None:
        print(f"written: {out}")


def _own_file(data: str, owner_column: str | None) -> bool:
    """Whether the file holds the asking owner's records and nobody else's."""
    from coterie.problems.names import READERS

    return owner_column is None and Path(data).suffix.lower() in READERS


def rows_of(prepared: Prepared, owner: str | None) -> tuple[np.ndarray, np.ndarray, int]:
    """The asking owner's features and targets, and the number of classes; nobody else's rows are read.

    `owner` None: all rows are the asking owner's.
    """
    names = prepared.partition.names
    owner = names[0] if owner is None else owner
    if owner not in names:
        few = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        raise InputError(f"owner={owner!r}: unknown. Owners: {few}.{_check.meant(owner, names)}")
    at = names.index(owner)
    classes = 1 if prepared.table.task == "regression" else max(len(prepared.table.classes), 2)
    return *prepared.shards.of(at), classes


def _join_picture(answer: JoinAnswer, owner: str, epsilon: float, partners: int, out: Path) -> None:
    import numpy as np

    from coterie.reports.planning import ForecastBand, join_over

    def band(points: tuple[Point, ...]) -> ForecastBand:
        rows = np.array([(point.at, point.predicted, point.low, point.high) for point in points])
        return ForecastBand(*rows.T)

    title = f"{owner}: join {many(partners, 'partner')}, or stay alone?"
    asked = (epsilon, float(partners))
    figure = join_over(
        band(answer.over_epsilon), band(answer.over_partners), answer.owner.excess, asked, title
    )
    figure.savefig(out)
