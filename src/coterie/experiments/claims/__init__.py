"""The claims table: five papers at their published settings, or at any others.

Each module states one paper: what may be set, what was published, and why claimed and certified differ. Noise, and what
is really released, come from the protocols' own plans as published, so that the table is about what a run executes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.claims import adad2p_2023, farokhi_2020, jin_2020, kang_2021, liu_2022
from coterie.experiments.claims.row import Family, Row, row_of
from coterie.experiments.settings import typed

FAMILIES: tuple[Family, ...] = tuple(
    family
    for paper in (jin_2020, farokhi_2020, adad2p_2023, liu_2022, kang_2021)
    for family in paper.FAMILIES
)
PAPERS = tuple(dict.fromkeys(family.paper for family in FAMILIES))

Tell = Callable[[str, int, int], None]


def table(
    paper: str | None = None, given: dict[str, Any] | None = None, tell: Tell | None = None
) -> list[Row]:
    """The rows of all papers, or of one (by its name or its protocol's), with `given` settings instead.

    Guarantee: every certificate is an upper bound under replace-one adjacency for the view that it names.
    """
    chosen = [(family, settings) for family in named(paper) for settings in _settings(family, given or {})]
    if given and not chosen:
        raise _unknown(paper, given)
    rows = []
    for done, (family, settings) in enumerate(chosen, 1):
        rows.append(row_of(family, settings))
        if tell:
            tell(f"certifying {family.paper}", done, len(chosen))
    return rows


def named(paper: str | None) -> list[Family]:
    """The families of a paper or protocol; all of them for None."""
    families = [family for family in FAMILIES if paper in (None, family.paper, family.protocol)]
    if not families:
        names = [*PAPERS, *(family.protocol for family in FAMILIES)]
        raise InputError(
            f"paper={paper!r}: unknown. Choose one of: {', '.join(names)}.{_check.meant(paper, names)}"
        )
    return families


def _settings(family: Family, given: dict[str, Any]) -> list[Any]:
    """The published settings with the given ones instead, each once; none where the family lacks a given key."""
    if not set(given) <= _keys(family):
        return []
    fitting = typed(family.protocol, given, family.settings)
    return list(dict.fromkeys(replace(published, **fitting) for published in family.published))


def _keys(family: Family) -> set[str]:
    return {field.name for field in fields(family.settings)}


def _unknown(paper: str | None, given: dict[str, Any]) -> InputError:
    families = named(paper)
    strange = [key for key in given if not any(key in _keys(family) for family in families)]
    what = f"{', '.join(strange)}: unknown" if strange else f"{', '.join(given)}: not known together"
    known = "; ".join(f"{family.protocol}: {', '.join(sorted(_keys(family)))}" for family in families)
    return InputError(f"--set {what}. Known keys of {known}.")


__all__ = ["FAMILIES", "PAPERS", "Family", "Row", "named", "table"]
