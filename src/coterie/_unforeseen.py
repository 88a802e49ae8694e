"""An exception that nobody foresaw, told without its message.

Messages of libraries quote what they were at work on: "could not convert string to float: '…'" has a cell of a record
in it. A class and a place are what finds the fault, and both are of programs alone.
"""

from __future__ import annotations

import traceback
from types import TracebackType

_OURS = "coterie"


def told(error: BaseException) -> str:
    """Its class, where it was raised, and where we called: one line.

    Guarantee: made of names and line numbers of modules, of nothing that the exception holds.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    left_out = "what it says is left out, for it may name what is in a record"
    return f"unforeseen {name}{_place(error.__traceback__)}; {left_out}"


def _place(trace: TracebackType | None) -> str:
    places = [(str(frame.f_globals.get("__name__")), line) for frame, line in traceback.walk_tb(trace)]
    if not places:
        return ""
    ours = [place for place in places if place[0].partition(".")[0] == _OURS]
    raised = "{}:{}".format(*places[-1])
    if not ours or ours[-1] == places[-1]:
        return f" at {raised}"
    return f" at {raised}, called from {ours[-1][0]}:{ours[-1][1]}"
