"""Reproduce a paper: every cell that is not there yet, then its views. Returns values; only the cache writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from coterie.experiments.reproductions import cache as caches
from coterie.experiments.reproductions.cache import Cache
from coterie.experiments.reproductions.cases import case
from coterie.experiments.reproductions.measure import measure, plain
from coterie.experiments.reproductions.measures import MEASURES
from coterie.experiments.reproductions.spec import Cell, Entry, Paper, View
from coterie.problems import datasets

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
    for name in sorted({cell.data.name for cell in cells.values()}):
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
    found = {
        "paper": paper.name,
        "title": paper.title,
        "quick": quick,
        "cells": len(cells),
        "code": caches.code_version()[:12],
        "notes": list(paper.notes),
        "views": [
            _view(name, view, [entry for entry in entries if entry.view == name], results)
            for name, view in paper.views.items()
        ],
    }
    return Reproduction(found=found, kept=kept, damaged=tuple(cache.damaged))


def _run(cells: list[Cell], data_dir: Path | None) -> Iterable[tuple[Cell, dict[str, Any]]]:
    """Cells of the same data and protocol go together, to share compilations and passes; those of few owners first."""
    cells = sorted(cells, key=lambda one: (one.data.owners, repr((one.data, one.protocol, one.calibration))))
    for (data, _, _), group in groupby(cells, key=lambda cell: (cell.data, cell.protocol, cell.calibration)):
        yield from measure(list(group), case(data, data_dir))


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
        "records": results[0]["records"],
        "claimed": max(claims) if claims else None,
        "certified": plain(max(float(one["certified"]) for one in results)),
        "published": view.published.get((series, x)),
    }
    if view.x == "iteration":
        point["step"] = results[0]["step"]
        point["curve"] = [plain(value) for value in curves.mean(0)]
        point["low"], point["high"] = (
            [plain(value) for value in edge] for edge in (curves.min(0), curves.max(0))
        )
    return point


def number(value: float | str | None) -> float:
    """What `plain` wrote, read back; None is not a number."""
    return math.nan if value is None else float(value)
