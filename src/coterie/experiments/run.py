"""Run an experiment: train, certify, compare with the floor and the ceiling. Returns values; writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check, topologies
from coterie._types import PyTree
from coterie.accounting import Certificate, Claim
from coterie.accounting.plans import certificates_of
from coterie.engines.simulate import simulate
from coterie.experiments import describe, recompute
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import Oracle, OracleArray, is_oracle, oracle
from coterie.experiments.over_epsilon import SWEEPS, over_epsilon
from coterie.experiments.prepare import Prepared
from coterie.experiments.training import Keeping, Tell, ready, train
from coterie.problems.metrics import metric_for
from coterie.problems.problem import Problem
from coterie.problems.reference import central_optimum, trained
from coterie.program import Program, Rounds
from coterie.protocols.baselines import alone

AT_ONCE = 1 << 24  # scores of test rows held at a time
_ENDLESS = 1e6  # a budget that asks for no caution: steps are chosen as if there were no noise


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run found. Oracle values are for the researcher's eyes: no owner released them."""

    experiment: Experiment
    prepared: Prepared
    program: Program
    gossip_steps: int
    steps: np.ndarray  # (points,)
    curve: np.ndarray  # (points, owners) the metric of each owner's model; oracle unless test rows are public
    disagreement: np.ndarray  # (points,) distance of the owners' models from their mean
    joint: float  # as the curve's last row
    local_only: OracleArray  # (owners,) each owner's own private model at the same budget
    own: OracleArray  # (owners,) each owner's own model without privacy
    central: Oracle  # the non-private optimum over everyone's records
    claim: Claim
    certificates: tuple[Certificate, ...]
    turns: np.ndarray  # (owners,) releases really made
    over_epsilon: OracleArray  # (budgets, 3) ε, joint, alone at other budgets; no rows unless asked for
    class_counts: OracleArray  # (owners, classes) records of each class; a regression has no classes
    seconds: float

    @property
    def metric(self) -> str:
        """The metric's name."""
        return metric_for(self.prepared.table.task).__name__

    @property
    def oracle(self) -> list[str]:
        """Which of the metric's values no owner released: for the researcher's eyes only."""
        return [name for name in ("joint", "local_only", "central") if is_oracle(getattr(self, name))]

    @property
    def step(self) -> str:
        """What one step of the run is called."""
        return "round" if isinstance(self.program.functions, Rounds) else "visit"

    @property
    def test_rows(self) -> str:
        """What the metric is taken on, in words."""
        return "public test rows" if self.prepared.table.test_is_public else "held-out rows (oracle)"

    @property
    def sizes(self) -> np.ndarray:
        """(owners,) public sizes."""
        return np.array(self.prepared.task.sizes)

    @property
    def local_mean(self) -> Oracle:
        """Size-weighted mean of what owners reach alone."""
        return oracle(float(np.average(self.local_only, weights=self.sizes)))

    def to_json(self, out: str | None) -> dict[str, Any]:
        """The summary that `coterie run --json` prints."""
        task = self.prepared.task
        worst = max(self.certificates, key=lambda one: one.epsilon)
        per_owner = [one.to_json()["epsilon"] for one in self.certificates]
        return {
            "protocol": self.experiment.protocol,
            "engine": self.experiment.engine,
            "calibration": self.experiment.calibration,
            "data": self.experiment.data,
            "owners": task.owners,
            "owner_names": list(self.prepared.partition.names),
            "rounds": int(self.steps[-1]),
            "gossip_steps": self.gossip_steps,
            "messages": self._messages(),
            "seconds": round(self.seconds, 3),
            "metric": {
                "name": self.metric,
                "joint": describe.plain(self.joint),
                "local_only": describe.plain(self.local_mean),
                "central": describe.plain(self.central),
                "rows": len(self.prepared.y_test),
                "oracle": self.oracle,
            },
            "privacy": {
                "relation": worst.relation,
                "unit": worst.unit,
                "view": worst.view,
                "delta": task.delta,
                "budget_epsilon": task.epsilon[0] if len(set(task.epsilon)) == 1 else list(task.epsilon),
                "claimed_epsilon": self.claim.to_json()["epsilon"],
                "claim": self.claim.to_json(),
                "certified_epsilon": {"max": worst.to_json()["epsilon"], "per_owner": per_owner},
                "audited_epsilon": None,
                "certificates": recompute.to_json(self.certificates),
                "accountant": worst.accountant,
                "reason": worst.reason,
                "warnings": sorted({warning for one in self.certificates for warning in one.warnings}),
                "statement": describe.privacy_statement(self),
            },
            **describe.described(self),
            "out": out,
        }

    def _messages(self) -> int:
        if not isinstance(self.program.functions, Rounds):
            return int(self.turns.sum())
        if self.program.aggregate is not None:  # to the aggregator and back
            return int(self.steps[-1]) * 2 * self.prepared.task.owners
        per_round = topologies.messages_per_round(self.prepared.task.topology, self.gossip_steps)
        return round(int(self.steps[-1]) * per_round)


