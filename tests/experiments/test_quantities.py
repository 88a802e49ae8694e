"""What a model of a quantity reaches by default, where its target lies in a small part of the declared range."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from coterie.experiments.experiment import Experiment
from coterie.experiments.run import run

ROWS = 5_000
COLUMNS = {"target": "days", "range": [0, 365], "columns": {name: [-4, 4] for name in "abcdef"}}


def stays(protocol: str) -> Experiment:
    """Days in hospital, few of them more than a month and a half."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 6)).clip(-4, 4)
    days = np.clip(30 + 10 * x[:, 0] - 6 * x[:, 1] + 4 * rng.normal(size=ROWS), 0, 365)
    frame = pd.DataFrame(x, columns=list("abcdef")).assign(days=days)
    return Experiment(
        data=frame,
        columns=COLUMNS,
        protocol=protocol,
        owners=3,
        partition="iid",
        topology="complete",
        epsilon=(4.0,),
        settings={"steps": 100} if protocol == "central_erm" else {"rounds": 100},
    )


@pytest.mark.parametrize("protocol", ["dual_averaging", "central_erm"])
def test_days_far_from_the_middle_of_their_range_are_learnt(protocol: str) -> None:
    """Clipped at the gradient's bound, and with an intercept that long rows shorten, the same budget leaves a model
    several times as far off as the mean of all rows is."""
    result = run(stays(protocol))
    assert result.joint < result.constant / 5
