"""What a run says of itself beside its numbers: who talks to whom, with what it was made, what it guarantees."""

from __future__ import annotations

import hashlib
import math
import platform
from dataclasses import replace
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from coterie.accounting import warnings_of
from coterie.accounting.plans import named_against, person_of, worst_against
from coterie.experiments import recompute
from coterie.mechanisms.sampling import FixedSize, FullBatch, OnePass, Passes, Poisson, Sampler
from coterie.problems.datasets import DATASETS
from coterie.relations import named
from coterie.reports.promise import promise
from coterie.reports.statement import KEPT, SOMETIMES, Facts, statement, undeclared
from coterie.reports.written import Certified, Number, Provenance, WrittenNetwork, WrittenPrivacy
from coterie.units import RECORD, at_owners, counted, several, told_owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.accounting import Certificate
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.prepare import Prepared
    from coterie.mechanisms import ReleasePlan
    from coterie.problems.table import Table
    from coterie.topologies import Topology

MOST_LINKS = 6_000  # what can be told apart in a picture is far less
_LIBRARIES = ("coterie", "jax", "jaxlib", "numpy", "dp-accounting")


def network(topology: Topology | None, hub: str | None) -> WrittenNetwork:
    """The links of a topology, none of them where they are too many to draw; or the hub where everybody meets."""
    if topology is None or hub is not None:
        return WrittenNetwork(topology=None, hub=hub, number_of_links=0, links=())
    links = topology.links
    return WrittenNetwork(
        topology=topology.name,
        hub=None,
        number_of_links=len(links),
        links=tuple(links.tolist()) if len(links) <= MOST_LINKS else None,
    )


def plain(value: float) -> float | str:
    """JSON has neither infinity nor NaN, which a model that diverged scores: they are written as text."""
    return value if np.isfinite(value) else str(value)


def class_counts(prepared: Prepared) -> np.ndarray:
    """(owners, classes) how many records of each class an owner holds; a regression has no classes, nor has a unit."""
    judge, rows_of = prepared.judge, prepared.partition.rows
    classes = judge.classes if prepared.task.unit == RECORD else 0
    if not classes:
        return np.zeros((len(rows_of), 0), int)
    labels = judge.truth(prepared.table.y)
    return np.array([np.bincount(labels[rows], minlength=classes) for rows in rows_of])


def provenance(experiment: Experiment) -> Provenance:
    """Versions, platform, seed and checksums. These are of public files alone: who knows all records but one could try
    guesses of that one against a checksum."""
    import jax

    checksums = None
    if (data := experiment.data_name) in DATASETS:
        files = DATASETS.find(data).files
        checksums = {file.path: file.sha256 for file in files} or None
        if not files and DATASETS.is_own(data):
            embedded = resources.files("coterie.problems") / "embedded" / f"{data}.npz"
            checksums = {embedded.name: hashlib.sha256(embedded.read_bytes()).hexdigest()}
    return Provenance(
        versions={
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _LIBRARIES},
        },
        platform=f"{platform.system()} {platform.machine()}, {jax.default_backend()}",
        seed=experiment.seed,
        data_sha256=checksums,
    )


def guarantee(
    plan: ReleasePlan, certificates: Sequence[Certificate], experiment: Experiment, table: Table, engine: str
) -> dict[str, Any]:
    """What certificates guarantee in words, and the facts that `recompute` derives the same words from."""
    known = facts(plan, certificates, experiment, table, engine)
    stated = {name: getattr(known, name) for name in KEPT}
    stated |= {name: getattr(known, name) for name in SOMETIMES if getattr(known, name)}
    return {"facts": stated, "statement": statement(known), "promise": promise(known)}


