"""The model of a run, or of a party of a real one, as a file may hold it.

Guarantee: a model file is made to be published. It holds parameters that are functions of messages, and facts that
are public without charge (README). Nothing that is marked as an oracle value goes in, no seed (who has it can take a
simulation's noise off again), no path, no time, no other value of a record. `tests/model/test_model_leaks.py` changes
a record under fixed messages and compares bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie._types import PyTree
from coterie.accounting import certify
from coterie.accounting.plans import certificates_of
from coterie.experiments import describe
from coterie.experiments.decisions import decision_of
from coterie.model import TrainedModel
from coterie.model.description import Description, inputs_of
from coterie.problems.feature_steps import constants
from coterie.problems.metrics import METRICS, Decision, Judge
from coterie.problems.models import MODELS, flat
from coterie.program import Rounds
from coterie.reports.statement import SEEDED
from coterie.reports.written import plain

if TYPE_CHECKING:
    from coterie.accounting import Certificate
    from coterie.evaluation.selection import Selected
    from coterie.evaluation.told import Published
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.fitting import Fitted
    from coterie.federation.collaboration import Collaboration
    from coterie.problems.features import FeatureMap
    from coterie.problems.table import Table
    from coterie.program import Program
    from coterie.protocols import Task


SIMULATED = (
    "Simulated: all records lay in one process, and the noise came from one seed, 0 unless another was given. Whoever "
    "guesses the seed can take the noise off. For records that matter, train with `coterie node`."
)
_KEPT = (
    "relation", "unit", "view", "delta", "budget_epsilon", "certified_epsilon", "certificates", "claim", "accountant",
    "reason", "warnings", "facts", "statement", "promise",
)  # fmt: skip  # of what result.json says of privacy
REAL = "real owners"  # no engine of a simulation
TEST_NOISE = (
    "TEST NOISE from a seed that was given: whoever knows it can take the noise off, so nothing is protected."
)


class _Left(NamedTuple):
    """What a run leaves that its model is made of, and that its file may tell."""

    experiment: Experiment
    task: Task
    program: Program
    table: Table
    owners: Sequence[str]
    features: FeatureMap
    decision: Decision
    params: PyTree
    certificates: Sequence[Certificate]
    engine: str


def model_of_run(result: Fitted) -> TrainedModel:
    """The joint model of a simulation, with or without comparisons."""
    prepared, program = result.prepared, result.program
    which = (
        "the mean of the owners' models after the last round"
        if isinstance(program.functions, Rounds)
        else "the one model that owners visit"
    )
    left = _Left(
        result.experiment,
        prepared.task,
        program,
        prepared.table,
        prepared.partition.names,
        prepared.features,
        prepared.judge.decision,
        result.params,
        result.certificates,
        result.experiment.engine,
    )
    told = {
        "data": prepared.table.name,
        "source": prepared.table.source,
        "note": prepared.table.note,
        "caveat": SIMULATED,
        "engine": left.engine,
        "where": "simulated",
        "which": which + (_chosen(result.selected) if result.selected else ""),
        "steps": int(result.steps[-1]),
    }
    model = _with_metric(_model(left, told), prepared.table, prepared.judge)
    return model if result.published is None else _with_published(model, result.published)


def model_of_node(
    planned: Collaboration,
    party: str,
    params: PyTree,
    *,
    injected: bool,
    selected: Selected | None = None,
    published: Published | None = None,
) -> TrainedModel:
    """A party's own model of a real run, of its parameters and what all parties agreed on: no record, no ledger."""
    agreement, task, program = planned.agreement, planned.task, planned.program
    table = agreement.schema.empty(agreement.name)
    left = _Left(
        agreement.experiment,
        task,
        program,
        table,
        agreement.owners,
        planned.features,
        decision_of(agreement.experiment, table, task.problem.loss.name),
        params,
        certificates_of(program.plan, task.delta),
        SEEDED if injected else REAL,
    )
    told = {
        "data": agreement.name,
        "source": f"the owners' own records, under agreement {agreement.run}",
        "note": "",
        "caveat": TEST_NOISE if injected else "",
        "engine": left.engine,
        "where": "by the owners themselves",
        "which": f"the model of {party} after the last {program.step}{_chosen(selected) if selected else ''}",
        "steps": program.steps,
    }
    model = _model(left, told)
    return model if published is None else _with_published(model, published)


