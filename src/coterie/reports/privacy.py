"""What a run's page says about privacy, as plain values: the result in a sentence, and the three columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from coterie._rounding import at_least, at_most
from coterie.evaluation.words import shown, title
from coterie.relations import RELATIONS
from coterie.reports.amounts import number
from coterie.reports.constant import an
from coterie.reports.constant import verdict as verdict_of
from coterie.reports.reading import Privacy, Run
from coterie.units import at_owners, counted, noun_of, told_owners

_NONE = "—"
_LOGARITHMIC = 50  # bars whose values differ by more than this factor cannot share a linear scale


class Bar(NamedTuple):
    """One ε with its name; `value` None where there is none, `shown` in its place."""

    label: str
    kind: str
    value: float | None
    shown: str


def sizes_are_private(run: Run) -> bool:
    """Whether the relation keeps numbers of records private: then no owner tells its own, and they are marked."""
    relation = RELATIONS.get(run.privacy.certificate["relation"])
    return relation is not None and not relation.sizes_are_public


def lead(run: Run) -> dict[str, Any]:
    """The words of the result in a sentence."""
    metric, owners = run.metric, len(run.names)
    who = "One owner" if owners == 1 else f"Together, {owners:,} owners"
    return {
        "verdict": verdict_of(metric.name, metric.joint, metric.constant, metric.constant_says),
        "who": f"{who} with {counted(sum(run.sizes), run.privacy.unit)}",
        "verb": "reaches" if owners == 1 else "reach",
        "reached": f"{an(metric.name)} of" if math.isfinite(metric.joint) else "",
        "alone": "Alone, at the same budget, they reach"
        if owners > 1
        else "The baseline at the same budget reaches",
        "published": _published(run),
        "endless": math.isinf(run.privacy.worst),
    }


def _published(run: Run) -> str:
    """What was charged for, so that all may hear it: the first metric with its interval."""
    told = run.evaluation
    if told is None or told["diverged"] or not told["metrics"]:
        return ""
    first = run.metric.name if run.metric.name in told["metrics"] else next(iter(told["metrics"]))
    return f"{title(first)} {shown(told['metrics'][first])}"


def certified(privacy: Privacy) -> str:
    """The largest certificate, rounded up."""
    return number(at_most(privacy.worst))


def claims(privacy: Privacy) -> dict[str, Any]:
    """Claimed, certified, audited: bars and a table, never added to each other."""
    same = len(set(privacy.budgets)) == 1
    above = privacy.claimed is not None and privacy.worst > privacy.claimed * (1 + 1e-6)
    rows = [
        Bar("claimed by the paper", "claimed", privacy.claimed, _claimed(privacy)),
        Bar("certified, at most", "above" if above else "certified", privacy.worst, certified(privacy)),
        Bar("audited, at least", "audited", privacy.audited, _audited(privacy)),
    ]
    bars, mark, logarithmic = _lengths(rows, privacy.budgets[0] if same else None)
    scale = "logarithmic" if logarithmic else "linear, from zero"
    budgets = "The upright mark is the budget." if same else _range_of(privacy)
    world = (
        ""
        if privacy.audited is None
        else f" Audited: this run's releases, with a {noun_of(privacy.unit)} at its worst."
    )
    return {
        "bars": bars,
        "mark": mark,
        "caption": f"ε, {scale}. {budgets}{world}",
        "first": _first(privacy),
        "rows": _rows(privacy),
        "notes": _notes(privacy),
    }


def _lengths(rows: list[Bar], budget: float | None) -> tuple[list[tuple[Bar, float]], float | None, bool]:
    """Each bar with its length from zero on one scale, or on a logarithmic one where they differ too much; where the
    budget is; and which scale it is."""
    known = [row.value for row in rows if row.value is not None]
    finite = [one for one in [*known, budget] if one is not None and math.isfinite(one)]
    positive = [one for one in finite if one > 0]
    logarithmic = bool(positive) and max(positive) > _LOGARITHMIC * min(positive)
    top = max(finite, default=1.0) or 1.0
    if any(math.isinf(one) for one in known):
        top *= 1.25  # an endless bar is longer than any other

    def length(value: float) -> float:
        if math.isinf(value):
            return 1.0
        if not logarithmic:
            return value / top
        low = math.floor(math.log10(min(positive))) - 1
        return max(0.0, (math.log10(value) - low) / (math.log10(top) - low)) if value > 0 else 0.0

    drawn = []
    for row in rows:
        endless = row.value is not None and math.isinf(row.value)
        bar = row._replace(kind="endless") if endless else row
        drawn.append((bar, 0.0 if row.value is None else length(row.value)))
    return drawn, None if budget is None else length(budget), logarithmic


def _range_of(privacy: Privacy) -> str:
    return f"Budgets: {number(min(privacy.budgets))} to {number(max(privacy.budgets))}, one for each owner."


def _claimed(privacy: Privacy) -> str:
    return "none stated" if privacy.claimed is None else number(privacy.claimed)


def _audited(privacy: Privacy) -> str:
    return "not measured" if privacy.audited is None else number(at_least(privacy.audited))


def _first(privacy: Privacy) -> tuple[str, str, str]:
    """The table's first row: three ε."""
    return (
        "none stated" if privacy.claimed is None else f"ε = {number(privacy.claimed)}",
        "ε = ∞" if math.isinf(privacy.worst) else f"ε ≤ {certified(privacy)}",
        f"ε ≥ {_audited(privacy)}" if privacy.audited is not None else "not measured",
    )


