"""Whom a certificate protects, as a value: one record, one person with several records, or a whole owner.

Neighbouring data sets differ in one unit, so everything that bounds a record's part of a release bounds a unit's:
clipping, sampling, sizes, audits. How many units an owner has is public under replace-one; how many records a unit has
is not, and only the cap on them is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from coterie import _check
from coterie.errors import InputError

Kind: TypeAlias = Literal["record", "column", "owner"]
# How many records of a unit are kept unless somebody says: constants, so that no rows decide. docs/units.md has why.
MOST: dict[Kind, int] = {"record": 1, "column": 20, "owner": 1000}
_UP_TO = " with up to "
_ID = re.compile(r"^(id|uuid)$|[\s_-]+(id|uuid|nbr|number)$|(?<=[a-z])(?-i:I[dD])$", re.IGNORECASE)


@dataclass(frozen=True)
class Unit:
    """One record; all records of an owner with the same value in a column; or all that an owner holds.

    records: the public cap, how many records of a unit an owner keeps at most. mean: whether the unit's gradients are
    averaged before they are clipped, not summed. latest: the date column that says which records stay where a unit has
    more; None: the owner's secret randomness does.

    >>> Unit("column", column="patient_id", records=20).words
    'patient with up to 20 records'
    """

    kind: Kind = "record"
    column: str | None = None
    records: int = 1
    mean: bool = False
    latest: str | None = None
    # Derived from the others. The unit as a statement has it, after "one":
    words: str = field(init=False, repr=False, compare=False)
    # How many times as steep as a record's a unit's gradient can become: the cap where it is a sum, else once.
    bends: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check.one_of("unit", self.kind, ("record", "column", "owner"))
        _check.count("records_per_unit", self.records)
        if (self.kind == "column") != (self.column is not None):
            raise InputError(f"unit={self.kind!r}: a column is named for unit='column:NAME' alone.")
        if self.kind == "record" and self.records != 1:
            raise InputError(
                f"records_per_unit={self.records}: with unit='record' it is 1. Name the column that says whose a "
                "record is: unit='column:NAME'."
            )
        most = f"{_UP_TO}{self.records:,} record{'s' * (self.records > 1)}"
        object.__setattr__(self, "words", self.noun if self.kind == "record" else f"{self.noun}{most}")
        object.__setattr__(self, "bends", 1 if self.mean else self.records)

    def __str__(self) -> str:
        return f"column:{self.column}" if self.kind == "column" else self.kind

    @property
    def noun(self) -> str:
        """What people call one of them, by the column's name.

        >>> [Unit("column", column=name, records=5).noun for name in ("patient", "User_ID", "PatientID", "paid", "id")]
        ['patient', 'User', 'Patient', 'paid', 'person']
        """
        if self.column is None:
            return self.kind
        name = _ID.sub("", self.column).replace("_", " ") or "person"
        return f"{name} (column)" if name in MOST else name


RECORD = Unit()
OWNER = "owner"  # the noun of a unit that is all that an owner holds


def noun_of(words: str) -> str:
    """What one unit is called, of a unit in words.

    >>> noun_of(unit_of("column:patient").words), noun_of("record"), noun_of(unit_of("owner").words)
    ('patient', 'record', 'owner')
    """
    return words.partition(_UP_TO)[0]


def at_owners(words: str, owners: int) -> str:
    """A unit in words, of a person whom up to so many owners know.

    >>> at_owners("patient with up to 5 records", 2), at_owners("record", 1)
    ('patient with up to 5 records, at up to 2 owners', 'record')
    >>> at_owners("record", 2), at_owners("owner with up to 9 records", 2)
    ('record at each of up to 2 owners', 'owner with up to 9 records, up to 2 of them at once')
    """
    if owners == 1:
        return words
    if noun_of(words) == OWNER:
        return f"{words}, up to {owners:,} of them at once"
    return (
        f"{words} at each of up to {owners:,} owners"
        if words == "record"
        else f"{words}, at up to {owners:,} owners"
    )


def told_owners(owners_per_person: int) -> int:
    """How many owners know the person that every report speaks of: as many as were promised, and two at least."""
    return max(2, owners_per_person)


def several(words: str) -> str:
    """What several units are called, of a unit in words.

    >>> several("record"), several("patient with up to 5 records")
    ('records', 'units (patient)')
    """
    return "records" if words == "record" else f"units ({noun_of(words)})"


def counted(number: int, words: str) -> str:
    """A number of units, in words.

    >>> counted(1, "record"), counted(1200, "User with up to 5 records")
    ('1 record', '1,200 units (User)')
    """
    what = several(words)
    return (
        f"{number:,} {what}"
        if number != 1
        else "1 " + ("record" if words == "record" else what.replace("s", "", 1))
    )


def unit_of(
    unit: str | None, records: int | None = None, *, mean: bool = False, latest: str | None = None
) -> Unit:
    """The unit that users name: "record", "column:NAME" or "owner"; None: a record.

    >>> unit_of("column:patient")
    Unit(kind='column', column='patient', records=20, mean=False, latest=None)
    >>> unit_of("patient")
    Traceback (most recent call last):
    coterie.errors.InputError: unit='patient': must be record, column:NAME or owner. Did you mean column:patient?
    """
    kind, _, column = (unit or "record").partition(":")
    if kind not in MOST or (kind == "column") != bool(column):
        hint = f" Did you mean column:{unit}?" if unit not in (None, "column", "column:") else ""
        raise InputError(f"unit={unit!r}: must be record, column:NAME or owner.{hint}")
    if kind == "record":
        for name, given in (
            ("records_per_unit", records not in (None, 1)),
            ("latest", latest),
            ("unit_mean", mean),
        ):
            if given:
                raise InputError(
                    f"{name}: is for units of several records, and the unit is a record. Name the column that says "
                    "whose a record is: unit='column:NAME'."
                )
    return Unit(kind, column or None, MOST[kind] if records is None else records, mean, latest)  # type: ignore[arg-type]
