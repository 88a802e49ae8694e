"""What single cells count as, in training and in prediction alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import numpy as np

from coterie.problems.datasets.dates import day
from coterie.problems.fields import Category, Days, Field, Flag, Parts
from coterie.problems.names import number_text


def finder(vocabulary: Sequence[str]) -> Callable[[str], int]:
    """A function from a word to its place in a public list, -1 if nowhere; a number fits however it is written.

    >>> list(map(finder(("a", "b", "1")), ("b", "z", "1.0")))
    [1, -1, 2]
    """
    exact = {word: at for at, word in enumerate(vocabulary)}
    loose: dict[str, int] = {}
    for at, word in enumerate(vocabulary):
        canonical = number_text(word)
        if canonical is not None:  # two of the list that are the same number: only as they are written
            loose[canonical] = -1 if canonical in loose else at
    return lambda word: exact.get(word, loose.get(number_text(word) or "", -1))


def stand_in(field: Field) -> Any:
    """A value that fits, in the place of an empty cell until the column is read."""
    if isinstance(field, Category):
        return field.values[0]
    if isinstance(field, Flag):
        return field.true[0]
    if isinstance(field, (Days, Parts)):
        return date.fromisoformat(day(field, field.low) if isinstance(field, Days) else "1970-01-01")
    return field.low


def nothing(field: Field) -> Any:
    """What `encode` takes an empty cell as."""
    if isinstance(field, Category):
        return None
    return np.datetime64("NaT", "D") if isinstance(field, Parts) else np.nan


def flag_numbers(field: Flag) -> np.ndarray:
    """What each word of a yes or no counts as, and last what any other does: neither."""
    return np.array([1.0] * len(field.true) + [0.0] * len(field.false) + [0.5])
