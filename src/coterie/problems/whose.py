"""Whom rows are about: which of them make one unit of privacy, and which of those stay.

Guarantee: whether a row of a unit stays depends on that unit's rows, its place among its owner's units and the owner's
randomness alone. So replacing a unit changes no other unit, and the choice costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.units import Unit


class Whose(NamedTuple):
    """Whom each row is about. Private, but for how many units an owner has under replace-one."""

    codes: np.ndarray  # (rows,) int, equal for rows of one unit; numbered as they first appear
    when: np.ndarray | None = None  # (rows,) larger is later; None: the owner's randomness chooses
    tested: int = 0  # units among the test rows

    def only(self, rows: np.ndarray) -> Whose:
        """The same of these rows alone."""
        return Whose(self.codes[rows], None if self.when is None else self.when[rows], self.tested)


def units_of(rows: np.ndarray, whose: Whose | None, unit: Unit, seed: Sequence[int]) -> list[np.ndarray]:
    """An owner's row numbers, unit by unit in the order in which they first appear, at most `unit.records` of each.

    `whose` is of all rows, whoever holds them. `seed`: the owner's randomness.
    """
    if unit.kind == "owner":
        parts = [rows]
    else:
        assert whose is not None
        _, first, inverse = np.unique(whose.codes[rows], return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        ends = np.cumsum(np.bincount(inverse))
        parts = np.split(rows[order], ends[:-1])
        parts = [parts[at] for at in np.argsort(first, kind="stable")]
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
