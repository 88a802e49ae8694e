"""What a collaboration is measured against: every owner alone, with the same budget or with no privacy.

Each owner trains on its own records, tuned for its own size and noise, and talks to nobody: certified dual
averaging for linear models, push-sum (its gradient steps) for others. All of them run side by side in one
program, with no mixing. The other baselines are protocols (`central_erm`, a trusted server) or optima
(`problems.reference`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coterie.mechanisms import NoNoise
from coterie.program import Program
from coterie.protocols import dual_averaging, push_sum
from coterie.protocols.task import Task
from coterie.topologies import from_graphs
from coterie.topologies.graphs import LinkList

ROUNDS = 100  # enough for noise to be the limit at the sizes of single owners


def alone(task: Task, private: bool = True) -> Program:
    """Every owner by itself, to be run with `topologies.IDENTITY`.

    Guarantee: with `private`, each owner's whole training meets its own budget, as if every step were public.
    """
    kinds, tuned = list(zip(task.sizes, task.epsilon)), {}
    protocol: Any = dual_averaging if task.problem.model.is_linear else push_sum
    nobody = from_graphs("nobody", [LinkList(1, ())])
    for size, epsilon in dict.fromkeys(kinds):  # equal owners are tuned once
        # Alone, an owner answers for its own release.
        mine = replace(task, sizes=(size,), epsilon=(epsilon,), topology=nobody, owners_per_person=1)
        tuned[size, epsilon] = protocol.build(mine, protocol.Settings(rounds=ROUNDS), "certified")
    first = tuned[kinds[0]]
    plan = replace(
        first.plan,
        noise=first.plan.noise if private else NoNoise(),
        sizes=task.sizes,
        unit=task.unit,
        noise_multiplier=tuple(tuned[kind].plan.noise_multiplier[0] for kind in kinds),
        releases=(ROUNDS,) * task.owners,
    )
    place = {kind: at for at, kind in enumerate(tuned)}
    which = np.array([place[kind] for kind in kinds])
    rows = [program.numbers for program in tuned.values()]
    numbers = jax.tree.map(lambda *every: jnp.concatenate(every)[which], *rows)
    return first._replace(plan=plan, numbers=numbers)
