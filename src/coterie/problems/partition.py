"""Who owns which row: partitions of a data set among owners, each row to exactly one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.table import Table
from coterie.units import RECORD, Unit

# Units of an owner; with one, its size and its unit are the same secret, unless an owner is the unit.
LEAST = 2


class Partition(NamedTuple):
    """rows: the row numbers of each owner, disjoint; names: of the owners; how: the rows were dealt."""

    rows: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    how: str = ""


def iid(n: int, owners: int, seed: int = 0) -> Partition:
    """Shuffle and deal evenly; sizes differ by at most one.

    >>> [len(rows) for rows in iid(11, 3).rows]
    [4, 4, 3]
    """
    _enough(n, owners, LEAST)
    return _named(np.array_split(np.random.default_rng(seed).permutation(n), owners))._replace(how="iid")


def by_column(
    codes: np.ndarray,
    names: Sequence[str],
    least: int = LEAST,
    owners: int | None = None,
    empty_too: bool = False,
    what: str = "records",
) -> Partition:
    """Each natural owner keeps its rows; with `owners`, only that many stay, the largest.

    Rows with a code of -1 have no owner and are left out, as are those of owners that do not stay; natural
    owners without any row are left out too, unless `empty_too`. An owner that stays with fewer than `least` rows is
    an error, because dropping it silently would depend on its data. `what`: rows are called in it.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    everyone = len(names) if empty_too else int((sizes > 0).sum())
    if owners is not None:
        _check.count("owners", owners)
        if owners > everyone:
            raise InputError(f"owners={owners}: the owner column has {everyone}. Ask for fewer.")
    order = np.argsort(-sizes, kind="stable")[: owners or everyone]
    staying = np.sort(order)
    small = [index for index in staying if sizes[index] < least]
    if small:
        enough = int((sizes >= least).sum())
        remedy = (
            f"Merge or remove it, or keep the largest only: owners <= {enough}."
            if enough
            else "Merge owners."
        )
        raise InputError(
            f"owner {names[small[0]]!r}: {sizes[small[0]]} of its {what} are to be learnt from, must be >= {least}."
            f" {remedy}"
        )
    by_owner = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[by_owner], staying)
    rows = tuple(by_owner[start : start + sizes[index]] for start, index in zip(starts, staying))
    return Partition(rows, tuple(str(names[index]) for index in staying), "column")


def dirichlet(labels: np.ndarray, owners: int, alpha: float, seed: int = 0) -> Partition:
    """Label skew: each class is shared out by its own Dirichlet(alpha) draw; small alpha, uneven owners.

    An owner left with fewer than `LEAST` rows takes the missing ones from the largest owner.
    """
    _check.positive("alpha", alpha)
    _enough(len(labels), owners, LEAST)
    rng = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in range(owners)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        cuts = (np.cumsum(rng.dirichlet(np.full(owners, alpha)))[:-1] * len(rows)).astype(int)
        for part, piece in zip(parts, np.split(rows, cuts)):
            part.append(piece)
    return _named(_level([np.concatenate(part) for part in parts]))


def two_groups(n: int, owners: int, ratio: float, seed: int = 0) -> Partition:
    """Half of the owners hold `ratio` times as many rows as the others (n_max / n_min = u, to whole rows).

    >>> [len(rows) for rows in two_groups(100, 4, 4.0).rows]
    [40, 40, 10, 10]
    """
    if not ratio >= 1:
        raise InputError(f"ratio={ratio}: must be >= 1, the size of a large owner over that of a small one.")
    _check.positive("ratio", ratio)
    _enough(n, owners, LEAST)
    large = owners // 2
    weights = np.r_[np.full(large, ratio), np.ones(owners - large)]
    cuts = np.round(np.cumsum(weights)[:-1] / weights.sum() * n).astype(int)
    return _named(_level(np.split(np.random.default_rng(seed).permutation(n), cuts)))


def random_sizes(n: int, owners: int, floor: int = LEAST, seed: int = 0) -> Partition:
    """Every owner gets `floor` rows; the rest is shared out uniformly over all ways to divide it."""
    _check.count("floor", floor, LEAST)
    _enough(n, owners, floor)
    rng = np.random.default_rng(seed)
    spare = n - owners * floor
    bars = np.sort(rng.choice(spare + owners - 1, owners - 1, replace=False))  # stars and bars
    sizes = floor + np.diff(np.r_[-1, bars, spare + owners - 1]) - 1
    return _named(np.split(rng.permutation(n), np.cumsum(sizes)[:-1]))


