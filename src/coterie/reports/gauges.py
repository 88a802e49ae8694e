"""Each owner's certified ε against its budget, as bars. Equal bars are drawn once, with a list of their owners."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from coterie._rounding import at_most
from coterie.reports.amounts import number
from coterie.reports.reading import Reported

_ALIKE = 3  # owners with equal bars: up to so many, each has its own
_LISTED = 40  # bars shown at once; if there are more, only the fullest
_FULLEST = 12
_PRINTED = 15  # bars on paper, as the style sheet has it
MOST = 1_000  # the most owners that the page names


class Gauge(NamedTuple):
    """One bar: its owners, its words, and how full it is."""

    who: tuple[
        str, str
    ]  # the number that pictures have, where there is one, and the name; or how many owners
    words: str
    within: bool
    kind: str
    part: float


def gauges(run: Reported) -> dict[str, Any]:
    """A bar for each owner, or for each group of owners whose bars would be equal; the fullest first, where many."""
    groups = _groups(run)
    spent, budgets, keeps = run.privacy.certified.per_owner, run.privacy.budgets, run.privacy.within
    # The number in pictures, and the name; only the name where that is a number.
    numbered = zip(run.numbers, run.names)
    named = [("" if name == f"owner {index}" else str(index), name) for index, name in numbered]
    if len(groups) > _LISTED:
        groups.sort(key=lambda group: -round(spent[group[0]] / budgets[group[0]], 3))
    shown = len(groups) if len(groups) <= _LISTED else _FULLEST
    bars, alike, left = [], [], MOST
    for group in groups:
        at, within = group[0], keeps[group[0]]
        words = f"ε {number(at_most(spent[at]))} of {number(budgets[at])}"
        kind = "endless" if math.isinf(spent[at]) else "" if within else "above"
        who = named[at] if len(group) == 1 else ("", f"{len(group):,} owners alike")
        bars.append(
            Gauge(who, words + ("" if within else ", above"), within, kind, min(spent[at] / budgets[at], 1.0))
        )
        if len(group) > 1:  # the names of owners alike, up to a limit
            alike.append((words, [named[one] for one in group[:left]]))
            left -= len(alike[-1][1])
    return {
        "note": _note(run, groups),
        "shown": bars[:shown],
        "unprinted": max(0, shown - _PRINTED),
        "folded": bars[shown:],
        "alike": alike,
        "unnamed": max(0, sum(len(group) for group in groups if len(group) > 1) - MOST),
    }


def _groups(run: Reported) -> list[list[int]]:
    """Owners grouped by their bars, in the order of the first; a few equal ones stay separate, with their names."""
    alike: dict[tuple[str, float], list[int]] = {}
    for at, (spent, budget) in enumerate(zip(run.privacy.certified.per_owner, run.privacy.budgets)):
        alike.setdefault((number(at_most(spent)), budget), []).append(at)
    parted = (
        [group] if len(group) > _ALIKE or len(alike) == 1 else [[at] for at in group]
        for group in alike.values()
    )
    return sorted((group for groups in parted for group in groups), key=lambda group: group[0])


def _note(run: Reported, groups: list[list[int]]) -> str:
    privacy, owners = run.privacy, len(run.names)
    if len(groups) == 1 and owners > 1:
        spent, budget = number(at_most(privacy.certified.max)), number(privacy.budgets[0])
        who = "Both" if owners == 2 else f"All {owners:,}"
        caption = f"{who} owners alike: certified ε ≤ {spent} of a budget of {budget}"
    else:
        caption = "Certified ε against the budget that each owner set"
        caption += f", fullest first; {_FULLEST} of {len(groups):,} bars" if len(groups) > _LISTED else ""
    return f"{caption}. δ = {number(privacy.delta)}."
