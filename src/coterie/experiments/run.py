"""Run an experiment: train, certify, compare with the floor and the ceiling. Returns values; writes nothing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from coterie import topologies
from coterie._types import PyTree
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.experiments import describe
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import Fitted, Probe, fitted, joint_of, probe_of
from coterie.experiments.logs import send, wanted
from coterie.experiments.measured import central_of, measured
from coterie.experiments.oracle import OracleArray, oracle
from coterie.experiments.result import Result
from coterie.experiments.settings import typed
from coterie.experiments.training import Keeping, Ready, Tell, consented, ready, train
from coterie.protocols import Task, build
from coterie.protocols.baselines import alone
from coterie.protocols.mixing import mixing_of

FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of every owner's budget, where other budgets are asked for
_ENDLESS = 1e6  # a budget that asks for no caution: steps are chosen as if there were no noise


class Watch(Protocol):
    """Whoever follows a run while it trains."""

    def begin(self, made: Ready) -> None:
        """All is loaded and built; training begins."""

    def looked(self, joint: float) -> None:
        """The joint model's metric now; oracle unless test rows are public."""


def run(
    experiment: Experiment,
    data_dir: Path | None = None,
    progress: Tell | None = None,
    keeping: Keeping | None = None,
    log: Sequence[str] = (),
    log_oracles: bool = False,
    watch: Watch | None = None,
) -> Result:
    """Train, certify and compare. `progress` is told (what, done, of), with of = 0 where nobody can know.

    `log`: "jsonl:PATH", "tensorboard:FOLDER" or "mlflow[:URI]", public and post-noise values only unless `log_oracles`.
    `watch` sees what is about to be trained, and the metric whenever the run looks at it, as the curve will have it.
    """
    started = time.perf_counter()
    logs = wanted(log, log_oracles) if log or log_oracles else None
    tell = progress or (lambda what, done, of: None)
    setup = ready(experiment, data_dir, tell)
    look = probe_of(setup.prepared)
    trace = train(experiment, setup, look if watch is None else _watched(look, watch, setup), tell, keeping)
    result = _compared(setup, fitted(experiment, setup, look, trace), look, tell)
    result = replace(result, seconds=time.perf_counter() - started)
    if logs is not None:
        try:
            send(result, logs)
        except InputError as error:  # what was trained is not to be lost for a log
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return result


def _compared(setup: Ready, done: Fitted, look: Probe, tell: Tell) -> Result:
    """What was trained, beside what each owner reaches alone and what all records together would give."""
    experiment, prepared, task = done.experiment, done.prepared, done.prepared.task
    incautious, reached = replace(task, epsilon=(_ENDLESS,) * task.owners), []
    for words, budgets, private in (("", task, True), (", no privacy", incautious, False)):
        tell(f"each owner alone{words}", 0, 0)
        program, seed = alone(budgets, private=private), experiment.seed + 1
        trace = simulate(program, prepared.shards, topologies.IDENTITY, seed=seed, probe=look)
        reached.append(oracle(trace.probes[0][-1]))
    tell("all records, no privacy", 0, 0)
    central = central_of(prepared)
    other_budgets = oracle(np.zeros((0, 3)))
    if experiment.sweep is not None:
        other_budgets = _over_epsilon(experiment, setup, look, tell)
    return Result(
        **vars(done),
        joint=joint_of(done.curve[-1], prepared, done.program),
        local_only=reached[0],
        own=reached[1],
        central=oracle(central),
        **measured(prepared, done.params),
        over_epsilon=other_budgets,
        class_counts=oracle(describe.class_counts(prepared)),
        findings=oracle(prepared.table.findings),
        seconds=0.0,
    )


def _over_epsilon(experiment: Experiment, made: Ready, look: Probe, tell: Tell) -> OracleArray:
    """(budgets, 3) the largest owner's ε, the joint model's metric, and that of each owner alone, means by size.

    Settings that were left to the protocol are chosen anew for each budget, as a run with that budget would. Nobody
    spent these budgets, and nothing of it is in the run's transcript or ledger.
    """
    settings, rows = typed(experiment.protocol, experiment.settings), []
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


def _watched(look: Probe, watch: Watch, setup: Ready) -> Probe:
    watch.begin(setup)

    def seen(models: PyTree) -> tuple[np.ndarray, np.ndarray]:
        values, apart = look(models)
        watch.looked(joint_of(values, setup.prepared, setup.program))
        return values, apart

    return seen
