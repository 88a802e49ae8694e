"""An owner's private state in rounds: always the one that belongs to its last release, or none at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_world import ToyOutlet

from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.voice import Voice
from coterie.federation.transport import wire
from coterie.program import State


class Side:
    """Its private state counts its messages; each message is the state."""

    layout = wire.foreign(np.zeros(1, np.int32))
    private_layout = public_layout = wire.layout(np.zeros(1, np.int32))

    def start(self) -> State:
        return State((), np.zeros(1, np.int32))

    def emit(self, state: State, step: int, turn: int) -> tuple[Any, Any]:
        return state.private, state.private + np.int32(1)


class Owner:
    """One whose process ends after every step."""

    def __init__(self, folder: Path) -> None:
        self.charged: dict[int, bytes] = {}
        self.path = folder / "journal"

    def say(self, step: int) -> int:
        with Journal.open(self.path) as journal:
            side: Any = Side()
            outlet: Any = ToyOutlet(self.charged, 99, journal)
            voice = Voice(side, outlet)
            voice.step = step - 1
            body = voice.release(str)
        assert body is not None
        return int(np.frombuffer(body, np.int32)[0])


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_a_restart_goes_on_from_the_state_of_the_last_release(owner):
    assert [owner.say(step) for step in (1, 2, 5)] == [0, 1, 2]
    del owner.charged[5]  # it died before the charge: nothing had left
    assert owner.say(6) == 2


@pytest.mark.parametrize("lost", [1, 2])
def test_a_state_whose_content_was_released_is_never_gone_back_to(owner, tmp_path, lost):
    """A power cut takes the journal's last moments, and never the ledger's: what is left belongs to an earlier one."""
    for step in (1, 2):
        owner.say(step)
    shutil.copy(owner.path, tmp_path / "before")
    for step in range(3, 3 + lost):
        owner.say(step)
    shutil.copy(tmp_path / "before", owner.path)
    assert owner.say(9) == 0  # there is nothing of any record in the state before the first message
