"""Run an experiment: train, certify, compare with the floor and the ceiling. Returns values; writes nothing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from coterie import topologies
from coterie._types import PyTree
from coterie.accounting import Certificate, Claim
from coterie.accounting.plans import certificates_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.evaluation.selection import Selected
from coterie.evaluation.told import Published
from coterie.experiments import describe, recompute
from coterie.experiments.decisions import in_words
from coterie.experiments.evaluating import publish, select
from coterie.experiments.experiment import Experiment
from coterie.experiments.logs import send, wanted
from coterie.experiments.measured import central_of, measured, metric_words, shown_first
from coterie.experiments.oracle import Oracle, OracleArray, OracleWords, is_oracle, oracle
from coterie.experiments.over_epsilon import over_epsilon
from coterie.experiments.prepare import Prepared
from coterie.experiments.trained import model_of_run
from coterie.experiments.training import Keeping, Ready, Tell, ready, train
from coterie.model import TrainedModel
from coterie.problems.metrics import beats
from coterie.problems.problem import Problem
from coterie.program import Program, Rounds, Trace
from coterie.protocols.baselines import alone
from coterie.reports.constant import verdict

Probe = Callable[[PyTree], tuple[np.ndarray, np.ndarray]]

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
    constant: float  # what saying the same of every row reaches; like the next three oracle as the curve
    constant_says: tuple[str, ...]  # what that is
    measures: np.ndarray  # (metrics, 2) all that suit the problem, of the joint model and of the constant
    confusion: np.ndarray  # (classes, classes) test rows by true and by predicted class
    claim: Claim
    certificates: tuple[Certificate, ...]
    turns: np.ndarray  # (owners,) releases really made
    over_epsilon: OracleArray  # (budgets, 3) ε, joint, alone at other budgets; no rows unless asked for
    params: PyTree  # of the joint model: the mean of the owners' models, or the one that visits shaped
    class_counts: OracleArray  # (owners, classes) records of each class; a regression has no classes
    selected: Selected | None  # the charged choice of a model, where there is one: no oracle's
    published: Published | None  # the charged evaluation, where there is one: no oracle's
    findings: OracleWords  # what loading saw in the rows, with counts
    seconds: float
    consensus: int = 0  # gossip steps over owners' models after the last round

    def __repr__(self) -> str:
        worst = max(self.certificates, key=lambda one: one.epsilon)
        mark = " (oracle)" if is_oracle(self.joint) else ""
        return (
            f"<Result of {self.experiment.protocol} on {self.prepared.table.name}, {len(self.sizes)} owners: "
            f"{self.metric} {self.joint:.4g}{mark}; {worst}>"
        )

    @cached_property
    def model(self) -> TrainedModel:
        """The joint model, to predict with and to keep. Made of releases and public facts alone."""
        return model_of_run(self)

    @property
    def guarantee(self) -> dict[str, Any]:
        """What the certificates guarantee, in words and as the facts behind them."""
        table, engine = self.prepared.table, self.experiment.engine
        return describe.guarantee(self.program.plan, self.certificates, self.experiment, table, engine)

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.prepared.judge.metric

    @property
    def metric_words(self) -> str:
        """The metric's name as people say it, with its unit where it has one."""
        return metric_words(self.metric, self.prepared.table)

    @property
    def why(self) -> str:
        """Why that metric is shown first, and how a class is decided, where it needs saying."""
        first = shown_first(self.experiment, self.prepared.table)[1]
        return "; ".join(filter(None, (first, in_words(self.prepared.judge.decision, self.prepared.table))))

    @property
    def beats_constant(self) -> bool:
        """Whether the joint model is better than saying the same of every row; oracle as the constant."""
        return beats(self.metric, self.joint, self.constant)

    @property
    def verdict(self) -> str:
        """That it is not, in words; oracle as the constant."""
        return verdict(self.metric, self.joint, self.constant, " ".join(self.constant_says))

    @property
    def oracle(self) -> list[str]:
        """Which of the metric's values no owner released: for the researcher's eyes only."""
        names = ("joint", "local_only", "central", "constant", "constant_says")
        follow = ["beats_constant", "verdict", "all", "confusion"] if is_oracle(self.measures) else []
        return [name for name in names if is_oracle(getattr(self, name))] + follow

    @property
    def step(self) -> str:
        """What one step of the run is called."""
        return "round" if isinstance(self.program.functions, Rounds) else "visit"

    @property
    def test_rows(self) -> str:
        """What the metric is taken on, in words."""
        return self.prepared.test_rows

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
            "data": self.experiment.data_name,
            "owners": task.owners,
            "owner_names": list(self.prepared.partition.names),
            "rounds": int(self.steps[-1]),
            "gossip_steps": self.gossip_steps,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "metric": describe.metric(self),
            "selection": self.selected and self.selected.to_json(),
            "evaluation": self.published and self.published.to_json(),
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
                "all_others_epsilon": (self.guarantee["facts"]["all_others"] or {}).get("epsilon"),
                "owners_per_person": self.experiment.owners_per_person,
                "person_epsilon": (self.guarantee["facts"]["person"] or {}).get("epsilon"),
                "certificates": recompute.to_json(self.certificates),
                "accountant": worst.accountant,
                "reason": worst.reason,
                "warnings": describe.warnings(self),
                **self.guarantee,
            },
            **describe.described(self),
            "out": out,
        }

    @property
    def messages(self) -> int:
        """How many were sent."""
        tables = sum(told.owners for told in (self.selected, self.published) if told)
        if not isinstance(self.program.functions, Rounds):
            return int(self.turns.sum()) + tables
        if self.program.aggregate is not None:  # to the aggregator and back
            return int(self.steps[-1]) * 2 * self.prepared.task.owners + tables
        each = topologies.messages_per_round(self.prepared.task.topology)
        return round((int(self.steps[-1]) * self.gossip_steps + self.consensus) * each) + tables