def _rows(privacy: Privacy) -> list[tuple[str, str, str, str]]:
    """Of each: what it says, what it is about, who says so."""
    claim, certificate = privacy.claim, privacy.certificate
    finding = privacy.audit.get("finding")
    finding = finding if isinstance(finding, dict) else {}
    return [
        ("is", "the theorem's number", "an upper bound for what was released",
         "a lower bound, by attacking the running code"),
        ("of", "these settings", _whose(privacy), _world(privacy)),
        ("δ", _of(claim, "delta"), number(privacy.delta), _of(finding, "delta")),
        *((word, _of(claim, key), _of(certificate, key), _of(finding, key))
          for word, key in (("adjacency", "relation"), ("unit", "unit"), ("view", "view"))),
        ("by", _of(claim, "source"), certificate["accountant"], _effort(finding)),
    ]  # fmt: skip


def _of(statement: dict[str, Any], key: str) -> str:
    value = statement.get(key)
    if isinstance(value, float):
        return number(value)
    return _NONE if value in (None, "") else str(value).replace("_", " ")


def _effort(finding: dict[str, Any]) -> str:
    games, confidence = finding.get("games"), finding.get("confidence")
    if not isinstance(games, int) or not isinstance(confidence, (int, float)):
        return _NONE
    return f"{games:,} games, confidence {confidence:g}"


def _notes(privacy: Privacy) -> list[str]:
    """Why a number is infinite, when a claim does not apply, what a certificate warns of, what contradicts."""
    note = str(privacy.claim.get("note") or "")
    found = [
        f"the claim is {note}" if note.startswith("outside") else note,
        privacy.certificate["reason"],
        *([] if privacy.all_others is None else [_together(privacy.all_others)]),
        *([] if privacy.person is None else [_person(privacy)]),
        *([] if privacy.pair is None else [_at(privacy.unit, 2, privacy.pair)]),
        *privacy.warnings,
    ]
    if privacy.audited is not None:
        found += _contradictions(privacy.audited, privacy.audit)
    return [one.rstrip(".") for one in found if one]


def _together(epsilon: float) -> str:
    limit = "no finite ε" if math.isinf(epsilon) else f"ε ≤ {number(at_most(epsilon))}"
    return f"against all other owners together, were they to collude: {limit}"


def _person(privacy: Privacy) -> str:
    """What a person whom several owners know meets, and whether that was asked for."""
    told = _at(privacy.unit, told_owners(privacy.owners_per_person), privacy.person or 0.0)
    return told + (", which is what budgets are for" if privacy.owners_per_person > 1 else "")


def _at(unit: str, owners: int, epsilon: float) -> str:
    limit = "no finite ε" if math.isinf(epsilon) else f"ε ≤ {number(at_most(epsilon))}"
    return f"for one {at_owners(unit, owners)}: {limit}"


def _contradictions(audited: float, audit: dict[str, Any]) -> list[str]:
    """What an attack refutes: claim and certificate of what it attacked."""
    found = []
    for key, words in (
        ("certified_epsilon", "the certificate of what it attacked, so one of the two is wrong"),
        ("claimed_epsilon", "the claim for what it attacked, and refutes it at the stated confidence"),
    ):
        bound = audit.get(key)
        if isinstance(bound, (int, float)) and audited > bound:
            found.append(f"the audit is above {words}")
    return found


def _whose(privacy: Privacy) -> str:
    return "this run" if len(privacy.certified) == 1 else "this run, the owner with the largest"


def _world(privacy: Privacy) -> str:
    """What the audit attacked, with the certificate that holds for it."""
    if privacy.audited is None:
        return _NONE
    bound = privacy.audit.get("certified_epsilon")
    known = (
        f"; certified for it: ε ≤ {number(at_most(float(bound)))}" if isinstance(bound, (int, float)) else ""
    )
    return f"{_of(privacy.audit, 'world')}{known}"
