"""What a comparison shows, as plain values: cells with mean and deviation, paired differences, baselines, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie._rounding import at_most
from coterie.experiments.comparing.jobs import ALONE
from coterie.experiments.comparing.paired import difference, or_none, spread
from coterie.experiments.comparing.question import Comparison, Series
from coterie.experiments.describe import plain, provenance
from coterie.experiments.judging import metric_words, shown_first
from coterie.experiments.oracle import ORACLE
from coterie.experiments.prepare import Prepared
from coterie.problems.metrics import METRICS, beats
from coterie.relations import named
from coterie.reports import written
from coterie.reports.constant import says
from coterie.reports.statement import undeclared

Told = tuple[str, float, str, dict[str, Any] | None]  # series, ε, why it was refused, what was kept of it


def summarise(
    comparison: Comparison, prepared: Prepared, rows: list[Told], central: float | str
) -> dict[str, Any]:
    """All of it; what no owner released is listed under "oracle"."""
    judge, table, y = prepared.judge, prepared.table, np.asarray(prepared.y_test)
    constant = judge.constant(y)
    level = judge(constant, y)
    by_name = {series.name: series for series in comparison.series()}
    cells = [
        _cell(by_name[name], epsilon, refused, stored)
        for name, epsilon, refused, stored in rows
        if name != ALONE
    ]
    for cell in cells:
        cell["beats_constant"] = None if cell["refused"] else beats(judge.metric, float(cell["mean"]), level)
    owned = [] if table.test_is_public else ["cells", "differences", "constant", "constant_says"]
    private = any(not cell["refused"] and _sizes_are_private(cell) for cell in cells)
    notes = _notes(comparison, prepared, cells)
    follow = ["units", "claimed", "claim_note", "warnings"] if private else []
    follow += ["rows"] if private and owned else []
    follow += ["notes"] if any(ORACLE in note for note in notes) else []
    return {
        "data": comparison.shared.data_name,
        "owners": prepared.task.owners,
        "units": sum(prepared.task.sizes),
        "unit": prepared.task.unit.words,
        "owners_per_person": prepared.task.owners_per_person,
        "partition": prepared.partition.how,
        "topology": comparison.shared.topology,
        "calibration": comparison.shared.calibration,
        "delta": comparison.shared.delta,
        "epsilon": list(comparison.epsilon),
        "seeds": comparison.seeds_used,
        "series": list(by_name),
        "metric": {
            "name": judge.metric,
            "words": metric_words(judge.metric, table),
            "lower_is_better": METRICS[judge.metric].lower_is_better,
            "why": shown_first(comparison.shared, table)[1],
            "rows": prepared.tested,
            "rows_are": prepared.test_rows,
        },
        "cells": cells,
        "differences": _differences(cells, next(iter(by_name)), judge.metric),
        "baselines": {
            "alone": [
                {"epsilon": epsilon, **_spread(stored["values"])}
                for name, epsilon, _, stored in rows
                if name == ALONE and stored
            ],
            "central": central,
            "constant": plain(level),
            "constant_says": says(judge, table, constant),
        },
        "oracle": ["alone", "central", *owned, *follow],
        "notes": notes,
        "provenance": written.plain(provenance(comparison.shared)),
    }


def _sizes_are_private(cell: dict[str, Any]) -> bool:
    """Whether nobody tells numbers of records there: then they are oracle values, and the claims that follow."""
    return not named(cell["relation"]).sizes_are_public


def _cell(series: Series, epsilon: float, refused: str, stored: dict[str, Any] | None) -> dict[str, Any]:
    who = {
        "series": series.name,
        "protocol": series.protocol,
        "settings": series.settings,
        "epsilon": epsilon,
    }
    if stored is None:
        return who | {"refused": refused}
    return who | {"refused": ""} | stored | _spread(stored["values"])


def _spread(values: list[float | str]) -> dict[str, Any]:
    """NaN of a run that diverged makes the mean NaN, which is written as text; one seed has no deviation."""
    mean, deviation = spread(np.array([float(value) for value in values]))
    return {"values": values, "mean": plain(mean), "deviation": or_none(deviation)}


def _differences(cells: list[dict[str, Any]], first: str, metric: str) -> list[dict[str, Any]]:
    """The differences of each series from the first, at each budget that both were run at."""
    ran = {(cell["series"], cell["epsilon"]): cell["values"] for cell in cells if not cell["refused"]}
    differences = []
    for (series, epsilon), values in ran.items():
        if series == first or (first, epsilon) not in ran:
            continue
        pair = (np.array([float(value) for value in metrics]) for metrics in (values, ran[first, epsilon]))
        apart = difference(np.subtract(*pair))
        better = (apart.mean > 0) != METRICS[metric].lower_is_better
        verdict = ("better" if better else "worse") if apart.decided else "undecided"
        differences.append(
            {"series": series, "from": first, "epsilon": epsilon, **apart.to_json(), "verdict": verdict}
        )
    return differences


def _notes(comparison: Comparison, prepared: Prepared, cells: list[dict[str, Any]]) -> list[str]:
    """What a reader must know to read the numbers right; marked where what no owner released is told."""
    mark = "" if prepared.table.test_is_public else ORACLE
    ran = [cell for cell in cells if not cell["refused"]]
    notes = []
    if comparison.seeds == 1:
        notes.append("one seed: no standard deviation and no interval; give --seeds 2 or more")
    diverged = [
        f"{cell['series']} at ε = {cell['epsilon']:g}" for cell in ran if not np.isfinite(float(cell["mean"]))
    ]
    if diverged:
        notes.append(f"diverged, so without a number{mark}: {', '.join(diverged)}")
    lost = [f"{cell['series']} at ε = {cell['epsilon']:g}" for cell in ran if not cell["beats_constant"]]
    if lost:
        notes.append(f"no better than a constant{mark}: {', '.join(lost)}")
    above = [
        f"{cell['series']} at ε = {cell['epsilon']:g} (certified {at_most(float(cell['certified'])):g})"
        for cell in ran
        if cell["within"] < cell["owners"]
    ]
    if above:
        notes.append(f"above the budget: {', '.join(above)}")
    views = {cell["series"]: f"{cell['view']}, {cell['relation']}" for cell in ran}
    if len(set(views.values())) > 1:
        by_series = "; ".join(f"{series}: {view}" for series, view in views.items())
        notes.append(
            f"certificates are against different views, so equal ε do not protect alike: {by_series}"
        )
    notes += sorted({f"{cell['series']}: {cell['reason']}" for cell in ran if cell["reason"]})
    notes += sorted(
        {
            f"{warning}{ORACLE * _sizes_are_private(cell)}"  # of how many records an owner has
            for cell in ran
            for warning in cell["warnings"]
        }
    )
    table = prepared.table
    return [*notes, *undeclared(table.classes_declared, table.columns_declared)]
