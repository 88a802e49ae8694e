"""Lines of a party's log with a level: warnings, and lines for the owner alone.

They are text like any other line, so that callers need nothing else; a log that knows levels asks `level_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Level = Literal["info", "warning", "error", "private"]
Log = Callable[[str], None]


class Line(str):
    """A line with a level."""

    level: Level

    def __new__(cls, text: str, level: Level) -> Line:
        """The text, marked."""
        line = super().__new__(cls, text)
        line.level = level
        return line


def warning(text: str) -> Line:
    """A line that an administrator should look at."""
    return Line(text, "warning")


def private(text: str) -> Line:
    """A line computed from records, for the owner's terminal: logs that others may collect leave it out."""
    return Line(text, "private")


def level_of(line: str) -> Level:
    """A line's level; plain text has the level "info"."""
    return line.level if isinstance(line, Line) else "info"
