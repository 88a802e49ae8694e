"""The user's own table: CSV, Parquet or NPZ with a target column and, if there is one, an owner column.

What is public about it comes from a columns file (`declared.py`): ranges read off the rows would be a release that
nobody charged. Without one, features must be numbers within [-1, 1]. Classes that are not declared are read off the
rows, and the table says so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.problems.datasets import persons, pixels
from coterie.problems.datasets._fit import (
    FittedColumns,
    Outside,
    check_some_fit,
    declared_targets,
    findings,
    fitted,
)
from coterie.problems.datasets._table import Loaded, held_out, tabled
from coterie.problems.datasets.declared import Columns, Declared, check_alone, declared
from coterie.problems.datasets.frames import (
    Frame,
    check_file,
    first_row,
    missing,
    numbers,
    read_as,
    read_frame,
    seen,
    texts,
)
from coterie.problems.datasets.kinds import as_field, is_id
from coterie.problems.fields import Feature, Image, Numeric
from coterie.problems.names import READERS, alike, natural, number_text
from coterie.problems.table import Table
from coterie.units import RECORD, Unit

LEAST_ROWS = 5
_MOST_CLASSES = 100  # above it a target of whole numbers is taken to be a quantity


class Target(NamedTuple):
    """What is to be learnt, of each row."""

    values: np.ndarray  # codes of classes, or a quantity in its own unit
    classes: tuple[str, ...]  # none of a quantity
    declared: bool  # whether classes, or the range, are somebody's word and not the rows'


def load_file(
    path: str | Path,
    target: str | None = None,
    owner: str | None = None,
    columns: Columns | None = None,
    unit: Unit = RECORD,
) -> Table:
    """Read a table; `columns` is a columns file, or its content as plain values.

    A target without declared classes or range is a class if it is text, booleans or few whole numbers. A fifth of the
    rows, or of units, at random with a fixed seed, is held out for testing; they are still somebody's records, so
    metrics on them are marked as oracle values, for the researcher.
    """
    path = Path(path)
    declaration = declared(columns, target)
    if declaration.target is None:
        check_file(path)
        raise InputError(
            f"target=None: name the column of {path} that is to be learnt (--target, or target in a columns file)."
        )
    text = {
        *declaration.texts,
        *([owner] if owner else []),
        *([] if declaration.range else [declaration.target]),
    }
    text |= set(persons.texts_of(unit, declaration))
    return table_of(read_frame(path, text), path.name, declaration, owner, unit=unit)


def table_of(
    frame: Frame,
    name: str,
    declaration: Declared,
    owner: str | None,
    test_too: bool = True,
    unit: Unit = RECORD,
) -> Table:
    """A `Table` of a data frame, of the columns that are declared, else of all.

    Unless some rows are for testing (`test_too`), all are learnt from, and tested on: their holder has others for that.
    """
    target = str(declaration.target)
    _check_roles(frame, name, declaration, owner, unit)
    whose, unit_findings = persons.read(frame, unit, declaration, name)
    candidates = tuple(
        str(column) for column in frame.columns if column not in (target, owner, unit.column, unit.latest)
    )
    for what, names in (("leave_out", declaration.leave_out), ("columns", declaration.columns)):
        for column in names:  # one that is left out by another name would let an id through
            if column not in frame.columns:
                raise missing(what, column, name, frame.columns)
    chosen = tuple(declaration.columns) or tuple(
        column for column in candidates if column not in declaration.leave_out
    )
    if not chosen or len(frame) < LEAST_ROWS:
        raise InputError(
            f"{name}: {len(frame)} rows and {len(chosen)} features; needs at least {LEAST_ROWS} rows, 1 feature."
        )
    x = _features(frame, chosen, declaration)
    y, outside = _target(frame[target], declaration)
    check_some_fit((*x.outside, *outside))
    test = held_out(len(frame), whose) if test_too else np.zeros(len(frame), bool)
    codes, names = _owners(frame[owner]) if owner else (None, ())
    stem = Path(name).stem if Path(name).suffix.lower() in READERS else name
    table = tabled(
        stem,
        Loaded(x.encoded, y.values, test, codes, names, whose),
        y.classes,
        declaration.range,
        target=target,
        target_unit=declaration.unit,
        source=stem,
        test_is_public=False,
        classes_declared=y.declared,
        columns_declared=not declaration.from_rows,
        left_out=tuple(column for column in candidates if column in declaration.leave_out),
        unused=tuple(column for column in candidates if column not in (*chosen, *declaration.leave_out)),
        findings=(*seen(frame), *unit_findings, *findings((*x.outside, *outside))),
        read_as=read_as(frame),
    )
    if test_too:
        return table
    if whose is not None:
        whose = whose._replace(tested=len(np.unique(whose.codes)))
    return replace(table, x_test=table.x, y_test=table.y, whose=whose)


def _check_roles(frame: Frame, name: str, declaration: Declared, owner: str | None, unit: Unit) -> None:
    """Target, owner and unit are columns, and not the same ones."""
    target = str(declaration.target)
    for what, column in (("target", target), ("owner", owner)):
        if column is not None and column not in frame.columns:
            raise missing(what, column, name, frame.columns)
    if owner is not None and owner == unit.column:
        raise InputError(
            f"unit={str(unit)!r}: is also the owner column. Say --unit owner, to protect all of an owner."
        )
    if owner is not None and owner in (target, *declaration.columns):
        raise InputError(f"owner={owner!r}: is also the target or a feature. Name another column.")


def _features(frame: Frame, chosen: tuple[str, ...], declaration: Declared) -> FittedColumns:
    fields: list[Feature] = []
    for name in chosen:
        if name in declaration.columns:
            fields.append(as_field(name, declaration.columns[name]))
        else:
            if is_id(name):
                raise InputError(
                    f"feature {name!r}: is named like an id, which says who a row is about. Name it in leave_out of a "
                    "columns file (--columns), or list its values there."
                )
            fields.append(_undeclared(frame[name], name))
    check_alone(fields)
    return fitted(frame, fields)


def _undeclared(column: Frame, name: str) -> Feature:
    """Values within [-1, 1]. An array's shape is in its file's header, as names of columns are, and so is public."""
    shape = pixels.shape_of(column)
    if shape is None:
        outside = np.abs(numbers(column)) > 1
        if outside.any():  # the message names a row but no value: logs travel further than data should
            raise InputError(
                f"feature {name!r}: row {first_row(outside)} is outside [-1, 1]."
                f" Give its public range in a columns file (--columns): [columns] {name} = [low, high]."
            )
        return Numeric(name, -1.0, 1.0)
    outside = np.abs(pixels.stacked(column, shape).reshape(len(column), -1)).max(axis=1) > 1
    if outside.any():
        raise InputError(
            f"feature {name!r}: image {first_row(outside)} has a value outside [-1, 1]. Give the public range in a "
            f"columns file (--columns): [columns] {name} = {{image = {list(shape)}, range = [low, high]}}."
        )
    return Image(name, shape, -1.0, 1.0)


def _target(column: Frame, declaration: Declared) -> tuple[Target, tuple[Outside, ...]]:
    if column.isna().any():
        raise InputError(
            f"target={column.name!r}: row {first_row(column.isna())} is empty. Remove such rows."
        )
    if declaration.range is None and not declaration.classes:
        return _classes_of(column), ()
    values, outside = declared_targets(column, declaration)
    return Target(values, declaration.classes, True), outside


def _classes_of(column: Frame) -> Target:
    """Classes as the rows have them: one record can show in the list, which the table says."""
    words = texts(column)
    plain = {word: number_text(word) for word in set(words.tolist())}
    are_numbers = None not in plain.values()
    if are_numbers:  # 1 and 1.0 are the same class
        words = np.array([plain[word] for word in words.tolist()], object)
    classes = sorted(set(words.tolist()), key=float if are_numbers else natural)
    fractions = are_numbers and not all(float(word).is_integer() for word in classes)
    if fractions or len(classes) > _MOST_CLASSES:
        raise InputError(
            f"target={column.name!r}: a quantity needs a public range. Give it in a columns file (--columns): range = "
            "[low, high]."
        )
    if len(classes) < 2:
        raise InputError(f"target={column.name!r}: has one class, {classes[0]!r}; needs at least 2.")
    _check_spelling("target", column.name, words, "declare classes in a columns file")
    code = {word: at for at, word in enumerate(classes)}
    return Target(np.array([code[word] for word in words.tolist()]), tuple(classes), False)


def _check_spelling(what: str, name: Any, words: np.ndarray, otherwise: str) -> None:
    """InputError where names look alike to a person: they are one, or a mistake, and only their holder knows."""
    groups = alike(words.tolist())
    if groups:
        rows = Counter(words.tolist())
        spellings = ", ".join(
            f"{word!r} ({rows[word]:,} row{'s' * (rows[word] > 1)})" for word in groups[0][:5]
        )
        raise InputError(
            f"{what}={name!r}: {spellings} differ only in spaces, capitals or leading zeros."
            f" Write them alike, or {otherwise}."
        )


def _owners(column: Frame) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes and names, in natural order."""
    if column.isna().any():
        raise InputError(
            f"owner={column.name!r}: row {first_row(column.isna())} is empty. Give every row an owner."
        )
    words = texts(column)
    _check_spelling("owner", column.name, words, "give different owners names that differ")
    names = tuple(sorted(set(words.tolist()), key=natural))
    code = {name: at for at, name in enumerate(names)}
    return np.array([code[word] for word in words.tolist()]), names
