"""What a run found: one record, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coterie import topologies
from coterie._types import PyTree
from coterie.accounting import Certificate, Claim, warnings_of
from coterie.evaluation.centre import Centred
from coterie.evaluation.selection import Selected
from coterie.evaluation.told import Published
from coterie.experiments import describe, recompute
from coterie.experiments.decisions import in_words
from coterie.experiments.experiment import Experiment
from coterie.experiments.judging import shown_first
from coterie.experiments.oracle import Oracle, OracleArray, OracleWords, is_oracle, oracle
from coterie.experiments.prepare import Prepared
from coterie.experiments.trained import model_of_run
from coterie.model import TrainedModel
from coterie.problems.metrics import beats
from coterie.program import Program, Rounds
from coterie.reports.constant import verdict
from coterie.reports.statement import undeclared


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
    centred: Centred | None  # the charged centre of the features, where there is one; no oracle value
    selected: Selected | None  # the charged choice of a model, where there is one; no oracle value
    published: Published | None  # the charged evaluation, where there is one; no oracle value
    findings: OracleWords  # what loading saw in the rows, with counts
    seconds: float
    consensus: int = 0  # gossip steps over owners' models after the last round

    def __repr__(self) -> str:
        worst = max(self.certificates, key=lambda certificate: certificate.epsilon)
        mark = " (oracle)" if is_oracle(self.joint) else ""
        return (
            f"<Result of {self.experiment.protocol} on {self.prepared.table.name}, {self.prepared.task.owners} owners: "
            f"{self.prepared.judge.metric} {self.joint:.4g}{mark}; {worst}>"
        )

    @cached_property
    def model(self) -> TrainedModel:
        """The joint model, to predict with and to keep. Made of releases and public facts alone."""
        return model_of_run(self)  # type: ignore[arg-type]  # it has all that a fitted one has

    @cached_property
    def guarantee(self) -> dict[str, Any]:
        """What the certificates guarantee, in words and as the facts behind them."""
        table, engine = self.prepared.table, self.experiment.engine
        return describe.guarantee(self.program.plan, self.certificates, self.experiment, table, engine)

    @property
    def local_mean(self) -> Oracle:
        """Size-weighted mean of what owners reach alone."""
        return oracle(float(np.average(self.local_only, weights=self.prepared.task.sizes)))

    def to_json(self, out: str | None) -> dict[str, Any]:
        """The summary that `coterie run --json` prints, with what a report needs.

        All is public but what is listed under "oracle", here or in a part; `sizes` are where the relation keeps numbers
        of records private.
        """
        task, table, facts = self.prepared.task, self.prepared.table, self.guarantee["facts"]
        # Where they are private, they are oracle values, and so is what follows from them.
        public = self.program.plan.relation.sizes_are_public
        worst = max(self.certificates, key=lambda certificate: certificate.epsilon)
        per_owner = [certificate.to_json()["epsilon"] for certificate in self.certificates]
        ends = np.broadcast_to(self.curve[-1], task.owners)  # one register is everybody's
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
            "metric": _metric(self),
            "centre": self.centred and self.centred.to_json(),
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
                "all_others_epsilon": (facts["all_others"] or {}).get("epsilon"),
                "owners_per_person": self.experiment.owners_per_person,
                "person_epsilon": (facts["person"] or {}).get("epsilon"),
                "pair_epsilon": facts.get("pair", {}).get("epsilon"),
                "certificates": recompute.to_json(self.certificates),
                "accountant": worst.accountant,
                "reason": worst.reason,
                "warnings": [
                    *undeclared(table.classes_declared, table.columns_declared),
                    *warnings_of(self.certificates),
                ],
                **self.guarantee,
                **({} if public else {"oracle": ["claim", "claimed_epsilon", "warnings"]}),
            },
            "step": self.program.step,
            "sizes": list(task.sizes),
            "oracle": [] if public else ["sizes"],
            "network": describe.network(task.topology, self.program.hub),
            # How rows were dealt. The classes' counts are oracle values: no owner releases them.
            "partition": {
                "how": self.prepared.partition.how,
                "classes": list(table.classes or (("-1", "+1") if table.task == "binary" else ())),
                "classes_declared": table.classes_declared,
                "counts": self.class_counts.tolist() if self.class_counts.size else None,
                "oracle": ["counts"],
            },
            "findings": {"about_rows": list(self.findings), "oracle": ["about_rows"]},
            # Who gains by joining: what each owner ends with, and its own model without privacy.
            "benefit": {
                "joint": [describe.plain(value) for value in ends.tolist()],
                "own": [describe.plain(value) for value in self.own.tolist()],
                "oracle": ["joint", "own"] if is_oracle(self.joint) else ["own"],
            },
            "over_epsilon": _over_epsilon(self) if len(self.over_epsilon) else None,
            "provenance": describe.provenance(self.experiment),
            "out": out,
        }

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


def _metric(result: Result) -> dict[str, Any]:
    """What was reached, by the metric that is shown first and by all others; "oracle" lists what no owner released."""
    judge, table, says = result.prepared.judge, result.prepared.table, " ".join(result.constant_says)
    reasons = (shown_first(result.experiment, table)[1], in_words(judge.decision, table))
    values = ("joint", "local_only", "central", "constant", "constant_says")
    follow = ["beats_constant", "verdict", "all", "confusion"] if is_oracle(result.measures) else []
    if follow and not result.program.plan.relation.sizes_are_public:
        follow.append("rows")  # a share of them all
    return {
        "name": judge.metric,
        "why": "; ".join(filter(None, reasons)),
        "joint": describe.plain(result.joint),
        "local_only": describe.plain(result.local_mean),
        "central": describe.plain(result.central),
        "constant": describe.plain(result.constant),
        "constant_says": says,
        "beats_constant": beats(judge.metric, result.joint, result.constant),
        "verdict": verdict(judge.metric, result.joint, result.constant, says),
        "all": {
            name: {"joint": describe.plain(joint), "constant": describe.plain(constant)}
            for name, (joint, constant) in zip(judge.names, result.measures.tolist())
        },
        "confusion": result.confusion.tolist() or None,
        "rows": result.prepared.tested,
        "unit": table.target_unit,
        "threshold": judge.decision.threshold,
        "class_weights": list(judge.decision.weights),
        "oracle": [name for name in values if is_oracle(getattr(result, name))] + follow,
    }


def _over_epsilon(result: Result) -> dict[str, Any]:
    """What other budgets would reach. All of it oracle values: nobody spent these budgets."""
    columns = ([describe.plain(value) for value in column] for column in result.over_epsilon.T.tolist())
    return {**dict(zip(("epsilon", "joint", "local_only"), columns)), "oracle": ["joint", "local_only"]}
