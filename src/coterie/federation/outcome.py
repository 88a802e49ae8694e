"""What a party keeps of a run: its model, a summary, and a report for its own eyes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from coterie import _files
from coterie._rounding import upper
from coterie.accounting.plans import against_all_others, certificates_of, pair_told, person_told
from coterie.errors import InputError
from coterie.evaluation.words import about, around, choice, sentences
from coterie.experiments import describe
from coterie.experiments.judging import judge_of
from coterie.experiments.trained import REAL, model_of_node
from coterie.federation.honest import charged_plan
from coterie.federation.node import Outcome
from coterie.model import format as models
from coterie.reports.amounts import many
from coterie.reports.promise import promise, so_far
from coterie.reports.statement import SEEDED
from coterie.units import told_owners

if TYPE_CHECKING:
    from coterie.accounting import Certificate
    from coterie.mechanisms import ReleasePlan

_SUM = "wide enough to cover the rounding of the single-precision sum that it is added to"
RISKS = {  # in what the noise is not exact: shown in every report
    "exact": f"Noise by an exact sampler, added in whole numbers, {_SUM}.",
    "stream": "Noise from a ChaCha20 key stream, made normal in double precision and rounded to whole numbers, "
    f"{_SUM}: no exact sampler. What remains: the rounding of doubles, and tails that end at 8.5 standard deviations.",
}

TEST_NOISE = (
    "TEST NOISE from a seed that was given: the simulator's, pseudo-random and in floating point, by no exact sampler. "
    "Whoever knows the seed can take it off again, so that nothing here protects these records."
)


def summary(outcome: Outcome) -> dict[str, Any]:
    """The run as plain values; `own_metric` is computed from the owner's records and must not be passed on."""
    planned, party = outcome.collaboration, outcome.party
    agreement = planned.agreement
    facts: dict[str, Any] = {
        "name": party.name,
        "run": agreement.run,
        "network": agreement.name,
        "protocol": agreement.experiment.protocol,
        "finished": outcome.finished,
        "steps": outcome.status["step"],
        "of": outcome.status["of"],
        "note": outcome.status["note"],
        "traffic": outcome.status["traffic"],
        "refusals": outcome.status["refusals"],
        "claimed_epsilon": planned.program.claim.to_json()["epsilon"],
        "certified_epsilon": None,
        "audited_epsilon": None,
        "centre": planned.around and planned.around.to_json(),
        "selection": outcome.selected and outcome.selected.to_json(),
        "evaluation": outcome.published and outcome.published.to_json(),
    }
    if outcome.spent is None:
        return facts
    at = agreement.owners.index(party.name)
    plan = charged_plan(party, planned)
    task = planned.task
    certificate = certificates_of(plan, task.delta)[at]
    person, pair = (tell(plan, task.delta, task.owners_per_person) for tell in (person_told, pair_told))
    together = None if plan.masked is None else against_all_others(plan, task.delta)[at]
    return facts | {
        "certified_epsilon": certificate.to_json()["epsilon"],
        "all_others_epsilon": together and together.to_json()["epsilon"],
        "owners_per_person": task.owners_per_person,
        "person_epsilon": person and person.to_json()["epsilon"],
        "pair_epsilon": pair and pair.to_json()["epsilon"],
        "delta": task.delta,
        "view": certificate.view,
        "releases": outcome.charged,
        "spent_epsilon": outcome.spent.to_json()["epsilon"],
        "budget_epsilon": task.epsilon[at] if party.epsilon is None else party.epsilon,
        "ledger": str(party.ledger),
        "noise": TEST_NOISE if outcome.injected else RISKS[party.generator],
        "own_metric": own_metric(outcome),
        "promise": _promise(outcome, plan, certificate),
    }


def _promise(outcome: Outcome, plan: ReleasePlan, certificate: Certificate) -> list[str]:
    """The promise of this run and of the whole ledger; none where the noise is known."""
    agreement = outcome.collaboration.agreement
    engine = SEEDED if outcome.injected else REAL
    promised = promise(describe.facts(plan, [certificate], agreement.experiment, agreement.table, engine))
    if outcome.injected or outcome.spent is None:
        return promised
    spent = outcome.spent
    return [*promised, so_far(spent.epsilon, spent.delta, spent.relation, spent.unit)]