def _chosen(selected: Selected) -> str:
    """What a charged choice made of the model."""
    words = selected.candidates[selected.choice].words
    return f"; chosen by the owners for {selected.share:.3g} of every budget: {words}"


def _model(left: _Left, told: dict[str, Any]) -> TrainedModel:
    """The model with all that its file tells; `told`: of its training, beside its settings."""
    problem, own = left.task.problem, MODELS.is_own(left.task.problem.model.name)
    return TrainedModel(
        description=Description(
            **inputs_of(left.table),
            kind=problem.model.name,
            made_by="" if own else MODELS.origin(problem.model.name),
            activation=problem.model.activation if own else None,
            loss=problem.loss.name,
            decision=left.decision,
            training=_training(left.experiment, left.task, left.program, left.owners) | told,
            privacy=_privacy(left),
            metrics={},
        ),
        steps=constants(left.features, left.table.x.shape[1:]),
        params=flat(left.params),
    )


def _training(experiment: Experiment, task: Task, program: Program, names: Sequence[str]) -> dict[str, Any]:
    """Settings that are public. The experiment's paths and its seed are not among them."""
    over = "an aggregator" if program.aggregate is not None else task.topology.name
    return {
        "coterie": metadata.version("coterie"),
        "protocol": experiment.protocol,
        "calibration": experiment.calibration,
        "settings": dict(experiment.settings),
        "penalty": task.problem.penalty.name,
        "step": program.step,
        "topology": over if isinstance(program.functions, Rounds) else None,
        "owners": list(names),
        "sizes": list(task.sizes) if program.plan.relation.sizes_are_public else None,
    }


def _privacy(left: _Left) -> dict[str, Any]:
    """The model's privacy, in the form of result.json, so that one program checks both."""
    plan, claim, certificates = left.program.plan, left.program.claim.to_json(), left.certificates
    if not plan.relation.sizes_are_public:  # what a paper claims may follow from them
        claim |= {"epsilon": None, "note": "not stated, as it would tell numbers of records"}
        certificates = _publishable(certificates, left.experiment.calibration)
    guarantee = describe.guarantee(plan, certificates, left.experiment, left.table, left.engine)
    told = plain(describe.privacy(certificates, claim, left.task.epsilon, guarantee))
    return {name: told[name] for name in _KEPT} | {"budget_epsilon": list(map(float, left.task.epsilon))}


def _publishable(certificates: Sequence[Certificate], calibration: str) -> Sequence[Certificate]:
    """What does not follow from sizes that are private.

    Argument: certified noise is calibrated to budgets alone there (protocols refuse anything else), so events tell no
    size; as published, noise is scaled by sizes, so that the event itself would tell them.
    """
    if calibration == "certified":
        # Without warnings, too, for they are about sizes.
        return [replace(certificate, size=None, warnings=()) for certificate in certificates]
    from dp_accounting import NonPrivateDpEvent

    why = "the noise follows from numbers of records, which are private, so that no certificate is published"
    return [
        replace(
            certify(
                NonPrivateDpEvent(),
                delta=certificate.delta,
                relation=certificate.relation,
                view=certificate.view,
            ),
            reason=why,
        )
        for certificate in certificates
    ]


def _with_metric(model: TrainedModel, table: Table, judge: Judge) -> TrainedModel:
    """The model with its score and all metrics on test rows, where these are public; else without any."""
    regression, y = table.task == "regression", table.y_test
    if not table.test_is_public or not len(y) or (regression and np.ptp(y) == 0):
        return model
    if not all(np.isfinite(leaf).all() for leaf in model.params.values()):
        return model
    scores = model.scores_of(table.x_test) - judge.decision.offset  # which a judge adds itself
    each = zip(judge.names, judge.all(scores, y), judge.plain.all(judge.constant(y), y))
    told = {
        name: {"joint": float(joint), "constant": float(constant)}
        for name, joint, constant in each
        if np.isfinite([joint, constant]).all()  # AUC, for one, needs rows of both classes
    }
    usual = "r2" if regression else "accuracy"
    metric = {"name": METRICS[usual].words, "value": told[usual]["joint"], "rows": len(y), "all": told}
    return replace(model, description=replace(model.description, metrics=metric))


def _with_published(model: TrainedModel, published: Published) -> TrainedModel:
    """The model with what owners published of it: charged, so that it may stand in the file."""
    entry = {
        key: value for key, value in published.to_json().items() if key not in ("confusion", "calibration")
    }
    description = model.description
    return replace(
        model, description=replace(description, metrics={**description.metrics, "published": entry})
    )
