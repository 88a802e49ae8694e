"""Whether a charged choice among models of the same releases pays: runs with and without it, seed by seed.

    COTERIE_DATA=… python -m papers.selection bank:1000 kddcup99:700:wor_sgd   sets, rows, and a protocol

Ten owners with equal shares of that many rows (0: all); ε = 0.5, 1, 4. Prints, for each share of the budget, the
metric on public test rows and the loss that is chosen by (Brier score; squared error in halves of the range), each as
the mean over seeds and as the difference to no choice, and how often another model than the trained one was taken. A
choice that would be refused, for noise hides any difference, is left out.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from coterie.errors import InputError
from coterie.evaluation.budget import sheet_of
from coterie.experiments import evaluating, training
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import probe_of
from coterie.experiments.prepare import Prepared, prepare
from coterie.program import Shards
from coterie.protocols.mixing import mixing_of

EPSILON, OWNERS, SHARES = (0.5, 1.0, 4.0), 10, (0.0, 0.03, 0.1)


def part(ready: Prepared, rows: int) -> Prepared:
    """Equal shares of `rows` rows, drawn once; of all rows where that is 0."""
    if not rows:
        return ready
    each, rng = rows // OWNERS, np.random.default_rng(0)
    x, y = (np.concatenate(parts) for parts in zip(*map(ready.shards.of, range(OWNERS))))
    some = rng.permutation(len(y))[: each * OWNERS].reshape(OWNERS, each)
    shards = Shards(jnp.asarray(x[some]), jnp.asarray(y[some]), jnp.full(OWNERS, each, jnp.int32))
    return ready._replace(task=replace(ready.task, sizes=(each,) * OWNERS), shards=shards)


def measured(ready: Prepared, experiment: Experiment) -> tuple[float, float, bool]:
    """Metric, loss, and whether another model was chosen."""
    program = evaluating.built(experiment, ready.table, ready.task, {})
    made = training.Ready(ready, program, *mixing_of(ready.task, program))
    trace = training.train(experiment, made, lambda models: (), lambda *_: None)
    trace, told = evaluating.select(experiment, ready, program, trace)
    mean = jnp.asarray(np.asarray(trace.model, np.float64).mean(axis=0), jnp.float32)
    sheet = sheet_of(ready.table, ready.task.problem, program.plan.relation)
    scores = np.asarray(ready.task.problem.model.scores(mean, jnp.asarray(ready.x_test)))
    lost = float(sheet.lost(scores, np.asarray(ready.y_test)).mean())
    return float(np.mean(probe_of(ready)(mean[None])[0])), lost, bool(told and told.choice)


def main(asked: list[str]) -> None:
    """Print what is asked for."""
    for one in asked:
        name, rows, protocol = (*one.split(":"), "dual_averaging")[:3]
        base = Experiment(data=name, owners=OWNERS, partition="iid", protocol=protocol)
        ready = part(prepare(base, None), int(rows))
        seeds = 6 if sum(ready.task.sizes) <= 4000 else 2
        for epsilon in EPSILON:
            task = replace(ready.task, epsilon=(epsilon,) * OWNERS)
            without = None
            for share in SHARES:
                chosen = replace(base, epsilon=(epsilon,), select=share)
                try:
                    found = np.array(
                        [
                            measured(ready._replace(task=task), replace(chosen, seed=seed))
                            for seed in range(seeds)
                        ],
                        float,
                    )
                except InputError:
                    continue
                without = found if without is None else without
                (metric, lost, other), apart = found.mean(axis=0), (found - without).mean(axis=0)
                print(
                    f"{name} {rows} {protocol} ε={epsilon:g} share={share:g}: {ready.judge.metric} {metric:.4f} "
                    f"({apart[0]:+.4f}), loss {lost:.4f} ({apart[1]:+.4f}), another {other:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
