"""What a run found: one record, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coterie import topologies
from coterie.accounting import Claim
from coterie.experiments import describe
from coterie.experiments.decisions import in_words
from coterie.experiments.fitting import Fitted
from coterie.experiments.judging import shown_first
from coterie.experiments.oracle import Oracle, OracleArray, OracleWords, is_oracle, oracle
from coterie.experiments.trained import model_of_run
from coterie.model import TrainedModel
from coterie.problems.metrics import beats
from coterie.program import Rounds
from coterie.reports.constant import verdict
from coterie.reports.written import (
    Benefit,
    Findings,
    Number,
    OverEpsilon,
    Run,
    WrittenMetric,
    WrittenPartition,
    plain,
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Fitted):
    """What a run found. Oracle values are for the researcher's eyes: no owner released them."""

    joint: float  # as the curve's last row
    local_only: OracleArray  # (owners,) each owner's own private model at the same budget
    own: OracleArray  # (owners,) each owner's own model without privacy
    central: Oracle  # the non-private optimum over everyone's records
    constant: float  # what saying the same of every row reaches; like the next three oracle as the curve
    constant_says: tuple[str, ...]  # what that is
    measures: np.ndarray  # (metrics, 2) all that suit the problem, of the joint model and of the constant
    confusion: np.ndarray  # (classes, classes) test rows by true and by predicted class
    over_epsilon: OracleArray  # (budgets, 3) ε, joint, alone at other budgets; no rows unless asked for
    class_counts: OracleArray  # (owners, classes) records of each class; a regression has no classes
    findings: OracleWords  # what loading saw in the rows, with counts
    seconds: float

    def __repr__(self) -> str:
        worst = max(self.certificates, key=lambda certificate: certificate.epsilon)
        mark = " (oracle)" if is_oracle(self.joint) else ""
        return (
            f"<Result of {self.experiment.protocol} on {self.prepared.table.name}, {self.prepared.task.owners} owners: "
            f"{self.prepared.judge.metric} {self.joint:.4g}{mark}; {worst}>"
        )

    @property
    def claim(self) -> Claim:
        """What the protocol's paper claims of these settings."""
        return self.program.claim

    @cached_property
    def model(self) -> TrainedModel:
        """The joint model, to predict with and to keep. Made of releases and public facts alone."""
        return model_of_run(self)

    @property
    def local_mean(self) -> Oracle:
        """Size-weighted mean of what owners reach alone."""
        return oracle(float(np.average(self.local_only, weights=self.prepared.task.sizes)))

    def to_json(self, out: str | None) -> dict[str, Any]:
        """The summary that `coterie run --json` prints: `written`, as plain values."""
        return plain(self.written(out))

    def written(self, out: str | None) -> Run:
        """What result.json holds.

        All is public but what is listed under "oracle", here or in a part; `sizes` are where the relation keeps numbers
        of records private.
        """
        experiment, task, table = self.experiment, self.prepared.task, self.prepared.table
        tables = (self.centred, self.selected, self.published)
        told: list[Any] = [charged and charged.to_json() for charged in tables]
        # Where they are private, they are oracle values, and so is what follows from them.
        public = self.program.plan.relation.sizes_are_public
        return Run(
            protocol=experiment.protocol,
            engine=experiment.engine,
            calibration=experiment.calibration,
            data=experiment.data_name,
            owners=task.owners,
            names=self.prepared.partition.names,
            rounds=int(self.steps[-1]),
            gossip_steps=self.gossip_steps,
            messages=self.messages,
            seconds=round(self.seconds, 3),
            metric=_metric(self),
            centre=told[0],
            selection=told[1],
            evaluation=told[2],
            privacy=describe.privacy(
                self.certificates, self.program.claim.to_json(), task.epsilon, self.guarantee
            ),
            step=self.program.step,
            sizes=task.sizes,
            oracle=() if public else ("sizes",),
            network=describe.network(task.topology, self.program.hub),
            partition=WrittenPartition(
                how=self.prepared.partition.how,
                classes=table.classes or (("-1", "+1") if table.task == "binary" else ()),
                classes_declared=table.classes_declared,
                counts=self.class_counts.tolist() if self.class_counts.size else None,
            ),
            findings=Findings(about_rows=tuple(self.findings)),
            benefit=Benefit(
                joint=tuple(
                    map(Number, np.broadcast_to(self.curve[-1], task.owners))
                ),  # one register is everybody's
                own=tuple(map(Number, self.own)),
                oracle=("joint", "own") if is_oracle(self.joint) else ("own",),
            ),
            over_epsilon=_over_epsilon(self.over_epsilon) if len(self.over_epsilon) else None,
            provenance=describe.provenance(experiment),
            out=out,
        )

    @cached_property
    def guarantee(self) -> dict[str, Any]:
        """What the certificates guarantee, in words and as the facts behind them."""
        table, engine = self.prepared.table, self.experiment.engine
        return describe.guarantee(self.program.plan, self.certificates, self.experiment, table, engine)

    @property
    def messages(self) -> int:
        """How many messages were sent."""
        tables = sum(charged.owners for charged in (self.centred, self.selected, self.published) if charged)
        if not isinstance(self.program.functions, Rounds):
            return int(self.turns.sum()) + tables
        if self.program.aggregate is not None:  # to the aggregator and back
            return int(self.steps[-1]) * 2 * self.prepared.task.owners + tables
        per_round = topologies.messages_per_round(self.prepared.task.topology)
        return round((int(self.steps[-1]) * self.gossip_steps + self.consensus) * per_round) + tables


def _metric(result: Result) -> WrittenMetric:
    """What was reached, by the metric that is shown first and by all others; "oracle" lists what no owner released."""
    judge, table, says = result.prepared.judge, result.prepared.table, " ".join(result.constant_says)
    reasons = (shown_first(result.experiment, table)[1], in_words(judge.decision, table))
    values = ("joint", "local_only", "central", "constant", "constant_says")
    follow = ["beats_constant", "verdict", "all", "confusion"] if is_oracle(result.measures) else []
    if follow and not result.program.plan.relation.sizes_are_public:
        follow.append("rows")  # a share of them all
    return WrittenMetric(
        name=judge.metric,
        why="; ".join(filter(None, reasons)),
        joint=Number(result.joint),
        local_only=Number(result.local_mean),
        central=Number(result.central),
        constant=Number(result.constant),
        constant_says=says,
        beats_constant=beats(judge.metric, result.joint, result.constant),
        verdict=verdict(judge.metric, result.joint, result.constant, says),
        all={
            name: {"joint": Number(joint), "constant": Number(constant)}
            for name, (joint, constant) in zip(judge.names, result.measures.tolist())
        },
        confusion=result.confusion.tolist() or None,
        rows=result.prepared.tested,
        unit=table.target_unit,
        threshold=judge.decision.threshold,
        class_weights=judge.decision.weights,
        oracle=(*(name for name in values if is_oracle(getattr(result, name))), *follow),
    )


def _over_epsilon(rows: np.ndarray) -> OverEpsilon:
    epsilon, joint, local_only = (tuple(map(Number, column)) for column in rows.T)
    return OverEpsilon(epsilon=epsilon, joint=joint, local_only=local_only)
