"""The question of `coterie plan`, from its options: owners, budgets, units, and public facts about records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coterie import _check
from coterie.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from coterie.planning.constants import Constants
    from coterie.planning.metric import Exchange
    from coterie.planning.persons import Persons
    from coterie.planning.public import Consortium


def share(evaluate: float | None, sweep: str | None) -> float:
    """The evaluation's share of the budget; 0 where the evaluation is only forecast."""
    from coterie.experiments.experiment import Experiment

    if evaluate is not None and sweep is not None:
        raise InputError("--evaluate: a sweep's plans are of training alone. Leave one out.")
    return Experiment(evaluate=evaluate or 0.0).evaluate


def consortium(
    sizes: str | None,
    owners: int | None,
    records: int | None,
    dimension: int | None,
    classes: int,
    epsilon: str,
    delta: float,
    topology: str,
) -> Consortium:
    from coterie.cli.run import parse_epsilon
    from coterie.experiments.experiment import Experiment

    if dimension is None:
        raise InputError("dimension=None: say how many features a record has (--dimension).")
    budgets = parse_epsilon(epsilon)
    given = tuple(budgets.values() if isinstance(budgets, dict) else budgets)
    asked = Experiment(epsilon=given, delta=delta)  # checked as for a run, before anything slow is loaded
    numbers = (
        _sizes(sizes, owners, records),
        _check.count("dimension", dimension),
        _check.count("classes", classes),
    )
    from coterie.planning.public import Consortium

    return Consortium(
        sizes=numbers[0],
        dimension=numbers[1],
        classes=numbers[2],
        epsilon=given,
        delta=asked.delta,
        topology=topology,
    )


def _sizes(sizes: str | None, owners: int | None, records: int | None) -> tuple[int, ...]:
    if sizes is not None:
        if owners is not None or records is not None:
            raise InputError("--sizes: does not go with --owners or --records. Leave one out.")
        try:
            return tuple(_check.count("sizes", int(part)) for part in sizes.split(","))
        except ValueError:
            raise InputError(
                f"sizes={sizes!r}: must be whole numbers with commas, one for each owner."
            ) from None
    if owners is None or records is None:
        raise InputError("sizes=None: give --sizes 1000,2000,500, or --owners and --records of each.")
    from coterie.planning.public import MOST_OWNERS

    return (_check.count("records", records),) * _check.count("owners", owners, most=MOST_OWNERS)


def protecting(
    base: Consortium, unit: str, records_per_person: str | None, records_per_unit: int | None
) -> tuple[Consortium, Persons]:
    """The same question with persons, or whole owners, as units; the number of persons follows from the records."""
    from dataclasses import replace

    from coterie.planning.persons import EVERYBODY_ONE, declared
    from coterie.units import unit_of

    if _check.one_of("unit", unit, ("record", "owner")) == "owner":
        return _whole_owners(base, records_per_person, records_per_unit)
    if records_per_person is None:
        if records_per_unit is not None:
            raise InputError(
                f"records_per_unit={records_per_unit}: is the cap of persons. Say how many records they have: "
                "--records-per-person."
            )
        return base, EVERYBODY_ONE
    persons = declared(records_per_person)
    if persons.mean == 1:
        raise InputError(
            f"records_per_person={records_per_person!r}: everybody has one record, so that a person is a record. "
            "Leave it out."
        )
    sizes = tuple(round(size / persons.mean) for size in base.sizes)
    if min(sizes) < 2:
        raise InputError(
            f"records_per_person={records_per_person!r}: {min(base.sizes)} records of an owner are those of fewer than "
            "2 persons; must be 2 or more, as for a run."
        )
    return replace(base, sizes=sizes, unit=unit_of("column:person", records_per_unit)), persons


def _whole_owners(
    base: Consortium, records_per_person: str | None, records_per_unit: int | None
) -> tuple[Consortium, Persons]:
    """Each owner is one unit with all of its records; for a forecast, it counts as a person."""
    from dataclasses import replace

    from coterie.planning.persons import Persons
    from coterie.units import unit_of

    if records_per_person is not None:
        raise InputError(
            f"records_per_person={records_per_person!r}: with unit='owner' all that an owner holds is one unit. Leave "
            "one out."
        )
    owners = len(base.sizes)
    shares = tuple((size, base.sizes.count(size) / owners) for size in sorted(set(base.sizes)))
    return replace(base, sizes=(1,) * owners, unit=unit_of("owner", records_per_unit)), Persons(shares)


def check_rate(rate: float | None, classes: int, target: str | None) -> None:
    if rate is None:
        return
    from coterie.experiments.experiment import Experiment

    Experiment(base_rate=rate)  # the same bounds as for a run
    if classes != 2 or target is not None:
        why = "public rows show it" if classes == 2 else "it is the share of the rarer of two classes"
        raise InputError(f"base_rate={rate:g}: {why}. Leave it out.")


def public(
    path: Path | None, target: str | None, base: Consortium, rate: float | None, persons: Persons
) -> tuple[Constants, Exchange]:
    """The constants of a forecast, and the conversion of its excess risk into the metric's units.

    They come from public rows (with a target, also how much can be learnt), or else from assumptions.
    """
    from dataclasses import replace

    import numpy as np

    from coterie.planning.constants import assumed, checked_rows, checked_targets, from_public_rows
    from coterie.planning.metric import EVEN, on_made_up, on_rows
    from coterie.planning.public import problem_for

    problem = problem_for(base.dimension, base.classes)
    if path is None and target is not None:
        raise InputError(f"public_target={target!r}: names a column of --public-rows. Give that file too.")
    if target is None or path is None:
        constants = assumed(base.dimension)
        if path is not None:
            constants = from_public_rows(checked_rows(str(path), _table(path)[1], base.dimension))
        constants = replace(constants, persons=persons)
        return constants, on_made_up(problem, constants, base.classes, EVEN if rate is None else rate)
    names, table = _table(path)
    if target not in names:
        known = ", ".join(names) or "none have a name"
        raise InputError(f"public_target={target!r}: no such column in {path}. Columns: {known}.")
    at = names.index(target)
    rows = checked_rows(str(path), np.delete(table, at, axis=1), base.dimension)
    targets = checked_targets(target, table[:, at], base.classes)
    constants = replace(from_public_rows(rows, targets, base.classes), persons=persons)
    return constants, on_rows(problem, rows, targets, base.classes)


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
