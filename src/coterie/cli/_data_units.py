"""How many records each unit has, for `coterie data describe`: private, for the holder of the rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.errors import InputError
from coterie.units import Unit, several

if TYPE_CHECKING:
    from coterie.problems.partition import Partition
    from coterie.problems.table import Table

WARNING = (
    "Read off private rows, for you alone: a cap that is chosen by it shows to the others, tells a little about these "
    "rows, and is in no budget. `coterie plan --records-per-person` takes what is known without looking."
)
_BAR = 32  # characters of the longest bar


def checked(unit: str | None) -> str | None:
    """The unit; InputError unless its records can be counted."""
    if unit == "owner":
        raise InputError(
            "unit='owner': how many rows each owner has is shown anyway. Name a column: column:NAME."
        )
    return unit


def distribution(table: Table, parts: Partition, unit: Unit) -> dict[str, Any] | None:
    """Counts of units by their number of records, within each owner; None where a record is the unit. Oracle."""
    import numpy as np

    if unit.kind != "column" or table.whose is None:
        return None
    codes = table.whose.codes
    sizes = np.concatenate([np.unique(codes[rows], return_counts=True)[1] for rows in parts.rows])
    ends = [1 << power for power in range(int(sizes.max() - 1).bit_length() + 1)]
    spans = [(low + 1, high) for low, high in zip([0, *ends], ends)]
    within = [(sizes >= low) & (sizes <= high) for low, high in spans]
    return {
        "unit": unit.words,
        "units": len(sizes),
        "mean": float(sizes.mean()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
        "above_the_cap": int(np.sum(sizes > unit.records)),
        "records": [
            {"from": low, "to": high, "units": int(some.sum()), "records": int(sizes[some].sum())}
            for (low, high), some in zip(spans, within)
        ],
        "warning": WARNING,
    }


def lines(facts: dict[str, Any]) -> list[str]:
    """The picture in the terminal: a line for each doubling."""
    rows = facts["records"]
    spans = [
        f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,} to {row['to']:,}"
        for row in rows
    ]
    wide, most = max(map(len, ("records each", *spans))), max(row["units"] for row in rows)
    drawn = [
        f"{span:>{wide}}  {row['units']:>9,}  {row['records']:>9,}  {'█' * round(_BAR * row['units'] / most)}".rstrip()
        for span, row in zip(spans, rows)
    ]
    totals = (
        f"{facts['units']:,} {several(facts['unit'])}: {facts['mean']:.3g} records on average, {facts['median']:g} in "
        f"the median, {facts['largest']:,} at most; {facts['above_the_cap']:,} above the cap"
    )
    return [f"{'records each':>{wide}}  {'units':>9}  {'in all':>9}", *drawn, totals]
