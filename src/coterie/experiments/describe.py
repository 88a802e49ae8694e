"""What a result says of itself beside its numbers: who talks to whom, who owns what, with what it was made."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.mechanisms.sampling import FixedSize, FullBatch, OnePass, Passes, Poisson, Sampler
from coterie.problems.datasets import DATASETS
from coterie.program import Rounds
from coterie.reports.markup import many
from coterie.reports.statement import Facts, statement

if TYPE_CHECKING:
    from coterie.experiments.prepare import Prepared
    from coterie.experiments.run import Result
    from coterie.problems.table import Table

MOST_LINKS = 6_000  # what can be told apart in a picture is far less
_LIBRARIES = ("coterie", "jax", "jaxlib", "numpy", "dp-accounting")


def described(result: Result) -> dict[str, Any]:
    """Keys of result.json that a report needs. All are public but what a part lists under "oracle"."""
    return {
        "step": result.step,
        "sizes": result.sizes.tolist(),
        "network": _network(result),
        "partition": _partition(result),
        "benefit": _benefit(result),
        "over_epsilon": _over_epsilon(result),
        "provenance": _provenance(result),
    }


def _network(result: Result) -> dict[str, Any]:
    """The links of a topology, or what stands in the middle where all owners meet there."""
    if not isinstance(result.program.functions, Rounds):
        return {"topology": None, "hub": "shared model", "number_of_links": 0, "links": []}
    if result.program.aggregate is not None:
        return {"topology": None, "hub": "aggregator", "number_of_links": 0, "links": []}
    topology = result.prepared.task.topology
    links = topology.links
    return {
        "topology": topology.name,
        "hub": None,
        "number_of_links": len(links),
        "links": links.tolist() if len(links) <= MOST_LINKS else None,
    }


def _partition(result: Result) -> dict[str, Any]:
    """How rows were dealt. The classes' counts are an oracle's: no owner releases them."""
    table, experiment = result.prepared.table, result.experiment
    natural = table.owner is not None and experiment.owners is None
    return {
        "how": experiment.partition or ("column" if natural else "iid"),
        "classes": list(_classes(table)),
        "counts": result.class_counts.tolist() if _classes(table) else None,
        "oracle": ["counts"],
    }


def _benefit(result: Result) -> dict[str, Any]:
    """Who gains by joining: the metric of what each owner ends with, and of its own model without privacy."""
    ends = np.broadcast_to(result.curve[-1], result.sizes.shape)  # one register is everybody's
    joint_is_public = "joint" not in result.oracle
    return {
        "joint": [plain(value) for value in ends.tolist()],
        "own": [plain(value) for value in result.own.tolist()],
        "oracle": ["own"] if joint_is_public else ["joint", "own"],
    }


def _over_epsilon(result: Result) -> dict[str, Any] | None:
    """What other budgets would reach, where it was asked for. All of it an oracle's: nobody spent them."""
    if not len(result.over_epsilon):
        return None
    columns = ([plain(value) for value in column] for column in result.over_epsilon.T.tolist())
    return {**dict(zip(("epsilon", "joint", "local_only"), columns)), "oracle": ["joint", "local_only"]}


def plain(value: float) -> float | str:
    """JSON has neither infinity nor NaN, which a model that diverged scores: they are written as text."""
    return value if np.isfinite(value) else str(value)


def class_counts(prepared: Prepared) -> np.ndarray:
    """(owners, classes) how many records of each class an owner holds; a regression has no classes."""
    table, rows_of = prepared.table, prepared.partition.rows
    classes = len(_classes(table))
    if not classes:
        return np.zeros((len(rows_of), 0), int)
    labels = (table.y > 0 if table.task == "binary" else table.y).astype(int)
    return np.array([np.bincount(labels[rows], minlength=classes) for rows in rows_of])


def _classes(table: Table) -> tuple[str, ...]:
    return table.classes or (("-1", "+1") if table.task == "binary" else ())


def _provenance(result: Result) -> dict[str, Any]:
    import jax

    return {
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in _LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}, {jax.default_backend()}",
        "seed": result.experiment.seed,
        "data_sha256": _data_checksums(result.experiment.data),
    }


def _data_checksums(data: str) -> dict[str, str] | None:
    """Of public files alone. Who knows all records but one could try guesses of that one against a checksum."""
    if data not in DATASETS:
        return None
    files = DATASETS[data].files
    if files:
        return {file.path: file.sha256 for file in files}
    embedded = resources.files("coterie.problems") / "embedded" / f"{data}.npz"
    return {embedded.name: hashlib.sha256(embedded.read_bytes()).hexdigest()}


def privacy_statement(result: Result) -> list[str]:
    """The run's guarantee in words."""
    plan, experiment = result.program.plan, result.experiment
    worst = max(result.certificates, key=lambda one: one.epsilon)
    table = result.prepared.table
    return statement(
        Facts(
            epsilon=worst.epsilon,
            delta=worst.delta,
            relation=worst.relation,
            unit=worst.unit,
            view=worst.view,
            accountant=worst.accountant,
            reason=worst.reason,
            sizes=tuple(result.prepared.task.sizes),
            noise=plan.noise,
            clip_norm=plan.clip_norm,
            releases=plan.releases,
            sampling=_sampling(plan.sampler),
            extra=plan.extra is not None,
            own_noise=plan.charged is None,
            quorum=plan.quorum,
            calibration=experiment.calibration,
            features=experiment.features or ("gradients,ball" if table.x.ndim > 2 else "ball"),
            fitted_on_public_rows=experiment.public_rows is not None,
            test_is_public=table.test_is_public,
            engine=experiment.engine,
        )
    )


def _sampling(sampler: Sampler) -> str:
    match sampler:
        case FullBatch():
            return "all its records"
        case FixedSize(batch=batch):
            return f"{many(batch, 'record')} drawn anew without replacement, a draw that nobody else sees"
        case Poisson(rate=rate):
            return f"a Poisson sample of its records at rate {rate:.4g}, a draw that nobody else sees"
        case OnePass(batch=batch):
            return f"disjoint batches of {many(batch, 'record')}, each record in one of them"
        case Passes(batch=batch):
            return f"disjoint batches of {many(batch, 'record')}, again from the start after each pass"
