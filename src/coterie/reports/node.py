"""The page that one party of a real run gets: what it did, what it cost, what it rests on."""

from __future__ import annotations

from typing import Any

from coterie._rounding import at_most
from coterie.evaluation.words import around, choice
from coterie.reports.amounts import number
from coterie.reports.published import told
from coterie.reports.rendering import render
from coterie.units import told_owners

_LISTED = 8  # columns that are named; agreement.json has all


def page(found: dict[str, Any], agreement: dict[str, Any]) -> str:
    """`found`: the summary of the run; `agreement`: what all parties agreed on."""
    classes = tuple(agreement["schema"].get("classes") or ())
    own = found.get("own_metric")
    return render(
        "node.html",
        title=f"{found['network']}, {found['name']}",
        found=found,
        own=f"{own['name']} {_value(own['value'])}" if own else "",
        centred=around(found["centre"]) if found["centre"] else "",
        chosen=choice(found["selection"]) if found["selection"] else "",
        published=told(found["evaluation"], classes) if found["evaluation"] else None,
        privacy=_privacy(found) if found["certified_epsilon"] is not None else None,
        owners=", ".join(agreement["owners"]),
        traffic={key: f"{value:,}" for key, value in sorted(found["traffic"].items())},
        refusals={key: f"{value:,}" for key, value in sorted(found["refusals"].items())},
        agreement=_agreement(agreement),
    )


def _privacy(found: dict[str, Any]) -> dict[str, Any]:
    """What an owner spent of its budget, and what was claimed and certified."""
    spent, budget = found["spent_epsilon"], found["budget_epsilon"]
    within = isinstance(spent, (int, float)) and spent <= budget
    rows = {
        "claimed ε": "nothing" if found["claimed_epsilon"] is None else _value(found["claimed_epsilon"]),
        "certified ε": f"{_bound(found['certified_epsilon'])} for this run",
        **_together(found.get("all_others_epsilon")),
        **_person(found),
        "audited ε": "not here: see coterie audit",
        "δ": number(found["delta"]),
        "adversary's view": found["view"],
        "releases": f"{found['releases']:,}, each charged before it left",
        "ledger": found["ledger"],
    }
    part = spent / budget if within else 1.0
    return {"within": within, "spent": f"ε {_bound(spent)} of {number(budget)}", "part": part, "rows": rows}


def _together(epsilon: float | str | None) -> dict[str, str]:
    """Of masked sums: the second number."""
    return {} if epsilon is None else {"against all other owners together": f"ε {_bound(epsilon)}"}


def _person(found: dict[str, Any]) -> dict[str, str]:
    """Of a person whom several owners know."""
    told = {told_owners(found.get("owners_per_person", 1)): found.get("person_epsilon")}
    told |= {2: found["pair_epsilon"]} if found.get("pair_epsilon") is not None else {}
    return {
        f"for a person at {owners} owners": f"ε {_bound(epsilon)}"
        for owners, epsilon in told.items()
        if epsilon is not None
    }


def _agreement(agreement: dict[str, Any]) -> dict[str, str]:
    schema, columns = agreement["schema"], list(agreement["schema"]["columns"])
    more = " …" if len(columns) > _LISTED else ""
    return {
        **{key: _setting(value) for key, value in agreement["terms"].items()},
        "target": schema["target"],
        "columns": f"{len(columns)}: {', '.join(columns[:_LISTED])}{more}",
    }


def _setting(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items()) or "none"
    return str(value)


def _bound(value: float | str) -> str:
    return number(at_most(float(value)))


def _value(value: float | str) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)
