"""The privacy part of a run's page, as plain values: the result in a sentence, and three columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec

from coterie._rounding import at_least, at_most
from coterie.evaluation.words import shown, title
from coterie.reports.amounts import bound, number
from coterie.reports.constant import an
from coterie.reports.constant import verdict as verdict_of
from coterie.reports.written import Run, WrittenPrivacy
from coterie.units import at_owners, counted, noun_of, told_owners

_NONE = "—"
_LOGARITHMIC = 50  # bars whose values differ by more than this factor cannot share a linear scale


class Bar(NamedTuple):
    """One ε with its name; `value` None where there is none, `shown` in its place."""

    label: str
    kind: str
    value: float | None
    shown: str


def lead(run: Run) -> dict[str, Any]:
    """The words of the result in a sentence."""
    metric, owners, evaluation = run.metric, len(run.names), run.evaluation
    who = "One owner" if owners == 1 else f"Together, {owners:,} owners"
    published = ""
    if evaluation is not None and not evaluation["diverged"] and evaluation["metrics"]:
        metrics = evaluation["metrics"]  # charged for, so they may be published
        first = metric.name if metric.name in metrics else next(iter(metrics))
        published = f"{title(first)} {shown(metrics[first])}"
    return {
        "verdict": verdict_of(metric.name, metric.joint, metric.constant, metric.constant_says),
        "who": f"{who} with {counted(sum(run.sizes), run.privacy.unit)}",
        "verb": "reaches" if owners == 1 else "reach",
        "reached": f"{an(metric.name)} of" if math.isfinite(metric.joint) else "",
        "alone": "Alone, at the same budget, they reach"
        if owners > 1
        else "The baseline at the same budget reaches",
        "published": published,
        "endless": math.isinf(run.privacy.certified.max),
    }


def claims(privacy: WrittenPrivacy) -> dict[str, Any]:
    """Claimed, certified, audited: bars and a table, never added to each other."""
    claimed, worst, audited = privacy.claimed, privacy.certified.max, privacy.audited
    budgets, same = privacy.budgets, len(set(privacy.budgets)) == 1
    above = claimed is not None and worst > claimed * (1 + 1e-6)
    stated = "none stated" if claimed is None else number(claimed)
    proved = number(at_most(worst))
    measured = "not measured" if audited is None else number(at_least(audited))
    rows = [
        Bar("claimed by the paper", "claimed", claimed, stated),
        Bar("certified, at most", "above" if above else "certified", worst, proved),
        Bar("audited, at least", "audited", audited, measured),
    ]
    bars, mark, logarithmic = _lengths(rows, budgets[0] if same else None)
    caption = f"ε, {'logarithmic' if logarithmic else 'linear, from zero'}. "
    caption += (
        "The upright mark is the budget."
        if same
        else f"Budgets: {number(min(budgets))} to {number(max(budgets))}, one for each owner."
    )
    if audited is not None:
        caption += f" Audited: this run's releases, with a {noun_of(privacy.unit)} at its worst."
    return {
        "bars": bars,
        "mark": mark,
        "caption": caption,
        "first": (
            stated if claimed is None else f"ε = {stated}",
            "ε = ∞" if math.isinf(worst) else f"ε ≤ {proved}",
            measured if audited is None else f"ε ≥ {measured}",
        ),
        "rows": _rows(privacy),
        "notes": _notes(privacy),
    }


def _lengths(rows: list[Bar], budget: float | None) -> tuple[list[tuple[Bar, float]], float | None, bool]:
    """Each bar with its length on a scale from zero, or on a logarithmic one where they differ too much; the budget's
    place; and whether the scale is logarithmic."""
    known = [row.value for row in rows if row.value is not None]
    finite = [bound for bound in [*known, budget] if bound is not None and math.isfinite(bound)]
    positive = [bound for bound in finite if bound > 0]
    logarithmic = bool(positive) and max(positive) > _LOGARITHMIC * min(positive)
    top = max(finite, default=1.0) or 1.0
    if any(math.isinf(bound) for bound in known):
        top *= 1.25  # an infinite bar is longer than any other

    low = math.floor(math.log10(min(positive))) - 1 if logarithmic else 0.0
    lengths = []
    for value in [*(row.value for row in rows), budget]:
        if value is None or math.isinf(value):
            lengths.append(0.0 if value is None else 1.0)
        elif logarithmic and value > 0:
            lengths.append(max(0.0, (math.log10(value) - low) / (math.log10(top) - low)))
        else:
            lengths.append(0.0 if logarithmic else value / top)
    bars = [row._replace(kind="endless") if row.value == math.inf else row for row in rows]
    return list(zip(bars, lengths)), None if budget is None else lengths[-1], logarithmic


def _rows(privacy: WrittenPrivacy) -> list[tuple[str, str, str, str]]:
    """The other rows of the table: each number's meaning, subject, assumptions and source."""
    claim, certificate = privacy.claim, msgspec.structs.asdict(privacy)
    audit = {} if privacy.audited is None else privacy.audit or {}
    finding = audit.get("finding")
    finding = finding if isinstance(finding, dict) else {}
    owner = "this run" if len(privacy.certified.per_owner) == 1 else "this run, the owner with the largest"
    world, certified = _of(audit, "world"), audit.get("certified_epsilon")
    if isinstance(certified, (int, float)):  # what the audit attacked, with the certificate that holds for it
        world += f"; certified for it: {bound(certified)}"
    effort, confidence = _NONE, finding.get("confidence")
    if isinstance(games := finding.get("games"), int) and isinstance(confidence, (int, float)):
        effort = f"{games:,} games, confidence {confidence:g}"
    return [
        ("is", "the theorem's number", "an upper bound for what was released",
         "a lower bound, by attacking the running code"),
        ("of", "these settings", owner, world),
        ("δ", _of(claim, "delta"), number(privacy.delta), _of(finding, "delta")),
        *((word, _of(claim, key), _of(certificate, key), _of(finding, key))
          for word, key in (("adjacency", "relation"), ("unit", "unit"), ("view", "view"))),
        ("by", _of(claim, "source"), privacy.accountant, effort),
    ]  # fmt: skip


