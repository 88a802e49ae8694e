"""The files of a run's folder as typed values. They may come from anybody: errors name what is not as expected."""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.problems.metrics import METRICS
from coterie.reports.written import Run, number

FILES = ("result.json", "trace.csv", "experiment.toml")  # what a report is made from


class Reported(Run, frozen=True, kw_only=True, dict=True):
    """Everything that a report shows: what a run found, and what its other files say."""

    steps: np.ndarray  # (points,) of trace.csv, like the next
    values: np.ndarray  # (points, models) the metric of each
    joint: (
        np.ndarray
    )  # (points,) that of the joint model: the mean, by public sizes where every owner has a model
    numbers: tuple[int, ...]  # owners' in pictures: from 1, or their names where these are numbers
    settings: dict[str, Any]  # of experiment.toml


def read(files: Mapping[str, bytes]) -> Reported:
    """The run that the bytes of `FILES` describe."""
    try:
        run = msgspec.convert(json.loads(files["result.json"]), Run, dec_hook=number)
    except msgspec.ValidationError as error:
        complaint, _, at = str(error).partition(" - at ")
        path = at.strip("`").removeprefix("$.")
        raise InputError(
            f"result.json: {path}{': ' * bool(path)}{complaint}. Give a folder that this version wrote."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError("result.json: is not JSON. Give the folder of a run.") from error
    for name in (run.metric.name, *run.metric.all):
        _check.one_of("result.json: metric.name", name, METRICS)
    for path, fits in _fitting(run).items():
        if not fits:
            raise InputError(
                f"result.json: {path} does not fit the rest of it. Give a folder that this version wrote."
            )
    try:
        settings = tomllib.loads(files["experiment.toml"].decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("experiment.toml: is not TOML. Give the folder of a run.") from error
    steps, values, joint = _trace(files["trace.csv"], None if run.sizes_are_private else run.sizes)
    first = 0 if all(name == f"owner {at}" for at, name in enumerate(run.names)) else 1
    return Reported(
        **msgspec.structs.asdict(run),
        steps=steps,
        values=values,
        joint=joint,
        numbers=tuple(range(first, first + len(run.names))),
        settings=settings,
    )


def _fitting(run: Run) -> dict[str, bool]:
    """By path, whether parts fit each other in ways that types cannot express."""
    owners, classes, swept = len(run.names), len(run.partition.classes), run.over_epsilon
    per_owner = {
        "benefit.joint": run.benefit.joint,
        "benefit.own": run.benefit.own,
        "privacy.certified_epsilon.per_owner": run.privacy.certified.per_owner,
        "privacy.budget_epsilon": run.privacy.budgets,
    }
    tables = {
        "partition.counts": (run.partition.counts, owners),
        "metric.confusion": (run.metric.confusion, classes),
        "evaluation.confusion": (run.evaluation and run.evaluation["confusion"], classes),
    }
    return {
        "owner_names": owners > 0,
        **{path: len(values) == owners for path, values in per_owner.items()},
        "sizes": len(run.sizes) == owners and min(run.sizes, default=0) >= 0 < sum(run.sizes),
        **{
            path: rows is None or (len(rows) == height and all(len(row) == classes for row in rows))
            for path, (rows, height) in tables.items()
        },
        "privacy.certified_epsilon.max": run.privacy.certified.max
        == max(run.privacy.certified.per_owner, default=0),
        "privacy.audit": run.privacy.audited is None or bool(run.privacy.audit),
        "network.links": all(0 <= end < owners for link in run.network.links or () for end in link),
        "over_epsilon": swept is None or len(swept.joint) == len(swept.local_only) == len(swept.epsilon) > 1,
        "over_epsilon.epsilon": swept is None
        or all(0 < low < high < math.inf for low, high in pairwise(swept.epsilon)),
    }


def _trace(content: bytes, sizes: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(points,) steps, (points, models) values, the columns after step, metric and disagreement, and (points,) their
    mean: by `sizes`, where these are public."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]
        table = np.array([[float(cell) for cell in row] for row in rows])
    except (ValueError, csv.Error) as error:
        raise InputError("trace.csv: is not a table of numbers. Give the folder of a run.") from error
    if table.ndim != 2 or table.shape[1] < 4 or not math.isfinite(table[:, 0].sum()):
        raise InputError("trace.csv: must have a step, the metric, disagreement and a model in every row.")
    values = table[:, 3:]
    weights = sizes if sizes is not None and values.shape[1] == len(sizes) else None
    finite = np.where(np.isfinite(values), values, np.nan)
    return table[:, 0], values, np.average(finite, axis=1, weights=weights)
