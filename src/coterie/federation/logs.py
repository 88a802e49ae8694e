"""A party's log on standard error: for people, or one JSON object a line for a collector.

Guarantee: JSON lines hold names, counts, times and words about them. What was computed from records (`lines.private`)
is left out, for such logs are sent on to machines that are not the owner's; people get it, on the owner's terminal.
Neither gets the message of an exception that nobody foresaw (`_unforeseen`).
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from coterie import _check, _unforeseen
from coterie.errors import CoterieError, RecordsError
from coterie.federation.transport.lines import Line, Log, level_of

FORMATS = ("text", "json")


def log(form: str, **always: Any) -> Log:
    """The function that logs lines; `always` are fields of every JSON line, such as the party's name."""
    if _check.one_of("log_format", form, FORMATS) == "text":
        return _text

    def write(line: str) -> None:
        if level_of(line) != "private":
            entry(level_of(line), line, **always)

    return write


def entry(level: str, message: str, **fields: Any) -> None:
    """One JSON line: UTC to the millisecond, level, words, and fields beside them."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    print(
        json.dumps({"time": now, "level": level, **fields, "message": message}), file=sys.stderr, flush=True
    )


def failure(error: CoterieError) -> None:
    """How a party ended, as a JSON line."""
    entry("error", public(error), exit_status=error.exit_status)


def public(error: CoterieError) -> str:
    """An error for a log that others collect: without what it says of records, but with where to read that."""
    if isinstance(error, RecordsError):
        return (
            "data: the records do not fit the agreement. Why is for their owner's eyes, on a terminal: coterie node "
            "FOLDER --data FILE --check"
        )
    return str(error)


@contextmanager
def guarded(form: str) -> Iterator[None]:
    """In the block, Python prints only class and place of an exception in a thread or a finaliser.

    JSON lines are all that standard error gets in that form: warnings of libraries, and what they log, which may come
    of what is in records (an overflow), are left out.
    """
    write, before = log(form), (threading.excepthook, sys.unraisablehook)
    unheard = logging.lastResort  # the handler of loggers that have none

    def tell(about: Any) -> None:
        if about.exc_value is not None:
            write(Line(_unforeseen.told(about.exc_value), "error"))

    threading.excepthook = sys.unraisablehook = tell
    try:
        with warnings.catch_warnings():
            if form == "json":
                warnings.simplefilter("ignore")
                logging.lastResort = logging.NullHandler()
            yield
    finally:
        logging.lastResort = unheard
        threading.excepthook, sys.unraisablehook = before


def _text(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
