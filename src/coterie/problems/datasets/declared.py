"""The columns file: what is public about a table, written down by people who know it without looking at rows.

    target = "income"
    classes = ["low", "high"]      # or, for a quantity: range = [0, 250000]

    [columns]
    age = [17, 90]                 # a number's public range; values outside are moved to its ends
    sex = ["F", "M"]               # a category's public values; others count as none of them

Tables in their place say more, and name other kinds (`kinds.py`). `leave_out` lists columns that are no features.
`from_rows = true` says that the file was made from rows (`init.py`), which those who use it are told.
`privacy_unit = "patient"` names the column that says whom a record is about, with `records_per_unit = 5` and
`latest = "visited"` where they are wanted (`units.py`).
The columns that it lists are the features, and no others. A network's file says all of this (`schema.py`). For a file
of one's own the target may be named elsewhere, and each part may be missing; what then is read off rows is said.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from coterie import _check
from coterie.errors import InputError
from coterie.problems.datasets.kinds import Spec, as_field, is_list, plain, span
from coterie.problems.fields import Feature, Image
from coterie.problems.names import number_text
from coterie.units import Unit, unit_of

Columns: TypeAlias = Mapping[str, Any] | str | Path  # the file's content as plain values, or its path
_KEYS = ("target", "classes", "range", "unit", "columns", "leave_out", "from_rows", "privacy_unit",
         "records_per_unit", "latest")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a columns file says; what it does not say is None or empty."""

    target: str | None = None
    columns: Mapping[str, Spec] = field(default_factory=dict)  # by name
    classes: tuple[str, ...] = ()
    range: tuple[float, float] | None = None  # of a target that is a quantity
    unit: str = ""  # of that quantity, in words
    leave_out: tuple[str, ...] = ()  # columns that are never a feature, such as ids
    from_rows: bool = False  # whether ranges and lists were read off rows
    privacy_unit: str | None = None  # the column that says whom a record is about: no feature
    records_per_unit: int | None = None
    latest: str | None = None  # the date column that says which records of a unit stay

    def __post_init__(self) -> None:
        if self.target in self.columns:
            raise InputError(f"target={self.target!r}: is among the columns. A target is no feature.")
        for name in self.leave_out:
            if name in self.columns or name == self.target:
                where = "the target" if name == self.target else "among the columns"
                raise InputError(f"leave_out: {name!r} is also {where}. Take it out of one of them.")
        if self.privacy_unit is not None and self.privacy_unit in (self.target, *self.columns):
            raise as_feature(self.privacy_unit)
        if self.classes and self.range is not None:
            raise InputError(
                f"target={self.target!r}: give its classes, or the range of a quantity, not both."
            )
        if self.classes and (len(self.classes) < 2 or len(set(self.classes)) < len(self.classes)):
            raise InputError(f"classes={list(self.classes)}: must be two or more different values.")
        if self.range is not None:
            span("range", self.range)
        elif self.unit:
            raise InputError(
                f"unit={self.unit!r}: is a quantity's, and the target has no range. Give one, or no unit."
            )
        check_alone(self.fields)

    @property
    def fields(self) -> tuple[Feature, ...]:
        """The columns, as they are encoded."""
        return tuple(as_field(name, values) for name, values in self.columns.items())

    def unit_with(
        self, unit: str | None, records: int | None = None, mean: bool = False, latest: str | None = None
    ) -> Unit:
        """The unit of privacy, with what was said of it beside the file; the two must not contradict."""
        own = None if self.privacy_unit is None else f"column:{self.privacy_unit}"
        if own is not None and unit not in (None, own, "record", "owner"):
            raise InputError(f"unit={unit!r}: the columns file says {own!r}. Give one of them.")
        if unit in (None, own):
            records = self.records_per_unit if records is None else records
            latest = latest or self.latest
        return unit_of(unit or own, records, mean=mean, latest=latest)


def as_feature(column: str) -> InputError:
    """The error about a unit column that a model would learn from."""
    return InputError(
        f"privacy unit {column!r}: is also the target or a feature. It says whom a record is about, and nothing may be "
        "learnt from it: take it out of the columns."
    )