def privacy(
    certificates: Sequence[Certificate],
    claim: dict[str, Any],
    budgets: Sequence[float],
    guaranteed: dict[str, Any],
) -> WrittenPrivacy:
    """What result.json and a model's file say of it; `claim` and `guaranteed`: as JSON."""
    worst, known = max(certificates, key=lambda certificate: certificate.epsilon), guaranteed["facts"]
    public = named(worst.relation).sizes_are_public
    beside = (known["all_others"], known["person"], known.get("pair"))
    together, person, pair = (None if written is None else Number(written["epsilon"]) for written in beside)
    return WrittenPrivacy(
        relation=worst.relation,
        unit=worst.unit,
        view=worst.view,
        delta=Number(worst.delta),
        budget=budgets[0] if len(set(budgets)) == 1 else tuple(budgets),
        claimed=None if claim["epsilon"] is None else Number(claim["epsilon"]),
        claim=claim,
        certified=Certified(
            max=Number(worst.epsilon),
            per_owner=tuple(Number(certificate.epsilon) for certificate in certificates),
        ),
        all_others=together,
        owners_per_person=known["owners_per_person"],
        person=person,
        pair=pair,
        certificates=tuple(recompute.to_json(certificates)),
        accountant=worst.accountant,
        reason=worst.reason,
        warnings=(
            *undeclared(known["classes_declared"], known["columns_declared"]),
            *warnings_of(certificates),
        ),
        **guaranteed,
        oracle=UNSET if public else ("claim", "claimed_epsilon", "warnings"),
    )


def facts(
    plan: ReleasePlan, certificates: Sequence[Certificate], experiment: Experiment, table: Table, engine: str
) -> Facts:
    """What the statement is made of; `engine`: where the plan ran."""
    worst, adding_up = max(certificates, key=lambda certificate: certificate.epsilon), None
    if named_against(worst.view) is not None and math.isfinite(worst.epsilon):
        # The certificate of the ε that the view names, without sizes, which may be private: to be computed again.
        adding_up = replace(worst_against(plan, worst.delta), size=None, warnings=()).to_json()
    return Facts(
        epsilon=worst.epsilon,
        delta=worst.delta,
        relation=worst.relation,
        unit=worst.unit,
        view=worst.view,
        accountant=worst.accountant,
        reason=worst.reason,
        sizes=tuple(plan.sizes),
        noise=plan.noise.words,
        noisy=plan.noise.spread > 0,
        norm=plan.noise.norm,
        clip_norm=plan.clip_norm,
        releases=max(plan.releases),
        sampling=_sampling(plan.sampler, plan.unit.words),
        extra=plan.extra is not None,
        own_noise=plan.own_noise,
        quorum=plan.quorum,
        centre=experiment.centre if plan.centre is not None else 0.0,
        selection=experiment.select if plan.selection is not None else 0.0,
        evaluation=experiment.evaluate if plan.evaluation is not None else 0.0,
        held_out=experiment.hold_out if plan.evaluation is not None else 0.0,
        grouped_by=(experiment.evaluate_by or "") if plan.evaluation is not None else "",
        colluding=plan.colluding,
        all_others=None if plan.colluding is None else worst_against(plan, worst.delta).to_json(),
        adding_up=adding_up,
        owners_per_person=experiment.owners_per_person,
        person=_person(plan, worst, experiment.owners_per_person),
        pair=_person(plan, worst, 2) if experiment.owners_per_person > 2 else None,
        calibration=experiment.calibration,
        features=experiment.features or ("gradients,ball" if table.x.ndim > 2 else "ball"),
        fitted_on_public_rows=experiment.public_rows is not None,
        classes_declared=table.classes_declared,
        columns_declared=table.columns_declared,
        test_is_public=table.test_is_public,
        engine=engine,
    )


def _person(plan: ReleasePlan, worst: Certificate, owners_per_person: int) -> dict[str, Any] | None:
    """The certificate for a person whom several owners know, which is not better than that for one of them; None where
    there is one owner only.

    Where there is none for one of them, nothing of the plan is said: it may be what must not be published.
    """
    if len(plan.sizes) == 1:
        return None
    owners = told_owners(owners_per_person)
    if math.isinf(worst.epsilon):
        return replace(worst, unit=at_owners(worst.unit, owners), size=None, warnings=()).to_json()
    return person_of(plan, worst.delta, owners).to_json()


def _sampling(sampler: Sampler, unit: str) -> str:
    match sampler:
        case FullBatch():
            return f"all its {several(unit)}"
        case FixedSize(batch=batch):
            return f"{counted(batch, unit)} drawn anew without replacement, a draw that nobody else sees"
        case Poisson(rate=rate):
            return f"a Poisson sample of its {several(unit)} at rate {rate:.4g}, a draw that nobody else sees"
        case OnePass(batch=batch):
            return f"disjoint batches of {counted(batch, unit)}, each in one of them"
        case Passes(batch=batch):
            return f"disjoint batches of {counted(batch, unit)}, again from the start after each pass"
