"""Which signals ask a node to stop."""

import signal

import pytest

from coterie.federation.drive import stopping


@pytest.mark.usefixtures("interruptible")
def test_the_first_ctrl_c_asks_and_the_second_interrupts():
    with stopping() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_node_in_the_background_goes_on_ignoring_ctrl_c(interruptible):
    """A shell starts background jobs that way: the terminal's Ctrl-C is for the job in front."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stopping() as asked:
        signal.raise_signal(signal.SIGINT)
        assert not asked()
        signal.raise_signal(signal.SIGTERM)
        assert asked()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
