"""`coterie plan`: the best certified settings for a budget, a forecast, and whether joining pays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli._common import exits, print_json
from coterie.cli._progress import progress
from coterie.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from coterie.experiments.prepare import Prepared
    from coterie.planning.constants import Constants
    from coterie.planning.join import Answer
    from coterie.planning.join import Point as JoinPoint
    from coterie.planning.public import Collaboration
    from coterie.planning.sweep import Point

app = typer.Typer(
    help="Settings and a forecast from public numbers; plan join: whether joining pays.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def plan(
    context: typer.Context,
    sizes: Annotated[str | None, typer.Option(help="Records of each owner: 1000,2000,500.")] = None,
    owners: Annotated[int | None, typer.Option(help="Instead: how many owners …")] = None,
    records: Annotated[int | None, typer.Option(help="… of how many records each.")] = None,
    dimension: Annotated[
        int | None, typer.Option(help="Features of a record, the constant included.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Classes to tell apart; 1: a regression.")] = 2,
    epsilon: Annotated[
        str, typer.Option(help="Budget: 1; one for each owner: 0.5,1,2; or FILE.csv:COLUMN.")
    ] = "1",
    delta: Annotated[float, typer.Option(help="δ of every owner's budget.")] = 1e-5,
    topology: Annotated[str, typer.Option(help="ring, torus, star, complete, …, or an edge list.")] = "ring",
    rounds_at_most: Annotated[
        int, typer.Option(help="The deadline: each owner speaks once in a round.")
    ] = 200,
    public_rows: Annotated[
        Path | None,
        typer.Option(
            help="CSV or NPY of features that are public, as the model sees them, for the forecast."
        ),
    ] = None,
    public_target: Annotated[
        str | None, typer.Option(help="Column of --public-rows that is to be learnt: sharpens the forecast.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="epsilon or owners: a plan for each of several.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the sweep's picture here (PNG).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """The best certified settings for a budget and a deadline, with the excess risk to expect. Reads no records."""
    if context.invoked_subcommand is not None:
        return
    with exits():
        if out is not None and sweep is None:
            raise InputError("--out: the picture is that of a sweep. Add --sweep epsilon or --sweep owners.")
        base = _collaboration(sizes, owners, records, dimension, classes, epsilon, delta, topology)
        constants = _constants(public_rows, public_target, base)
        if sweep is not None:
            return _sweep(base, sweep, rounds_at_most, constants, out, as_json)
        from coterie.cli._plan_words import to_json, words
        from coterie.planning.search import plan as search

        with progress() as tell:
            tell("planning", 0, 0)
            found = search(base.task(), rounds_at_most, constants)
        if as_json:
            return print_json(to_json(found))
        print(words(base, found, rounds_at_most))


def _collaboration(
    sizes: str | None,
    owners: int | None,
    records: int | None,
    dimension: int | None,
    classes: int,
    epsilon: str,
    delta: float,
    topology: str,
) -> Collaboration:
    from coterie.cli.run import parse_epsilon
    from coterie.planning.public import Collaboration

    if dimension is None:
        raise InputError("dimension=None: say how many features a record has (--dimension).")
    budgets = parse_epsilon(epsilon)
    return Collaboration(
        sizes=_sizes(sizes, owners, records),
        dimension=dimension,
        classes=classes,
        epsilon=tuple(budgets.values() if isinstance(budgets, dict) else budgets),
        delta=delta,
        topology=topology,
    )


def _sizes(sizes: str | None, owners: int | None, records: int | None) -> tuple[int, ...]:
    from coterie import _check

    if sizes is not None:
        if owners is not None or records is not None:
            raise InputError("--sizes: does not go with --owners or --records. Leave one out.")
        try:
            return tuple(int(part) for part in sizes.split(","))
        except ValueError:
            raise InputError(
                f"sizes={sizes!r}: must be whole numbers with commas, one for each owner."
            ) from None
    if owners is None or records is None:
        raise InputError("sizes=None: give --sizes 1000,2000,500, or --owners and --records of each.")
    return (_check.count("records", records),) * _check.count("owners", owners)


def _constants(path: Path | None, target: str | None, base: Collaboration) -> Constants | None:
    """What a file of public rows says: the spectrum, and with a target also what can be learnt, and where."""
    if path is None:
        if target is not None:
            raise InputError(
                f"public_target={target!r}: names a column of --public-rows. Give that file too."
            )
        return None
    import numpy as np

    from coterie.planning.constants import checked_rows, checked_targets, from_public_rows

    names, table = _table(path)
    if target is None:
        return from_public_rows(checked_rows(str(path), table, base.dimension))
    if target not in names:
        known = ", ".join(names) or "none have a name"
        raise InputError(f"public_target={target!r}: no such column in {path}. Columns: {known}.")
    at = names.index(target)
    rows = checked_rows(str(path), np.delete(table, at, axis=1), base.dimension)
    return from_public_rows(rows, checked_targets(target, table[:, at], base.classes), base.classes)


def _table(path: Path) -> tuple[list[str], np.ndarray]:
    """The columns' names (an NPY has none) and the numbers of a CSV with one line of names, or an NPY."""
    import numpy as np

    try:
        if path.suffix == ".npy":
            return [], np.load(path)
        with path.open(encoding="utf-8") as file:
            names = [name.strip() for name in file.readline().split(",")]
            return names, np.loadtxt(file, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not numbers in columns below one line of names"
        raise InputError(f"public_rows={str(path)!r}: cannot be read ({reason}). Give CSV or NPY.") from error


def _sweep(
    base: Collaboration, over: str, most: int, constants: Constants | None, out: Path | None, as_json: bool
) -> None:
    from coterie import _check
    from coterie.cli._plan_words import sweep_table, to_json
    from coterie.planning.sweep import sweep

    _check.one_of("sweep", over, ("epsilon", "owners"))
    place(out)
    base.task()  # every mistake in the input shows before any work
    with progress() as tell:
        points = sweep(base, over, most, constants, lambda done, of: tell("planning", done, of))  # type: ignore[arg-type]
    if out is not None:
        _picture(points, over, base, out)
    if as_json:
        rows = [{over: point.at, **to_json(point.plan)} for point in points]
        return print_json({"sweep": over, "points": rows, "out": None if out is None else str(out)})
    print(sweep_table(points, over))
    if out is not None:
        print(f"written: {out}")


def _picture(points: list[Point], over: str, base: Collaboration, out: Path) -> None:
    import numpy as np

    from coterie.reports.planning import Band, forecast_over

    def column(name: str) -> np.ndarray:
        return np.array([getattr(point.plan.best, name) for point in points])

    band = Band(np.array([point.at for point in points]), column("predicted"), column("low"), column("high"))
    title = f"What a budget buys: {base.dimension:,} features, {base.classes} classes, δ = {base.delta:g}"
    xlabel = (
        "everyone's ε"
        if over == "epsilon"
        else f"owners of {round(sum(base.sizes) / len(base.sizes)):,} records"
    )
    forecast_over(band, points[0].plan.nothing, xlabel, title).savefig(out)


def place(out: Path | None) -> None:
    """A picture goes into a folder that exists, under a name that says what it is."""
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
    target: Annotated[str | None, typer.Option(help="Column of your file that is to be learnt.")] = None,
    owner_column: Annotated[
        str | None,
        typer.Option(help="Column that says whose a row is. None: all rows of the file are yours."),
    ] = None,
    bounds: Annotated[str | None, typer.Option(help="File with the public ranges of your columns.")] = None,
    features: Annotated[str | None, typer.Option(help="Cost-free feature maps, such as scale,ball.")] = None,
    partners: Annotated[int, typer.Option(help="How many others would take part …")] = 5,
    partner_records: Annotated[int, typer.Option(help="… with how many records each.")] = 1000,
    epsilon: Annotated[float, typer.Option(help="Everyone's budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of everyone's budget.")] = 1e-5,
    topology: Annotated[str, typer.Option(help="ring, complete, exponential, …")] = "ring",
    rounds_at_most: Annotated[
        int, typer.Option(help="The deadline: each owner speaks once in a round.")
    ] = 200,
    out: Annotated[Path | None, typer.Option(help="Write the picture here (PNG).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; default COTERIE_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Whether joining pays for one owner. Reads that owner's rows, here; the answer is not a release."""
    with exits():
        place(out)
        from coterie.cli._plan_words import join_json, join_words
        from coterie.experiments.experiment import Experiment
        from coterie.experiments.prepare import prepare
        from coterie.planning.join import ask, look
        from coterie.planning.public import Collaboration

        with progress() as tell:
            tell("loading data", 0, 0)
            chosen = Experiment(
                data=data,
                target=target,
                owner_column=owner_column,
                owners=1 if _own_file(data, owner_column) else None,
                bounds=bounds,
                features=features,
                topology="complete",
                delta=delta,
                epsilon=(epsilon,),
            )
            whose = None if _own_file(data, owner_column) else owner
            x, y, classes = rows_of(prepare(chosen, data_dir), whose)
            base = Collaboration(
                sizes=(len(y),),
                dimension=x.shape[1],
                classes=classes,
                epsilon=(epsilon,),
                delta=delta,
                topology=topology,
            )
            tell("planning", 0, 0)
            answer = ask(look(x, y, classes), base, partners, partner_records, rounds_at_most)
        if out is not None:
            _join_picture(answer, owner, epsilon, partners, out)
        if as_json:
            return print_json({"owner": owner, **join_json(answer), "out": None if out is None else str(out)})
        print(join_words(answer, owner, epsilon, partners, partner_records))
        if out is not None:
            print(f"written: {out}")


def _own_file(data: str, owner_column: str | None) -> bool:
    """Whether the file holds the asking owner's records and nobody else's."""
    from coterie.experiments.prepare import FILES

    return owner_column is None and Path(data).suffix.lower() in FILES


def rows_of(prepared: Prepared, owner: str | None) -> tuple[np.ndarray, np.ndarray, int]:
    """The asking owner's features and targets, and how many classes there are; nobody else's rows are looked at.

    None: there is one owner alone, whatever it is called.
    """
    names = prepared.partition.names
    owner = names[0] if owner is None else owner
    if owner not in names:
        few = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        raise InputError(f"owner={owner!r}: unknown. Owners: {few}.")
    at = names.index(owner)
    classes = 1 if prepared.table.task == "regression" else max(len(prepared.table.classes), 2)
    return *prepared.shards.of(at), classes


def _join_picture(answer: Answer, owner: str, epsilon: float, partners: int, out: Path) -> None:
    import numpy as np

    from coterie.reports.planning import Band, join_over

    def band(points: tuple[JoinPoint, ...]) -> Band:
        rows = np.array([(one.at, one.predicted, one.low, one.high) for one in points])
        return Band(*rows.T)

    title = f"{owner}: join {partners} partners, or stay alone?"
    asked = (epsilon, float(partners))
    figure = join_over(
        band(answer.over_epsilon), band(answer.over_partners), answer.owner.excess, asked, title
    )
    figure.savefig(out)
