"""The page that one party of a real run gets: what it did, what it cost, what it rests on."""

from __future__ import annotations

from typing import Any

from coterie._rounding import at_most
from coterie.evaluation.words import choice
from coterie.reports.html import head, pairs, section
from coterie.reports.markup import Markup, join, name, number, percent, tag
from coterie.reports.privacy import promise_section
from coterie.reports.published import box
from coterie.units import told_owners

_LISTED = 8  # columns that are named; agreement.json has all


def page(found: dict[str, Any], agreement: dict[str, Any]) -> str:
    """`found`: the summary of the run; `agreement`: what all parties agreed on."""
    title = f"{found['network']}, {found['name']}"
    owner = found["certified_epsilon"] is not None
    told = found["evaluation"]
    sections = [
        *((section("Published by the owners", box(told, _classes(agreement)), "wide"),) if told else ()),
        *((section("Privacy", _privacy(found)), section("Noise", tag("p", found["noise"]))) if owner else ()),
        *((promise_section(found["promise"]),) if owner else ()),
        section("Network", _network(found, agreement)),
        section("Agreement", _agreement(found, agreement), "long"),
    ]
    header = tag("header", tag("h1", name(title)), _lead(found))
    body = tag("main", header, tag("div", *sections, class_="grid"))
    return f"<!DOCTYPE html>\n{tag('html', head(title), tag('body', body), lang='en')}\n"


def _classes(agreement: dict[str, Any]) -> tuple[str, ...]:
    return tuple(agreement["schema"].get("classes") or ())


def _lead(found: dict[str, Any]) -> Markup:
    done = f"{found['steps']:,} of {found['of']:,} steps of {found['protocol']}"
    parts: list[object] = [f"{found['name']} took part in {done}. "]
    own = found.get("own_metric")
    if own:
        parts += ["On its own records the model has ", tag("b", f"{own['name']} {_value(own['value'])}"),
                  " (for this owner's eyes only: it is computed from records and was not charged). "]  # fmt: skip
    if found["selection"]:
        parts.append(f"Chosen by the owners: {choice(found['selection'])}. ")
    if found["note"]:
        parts.append(tag("b", found["note"]))
    return tag("p", *parts, class_="lead")


def _privacy(found: dict[str, Any]) -> Markup:
    spent, budget = found["spent_epsilon"], found["budget_epsilon"]
    within = isinstance(spent, (int, float)) and spent <= budget
    verdict = "✓ within the budget" if within else "✗ above the budget"
    gauge = tag(
        "div",
        tag(
            "div",
            tag("span", "spent on these records, over all runs"),
            tag("span", f"ε {_bound(spent)} of {number(budget)}"),
        ),
        tag(
            "span",
            tag("b", style=f"width:{percent(min(1.0, spent / budget) if within else 1.0)}"),
            class_="track",
        ),
        class_="gauges",
    )
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
    return join([tag("p", verdict, class_="verdict good" if within else "verdict alarm"), gauge, pairs(rows)])


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


def _network(found: dict[str, Any], agreement: dict[str, Any]) -> Markup:
    traffic = {key: f"{value:,}" for key, value in sorted(found["traffic"].items())}
    refusals = {key: f"{value:,}" for key, value in sorted(found["refusals"].items())}
    rows: dict[str, object] = {"owners": ", ".join(agreement["owners"]), **traffic}
    rows["refused"] = pairs(refusals) if refusals else "nothing"
    return pairs(rows)


def _agreement(found: dict[str, Any], agreement: dict[str, Any]) -> Markup:
    schema = agreement["schema"]
    columns = list(schema["columns"])
    rows: dict[str, object] = {"run": tag("code", found["run"])}
    rows |= {key: _setting(value) for key, value in agreement["terms"].items()}
    rows["target"] = schema["target"]
    rows["columns"] = f"{len(columns)}: {', '.join(columns[:_LISTED])}" + (
        " …" if len(columns) > _LISTED else ""
    )
    return pairs(rows, "short")


def _setting(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items()) or "none"
    return str(value)


def _bound(value: float | str) -> str:
    return number(at_most(float(value)))


def _value(value: float | str) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)
