"""Lines of a party's log that are more than news: warnings, and what is for the owner's eyes alone.

They are text as any other line, so that whoever logs needs nothing else; a log that knows levels asks `level_of`.
"""

from __future__ import annotations

from typing import Literal

Level = Literal["info", "warning", "error", "private"]


class Line(str):
    """A line with a level."""

    level: Level

    def __new__(cls, text: str, level: Level) -> Line:
        """The text, marked."""
        made = super().__new__(cls, text)
        made.level = level
        return made


def warning(text: str) -> Line:
    """Somebody should look at it."""
    return Line(text, "warning")


def private(text: str) -> Line:
    """Computed from records, for their owner's terminal: a log that others may collect leaves it out."""
    return Line(text, "private")


def level_of(line: str) -> Level:
    """A line's level; plain text is news."""
    return line.level if isinstance(line, Line) else "info"
