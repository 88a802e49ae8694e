"""A command's progress on standard error: a bar in a terminal, a few plain lines in a log."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

Tell = Callable[[str, int, int], None]  # (what, done, of); of = 0 where the length is unknown

_PATIENCE = 2.0  # seconds before the first line of a log
_PAUSE = 10.0  # seconds between two lines of a log


@contextmanager
def progress() -> Iterator[Tell]:
    """Yield the function that reports progress. The bar is removed at the end, so that an error stands alone."""
    with _interruptible() as pressed, _bar() if sys.stderr.isatty() else nullcontext(_log()) as tell:

        def heard(what: str, done: int, of: int) -> None:
            if pressed():
                raise KeyboardInterrupt
            tell(what, done, of)

        yield heard


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C came: it is raised as usual and remembered, as compilers that run Python may swallow it."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    if before is not signal.default_int_handler:  # another handler, or ignored
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar() -> Iterator[Tell]:
    """One line, whose words change with the phase."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("starting", total=None)
        phase = ""

        def tell(what: str, done: int, of: int) -> None:
            nonlocal phase
            if what != phase:
                phase = what
                bar.reset(line, total=of or None)
            words = f"{what} (compiling)" if of and not done else what
            bar.update(line, description=words, completed=done, total=of or None)

        yield tell


def _log(clock: Callable[[], float] = time.monotonic) -> Tell:
    """A line from time to time in a long measured phase, none while the input is being checked."""
    started = last = clock()

    def tell(what: str, done: int, of: int) -> None:
        nonlocal last
        now = clock()
        due = now - started >= _PATIENCE and (last == started or now - last >= _PAUSE)
        if of and due:
            print(f"{what}: {done:,} of {of:,}, {now - started:.0f} s", file=sys.stderr, flush=True)
            last = now

    return tell
