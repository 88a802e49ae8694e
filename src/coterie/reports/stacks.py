"""Who owns what, as plain values: a column for each owner, as high as it has records."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.reports.amounts import many
from coterie.reports.charts import nice_ticks
from coterie.reports.reading import Reported
from coterie.reports.style import CLASSES, OTHER
from coterie.units import counted, several

_NUMBERED = 16  # columns: beyond, not every one has a number below it


def stacks(run: Reported) -> dict[str, Any]:
    """The columns, in the colours of their classes where these are given; numbers beside them; the key."""
    sizes, owners, numbers = run.sizes, len(run.sizes), run.numbers
    top = nice_ticks(0.0, float(max(sizes)))[-1]
    parts, labels, most = np.array(sizes)[:, None], [], len(CLASSES)
    if run.partition.counts is not None:
        labels = [*run.partition.classes]
        parts = np.array(run.partition.counts, int).reshape(owners, len(labels))
    if len(labels) > most:  # one for each colour, and the others together
        parts = np.c_[parts[:, :most], parts[:, most:].sum(1)]
        labels = [*labels[:most], f"{len(labels) - most} others"]
    colours = [*CLASSES, OTHER][: len(labels)] or ["var(--joint)"]
    columns = []
    for at, row in enumerate(parts):
        heights = 100 * row / top
        titled = f"{numbers[at]} {run.names[at]}: {counted(sizes[at], run.privacy.unit)}"
        segments = zip(100 - np.cumsum(heights), heights, colours)
        columns.append((titled, [segment for segment in segments if segment[1]]))
    described = (
        f"{several(run.privacy.unit)} of each of {many(owners, 'owner')}: {min(sizes):,} to {max(sizes):,}"
    )
    step = 1 if owners <= _NUMBERED else int(nice_ticks(0.0, float(owners))[1])  # of many, round numbers
    return {
        "kind": "stacks one" if owners == 1 else "stacks",
        "owners": owners,
        "described": described,
        "columns": columns,
        "up": [(share, f"{share * top:,.6g}") for share in (0.0, 0.5, 1.0)],
        "along": [((at + 0.5) / owners, str(index)) for at, index in enumerate(numbers) if index % step == 0],
        "key": list(zip(labels, colours)),
    }
