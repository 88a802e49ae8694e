"""The report of one party of a real run: its result, its privacy costs, its assumptions."""

from __future__ import annotations

from typing import Any

from coterie._rounding import at_most
from coterie.evaluation.words import around, choice
from coterie.reports.amounts import number
from coterie.reports.published import told
from coterie.reports.rendering import template
from coterie.units import told_owners

_LISTED = 8  # columns named on the page; agreement.json has all


def page(found: dict[str, Any], agreement: dict[str, Any]) -> str:
    """`found`: the summary of the run; `agreement`: what all parties agreed on."""
    classes = tuple(agreement["schema"].get("classes") or ())
    own = found.get("own_metric")
    return template("node.html").render(
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


def _privacy(summary: dict[str, Any]) -> dict[str, Any]:
    """What an owner spent of its budget, and what was claimed and certified."""
    spent, budget = summary["spent_epsilon"], summary["budget_epsilon"]
    within = isinstance(spent, (int, float)) and spent <= budget
    rows = {
        "claimed ε": "nothing" if summary["claimed_epsilon"] is None else _value(summary["claimed_epsilon"]),
        "certified ε": f"{_bound(summary['certified_epsilon'])} for this run",
        **_against_all_others(summary.get("all_others_epsilon")),
        **_person(summary),
        "audited ε": "not here: see coterie audit",
        "δ": number(summary["delta"]),
        "adversary's view": summary["view"],
        "releases": f"{summary['releases']:,}, each charged before it left",
        "ledger": summary["ledger"],
    }
    part = spent / budget if within else 1.0
    return {"within": within, "spent": f"ε {_bound(spent)} of {number(budget)}", "part": part, "rows": rows}


def _against_all_others(epsilon: float | str | None) -> dict[str, str]:
    """The ε against all other owners together, for masked sums."""
    return {} if epsilon is None else {"against all other owners together": f"ε {_bound(epsilon)}"}


def _person(summary: dict[str, Any]) -> dict[str, str]:
    """The ε for a person whom several owners know."""
    bounds = {told_owners(summary.get("owners_per_person", 1)): summary.get("person_epsilon")}
    bounds |= {2: summary["pair_epsilon"]} if summary.get("pair_epsilon") is not None else {}
    return {
        f"for a person at {owners} owners": f"ε {_bound(epsilon)}"
        for owners, epsilon in bounds.items()
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
        return ", ".join(f"{key} {entry}" for key, entry in value.items()) or "none"
    return str(value)


def _bound(value: float | str) -> str:
    return number(at_most(float(value)))


def _value(value: float | str) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)