def _of(statement: dict[str, Any], key: str) -> str:
    value = statement.get(key)
    if isinstance(value, float):
        return number(value)
    return _NONE if value in (None, "") else str(value).replace("_", " ")


def _notes(privacy: WrittenPrivacy) -> list[str]:
    """Why a number is infinite, when a claim does not apply, warnings of a certificate, and contradictions."""
    note, unit, known_to = str(privacy.claim.get("note") or ""), privacy.unit, privacy.owners_per_person
    notes = [f"the claim is {note}" if note.startswith("outside") else note, privacy.reason]
    if privacy.all_others is not None:
        notes.append(f"against all other owners together, were they to collude: {bound(privacy.all_others)}")
    if privacy.person is not None:
        meant = ", which is what budgets are for" if known_to > 1 else ""
        notes.append(f"for one {at_owners(unit, told_owners(known_to))}: {bound(privacy.person)}{meant}")
    if privacy.pair is not None:
        notes.append(f"for one {at_owners(unit, 2)}: {bound(privacy.pair)}")
    notes += privacy.warnings
    if privacy.audited is not None:
        notes += _contradictions(privacy.audited, privacy.audit or {})
    return [sentence.rstrip(".") for sentence in notes if sentence]


def _contradictions(audited: float, audit: dict[str, Any]) -> list[str]:
    """The bounds that an attack refutes: claim or certificate of the attacked releases."""
    refuted = []
    for key, words in (
        ("certified_epsilon", "the certificate of what it attacked, so one of the two is wrong"),
        ("claimed_epsilon", "the claim for what it attacked, and refutes it at the stated confidence"),
    ):
        refutable = audit.get(key)
        if isinstance(refutable, (int, float)) and audited > refutable:
            refuted.append(f"the audit is above {words}")
    return refuted
