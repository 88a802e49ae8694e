"""The column that says whom a row is about: read, checked, and what the file's holder should see of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets.dates import WRITTEN, dates_of
from coterie.problems.datasets.declared import Declared, as_feature
from coterie.problems.datasets.frames import Frame, first_row, missing, numbers, texts
from coterie.problems.datasets.kinds import Spec
from coterie.problems.fields import Parts, is_text
from coterie.problems.names import alike
from coterie.problems.whose import Whose
from coterie.units import Unit


def read(
    frame: Frame, unit: Unit, declaration: Declared, source: str, alone: bool = False
) -> tuple[Whose | None, tuple[str, ...]]:
    """Whom each row is about, and what was seen, for the holder's eyes; None where units are no groups of rows.

    `alone`: the file is one owner's of several, and may have one record of each unit where others have more.
    """
    for what, column in (("unit column", unit.column), ("latest", unit.latest)):
        if column is not None and column not in frame.columns:
            raise missing(what, column, source, frame.columns)
    when = None if unit.latest is None else _when(frame[unit.latest], declaration.columns)
    if unit.kind != "column":
        return None if when is None else Whose(np.arange(len(frame)), when), ()
    if unit.column in (declaration.target, *declaration.columns):
        raise as_feature(str(unit.column))
    names = _names(frame[unit.column])
    codes = codes_of(names)
    if not alone and len(names) > 1 and codes.max() + 1 == len(names):
        raise InputError(
            f"unit={str(unit)!r}: has another value in every row, so that each unit is one record. Say --unit record, "
            "or name the column that says whose records belong together."
        )
    return Whose(codes, when), _seen(names, unit)


def codes_of(names: np.ndarray) -> np.ndarray:
    """Units numbered as they first appear: by no order of ids, in which replacing one would renumber the others."""
    import pandas as pd

    return pd.factorize(names)[0]


def texts_of(unit: Unit, declaration: Declared) -> set[str]:
    """Names of the columns that must be read as they are written: of texts, classes, units and dates."""
    names = {field.name for field in declaration.fields if is_text(field)}
    if declaration.range is None:
        names.add(str(declaration.target))
    if unit.column is not None:
        names.add(unit.column)
    if unit.latest is not None and not _is_number(declaration.columns.get(unit.latest)):
        names.add(unit.latest)
    return names


def _names(column: Frame) -> np.ndarray:
    blank = column.isna().to_numpy() | np.array([str(cell).strip() == "" for cell in column.tolist()])
    if blank.any():
        raise InputError(
            f"unit='column:{column.name}': row {first_row(blank)} is empty. Say whom every row is about, or remove it."
        )
    return texts(column).astype(str)


def _seen(names: np.ndarray, unit: Unit) -> tuple[str, ...]:
    """What a holder should look at: ids that a person takes for one, and how many records stay."""
    sentences = []
    groups = alike(names.tolist())
    if groups:
        few = ", ".join(map(repr, groups[0][:5]))
        sentences.append(
            f"unit column {unit.column!r}: {few} differ only in spaces, capitals or leading zeros, and count as "
            f"different units ({len(groups):,} such group{'s' * (len(groups) > 1)}). If they are one {unit.noun}, "
            "write them alike: the guarantee is for each of them alone."
        )
    counts = Counter(names.tolist())
    above = sum(records > unit.records for records in counts.values())
    if above:
        staying = sum(min(records, unit.records) for records in counts.values())
        sentences.append(
            f"unit column {unit.column!r}: {above:,} of {len(counts):,} units have more than {unit.records:,} records, "
            f"of which {_which(unit)} are kept; {staying:,} of {len(names):,} records stay."
        )
    return tuple(sentences)


def _which(unit: Unit) -> str:
    return "some, chosen at random," if unit.latest is None else f"the latest by {unit.latest!r}"


def _is_number(spec: Spec | None) -> bool:
    if isinstance(spec, Mapping):
        return "range" in spec and "date" not in spec
    return spec is not None and not all(isinstance(value, str) for value in spec)


def _when(column: Frame, columns: Mapping[str, Spec]) -> np.ndarray:
    """Dates as their column is declared to write them; numbers as they are."""
    spec = columns.get(str(column.name))
    if column.dtype.kind in "iuf" or _is_number(spec):
        return numbers(column)
    if column.isna().any():
        raise InputError(
            f"latest={column.name!r}: row {first_row(column.isna())} is empty. Give every row a date."
        )
    written = spec.get("written", WRITTEN) if isinstance(spec, Mapping) else WRITTEN
    return dates_of(Parts(str(column.name), (), str(written)), column.to_numpy()).astype(np.int64)
