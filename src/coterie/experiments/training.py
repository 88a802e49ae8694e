"""The part of an experiment that every process of a run takes part in: make ready, then train with its engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from coterie import topologies
from coterie._types import PyTree
from coterie.engines import processes
from coterie.engines.simulate import simulate
from coterie.engines.spmd import spmd
from coterie.evaluation.centre import Centred
from coterie.evaluation.selection import offering
from coterie.experiments import evaluating
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import Prepared, centred, prepare
from coterie.experiments.settings import typed
from coterie.program import Program, Rounds, Trace
from coterie.protocols import Task
from coterie.protocols.mixing import agreed, mixing_of

POINTS = 25  # how often a run looks at its metric, where looking is cheap
LOOKED = 1 << 30  # at most about so many scores of test rows in all looks together

Tell = Callable[[str, int, int], None]


class Keeping(NamedTuple):
    """Where a run over several processes keeps its checkpoint, and whether it goes on from there."""

    file: Path
    resume: bool


class Ready(NamedTuple):
    """All that an engine takes."""

    prepared: Prepared
    program: Program
    gossip_steps: int
    mixer: topologies.Mixer
    consensus: int  # gossip steps over owners' models after the last round
    centred: Centred | None = None  # the charged centre of the features, where there is one


def ready(experiment: Experiment, data_dir: Path | None, tell: Tell) -> Ready:
    """Load the data, build the protocol, choose the gossip."""
    settings = typed(experiment.protocol, experiment.settings)
    tell("loading data", 0, 0)
    prepared = prepare(experiment, data_dir)
    task = prepared.task
    tell("choosing noise", 0, 0)
    held = None if prepared.held is None else tuple(map(len, prepared.held))
    program = evaluating.built(experiment, prepared.table, task, settings, held)
    charged = None
    if program.plan.centre is not None:
        prepared, charged = centred(experiment, prepared, program)
    return Ready(prepared, program, *mixing_of(task, program, experiment.gossip_steps), charged)


def train(
    experiment: Experiment,
    setup: Ready,
    look: Callable[[PyTree], PyTree],
    tell: Tell,
    keeping: Keeping | None = None,
) -> Trace:
    """Run the program with the experiment's engine; `look` at the models as often as `POINTS` says."""
    program, total = setup.program, setup.program.steps
    tell("training", 0, total)
    # Fewer looks with thousands of owners, each of whose models is scored on all test rows.
    models = setup.prepared.task.owners if isinstance(program.functions, Rounds) else 1
    points = int(np.clip(LOOKED // max(1, models * len(setup.prepared.y_test)), 2, POINTS))
    engine, spread = simulate, experiment.engine == "spmd"
    if spread:
        keep, resume = keeping or (None, False)
        engine = partial(spmd, keep=keep, resume=resume, settings=experiment.to_toml())
    probe = look
    if program.plan.selection is not None:
        program, probe = offering(program, setup.prepared.task.problem), evaluating.first(look)
    trace = engine(
        program,
        setup.prepared.shards,
        setup.mixer,
        seed=experiment.seed,
        every=max(1, total // points),
        probe=probe,
        progress=partial(tell, "training"),
    )
    if spread:
        processes.leave()  # what follows is for the first process alone
    if setup.consensus:
        trace = consented(setup.prepared.task, setup.consensus, trace, probe)
    return trace


def consented(task: Task, steps: int, trace: Trace, look: Callable[[PyTree], PyTree]) -> Trace:
    """Owners' models after so many steps of a last agreement, and what is seen of them in place of the last look."""
    model = agreed(task.topology, steps, trace.model)
    seen = look(model)
    probes = jax.tree.map(
        lambda all_, last: np.concatenate([all_[:-1], np.asarray(last)[None]]), trace.probes, seen
    )
    return trace._replace(model=model, probes=probes)


def take_part(experiment: Experiment, data_dir: Path | None, tell: Tell, keeping: Keeping) -> None:
    """What a process other than the first does: its owners' side of the training, and nothing else."""
    train(experiment, ready(experiment, data_dir, tell), lambda models: (), tell, keeping)
