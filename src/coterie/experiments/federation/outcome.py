"""What a party keeps of a run: its model, a summary, and a report for its own eyes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coterie.accounting.plans import certificates_of
from coterie.errors import InputError
from coterie.experiments.federation.node import Outcome, charged_plan
from coterie.problems.metrics import metric_for

_SUM = "wide enough to cover the rounding of the single-precision sum that it is added to"
RISKS = {  # what of the noise is not exact: shown in every report
    "exact": f"Noise by OpenDP's exact samplers, added in whole numbers, {_SUM}.",
    "stream": "Noise from a ChaCha20 key stream, made normal in double precision and rounded to whole numbers, "
    f"{_SUM}: no exact sampler. What remains: the rounding of doubles, and tails that end at 8.5 standard deviations.",
}


def summary(outcome: Outcome) -> dict[str, Any]:
    """The run as plain values; `own_metric` is computed from the owner's records and must not be passed on."""
    planned, party = outcome.collaboration, outcome.party
    agreement = planned.agreement
    found: dict[str, Any] = {
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
    }
    if outcome.spent is None:
        return found
    at = agreement.owners.index(party.name)
    certificate = certificates_of(charged_plan(party, planned), planned.task.delta)[at]
    return found | {
        "certified_epsilon": certificate.to_json()["epsilon"],
        "delta": planned.task.delta,
        "view": certificate.view,
        "releases": outcome.charged,
        "spent_epsilon": outcome.spent.to_json()["epsilon"],
        "budget_epsilon": planned.task.epsilon[at] if party.epsilon is None else party.epsilon,
        "ledger": str(party.ledger),
        "noise": RISKS[party.generator],
        "own_metric": own_metric(outcome),
    }


def own_metric(outcome: Outcome) -> dict[str, Any] | None:
    """The model's metric on the owner's own records: for its own eyes."""
    if outcome.model is None or outcome.records is None:
        return None
    problem = outcome.collaboration.task.problem
    metric = metric_for(outcome.collaboration.agreement.schema.task)
    model = jax.tree.map(jax.numpy.asarray, outcome.model)
    scores = np.asarray(problem.model.scores(model, jax.numpy.asarray(outcome.records.x)))
    value = float(metric(scores, outcome.records.y))
    return {"name": metric.__name__, "value": value if np.isfinite(value) else str(value)}


def write(outcome: Outcome, folder: Path) -> Path:
    """The model (one array for each leaf), result.json and report.html.

    Guarantee: readable by the owner alone, also in a folder that others may read: the metric on its own records is
    in them, and nothing was charged for it.
    """
    from coterie.reports.node import page

    found = summary(outcome) | {"out": str(folder)}
    before = os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if outcome.model is not None:
            np.savez(folder / "model.npz", *(np.asarray(leaf) for leaf in jax.tree.leaves(outcome.model)))
        (folder / "report.html").write_text(
            page(found, outcome.collaboration.agreement.to_json()), encoding="utf-8"
        )
        draft = folder / ".result.json"
        draft.write_text(json.dumps(found, indent=2, ensure_ascii=False), encoding="utf-8")
        os.replace(draft, folder / "result.json")
    except OSError as error:
        raise InputError(
            f"out={str(folder)!r}: cannot be written ({error.strerror}). Start the node again with another --out."
        ) from error
    finally:
        os.umask(before)
    return folder


def words(found: dict[str, Any]) -> str:
    """The summary, to read."""
    lines = [
        f"{found['name']}: {found['steps']} of {found['of']} steps of {found['network']!r} ({found['protocol']})."
    ]
    if found["note"]:
        lines.append(found["note"])
    if found["certified_epsilon"] is not None:
        claimed, certified, spent = (
            _rounded(found[f"{key}_epsilon"]) for key in ("claimed", "certified", "spent")
        )
        lines += [
            f"ε: claimed {claimed}, certified {certified} for this run, audited not here; "
            f"{spent} of {found['budget_epsilon']:g} spent on these records "
            f"(δ = {found['delta']:g}, {found['releases']} releases, {found['view']}).",
            found["noise"],
        ]
    if found.get("own_metric"):
        own = found["own_metric"]
        lines.append(f"{own['name']} on your own records (for your eyes only): {_rounded(own['value'])}")
    if "out" in found:
        lines.append(f"Model and report: {found['out']}")
    return "\n".join(lines)


def _rounded(value: float | str | None) -> str:
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else f"{value:.4g}"
