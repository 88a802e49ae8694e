"""Owners behind slow lines, 1 Mbit/s, 200 ms one way, 1 % of segments lost: the run ends as on fast ones."""

from __future__ import annotations

import numpy as np
from links import Links
from parties import Trial

from coterie.federation.transport.machine import Patience

ROUNDS = 12


def test_a_run_over_slow_lines_ends_with_the_model_of_fast_ones(tmp_path):
    trial = Trial(
        tmp_path,
        (12, 7, 9),
        protocol="dual_averaging",
        settings={"rounds": ROUNDS},
        topology="complete",
        gossip_steps=1,
        patience=Patience(wait=60.0),
    )
    links = Links(trial, delay=0.2, rate=1e6 / 8, loss=0.01)
    try:
        for name in trial.names:
            trial.start(name)
        trial.finish()
    finally:
        trial.stop()
        links.close()
    for name, model in zip(trial.names, trial.undisturbed(), strict=True):
        np.testing.assert_allclose(trial.model(name), model, rtol=1e-4, atol=1e-4)
        with trial.ledger(name) as ledger:
            assert len(ledger.rounds(trial.planned.agreement.run)) == ROUNDS
