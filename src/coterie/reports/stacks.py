"""Who owns what, as plain values: a column for each owner, as high as it has records."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.reports.amounts import many
from coterie.reports.charts import nice_ticks
from coterie.reports.reading import Run
from coterie.reports.style import CLASSES, OTHER
from coterie.units import counted, several

_NUMBERED = 16  # columns beyond which not every one has its number below


def stacks(run: Run) -> dict[str, Any]:
    """The columns, in the colours of their classes where these are given; numbers beside them; the key."""
    sizes, owners = run.sizes, len(run.sizes)
    top = nice_ticks(0.0, float(max(sizes)))[-1]
    parts, labels = (
        (np.array(sizes)[:, None], []) if run.counts is None else _grouped(run.counts, run.classes)
    )
    colours = [*CLASSES[: len(labels)], *[OTHER] * (len(labels) > len(CLASSES))] or ["var(--joint)"]
    columns = []
    for at, row in enumerate(parts):
        heights = 100 * row / top
        titled = f"{run.numbers[at]} {run.names[at]}: {counted(sizes[at], run.privacy.unit)}"
        columns.append((titled, [one for one in zip(100 - np.cumsum(heights), heights, colours) if one[1]]))
    described = (
        f"{several(run.privacy.unit)} of each of {many(owners, 'owner')}: {min(sizes):,} to {max(sizes):,}"
    )
    return {
        "kind": "stacks one" if owners == 1 else "stacks",
        "owners": owners,
        "described": described,
        "columns": columns,
        "up": [(share, f"{share * top:,.6g}") for share in (0.0, 0.5, 1.0)],
        "along": [((at + 0.5) / owners, str(run.numbers[at])) for at in _numbered(run.numbers)],
        "key": list(zip(labels, colours)),
    }


def _grouped(counts: np.ndarray, classes: tuple[str, ...]) -> tuple[np.ndarray, list[str]]:
    """As many classes as there are colours, the others as one."""
    shown = len(CLASSES)
    if len(classes) <= shown:
        return counts, list(classes)
    others = f"{len(classes) - shown} others"
    return np.c_[counts[:, :shown], counts[:, shown:].sum(1)], [*classes[:shown], others]


def _numbered(numbers: tuple[int, ...]) -> list[int]:
    """Which columns, from 0, have their number below: all of a few, round ones of many."""
    owners = len(numbers)
    step = 1 if owners <= _NUMBERED else int(nice_ticks(0.0, float(owners))[1])
    return [at for at in range(owners) if numbers[at] % step == 0]