def own_metric(outcome: Outcome) -> dict[str, Any] | None:
    """The model's metric on the owner's own records, for the owner alone."""
    if outcome.model is None or outcome.records is None:
        return None
    problem = outcome.collaboration.task.problem
    agreement = outcome.collaboration.agreement
    judge = judge_of(agreement.experiment, agreement.table, problem.loss.name)
    x, y, _ = outcome.records.laid_out
    value = judge(np.asarray(problem.model.scores(*jax.device_put((outcome.model, x)))), y)
    return {"name": judge.metric, "value": value if np.isfinite(value) else str(value)}


def write(outcome: Outcome, folder: Path) -> Path:
    """The model, result.json and report.html.

    Guarantee: readable by the owner alone, also in a folder that others may read: the metric on its own records is
    in the last two, and nothing was charged for it. The model holds nothing but releases and what all parties know.
    """
    from coterie.reports.node import page

    facts = summary(outcome) | {"out": str(folder)}
    before = os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if outcome.model is not None:
            model = model_of_node(
                outcome.collaboration,
                outcome.party.name,
                outcome.model,
                injected=outcome.injected,
                selected=outcome.selected,
                published=outcome.published,
            )
            models.write(folder / models.FILE, model.to_bytes())
        report = page(facts, outcome.collaboration.agreement.to_json())
        _files.put(folder / "report.html", report.encode())
        _files.put(folder / "result.json", json.dumps(facts, indent=2, ensure_ascii=False).encode())
    except OSError as error:
        raise InputError(
            f"out={str(folder)!r}: cannot be written ({error.strerror}). Start the node again with another --out."
        ) from error
    finally:
        os.umask(before)
    return folder


def words(facts: dict[str, Any]) -> str:
    """The summary, to read."""
    lines = [
        f"{facts['name']}: {facts['steps']} of {facts['of']} steps of {facts['network']!r} ({facts['protocol']})."
    ]
    if facts["note"]:
        lines.append(facts["note"])
    if facts["certified_epsilon"] is not None:
        claimed = _rounded(facts["claimed_epsilon"])
        certified, spent = (upper(float(facts[f"{key}_epsilon"])) for key in ("certified", "spent"))
        if facts.get("all_others_epsilon") is not None:
            certified += f" ({upper(float(facts['all_others_epsilon']))} against all other owners together)"
        person = ""
        if facts.get("person_epsilon") is not None:
            owners = told_owners(facts["owners_per_person"])
            pair = facts.get("pair_epsilon")
            more = "" if pair is None else f", {upper(float(pair))} at 2"
            person = f" ({upper(float(facts['person_epsilon']))} for a person at {owners} owners{more})"
        lines += [
            f"ε: claimed {claimed}, certified {certified} for this run{person}, audited not here; "
            f"{spent} of {facts['budget_epsilon']:g} spent on these records "
            f"(δ = {facts['delta']:g}, {many(facts['releases'], 'release')}, {facts['view']}).",
            facts["noise"],
            f"Promise: {facts['promise'][0].partition(': ')[2]}",
        ]
    if facts["centre"]:
        lines.append(f"Centred by the owners: {around(facts['centre'])}.")
    if facts["selection"]:
        lines.append(f"Chosen by the owners: {choice(facts['selection'])}.")
    if facts["evaluation"]:
        evaluation = facts["evaluation"]
        lines.append(
            f"Published by the owners: {'; '.join(sentences(evaluation))}. That is of {about(evaluation)}."
        )
    if facts.get("own_metric"):
        own = facts["own_metric"]
        lines.append(f"{own['name']} on your own records (for your eyes only): {_rounded(own['value'])}")
    if "out" in facts:
        lines.append(f"Model and report: {facts['out']}")
    return "\n".join(lines)


def _rounded(value: float | str | None) -> str:
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else f"{value:.4g}"
