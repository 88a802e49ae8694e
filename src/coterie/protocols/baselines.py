"""What a collaboration is measured against: every owner alone, with the same budget or with no privacy.

Each owner trains on its own records, tuned for its own size and noise, and talks to nobody: certified dual
averaging for linear models, push-sum (its gradient steps) for others. All of them run side by side in one
program, with no mixing. The other baselines are protocols (`central_erm`, a trusted server) or optima
(`problems.reference`).
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from coterie.program import Program
from coterie.protocols import dual_averaging, push_sum
from coterie.protocols.task import Task
from coterie.topologies import build as build_topology

ROUNDS = 100  # enough for noise to be the limit at the sizes of single owners


def alone(task: Task, private: bool = True) -> Program:
    """Every owner by itself, to be run with `topologies.identity()`.

    Guarantee: with `private`, each owner's whole training meets its own budget, as if every step were public.
    """
    each = [_one(task, owner) for owner in range(task.owners)]
    plan = replace(
        each[0].plan,
        noise="gaussian" if private else "none",
        sizes=task.sizes,
        noise_multiplier=tuple(one.plan.noise_multiplier[0] for one in each),
        releases=(ROUNDS,) * task.owners,
    )
    numbers = jax.tree.map(lambda *rows: jnp.concatenate(rows), *[one.numbers for one in each])
    return each[0]._replace(plan=plan, numbers=numbers)


def _one(task: Task, owner: int) -> Program:
    mine = replace(
        task,
        sizes=(task.sizes[owner],),
        epsilon=(task.epsilon[owner],),
        topology=build_topology("complete", 1),
    )
    if task.problem.model.is_linear:
        return dual_averaging.build(mine, dual_averaging.Settings(rounds=ROUNDS), "certified")
    return push_sum.build(mine, push_sum.Settings(rounds=ROUNDS), "certified")
