"""Ctrl-C while something that runs Python for itself swallows it."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from coterie.cli._progress import progress


def swallowed() -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_was_swallowed_comes_back_at_the_next_word():
    with progress() as tell:
        tell("training", 0, 2)
        swallowed()
        with pytest.raises(KeyboardInterrupt):
            tell("training", 1, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_background_job_goes_on_ignoring_ctrl_c(interruptible):
    """Whoever started it with `nohup … &` meant it; the terminal's Ctrl-C is for the job in front."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with progress() as tell:
        signal.raise_signal(signal.SIGINT)
        tell("training", 1, 2)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