def check_alone(fields: Sequence[Feature]) -> None:
    """Images are no column among others: features are made of a whole picture."""
    images = [field.name for field in fields if isinstance(field, Image)]
    if images and len(fields) > 1:
        raise InputError(
            f"column {images[0]!r}: holds images, which are the only feature. Take the other columns out of [columns]."
        )


def from_json(value: Any, source: str) -> Declared:
    """What plain values say, as an agreement or a TOML file has them."""
    if not isinstance(value, Mapping):
        raise InputError(f"{source}: must be a table with target, classes or range, and columns.")
    for key in value:
        if key not in _KEYS:
            raise InputError(
                f"{source}: unknown key {key!r}.{_misplaced(key, value[key])} Known keys: {', '.join(sorted(_KEYS))}."
            )
    target, columns = value.get("target"), value.get("columns", {})
    if not (target is None or isinstance(target, str)) or not isinstance(columns, Mapping):
        raise InputError(f'{source}: target must be a text, target = "…", and columns a table, [columns].')
    classes, limits = value.get("classes", []), value.get("range")
    if not is_list(classes) or not (limits is None or is_list(limits)):
        raise InputError(f"{source}: classes and range must be lists.")
    if not isinstance(value.get("unit", ""), str):
        raise InputError(f"{source}: unit must be a text, such as days.")
    for name, spec in columns.items():
        if not is_list(spec) and not isinstance(spec, Mapping):
            raise InputError(f"{source}: column {name!r} must be [low, high], a list of values, or a table.")
    left, from_rows = value.get("leave_out", []), value.get("from_rows", False)
    if (
        not is_list(left)
        or not all(isinstance(name, str) for name in left)
        or not isinstance(from_rows, bool)
    ):
        raise InputError(f"{source}: leave_out must be a list of columns, and from_rows true or false.")
    return Declared(
        target=target,
        columns={name: tuple(spec) if is_list(spec) else plain(spec) for name, spec in columns.items()},
        unit=value.get("unit", ""),
        leave_out=tuple(left),
        from_rows=from_rows,
        classes=tuple(_class(label, source) for label in classes),
        range=None if limits is None else span("range", limits),
        **_of_units(value, source),
    )


def _misplaced(key: str, content: Any) -> str:
    """What an unknown key may have been meant as: a known one, mistyped, or a column above [columns]."""
    meant = _check.meant(key, _KEYS)
    if not is_list(content):
        return meant
    if any(isinstance(entry, str) for entry in content):  # no range
        return meant or f' A column\'s values go below [columns]: {key} = ["…", "…"].'
    return f"{meant} A column's range goes below [columns]: {key} = [low, high]."


def _of_units(value: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What it says about the unit of privacy."""
    unit, records, latest = (value.get(key) for key in ("privacy_unit", "records_per_unit", "latest"))
    if not all(column is None or (isinstance(column, str) and column) for column in (unit, latest)):
        raise InputError(f'{source}: privacy_unit and latest must name columns, privacy_unit = "patient".')
    if records is not None and (type(records) is not int or records < 1):
        raise InputError(f"{source}: records_per_unit={records!r:.40}: must be a whole number, at least 1.")
    if unit is None and (records is not None or latest is not None):
        raise InputError(
            f'{source}: records_per_unit and latest need privacy_unit = "…", the column of the unit.'
        )
    return {"privacy_unit": unit, "records_per_unit": records, "latest": latest}


def read_toml(path: Path) -> Declared:
    """What a TOML file says."""
    try:
        return from_json(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise InputError(f"columns={str(path)!r}: cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"columns={str(path)!r}: is not TOML ({error}).") from error


def declared(columns: Columns | None, target: str | None = None) -> Declared:
    """What a columns file says, with the target that was named beside it; the two must not contradict."""
    if columns is None:
        return Declared(target=target)
    declaration = from_json(columns, "columns") if isinstance(columns, Mapping) else read_toml(Path(columns))
    if target is not None and declaration.target not in (None, target):
        raise InputError(
            f"target={target!r}: the columns file says {declaration.target!r}. Give one of them."
        )
    return replace(declaration, target=target or declaration.target)


def _class(value: Any, source: str) -> str:
    """The name of a class; 1 and 1.0 are the same one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError(f"{source}: classes: {value!r} must be a text, as the file has it, or a number.")
    return value if isinstance(value, str) else number_text(repr(value)) or repr(value)