class Watch(Protocol):
    """Whoever follows a run while it trains."""

    def begin(self, made: Ready) -> None:
        """All is loaded and built; training begins."""

    def looked(self, joint: float) -> None:
        """The joint model's metric now; oracle unless test rows are public."""


class Fitted(NamedTuple):
    """A model, and what it took: the part of a run that real owners could do, without its comparisons."""

    experiment: Experiment
    prepared: Prepared
    program: Program
    certificates: tuple[Certificate, ...]
    params: PyTree  # as a Result's
    steps: np.ndarray
    turns: np.ndarray
    probes: PyTree  # what `probe_of` saw at each step
    selected: Selected | None  # the charged choice of a model, where there is one
    published: Published | None  # the charged evaluation, where there is one


def fit(experiment: Experiment, data_dir: Path | None = None, progress: Tell | None = None) -> Fitted:
    """Train and certify, and compare with nothing: for whoever wants the model alone."""
    tell = progress or (lambda what, done, of: None)
    made = ready(experiment, data_dir, tell)
    look = probe_of(made.prepared)
    return _fitted(experiment, made, look, train(experiment, made, look, tell))


def _fitted(experiment: Experiment, made: Ready, look: Callable[[PyTree], PyTree], trace: Trace) -> Fitted:
    trace, selected = select(experiment, made.prepared, made.program, trace)
    probes = trace.probes
    if selected is not None and selected.choice:  # the last look was at what nobody chose
        probes = jax.tree.map(
            lambda before, now: np.concatenate([before[:-1], now[None]]), probes, look(trace.model)
        )
    return Fitted(
        experiment=experiment,
        prepared=made.prepared,
        program=made.program,
        certificates=certificates_of(made.program.plan, made.prepared.task.delta),
        params=jax.tree.map(_mean, trace.model),
        steps=trace.step,
        turns=trace.turns,
        probes=probes,
        selected=selected,
        published=publish(experiment, made.prepared, made.program, trace),
    )


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
    logs = wanted(log, log_oracles)
    tell = progress or (lambda what, done, of: None)
    made = ready(experiment, data_dir, tell)
    prepared, program, task = made.prepared, made.program, made.prepared.task
    look = probe_of(prepared)
    trace = train(experiment, made, look if watch is None else _watched(look, watch, made), tell, keeping)
    done = _fitted(experiment, made, look, trace)
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
    central = central_of(prepared)
    others = oracle(np.zeros((0, 3)))
    if experiment.sweep is not None:
        others = over_epsilon(experiment, made, look, tell)
    curve, disagreement = done.probes
    joint = joint_of(curve[-1], prepared)
    if not prepared.table.test_is_public:
        curve = oracle(curve)
    result = Result(
        experiment=experiment,
        prepared=prepared,
        program=program,
        gossip_steps=made.gossip_steps,
        consensus=made.consensus,
        steps=done.steps,
        curve=curve,
        disagreement=disagreement,
        joint=joint,
        local_only=oracle(local.probes[0][-1]),
        own=oracle(own.probes[0][-1]),
        central=oracle(central),
        **measured(prepared, done.params),
        claim=program.claim,
        certificates=done.certificates,
        turns=done.turns,
        over_epsilon=others,
        params=done.params,
        class_counts=oracle(describe.class_counts(prepared)),
        selected=done.selected,
        published=done.published,
        findings=oracle(prepared.table.findings),
        seconds=time.perf_counter() - started,
    )
    try:
        send(result, logs)
    except InputError as error:  # what was trained is not to be lost for a log
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return result


def _watched(look: Probe, watch: Watch, made: Ready) -> Probe:
    watch.begin(made)

    def seen(models: PyTree) -> tuple[np.ndarray, np.ndarray]:
        found = look(models)
        watch.looked(joint_of(found[0], made.prepared))
        return found

    return seen


def joint_of(values: np.ndarray, prepared: Prepared) -> float:
    """The metric of the joint model from those of the models: by size, where every owner has one. Oracle unless test
    rows are public."""
    task = prepared.task
    mean = float(np.average(values, weights=task.sizes if len(values) == task.owners else None))
    return mean if prepared.table.test_is_public else oracle(mean)


def _mean(leaf: jax.Array) -> np.ndarray:
    """Over owners: what gossip leads to, and one exact step of it more. Exact where all of them agree already."""
    return np.asarray(leaf, np.float64).mean(axis=0).astype(np.float32)


def probe_of(prepared: Prepared) -> Probe:
    """Each model's metric on the public test rows, and how far the models are from their mean."""
    problem, judge = prepared.task.problem, prepared.judge
    x, y = jnp.asarray(prepared.x_test), np.asarray(prepared.y_test)

    def look(models: PyTree) -> tuple[np.ndarray, np.ndarray]:
        owners = jax.tree.leaves(models)[0].shape[0]
        found = []
        for first in range(0, owners, together):
            some = jax.tree.map(lambda leaf, first=first: leaf[first : first + together], models)
            found += [judge(one, y) for one in np.asarray(_scores(problem, some, x))]
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
