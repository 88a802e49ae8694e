"""The stored GPU runs: the graph is the catalogue's, the certificates are those of the settings, nothing is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from resnet_cifar import OWNERS, ROUNDS, RUNS, Run, one_peer_exponential, operations

from coterie.accounting import certify
from coterie.mechanisms import FixedSize
from coterie.topologies import build

STORED = json.loads((Path(__file__).parent / "resnet_cifar.json").read_text())


def test_the_graph_is_the_catalogues() -> None:
    made, known = one_peer_exponential(), build("one_peer_exponential", OWNERS)
    assert len(made.schedule) == len(known.schedule)
    for one, other in zip(made.schedule, known.schedule):
        for ours, theirs in zip(one, other):
            np.testing.assert_array_equal(ours, theirs)


def test_every_policy_ran_to_the_end_with_either_batch() -> None:
    ran = {run["run"]: run for run in STORED["runs"]}
    for batch in (1, 8):
        for policy in ("none", "adaptive-0.04", "constant-0.04", "clipped-0.04"):
            run = ran[f"{policy}-b{batch}"]
            assert run["step"][-1] == run["rounds"] == ROUNDS
            assert Run(**run["settings"]) == RUNS[run["run"]]
            assert len(run["accuracy"]) == len(run["loss"]) == len(run["slope"]) == len(run["step"])


@pytest.mark.parametrize("batch", [1, 8])
def test_the_clipped_policys_certificate_is_computed_again(batch: int) -> None:
    from dp_accounting import GaussianDpEvent

    run = next(run for run in STORED["runs"] if run["run"] == f"clipped-0.04-b{batch}")
    event = FixedSize(batch).event(GaussianDpEvent(0.04), 2500, ROUNDS)
    again = certify(event, delta=1e-5, relation="replace_one", view="public transcript", size=2500)
    assert run["certificate"]["epsilon"] == pytest.approx(again.epsilon, rel=1e-3)


def test_other_policies_have_no_finite_certificate() -> None:
    others = [run for run in STORED["runs"] if run["settings"]["policy"] != "clipped"]
    assert {run["certificate"]["epsilon"] for run in others} == {"inf"}


def test_a_record_takes_the_known_number_of_operations() -> None:
    assert operations() == pytest.approx(
        6 * 0.5554e9, rel=1e-3
    )  # 0.56 billion products forward, as is well known
