"""Ctrl-C while something that runs Python for itself swallows it."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from coterie.cli._progress import progress


def swallowed() -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_was_swallowed_comes_back_at_the_next_word():
    with progress() as tell:
        tell("training", 0, 2)
        swallowed()
        with pytest.raises(KeyboardInterrupt):
            tell("training", 1, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
