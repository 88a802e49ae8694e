"""Every protocol comes to what it came to at commit 760ce9f: models on three engines, noise, claims and certificates.

The numbers below were computed by that commit's own code (`simulate` with JAX 0.10.2, on a CPU). Settings leave nothing
to defaults that have changed since. The certified `*_erm` descend here, as all did then: they still do where a penalty
is not convex. Whoever has to change a number here has changed what a run computes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import worlds

from coterie import topologies
from coterie.accounting.plans import certificates_of
from coterie.engines.simulate import simulate
from coterie.engines.spmd import spmd
from coterie.engines.sweep import Lane, sweep
from coterie.problems.penalties import sine
from coterie.program import Holdings, Program
from coterie.protocols import PROTOCOLS, build

SIZES, BUDGETS, DIM, DELTA, SEED = (24, 9, 15), (0.6, 2.0, 1.0), 3, 1e-4, 3
STEPS = {"steps": 4, "step_size": 0.5}
DESCENT = {**STEPS, "clip": 1.0}
WALK = {"batch": 4, "step": 0.5, "radius": 10.0}


class Row(NamedTuple):
    """A run, and what 760ce9f made of it."""

    protocol: str
    calibration: str
    settings: dict[str, Any]
    model: tuple[float, ...]  # the last owner's, or the register
    noise: float  # the first owner's, over its clip norm
    claimed: float | None
    certified: tuple[float, ...]


ROWS = [
    Row("async_learner", "certified", {"ticks": 12, "rho": 10.0},
        (4.04205, 0.557673, -0.785502), 30.0695548, None, BUDGETS),
    Row("async_learner", "paper", {"ticks": 12, "rho": 10.0},
        (-2.82614, -6.23338, -3.66276), 23.0940108, 2.0, (0.513256207, 0.865226078, 0.432213372)),
    Row("average_erm", "certified", DESCENT,
        (0.226283, -0.254769, 0.186596), 20.3884991, 0.515663113, (0.588686853, 1.78856989, 1.0)),
    Row("average_erm", "paper", STEPS,
        (0.495784, -0.692634, -0.15783), 17.8189954, 0.6, (0.685040030, 2.08831260, 1.16482468)),
    Row("central_erm", "certified", DESCENT,
        (0.188205, -0.173719, 0.174359), 11.5737770, 0.6, (0.6, 0.6, 0.6)),
    Row("central_erm", "paper", STEPS,
        (-0.131973, -0.356213, -0.131713), 11.5737770, 0.6, (0.6, 0.6, 0.6)),
    Row("deep_q", "certified", {"policy": "coin", **WALK},
        (-0.674766, -0.429151, 1.9627), 10.0231849, 5.00891959, BUDGETS),
    Row("deep_q", "paper", {"policy": "coin", **WALK},
        (0.525119, 0.637629, 1.5635), 28.9574154, 2.0, (0.181763613, 0.704808091, 0.323269478)),
    Row("dual_averaging", "certified", {"rounds": 6, "gamma": 20.0, "clip": 0.5},
        (-0.00860481, -0.0583023, -0.070408), 24.5516886, 3.03082930, BUDGETS),
    Row("dual_averaging", "paper", {"rounds": 6},
        (-0.19718, 0.13902, -0.288807), 4.76881339, 2.0, (0.145851231, 4.24518105, 0.610514105)),
    Row("push_sum", "certified", {"rounds": 6, "step": 0.5},
        (-0.150609, 0.0804233, -0.89202), 24.5516886, None, BUDGETS),
    Row("push_sum", "paper", {"rounds": 6, "policy": "clipped"},
        (-0.0166476, -0.033416, -0.00592977), 0.05, None, (2506.70402, 3400.36100, 3217.19481)),
    Row("random_walk", "certified", {"passes": 2, **WALK},
        (-0.652411, 0.924469, -2.53117), 14.1749240, 7.33931446, BUDGETS),
    Row("random_walk", "paper", {"passes": 2, **WALK},
        (-2.90757, 3.24137, -9.22002), 60.0048327, 2.0, (0.117868987, 0.458631363, 0.210224057)),
    Row("weighted_erm", "certified", DESCENT,
        (0.14537, 0.202887, 0.147638), 20.0463698, 0.301233903, BUDGETS),
    Row("weighted_erm", "paper", STEPS,
        (0.147078, -0.548919, -0.0360266), 10.0231849, 0.6, (1.31289000, 4.09678405, 2.24993985)),
    Row("wor_sgd", "certified", WALK,
        (-3.61917, 2.08012, -0.988411), 10.0231849, 5.00891959, BUDGETS),
    Row("wor_sgd", "paper", WALK,
        (-5.01295, 0.546169, -0.584518), 28.9574154, 2.0, (0.181763613, 0.704808091, 0.323269478)),
]  # fmt: skip


def given(row: Row) -> tuple[Program, topologies.Mixer]:
    """The row's program, and how its owners' messages are mixed."""
    penalty = sine() if row.settings is DESCENT else None
    topology = "one_peer_exponential" if row.protocol == "push_sum" else "ring"
    task = worlds.task(SIZES, DIM, epsilon=BUDGETS, delta=DELTA, topology=topology, penalty=penalty)
    program = build(row.protocol, task, row.settings, row.calibration)
    if program.aggregate is not None:
        return program, topologies.aggregate(program.aggregate)
    return program, topologies.mixer(task.topology)


class Swept(NamedTuple):
    """What is kept of a run beside others."""

    model: np.ndarray


def swept(program: Program, records: Holdings, mixer: topologies.Mixer, *, seed: int) -> Swept:
    """The run with this seed, beside one with another."""
    lanes = [Lane(program, mixer, one) for one in (seed - 1, seed)]
    _, (models,) = sweep(lanes, records, every=program.steps, probe=np.asarray)
    return Swept(models[1])


def test_every_protocol_has_joined():
    assert {row.protocol for row in ROWS} == set(PROTOCOLS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.protocol}-{row.calibration}")
def test_a_run_comes_to_what_it_came_to(row):
    (program, mixer), records = given(row), worlds.shards(SIZES, DIM)
    assert program.plan.noise_multiplier[0] == pytest.approx(row.noise, rel=1e-7)
    assert program.claim.epsilon == (None if row.claimed is None else pytest.approx(row.claimed, rel=1e-6))
    found = [one.epsilon for one in certificates_of(program.plan, DELTA)]
    np.testing.assert_allclose(found, row.certified, rtol=1e-7)
    # Compiling is what costs time here, so the other engines take one row of each protocol.
    engines = (simulate, spmd, swept) if row.calibration == "certified" else (simulate,)
    for engine in engines:
        model = engine(program, records, mixer, seed=SEED).model
        np.testing.assert_allclose(np.ravel(model[-1]), row.model, rtol=1e-4, atol=1e-5)
