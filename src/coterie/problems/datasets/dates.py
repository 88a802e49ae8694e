"""Dates as a file writes them, each cell by itself and in the one way that is declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np

from coterie.errors import InputError
from coterie.problems.fields import Days, Parts

WRITTEN = "YYYY-MM-DD"  # unless somebody says otherwise
_DIGITS = {"YYYY": "(?P<year>[0-9]{4})", "MM": "(?P<month>[0-9]{1,2})", "DD": "(?P<day>[0-9]{1,2})"}


def reader(what: str, written: str) -> Callable[[Any], date | None]:
    """A function from a cell to its date, None of what is none.

    >>> reader("date", "DD.MM.YYYY")("3.07.2021"), reader("date", "DD.MM.YYYY")("2021-07-03")
    (datetime.date(2021, 7, 3), None)
    """
    pattern = re.escape(written)
    for token, digits in _DIGITS.items():
        if written.count(token) != 1:
            raise InputError(
                f"{what}: written={written!r:.40} must have YYYY, MM and DD once each, such as 'DD.MM.YYYY'."
            )
        pattern = pattern.replace(token, digits)
    compiled = re.compile(rf"\s*{pattern}\s*")

    def read(cell: Any) -> date | None:
        if isinstance(cell, date):  # as Parquet has them; a time of day is left out
            return date(cell.year, cell.month, cell.day)
        matched = compiled.fullmatch(cell) if isinstance(cell, str) else None
        return _date(matched) if matched else None

    return read


def _date(matched: re.Match[str]) -> date | None:
    try:
        return date(*(int(matched[part]) for part in ("year", "month", "day")))
    except ValueError:  # such as 30 February
        return None


def dates_of(field: Days | Parts, cells: np.ndarray) -> np.ndarray:
    """A column as datetime64[D]; InputError names the first row that is no date as it is declared."""
    if cells.dtype.kind == "M":
        return cells.astype("datetime64[D]")
    read = reader(f"column {field.name!r}", field.written)
    known = {cell: read(cell) for cell in set(cells.tolist())}
    dates = [known[cell] for cell in cells.tolist()]
    if None in known.values():
        row = next(number for number, parsed in enumerate(dates, 1) if parsed is None)
        raise InputError(
            f"column {field.name!r}: row {row} is no date written as {field.written}. Correct or remove such rows."
        )
    return np.array(dates, "datetime64[D]")


def days_since(origin: str, dates: np.ndarray) -> np.ndarray:
    """Days as numbers, NaN where there is no date."""
    days = (dates - np.datetime64(origin, "D")).astype("timedelta64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.float64))


def day(field: Days, days: float) -> str:
    """The date that is so many days from a column's origin.

    >>> day(Days("admitted", "2020-01-01", -1.0, 1.0, WRITTEN), -1.0)
    '2019-12-31'
    """
    return (date.fromisoformat(field.origin) + timedelta(days=days)).isoformat()


def part_codes(part: str, dates: np.ndarray) -> np.ndarray:
    """Which of the part's names each date has, -1 where there is no date."""
    none = np.isnat(dates)
    filled = np.where(none, np.datetime64("1970-01-01", "D"), dates)
    if part == "month":
        codes = filled.astype("datetime64[M]").astype(np.int64) % 12
    else:
        codes = (filled.astype(np.int64) + 3) % 7  # 1 January 1970 was a Thursday
    return np.where(none, -1, codes)
