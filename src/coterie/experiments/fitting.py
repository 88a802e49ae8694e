"""Train and certify: the part of a run that real owners could do, compared with nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import PyTree
from coterie.accounting import Certificate
from coterie.accounting.plans import certificates_of
from coterie.evaluation.centre import Centred
from coterie.evaluation.selection import Selected
from coterie.evaluation.told import Published
from coterie.experiments.evaluating import publish, select
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import oracle
from coterie.experiments.prepare import Prepared
from coterie.experiments.training import Ready, Tell, ready, train
from coterie.program import Program, Trace

Probe = Callable[[PyTree], tuple[np.ndarray, np.ndarray]]

AT_ONCE = 1 << 24  # scores of test rows held at a time


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model, and what it took."""

    experiment: Experiment
    prepared: Prepared
    program: Program
    gossip_steps: int
    consensus: int = 0  # gossip steps over owners' models after the last round
    certificates: tuple[Certificate, ...]
    params: PyTree  # of the joint model: the mean of the owners' models, or the one that visits shaped
    steps: np.ndarray  # (points,)
    turns: np.ndarray  # (owners,) releases really made
    curve: np.ndarray  # (points, owners) the metric of each owner's model; oracle unless test rows are public
    disagreement: np.ndarray  # (points,) distance of the owners' models from their mean
    centred: Centred | None  # the charged centre of the features, where there is one
    selected: Selected | None  # the charged choice of a model, where there is one
    published: (
        Published | None
    )  # the charged evaluation, where there is one; like both before no oracle value


def fit(experiment: Experiment, data_dir: Path | None = None, progress: Tell | None = None) -> Fitted:
    """Train and certify, and compare with nothing: for whoever wants the model alone."""
    tell = progress or (lambda what, done, of: None)
    setup = ready(experiment, data_dir, tell)
    look = probe_of(setup.prepared)
    return fitted(experiment, setup, look, train(experiment, setup, look, tell))


def fitted(experiment: Experiment, setup: Ready, look: Callable[[PyTree], PyTree], trace: Trace) -> Fitted:
    """What training left, with the charged choice of a model and the charged evaluation, where there are."""
    plan, probes, selected, published = setup.program.plan, trace.probes, None, None
    if plan.selection is not None:
        trace, selected = select(experiment, setup.prepared, setup.program, trace)
        if selected.choice:  # the last look was at what nobody chose
            probes = jax.tree.map(
                lambda before, now: np.concatenate([before[:-1], now[None]]), probes, look(trace.model)
            )
    if plan.evaluation is not None:
        published = publish(experiment, setup.prepared, setup.program, trace)
    curve, disagreement = probes
    return Fitted(
        experiment=experiment,
        prepared=setup.prepared,
        program=setup.program,
        gossip_steps=setup.gossip_steps,
        consensus=setup.consensus,
        certificates=certificates_of(plan, setup.prepared.task.delta),
        # Over owners: what gossip leads to, and one exact step of it more. Exact where all of them agree already.
        params=jax.tree.map(
            lambda leaf: np.asarray(leaf, np.float64).mean(axis=0).astype(np.float32), trace.model
        ),
        steps=trace.step,
        turns=trace.turns,
        curve=curve if setup.prepared.table.test_is_public else oracle(curve),
        disagreement=disagreement,
        centred=setup.centred,
        selected=selected,
        published=published,
    )


def joint_of(values: np.ndarray, prepared: Prepared, program: Program) -> float:
    """The metric of the joint model from those of the models: by size, where every owner has one and sizes are public.
    Oracle unless test rows are public."""
    task = prepared.task
    by_size = len(values) == task.owners and program.plan.relation.sizes_are_public
    mean = float(np.average(values, weights=task.sizes if by_size else None))
    return mean if prepared.table.test_is_public else oracle(mean)


def probe_of(prepared: Prepared) -> Probe:
    """Each model's metric on the public test rows, and how far the models are from their mean."""
    problem, judge = prepared.task.problem, prepared.judge
    x, y = jnp.asarray(prepared.x_test), np.asarray(prepared.y_test)

    def look(models: PyTree) -> tuple[np.ndarray, np.ndarray]:
        owners = jax.tree.leaves(models)[0].shape[0]
        values = []
        for first in range(0, owners, together):
            some = jax.tree.map(lambda leaf, first=first: leaf[first : first + together], models)
            values += [judge(scores, y) for scores in np.asarray(_scores(problem, some, x))]
        return np.array(values), np.asarray(_apart(models))

    together = max(1, AT_ONCE // max(1, len(y) * problem.model.outputs))
    return look


_scores = jax.jit(
    lambda problem, models, x: jax.vmap(problem.model.scores, (0, None))(models, x), static_argnums=0
)


@jax.jit
def _apart(models: PyTree) -> jax.Array:
    spread = [
        jnp.sum((leaf - leaf.mean(0, keepdims=True)) ** 2) / leaf.shape[0] for leaf in jax.tree.leaves(models)
    ]
    return jnp.sqrt(sum(spread, jnp.float32(0)))
