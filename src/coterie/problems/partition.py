"""Who owns which row: partitions of a data set among owners, each row to exactly one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.table import Table

LEAST = 2  # records of an owner; with one, its size and its record are the same secret


class Partition(NamedTuple):
    """rows: the row numbers of each owner, disjoint; names: of the owners."""

    rows: tuple[np.ndarray, ...]
    names: tuple[str, ...]


def iid(n: int, owners: int, seed: int = 0) -> Partition:
    """Shuffle and deal evenly; sizes differ by at most one.

    >>> [len(rows) for rows in iid(11, 3).rows]
    [4, 4, 3]
    """
    _enough(n, owners, LEAST)
    return _named(np.array_split(np.random.default_rng(seed).permutation(n), owners))


def by_column(
    codes: np.ndarray, names: Sequence[str], least: int = LEAST, owners: int | None = None
) -> Partition:
    """Each natural owner keeps its rows; with `owners`, only that many stay, the largest.

    Rows with a code of -1 have no owner and are left out, as are those of owners that do not stay; natural
    owners without any row are left out too. An owner with 1 to `least` - 1 rows is an error, because dropping
    it silently would depend on its data.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    if owners is not None:
        _check.count("owners", owners)
        if owners > (sizes > 0).sum():
            raise InputError(f"owners={owners}: the owner column has {(sizes > 0).sum()}. Ask for fewer.")
    order = np.argsort(-sizes, kind="stable")[: owners if owners is not None else (sizes > 0).sum()]
    kept = np.sort(order)
    small = [index for index in kept if sizes[index] < least]
    if small:
        raise InputError(
            f"owner {names[small[0]]!r}: {sizes[small[0]]} records, must be >= {least}."
            f" Keep the largest only: partition column, owners <= {(sizes >= least).sum()}."
        )
    by_owner = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[by_owner], kept)
    rows = tuple(by_owner[start : start + sizes[index]] for start, index in zip(starts, kept))
    return Partition(rows, tuple(str(names[index]) for index in kept))


def dirichlet(labels: np.ndarray, owners: int, alpha: float, seed: int = 0, least: int = LEAST) -> Partition:
    """Label skew: each class is shared out by its own Dirichlet(alpha) draw; small alpha, uneven owners.

    An owner left with fewer than `least` rows takes the missing ones from the largest owner.
    """
    _check.positive("alpha", alpha)
    _enough(len(labels), owners, least)
    rng = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in range(owners)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        cuts = (np.cumsum(rng.dirichlet(np.full(owners, alpha)))[:-1] * len(rows)).astype(int)
        for part, piece in zip(parts, np.split(rows, cuts)):
            part.append(piece)
    return _named(_level([np.concatenate(part) for part in parts], least))


def two_groups(n: int, owners: int, ratio: float, seed: int = 0) -> Partition:
    """Half of the owners hold `ratio` times as many rows as the others (n_max / n_min = u, to whole rows).

    >>> [len(rows) for rows in two_groups(100, 4, 4.0).rows]
    [40, 40, 10, 10]
    """
    if not ratio >= 1:
        raise InputError(f"ratio={ratio}: must be >= 1, the size of a large owner over that of a small one.")
    _check.positive("ratio", ratio)
    large = owners // 2
    return _cut(n, np.r_[np.full(large, ratio), np.ones(owners - large)], LEAST, seed)


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


def partition(table: Table, how: str | None = None, owners: int | None = None, seed: int = 0) -> Partition:
    """Divide a table: "column", "iid", "dirichlet:0.3", "two_groups:4", "random_sizes:50".

    Without `how`: by the natural owner if there is one and no number of owners is asked for, else "iid".
    """
    natural = table.owner is not None
    how = how or ("column" if natural and owners is None else "iid")
    kind, _, value = how.partition(":")
    _check.one_of("partition", kind, ["column", *PARTITIONS])
    if kind == "column":
        if table.owner is None:
            raise InputError(
                f"partition='column': {table.name} has no owner column. Use iid and a number of owners."
            )
        return by_column(table.owner, table.owner_names, owners=owners)
    if owners is None:
        raise InputError(f"partition={how!r}: needs a number of owners. Give owners.")
    return PARTITIONS[kind](table, owners, value, seed)


def _enough(n: int, owners: int, least: int) -> None:
    _check.count("owners", owners)
    if owners * least > n:
        raise InputError(
            f"owners={owners}: {n} records cannot give each at least {least}. Ask for fewer owners."
        )


def _cut(n: int, weights: np.ndarray, least: int, seed: int) -> Partition:
    _enough(n, len(weights), least)
    cuts = np.round(np.cumsum(weights)[:-1] / weights.sum() * n).astype(int)
    return _named(_level(np.split(np.random.default_rng(seed).permutation(n), cuts), least))


def _level(parts: list[np.ndarray], least: int) -> list[np.ndarray]:
    for at in range(len(parts)):
        while len(parts[at]) < least:
            largest = max(range(len(parts)), key=lambda other: len(parts[other]))
            short = least - len(parts[at])
            spare = min(short, len(parts[largest]) - least)
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
