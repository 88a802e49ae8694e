"""The same experiment at smaller and larger budgets, simulated beside the run: accuracy over ε.

Oracle values: no owner spent these budgets, and nothing of it is in the run's transcript or ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from coterie import topologies
from coterie._types import PyTree
from coterie.engines.simulate import simulate
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import OracleArray, oracle
from coterie.experiments.settings import typed
from coterie.experiments.training import Ready, Tell, consented
from coterie.protocols import PROTOCOLS, Task, build
from coterie.protocols.baselines import alone
from coterie.protocols.mixing import mixing_of

FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of every owner's budget

Look = Callable[[PyTree], tuple[np.ndarray, np.ndarray]]


def over_epsilon(experiment: Experiment, made: Ready, look: Look, tell: Tell) -> OracleArray:
    """(budgets, 3) the largest owner's ε, the joint model's metric, and that of each owner alone, means by size.

    Settings that were left to the protocol are chosen anew for each budget, as a run with that budget would.
    """
    settings = typed(experiment.protocol, PROTOCOLS.find(experiment.protocol).settings, experiment.settings)
    rows = []
    for done, factor in enumerate(FACTORS):
        tell("other budgets", done, len(FACTORS))
        task = replace(
            made.prepared.task, epsilon=tuple(factor * budget for budget in made.prepared.task.epsilon)
        )
        program = build(experiment.protocol, task, settings, experiment.calibration)
        _, mixer, consensus = mixing_of(task, program, experiment.gossip_steps)
        joint = simulate(program, made.prepared.shards, mixer, seed=experiment.seed, probe=look)
        if consensus:
            joint = consented(task, consensus, joint, look)
        local = simulate(
            alone(task), made.prepared.shards, topologies.IDENTITY, seed=experiment.seed + 1, probe=look
        )
        rows.append((max(task.epsilon), *(_mean(trace.probes[0][-1], task) for trace in (joint, local))))
    return oracle(np.array(rows))


def _mean(values: np.ndarray, task: Task) -> float:
    """The mean over models, by size where every owner has a model of its own."""
    return float(np.average(values, weights=task.sizes if len(values) == task.owners else None))
