"""What single cells count as, in training and in prediction alike."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from coterie.problems.datasets.dates import day
from coterie.problems.fields import Category, Days, Field, Flag, Parts


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
