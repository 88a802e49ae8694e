"""Owners who gossip stay together over as many rounds as there are, where a loss keeps its curvature."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.problems.features import EVEN, unit_ball
from coterie.problems.holdings import to_shards
from coterie.problems.losses import huber
from coterie.problems.models import linear
from coterie.problems.penalties import none
from coterie.problems.problem import Problem
from coterie.protocols import build
from coterie.protocols.task import Task

OWNERS, EACH, COLUMNS, ROUNDS = 10, 400, 3, 1000


def test_what_accelerated_owners_of_a_quantity_disagree_on_does_not_grow() -> None:
    """Gossip that turns the sign of what it leaves, and hardly any noise: with γ where one owner alone would be stable,
    models were 5.5 apart after 1,000 rounds, and are 0.6 now."""
    rng = np.random.default_rng(0)
    x = unit_ball(EVEN, steady=True).apply(rng.uniform(-1, 1, (OWNERS * EACH, COLUMNS)) + 2.0)
    y = (0.1 * x[:, 0] - 0.5 + 0.02 * rng.standard_normal(len(x))).astype(np.float32)
    rows = tuple(np.split(np.arange(len(x)), OWNERS))
    task = Task(
        problem=Problem(linear(COLUMNS + 1), huber(), none()),
        sizes=(EACH,) * OWNERS,
        clip_norm=1.0,
        epsilon=(1e4,) * OWNERS,
        delta=1e-5,
        topology=topologies.build("ring", OWNERS),
        params=jnp.zeros((COLUMNS + 1, 1)),
    )
    program = build("dual_averaging", task, {"rounds": ROUNDS}, "certified")
    shards = to_shards(x, y, rows)
    mixer = topologies.mixer(task.topology, topologies.gossip_steps_for(task.topology))
    models = np.asarray(simulate(program, shards, mixer, seed=0).model)[..., 0]
    apart = np.linalg.norm(models - models.mean(axis=0), axis=1).max()
    assert apart < 1.5
