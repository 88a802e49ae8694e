"""Groups of records, by the public list of values of a declared column, each of which is evaluated by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets import encoded_names
from coterie.problems.fields import Binned, Category, Field, Flag, Image
from coterie.problems.table import Table

MOST = 50
OTHERS = "none of these"


class RecordGroups(NamedTuple):
    """Which groups there are. All of it is public; which group a record is in is not."""

    column: str
    names: tuple[str, ...]  # the last: of records that have no value of the list
    first: int  # of the encoded columns
    is_flag: bool

    def codes(self, x: np.ndarray) -> np.ndarray:
        """(rows,) each record's group, from its encoded columns. Reads records."""
        if self.is_flag:
            return np.where(x[:, self.first] == 1, 0, np.where(x[:, self.first] == 0, 1, 2))
        some = x[:, self.first : self.first + len(self.names) - 1] == 1
        return np.where(some.any(axis=1), some.argmax(axis=1), len(self.names) - 1)


def groups_of(table: Table, column: str | None) -> RecordGroups | None:
    """The groups by a column; InputError where it has no declared list of values."""
    if column is None:
        return None
    first = 0
    for field in table.fields:
        if isinstance(field, Image):
            break
        width = len(encoded_names((field,)))
        if field.name == column:
            return _groups(field, first)
        first += width
    known = [field.name for field in table.fields if isinstance(field, (Binned, Category, Flag))]
    raise InputError(
        f"evaluate_by={column!r}: no column of {table.name} has that name. Those with a declared list of values: "
        f"{', '.join(known) or 'none'}."
    )


def _groups(field: Field, first: int) -> RecordGroups:
    if isinstance(field, Flag):
        return RecordGroups(
            field.name, (f"{field.name}: yes", f"{field.name}: no", OTHERS), first, is_flag=True
        )
    if not isinstance(field, (Binned, Category)):
        raise InputError(
            f"evaluate_by={field.name!r}: has no declared list of values to group by. Declare it as a list, or as bins."
        )
    names = encoded_names((field,))[: len(field.values) if isinstance(field, Category) else None]
    if len(names) > MOST:
        raise InputError(
            f"evaluate_by={field.name!r}: has {len(names)} values, at most {MOST} can be told apart. Declare fewer."
        )
    return RecordGroups(field.name, (*names, OTHERS), first, is_flag=False)
