"""A column as people have it: what is public about it, and so how it becomes numbers.

Every range and every list of values is declared, never computed from rows. `missing` says what an empty cell counts as:
"" (it is refused), "middle" of what the column can be, "none" of a list, or "marked": the same, and an encoded column
of its own that is 1 there.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

MARKED = "marked"
MOST_PIXELS = 1 << 26  # values of an image
MONTHS = tuple(map(str, range(1, 13)))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = {"month": MONTHS, "weekday": WEEKDAYS}


class Numeric(NamedTuple):
    """A number with a public range, mapped onto [-1, 1]; `log` for amounts with a long tail."""

    name: str
    low: float
    high: float
    log: bool = False
    unit: str = ""  # in words, such as "years"
    missing: str = ""  # or middle, marked


class Plain(NamedTuple):
    """A number with a public range that is kept as it is."""

    missing = ""  # no field: an empty cell is refused

    name: str
    low: float
    high: float
    unit: str = ""


class Binned(NamedTuple):
    """A number cut at public edges into one-hot bins [e0, e1), [e1, e2), …; the outer bins catch the rest."""

    missing = ""

    name: str
    edges: tuple[float, ...]
    unit: str = ""

    @property
    def low(self) -> float:
        """The lowest edge."""
        return self.edges[0]

    @property
    def high(self) -> float:
        """The highest edge."""
        return self.edges[-1]


class Category(NamedTuple):
    """One of a public list of values, one-hot."""

    name: str
    values: tuple[str, ...]
    missing: str = ""  # or none, marked


class Flag(NamedTuple):
    """Yes or no, by public lists of words for each: 1 or 0, and 1/2 where it is neither."""

    name: str
    true: tuple[str, ...]
    false: tuple[str, ...]
    missing: str = ""  # or middle, marked


class Days(NamedTuple):
    """A date with a public range, in days since `origin`, mapped onto [-1, 1]."""

    name: str
    origin: str  # YYYY-MM-DD
    low: float  # in days since the origin
    high: float
    written: str  # how the file writes dates, such as DD.MM.YYYY
    missing: str = ""  # or middle, marked


class Parts(NamedTuple):
    """Parts of a date, each one-hot: its month, its weekday."""

    name: str
    parts: tuple[str, ...]  # of PARTS
    written: str
    missing: str = ""  # or none, marked


class Image(NamedTuple):
    """Pictures of one public shape, with a public range of their values; kept as they are, and the only feature."""

    missing = ""

    name: str
    shape: tuple[int, ...]  # height, width[, channels]
    low: float
    high: float


Field: TypeAlias = Numeric | Plain | Binned | Category | Flag | Days | Parts
Feature: TypeAlias = Field | Image


def is_text(field: Feature) -> bool:
    """Whether its cells are read as they are written."""
    return not isinstance(field, (Numeric, Plain, Binned, Image))
