"""Whom rows are about: which of them make one unit of privacy, and which of those stay.

Guarantee: which rows of a unit stay depends on that unit's rows, its place among its owner's units and the owner's
randomness alone; and the places are a random order. So replacing a unit, wherever in the file its rows are, is to give
one place another unit, which changes no other; neither choice costs anything.
Argument: rows of people are interleaved. In any order that follows from them a unit that appears later moves others by
a place, and with them all batches that are divided by place. For each random order there is one, as likely, in which
the neighbour's unit has the replaced one's place and nobody else another: releases are mixtures of such pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.units import Unit

_PLACES = 1  # keeps the draw of an order apart from those of rows


class Whose(NamedTuple):
    """Whom each row is about. Private, but for how many units an owner has under replace-one."""

    codes: np.ndarray  # (rows,) int, equal for rows of one unit; numbered as they first appear
    when: np.ndarray | None = None  # (rows,) larger is later; None: the owner's randomness chooses
    tested: int = 0  # units among the test rows

    def only(self, rows: np.ndarray) -> Whose:
        """The same of these rows alone."""
        return Whose(self.codes[rows], None if self.when is None else self.when[rows], self.tested)


def units_of(rows: np.ndarray, whose: Whose | None, unit: Unit, seed: Sequence[int]) -> list[np.ndarray]:
    """An owner's row numbers, unit by unit in a random order, at most `unit.records` of each.

    `whose` is of all rows, whoever holds them. `seed`: the owner's randomness.
    """
    if unit.kind == "owner":
        parts = [rows]
    else:
        assert whose is not None
        _, inverse = np.unique(whose.codes[rows], return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        ends = np.cumsum(np.bincount(inverse))
        parts = np.split(rows[order], ends[:-1])
        randomness = np.random.SeedSequence(seed, spawn_key=(_PLACES,))
        parts = [parts[at] for at in np.random.default_rng(randomness).permutation(len(parts))]
    when = None if whose is None else whose.when
    return [_kept(part, when, unit.records, (*seed, at)) for at, part in enumerate(parts)]


def _kept(part: np.ndarray, when: np.ndarray | None, most: int, seed: Sequence[int]) -> np.ndarray:
    """The rows of a unit that stay, `most` at most, in the order they had."""
    if len(part) <= most:
        return part
    if when is not None:
        return part[np.sort(np.argsort(when[part], kind="stable")[-most:])]
    chosen = np.random.default_rng(seed).choice(len(part), most, replace=False)
    return part[np.sort(chosen)]
