"""Rows that an owner keeps out of training, to evaluate on: how many they are is public, which ones is its secret.

No guarantee rests on that secret: training and table are charged one after the other, as if each had read every record.

Where a unit is several records, units are drawn, and each is kept out whole or not at all. The draw sees how many units
there are, which is public, and none of their records. So a unit that is replaced by another, of whatever number of
records, is on the same side as before, and every other unit is where and what it was: neighbours stay neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.partition import LEAST
from coterie.relations import REPLACE_ONE, Relation
from coterie.units import counted, several

_HELD = 0x4E1D  # keeps a simulation's draw apart from whatever else its seed draws


class Division(NamedTuple):
    """Places of an owner's rows, or units, in their order."""

    trained: np.ndarray
    held: np.ndarray


def held_of(size: int, share: float, unit: str = "record") -> int:
    """How many of an owner's rows, or units, are kept out, public; InputError where none would be, or too many."""
    held = int(share * size)
    if share and not 0 < held <= size - LEAST:
        raise InputError(
            f"hold_out={share:g}: would keep {held} of an owner's {counted(size, unit)} out of training. It must "
            f"keep one and leave {LEAST}, at least; --hold-out 0 evaluates on all {several(unit)}."
        )
    return held


def check_division(relation: Relation, share: float) -> None:
    """InputError where numbers of rows are private: a row more would then do more than add a row to training.

    One row more can mean one more row that is kept out. Where that is a different row, the new one takes its place in
    training, which then differs by a replaced row: twice what is charged for an added one.
    """
    if not relation.sizes_are_public:
        raise InputError(
            f"hold_out={share:g}: under relation={str(relation)!r} one row more can send another one out of training, "
            f"which costs more than is charged. Use relation={str(REPLACE_ONE)!r}, or --hold-out 0."
        )


def trained_sizes(sizes: Sequence[int], share: float, unit: str = "record") -> tuple[int, ...]:
    """How many rows, or units, of each owner are trained on."""
    return tuple(size - held_of(size, share, unit) for size in sizes)


def divided(size: int, share: float, rng: np.random.Generator, unit: str = "record") -> Division:
    """An owner's draw. Its numbers of rows, or units, are `size` less `held_of(size, share)`, and that."""
    order = rng.permutation(size)
    held = held_of(size, share, unit)
    return Division(np.sort(order[held:]), np.sort(order[:held]))


def simulated(seed: int, owner: int) -> np.random.Generator:
    """What a simulated owner draws with."""
    return np.random.default_rng([seed, _HELD, owner])


def secret(key: bytes) -> np.random.Generator:
    """What a real owner draws with: the same again from the same key, which stays in its folder."""
    return np.random.default_rng(int.from_bytes(key))
