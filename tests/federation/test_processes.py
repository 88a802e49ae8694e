"""Every protocol, for real: processes over mutual TLS say what the simulator says; eight of them in each shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from parties import Trial

from coterie.federation.transport import wire
from coterie.program import Rounds
from coterie.protocols import PROTOCOLS

SIZES = (12, 7, 9, 10, 8, 11, 6, 9)
EIGHT = (
    "async_learner",
    "dual_averaging",
    "weighted_erm",
    "wor_sgd",
)  # one for each shape; four owners do elsewhere
ROWS: dict[str, dict[str, Any]] = {
    "async_learner": {"settings": {"ticks": 16}},
    "average_erm": {},
    "central_erm": {},
    "deep_q": {"settings": {"policy": "coin"}},
    "dual_averaging": {"settings": {"rounds": 4}, "topology": "ring"},
    "push_sum": {"settings": {"rounds": 4}, "topology": "one_peer_exponential"},
    "random_walk": {},
    "weighted_erm": {},
    "wor_sgd": {},
}


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[list[Trial]]:
    started: list[Trial] = []
    yield started
    for trial in started:
        trial.stop()


def test_every_protocol_has_a_row():
    assert set(ROWS) == set(PROTOCOLS)


@pytest.mark.parametrize("name", ROWS)
def test_processes_say_what_the_simulator_says(name, tmp_path, trials):
    trial = Trial(tmp_path, SIZES if name in EIGHT else SIZES[:4], protocol=name, **ROWS[name])
    trials.append(trial)
    for party in trial.names:
        trial.start(party)
    trace = trial.simulated()
    trial.finish()
    _same_models(trial, trace)
    _same_messages(trial, trace)


def _same_models(trial: Trial, trace: Any) -> None:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(trace.model)]
    for at, name in enumerate(trial.planned.agreement.owners):
        row = at if len(leaves[0]) > 1 else 0
        expected = np.concatenate([leaf[row].ravel() for leaf in leaves])
        np.testing.assert_allclose(trial.model(name), expected, rtol=1e-4, atol=1e-4)


def _same_messages(trial: Trial, trace: Any) -> None:
    """What the ledgers hold is what the simulator's transcript holds, and within the budgets."""
    planned = trial.planned
    rounds = isinstance(planned.program.functions, Rounds)
    schedule = None if rounds else np.asarray(planned.program.schedule)
    for at, name in enumerate(planned.agreement.owners):
        with trial.ledger(name) as ledger:
            assert ledger.spent().epsilon <= planned.task.epsilon[at] + 1e-9
            charged = ledger.rounds(planned.agreement.run)
            assert len(charged) == (int(planned.program.schedule) if rounds else int(trace.turns[at]))
            for step in charged:
                body = ledger.stored(planned.agreement.run, step)
                assert body is not None
                assert schedule is None or schedule[step - 1] == at
                _close(
                    wire.unpack(body, planned.layout),
                    trace.messages,
                    (step - 1, at) if rounds else (step - 1,),
                )


def _close(said: Any, everything: Any, place: tuple[int, ...]) -> None:
    expected = jax.tree.map(lambda leaf: np.asarray(leaf)[place], everything)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), said, expected)
