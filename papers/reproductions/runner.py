"""Reproduce a paper: every cell that is not there yet, then its views. Returns values; only the cache writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coterie.problems import datasets
from papers.cost import Past, relative_errors
from papers.cost import fit as cost_of_privacy
from papers.reproductions import cache as caches
from papers.reproductions.cache import Cache
from papers.reproductions.cases import case
from papers.reproductions.measure import measure, plain
from papers.reproductions.measures import MEASURES
from papers.reproductions.orderings import judge
from papers.reproductions.spec import Cell, Entry, Fit, Paper, View

Tell = Callable[[str, int, int], None]  # (what, done, of)


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A paper's views with our numbers, as plain values that JSON holds."""

    found: dict[str, Any]
    kept: int  # cells that were there already
    damaged: tuple[Path, ...]


def reproduce(
    paper: Paper, quick: bool, folder: Path, data_dir: Path | None = None, tell: Tell | None = None
) -> Reproduction:
    """Run what is missing in `folder`, a cell at a time or several side by side, and gather the views.

    Interrupted, it leaves every finished cell; called again, it goes on from there.
    """
    entries = paper.entries(quick)
    cells = {caches.key(entry.cell): entry.cell for entry in entries}
    names = sorted({cell.data.name for cell in cells.values()})
    for name in names:
        datasets.check(name, data_dir)  # before any work: a missing file is named at once
    cache = Cache(folder)
    results = {key: cache.get(cell) for key, cell in cells.items()}
    missing = [cell for key, cell in cells.items() if results[key] is None]
    kept = len(cells) - len(missing)
    told = tell or (lambda what, done, of: None)
    told(paper.name, kept, len(cells))
    for done, (cell, result) in enumerate(_run(missing, data_dir), kept + 1):
        cache.put(cell, result)
        results[caches.key(cell)] = result
        told(paper.name, done, len(cells))
    views = [
        _view(name, view, [entry for entry in entries if entry.view == name], results)
        for name, view in paper.views.items()
    ]
    found = {
        "paper": paper.name,
        "title": paper.title,
        "quick": quick,
        "cells": len(cells),
        "code": caches.code_version(cells.values())[:12],
        "notes": list(paper.notes),
        "versions": {name: version(name) for name in ("coterie", "jax", "numpy")},
        "data": {file.path: file.sha256 for name in names for file in datasets.DATASETS[name].files},
        "views": views,
        "orderings": _orderings(paper, {view["name"]: view for view in views}),
        "fits": _fits(paper.fits, {view["name"]: view for view in views}),
    }
    return Reproduction(found=found, kept=kept, damaged=tuple(cache.damaged))


def _run(cells: list[Cell], data_dir: Path | None) -> Iterable[tuple[Cell, dict[str, Any]]]:
    """Cells of the same data and protocol go together, to share compilations and passes; those of few owners first."""
    cells = sorted(cells, key=lambda one: (one.data.owners, repr((one.data, one.protocol, one.calibration))))
    for data, own in groupby(cells, key=lambda cell: cell.data):
        for _, group in groupby(own, key=lambda cell: (cell.protocol, cell.calibration)):
            yield from measure(list(group), case(data, data_dir))
        # Programs for these records are of no more use, and each holds maps of memory, of which Linux gives a process
        # 65,530: after about a thousand cells XLA could not compile any more, and the process died.
        jax.clear_caches()


def _orderings(paper: Paper, views: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that the runs at hand say something about."""
    judged = [(one, judge(one, views[one.view])) for one in paper.orderings]
    return [
        {
            "words": one.words,
            "view": views[one.view]["title"],
            "measure": views[one.view]["measure"],
            **finding,
        }
        for one, findings in judged
        for finding in findings
    ]


def _fits(fits: tuple[Fit, ...], views: dict[str, Any]) -> list[dict[str, Any]]:
    """The two constants, and how far the fitted bound is from what it was fitted on; where noise costs something."""
    found = []
    for fit in fits:
        points = views[fit.over]["points"]
        silent = [number(point["mean"]) for point in points if point["series"] == fit.silent]
        noisy = [
            (point, number(point["mean"]) - silent[0]) for point in points if point["series"] == fit.series
        ]
        runs = [
            Past(point["records"], (point["x"],) * fit.owners, cost)
            for point, cost in noisy
            if cost > 0 and point["x"] >= fit.least
        ]
        if len(runs) < 2:
            continue
        cost = cost_of_privacy(runs, published=False)
        error = float(np.median(relative_errors(cost, runs)))
        constants = {
            "first": cost.first,
            "second": cost.second,
            "published": list(fit.published),
            "error": error,
        }
        found.append({"words": fit.words, "series": fit.series, "view": views[fit.over]["title"]} | constants)
    return found


def _view(name: str, view: View, entries: list[Entry], results: dict[str, Any]) -> dict[str, Any]:
    places = dict.fromkeys((entry.series, entry.x) for entry in entries)
    points = []
    for series, x in places:
        own = [results[caches.key(one.cell)] for one in entries if (one.series, one.x) == (series, x)]
        points.append(_point(view, series, x, own))
    return {
        "name": name,
        "title": view.title,
        "data": view.data,
        "measure": view.measure,
        "x": view.x,
        "log": view.log,
        "said": view.said,
        "points": points,
    }


def _point(view: View, series: str, x: float, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and spread (standard deviation) over seeds; the curve where the view is one over the run."""
    curves = np.stack([MEASURES[view.measure].of(one) for one in results])
    claims = [one["claimed"] for one in results if one["claimed"] is not None]
    point = {
        "series": series,
        "x": x,
        "mean": plain(curves[:, -1].mean()),
        "spread": plain(curves[:, -1].std()),
        "seeds": len(results),
        "values": [plain(value) for value in curves[:, -1]],
        "records": results[0]["records"],
        "claimed": max(claims) if claims else None,
        "certified": plain(max(float(one["certified"]) for one in results)),
        "published": view.published.get((series, x)),
    }
    if view.x == "iteration":
        ticks = list(range(1, curves.shape[1] + 1))
        point["step"] = ticks if view.measure == "clock" else results[0]["step"]
        point["curve"] = [plain(value) for value in curves.mean(0)]
        point["low"], point["high"] = (
            [plain(value) for value in edge] for edge in (curves.min(0), curves.max(0))
        )
    return point


def number(value: float | str | None) -> float:
    """What `plain` wrote, read back; None is not a number."""
    return math.nan if value is None else float(value)