def run(
    experiment: Experiment,
    data_dir: Path | None = None,
    progress: Tell | None = None,
    keeping: Keeping | None = None,
) -> Result:
    """Train, certify and compare. `progress` is told (what, done, of), with of = 0 where nobody can know."""
    started = time.perf_counter()
    tell = progress or (lambda what, done, of: None)
    if experiment.sweep is not None:
        _check.one_of("sweep", experiment.sweep, SWEEPS)
    made = ready(experiment, data_dir, tell)
    prepared, program = made.prepared, made.program
    task = prepared.task
    certificates = certificates_of(program.plan, task.delta)
    look = _probe(prepared)
    trace = train(experiment, made, look, tell, keeping)
    tell("each owner alone", 0, 0)
    local = simulate(
        alone(task),
        prepared.shards,
        topologies.identity(),
        seed=experiment.seed + 1,
        probe=look,
    )
    tell("each owner alone, no privacy", 0, 0)
    own = simulate(
        alone(replace(task, epsilon=(_ENDLESS,) * task.owners), private=False),
        prepared.shards,
        topologies.identity(),
        seed=experiment.seed + 1,
        probe=look,
    )
    tell("all records, no privacy", 0, 0)
    central = _central(prepared)
    others = oracle(np.zeros((0, 3)))
    if experiment.sweep is not None:
        others = over_epsilon(experiment, made, look, tell)
    curve, disagreement = trace.probes
    joint = float(np.average(curve[-1], weights=task.sizes if curve.shape[1] == task.owners else None))
    if not prepared.table.test_is_public:
        curve, joint = oracle(curve), oracle(joint)
    return Result(
        experiment=experiment,
        prepared=prepared,
        program=program,
        gossip_steps=made.gossip_steps,
        steps=trace.step,
        curve=curve,
        disagreement=disagreement,
        joint=joint,
        local_only=oracle(local.probes[0][-1]),
        own=oracle(own.probes[0][-1]),
        central=oracle(central),
        claim=program.claim,
        certificates=certificates,
        turns=trace.turns,
        over_epsilon=others,
        class_counts=oracle(describe.class_counts(prepared)),
        seconds=time.perf_counter() - started,
    )


def _probe(prepared: Prepared) -> Callable[[PyTree], tuple[np.ndarray, np.ndarray]]:
    """Each model's metric on the public test rows, and how far the models are from their mean."""
    problem, metric = prepared.task.problem, metric_for(prepared.table.task)
    x, y = jnp.asarray(prepared.x_test), np.asarray(prepared.y_test)

    def look(models: PyTree) -> tuple[np.ndarray, np.ndarray]:
        owners = jax.tree.leaves(models)[0].shape[0]
        found = []
        for first in range(0, owners, together):
            some = jax.tree.map(lambda leaf, first=first: leaf[first : first + together], models)
            found += [metric(one, y) for one in np.asarray(_scores(problem, some, x))]
        return np.array(found), np.asarray(_apart(models))

    together = max(1, AT_ONCE // max(1, len(y) * problem.model.outputs))
    return look


def _scores_of(problem: Problem, models: PyTree, x: jax.Array) -> jax.Array:
    return jax.vmap(problem.model.scores, (0, None))(models, x)


_scores = jax.jit(_scores_of, static_argnums=0)


@jax.jit
def _apart(models: PyTree) -> jax.Array:
    spread = [
        jnp.sum((leaf - leaf.mean(0, keepdims=True)) ** 2) / leaf.shape[0] for leaf in jax.tree.leaves(models)
    ]
    return jnp.sqrt(sum(spread, jnp.float32(0)))


def _central(prepared: Prepared) -> float:
    """Oracle: the non-private optimum over everyone's records."""
    shards, problem = prepared.shards, prepared.task.problem
    x, y = (np.concatenate(each) for each in zip(*map(shards.of, range(prepared.task.owners))))
    if problem.model.is_linear:
        params = central_optimum(problem, x, y)
    else:
        params = trained(problem, prepared.task.params, x, y)
    scores = problem.model.scores(params, jnp.asarray(prepared.x_test))
    return float(metric_for(prepared.table.task)(np.asarray(scores), np.asarray(prepared.y_test)))
