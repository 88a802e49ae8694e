"""Everyone's records in few arrays: owners of like size share one, so that memory and work follow the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from coterie.program import Groups, Holdings, Shards

T = TypeVar("T")
Own: TypeAlias = np.ndarray | list[np.ndarray]  # an owner's rows, or the rows of each of its units

_WORTH = 1 << 22  # numbers of padding worth another array: each is compiled for, a third of a second
_MOST = 12  # arrays
_LEVELS = 64  # sizes at which an array may begin: the best division is looked for among those


class Group(NamedTuple):
    """Owners that share an array. Devices hold equally many each, as one program runs on all of them."""

    owners: np.ndarray  # (devices, owners there); a number past the last owner's is a made-up one
    rows: int


def to_shards(x: np.ndarray, y: np.ndarray, owned: Sequence[Own]) -> Holdings:
    """Records by owner, or units in a record's place; features in float32, targets in their own type.

    `owned`: of each owner, its rows, or the rows of each of its units.
    """
    units = not isinstance(owned[0], np.ndarray)
    most = max(len(rows) for own in owned for rows in own) if units else 1
    groups = grouped([len(own) for own in owned], most * math.prod(x.shape[1:]))
    like = np.empty((0, *x.shape[1:]), np.float32), np.empty(0, y.dtype)
    shards = []
    for group in groups:
        there = [owned[owner] for owner in group.owners[0]]
        if units:
            shards.append(units_filled(x, y, there, group.rows, most))
        else:
            shards.append(filled(like, group.rows, there, lambda own: (x[own], y[own])))
    if len(shards) == 1:
        return shards[0]
    return Groups(tuple(shards), *places(groups, 0))  # type: ignore[arg-type]


def chosen(own: Own, places: np.ndarray) -> Own:
    """The rows, or units, of an owner at these places, in their order."""
    return own[places] if isinstance(own, np.ndarray) else [own[at] for at in places]


def listed(own: Own) -> tuple[np.ndarray, np.ndarray | None]:
    """An owner's rows, and which unit each is of, in ascending order; None where each is one."""
    if isinstance(own, np.ndarray):
        return own, None
    return np.concatenate(own), np.repeat(np.arange(len(own)), [len(rows) for rows in own])


class PlacedUnits(NamedTuple):
    """Rows of units, each in a place of its own, which follows from its unit's number and its number in the unit."""

    at: np.ndarray  # (units, places) row numbers; any, where there is no record
    within: np.ndarray  # (units,) how many places hold a record

    @property
    def real(self) -> np.ndarray:
        """(units, places) which places hold a record."""
        return np.arange(self.at.shape[1]) < self.within[:, None]


def placed(units: Own, rows: int, most: int) -> PlacedUnits:
    """The rows of each unit, padded to so many units of so many records."""
    at, within = np.zeros((rows, most), np.int64), np.zeros(rows, np.int32)
    for unit, own in enumerate(units):
        at[unit, : len(own)], within[unit] = own, len(own)
    return PlacedUnits(at, within)


def units_filled(x: np.ndarray, y: np.ndarray, owners: Sequence[Own], rows: int, most: int) -> Shards:
    """The units of each of the owners, padded to so many units of so many records."""
    by_owner = [placed(units, rows, most) for units in owners]
    at, within, real = (
        np.stack(part) for part in zip(*((units.at, units.within, units.real) for units in by_owner))
    )
    x_all = np.where(real.reshape(*real.shape, *(1,) * (x.ndim - 1)), x[at], 0).astype(np.float32)
    counts = np.array([len(units) for units in owners], np.int32)
    return Shards(x_all, np.where(real, y[at], 0).astype(y.dtype), counts, within)  # type: ignore[arg-type]


def records_of(holdings: Holdings, owner: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """One owner's records, one a row, and whose they are: the unit of each, None where each is one."""
    x, y, *within = holdings.rows(owner)
    return laid_out(x, y, *within) if within else (x, y, None)


def laid_out(x: np.ndarray, y: np.ndarray, within: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The records of units (units, places, …), one a row, and which unit each is of."""
    unit, place = np.nonzero(np.arange(y.shape[1]) < within[:, None])
    return x[unit, place], y[unit, place], unit


def filled(like: tuple[np.ndarray, ...], rows: int, owners: Sequence[T], own: Callable[[T], tuple]) -> Shards:
    """The records that `own` gives of each of the owners, padded with zeros; shapes and types of a record as `like`.

    `own` gives, and `like` shapes, features and targets, and for units how many records each has.
    """
    arrays = [np.zeros((len(owners), rows, *record.shape[1:]), record.dtype) for record in like]
    counts = np.zeros(len(owners), np.int32)
    for at, owner in enumerate(owners):
        mine = own(owner)
        counts[at] = len(mine[1])
        for array, part in zip(arrays, mine, strict=True):
            array[at, : counts[at]] = part
    x, y, *within = arrays
    return Shards(x, y, counts, *within)  # type: ignore[arg-type]


def grouped(sizes: Sequence[int], width: int, devices: int = 1) -> list[Group]:
    """Which owners share an array; `width`: numbers of a record. Owners are dealt to the devices in order.

    One group keeps the owners' order. Several go from the largest owners to the smallest.
    """
    held = -(-len(sizes) // devices)
    table = np.ones(devices * held, int)  # a made-up owner has one record
    table[: len(sizes)] = sizes
    table = table.reshape(devices, held)
    order = np.argsort(-table, axis=1, kind="stable")
    ranked = np.take_along_axis(table, order, axis=1).max(axis=0)  # the largest owner of each rank
    starts = _starts(ranked, width * devices)
    ends = [*starts[1:], held]
    if len(starts) == 1:
        order = np.broadcast_to(np.arange(held), order.shape)
    owners = order + np.arange(devices)[:, None] * held
    return [Group(owners[:, first:last], int(ranked[first])) for first, last in zip(starts, ends)]


def places(groups: Sequence[Group], device: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """`Groups.owners` and `Groups.place` of one device, owners counted from its first."""
    first = min(int(group.owners[device].min()) for group in groups)
    owners = tuple((group.owners[device] - first).astype(np.int32) for group in groups)
    return owners, np.argsort(np.concatenate(owners)).astype(np.int32)


def _starts(sizes: np.ndarray, width: int) -> list[int]:
    """The places where groups of descending `sizes` begin: least numbers in all, a group counting for `_WORTH`."""
    steps = np.flatnonzero(np.diff(sizes, prepend=sizes[0] + 1))  # first of each size
    if len(steps) > _LEVELS:
        wanted = np.geomspace(sizes[0], sizes[-1], _LEVELS)
        steps = np.unique(np.searchsorted(-sizes, -wanted))
    ends = np.append(steps, len(sizes))
    # numbers[i, j]: of a group that begins at steps[i] and ends before ends[j].
    numbers = np.maximum(ends[None] - steps[:, None], 0).astype(float) * sizes[steps, None] * width
    best, came = np.full(len(ends), np.inf), []
    best[0] = 0.0
    finals = []
    for _ in range(min(_MOST, len(steps))):
        ways = np.where(np.tri(len(steps), len(ends), dtype=bool), np.inf, best[:-1, None] + numbers)
        came.append(ways.argmin(axis=0))
        best = ways.min(axis=0)
        finals.append(best[-1] + _WORTH * len(came))
    starts, at = [], len(ends) - 1
    for back in reversed(came[: int(np.argmin(finals)) + 1]):
        at = int(back[at])
        starts.append(int(steps[at]))
    return starts[::-1]
