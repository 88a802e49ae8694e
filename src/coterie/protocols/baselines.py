"""What a collaboration is measured against: every owner alone, under the same budget.

Each owner runs certified dual averaging on its own records, tuned for its own size and noise, and talks to
nobody. All of them run side by side in one program, with no mixing.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from coterie.program import Program
from coterie.protocols import dual_averaging
from coterie.protocols.task import Calibration, Task
from coterie.topologies import build as build_topology


def alone(task: Task, calibration: Calibration = "certified") -> Program:
    """Every owner by itself, to be run with `topologies.mixing.identity`.

    Guarantee: what an owner would release is charged as in `dual_averaging`; alone, it releases nothing but
    its final model.
    """
    lonely = build_topology("complete", 1)
    each = [
        dual_averaging.build(
            replace(task, sizes=(size,), epsilon=(epsilon,), topology=lonely),
            dual_averaging.Settings(rounds=dual_averaging.ROUNDS),
            calibration,
        )
        for size, epsilon in zip(task.sizes, task.epsilon)
    ]
    plan = replace(
        each[0].plan,
        sizes=task.sizes,
        noise_multiplier=tuple(one.plan.noise_multiplier[0] for one in each),
        releases=tuple(one.plan.releases[0] for one in each),
    )
    numbers = jax.tree.map(lambda *rows: jnp.concatenate(rows), *[one.numbers for one in each])
    return each[0]._replace(plan=plan, numbers=numbers)