PARTITIONS: dict[str, Callable[[Table, int, str, int], Partition]] = {
    "iid": lambda table, owners, _, seed: iid(len(table.y), owners, seed),
    "dirichlet": lambda table, owners, value, seed: dirichlet(
        _labels(table), owners, _number("alpha", value or "0.5"), seed
    ),
    "two_groups": lambda table, owners, value, seed: two_groups(
        len(table.y), owners, _number("ratio", value or "2"), seed
    ),
    "random_sizes": lambda table, owners, value, seed: random_sizes(
        len(table.y), owners, _whole("floor", value or str(LEAST)), seed
    ),
}  # "column" is the one that can do without a number of owners


def partition(
    table: Table,
    how: str | None = None,
    owners: int | None = None,
    seed: int = 0,
    unit: Unit = RECORD,
    what: str = "records",
) -> Partition:
    """Divide a table: "column", "iid", "dirichlet:0.3", "two_groups:4", "random_sizes:50".

    Without `how`: by the natural owner if there is one and no number of owners is asked for, else "iid". Units of
    privacy are dealt whole; by "column", what an owner has of somebody is one unit. `what`: rows are called in errors.
    """
    if unit.kind == "column":
        return _of_units(table, how, owners, seed, f"units ({unit.noun})")
    natural = table.owner is not None
    how = how or ("column" if natural and owners is None else "iid")
    kind, _, value = how.partition(":")
    _check.one_of("partition", kind, ["column", *PARTITIONS])
    if kind == "column":
        if table.owner is None:
            raise InputError(
                f"partition='column': {table.name} has no owner column. Use iid and a number of owners."
            )
        # Names that the rows themselves gave are of owners who have some, if only among the test rows.
        own_names = not table.test_is_public
        least = 1 if unit.kind == "owner" else LEAST
        return by_column(table.owner, table.owner_names, least, owners, empty_too=own_names, what=what)
    if owners is None:
        raise InputError(
            f"owners=None: partition {how!r} needs a number of owners. Name the column that says whose a row is"
            " (--owner-column), or say among how many to deal rows out (--owners)."
        )
    return PARTITIONS[kind](table, owners, value, seed)._replace(how=how)


def _of_units(table: Table, how: str | None, owners: int | None, seed: int, what: str) -> Partition:
    """Units dealt as rows are: each stands for its rows, with the class that the first of them has."""
    assert table.whose is not None
    natural = table.owner if how == "column" or (how is None and owners is None) else None
    codes = np.stack([table.whose.codes, np.zeros(len(table.y), int) if natural is None else natural])
    _, first, unit_of = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    units = replace(
        table,
        y=table.y[first],
        owner=None if table.owner is None else table.owner[first],
        whose=None,
    )
    dealt = partition(units, how, owners, seed, what=what)
    holder = np.full(len(first), -1)
    for at, own in enumerate(dealt.rows):
        holder[own] = at
    holders = holder[unit_of.ravel()]
    order = np.argsort(holders, kind="stable")
    cuts = np.searchsorted(holders[order], np.arange(len(dealt.rows) + 1))
    return dealt._replace(rows=tuple(order[start:end] for start, end in pairwise(cuts)))


def _enough(n: int, owners: int, least: int) -> None:
    _check.count("owners", owners)
    if owners * least > n:
        raise InputError(
            f"owners={owners}: {n} records (or units) cannot give each at least {least}. Ask for fewer owners."
        )


def _level(parts: list[np.ndarray]) -> list[np.ndarray]:
    for at in range(len(parts)):
        while len(parts[at]) < LEAST:
            largest = max(range(len(parts)), key=lambda owner: len(parts[owner]))
            short = LEAST - len(parts[at])
            spare = min(short, len(parts[largest]) - LEAST)
            parts[at] = np.concatenate([parts[at], parts[largest][-spare:]])
            parts[largest] = parts[largest][:-spare]
    return parts


def _named(parts: Sequence[np.ndarray]) -> Partition:
    return Partition(tuple(np.sort(rows) for rows in parts), tuple(f"owner {at}" for at in range(len(parts))))


def _labels(table: Table) -> np.ndarray:
    if table.task == "regression":
        raise InputError(
            f"partition='dirichlet': {table.name} has no classes. Use random_sizes or two_groups."
        )
    return table.y


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{name}={text!r}: must be a number, as in 'dirichlet:0.3'.") from error


def _whole(name: str, text: str) -> int:
    value = _number(name, text)
    if not value.is_integer():
        raise InputError(f"{name}={text}: must be a whole number.")
    return int(value)
