"""Each owner's certified ε against its budget, as bars. What is equal is said once, and whose it is folded away."""

from __future__ import annotations

import math

from coterie._rounding import at_most
from coterie.reports.markup import Markup, join, many, name, number, percent, tag
from coterie.reports.reading import Run

_ALIKE = 3  # owners with equal bars up to whom each has its own
_LISTED = 40  # bars shown at once; of more only the fullest
_FULLEST = 12
_PRINTED = 15  # bars on paper, as `style` has it
MOST = 1_000  # owners that the page names at all


def gauges(run: Run) -> Markup:
    """A bar for each owner, or for each group of owners whose bars would be equal; the fullest first, where many."""
    groups = _groups(run)
    if len(groups) > _LISTED:
        groups.sort(key=lambda group: -_share(run, group[0]))
    shown = len(groups) if len(groups) <= _LISTED else _FULLEST
    bars = [_bar(run, group) for group in groups]
    parts = [tag("p", _note(run, groups), class_="soft"), tag("ul", *bars[:shown], class_="gauges")]
    if shown > _PRINTED:
        parts.append(tag("p", f"{many(shown - _PRINTED, 'more bar')} in the file.", class_="soft printed"))
    if bars[shown:]:
        what = f"{many(len(bars) - shown, 'bar')} with a smaller or equal share of the budget spent"
        parts.append(tag("details", tag("summary", what), tag("ul", *bars[shown:], class_="gauges")))
    alike = [group for group in groups if len(group) > 1]
    return join([*parts, *([_whose(run, alike)] if alike else [])])


def _groups(run: Run) -> list[list[int]]:
    """Owners by what their bars show, in the order of the first; a few alike stay apart, with their names."""
    found: dict[tuple[str, float], list[int]] = {}
    for at, (spent, budget) in enumerate(zip(run.privacy.certified, run.privacy.budgets)):
        found.setdefault((number(at_most(spent)), budget), []).append(at)
    parted = (
        [group] if len(group) > _ALIKE or len(found) == 1 else [[at] for at in group]
        for group in found.values()
    )
    return sorted((group for groups in parted for group in groups), key=lambda group: group[0])


def _note(run: Run, groups: list[list[int]]) -> str:
    privacy, owners = run.privacy, len(run.names)
    if len(groups) == 1 and owners > 1:
        spent, budget = number(at_most(privacy.worst)), number(privacy.budgets[0])
        who = "Both" if owners == 2 else f"All {owners:,}"
        told = f"{who} owners alike: certified ε ≤ {spent} of a budget of {budget}"
    else:
        told = "Certified ε against the budget that each owner set"
        told += f", fullest first; {_FULLEST} of {len(groups):,} bars" if len(groups) > _LISTED else ""
    return f"{told}. δ = {number(privacy.delta)}."


def _share(run: Run, at: int) -> float:
    return round(run.privacy.certified[at] / run.privacy.budgets[at], 3)


def _bar(run: Run, group: list[int]) -> Markup:
    at = group[0]
    spent, budget, fine = run.privacy.certified[at], run.privacy.budgets[at], run.privacy.within[at]
    kind = "endless" if math.isinf(spent) else None if fine else "above"
    words = f"ε {number(at_most(spent))} of {number(budget)}" + ("" if fine else ", above")
    who = _named(run, at) if len(group) == 1 else (f"{len(group):,} owners alike",)
    head = tag("div", tag("span", *who), tag("span", words, class_=None if fine else "alarm"))
    part = min(spent / budget, 1.0)
    return tag("li", head, tag("span", tag("b", class_=kind, style=f"width:{percent(part)}"), class_="track"))


def _named(run: Run, at: int) -> tuple[object, ...]:
    """The number that pictures have, and the name; once, where the name is only a number."""
    if run.names[at] == f"owner {run.numbers[at]}":
        return (name(run.names[at]),)
    return tag("span", run.numbers[at], class_="no"), " ", name(run.names[at])


def _whose(run: Run, alike: list[list[int]]) -> Markup:
    """Who is meant by "alike", up to a limit."""
    rows, left = [], MOST
    for group in alike:
        words = (
            f"ε {number(at_most(run.privacy.certified[group[0]]))} of {number(run.privacy.budgets[group[0]])}"
        )
        items = [tag("li", *_named(run, at)) for at in group[:left]]
        rows.append(
            join([*([tag("p", f"{words}:")] if len(alike) > 1 else []), tag("ul", *items, class_="names")])
        )
        left -= len(items)
    owners = sum(map(len, alike))
    more = f" ({owners - MOST:,} more are in result.json)" if owners > MOST else ""
    return tag("details", tag("summary", f"Which owners are alike{more}"), *rows)
