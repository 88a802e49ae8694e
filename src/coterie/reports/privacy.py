"""The page's words and table about privacy: the result in a sentence, the three columns, the statement."""

from __future__ import annotations

import math
from typing import Any

from coterie.reports import charts
from coterie.reports.charts import Bar
from coterie.reports.markup import Markup, join, many, number, tag
from coterie.reports.reading import Privacy, Run

_NONE = "—"


def lead(run: Run, oracle: Markup) -> Markup:
    """The result in a sentence."""
    metric, owners = run.metric, len(run.names)
    what = "mean squared error" if metric.name == "mse" else metric.name

    def value(amount: float, key: str) -> Markup:
        return tag("span", tag("b", number(amount)), *((" ", oracle) if key in metric.oracle else ()))

    reached = (
        join([f"an {what} of " if what[0] in "aeiou" else f"a {what} of ", value(metric.joint, "joint")])
        if math.isfinite(metric.joint)
        else "no finite " + what + ": the model diverged"
    )
    who = "One owner" if owners == 1 else f"Together, {owners:,} owners"
    verb = "reaches" if owners == 1 else "reach"
    return tag(
        "p",
        f"{who} with {many(sum(run.sizes), 'record')} {verb} ",
        reached,
        "; alone, at the same budget, " if owners > 1 else "; the baseline at the same budget, ",
        value(metric.local_only, "local_only"),
        "; with all records and no privacy, ",
        value(metric.central, "central"),
        ". ",
        _certified_words(run.privacy),
        class_="lead",
    )


def _certified_words(privacy: Privacy) -> Markup:
    if math.isinf(privacy.worst):
        return join(["No finite privacy can be certified: ", tag("b", "ε = ∞"), "."])
    return join([f"What one {privacy.unit} can change is certified at ", tag("b", f"ε ≤ {number(privacy.worst)}"),
                 " (", tag("span", f"δ = {number(privacy.delta)}"), ")."])  # fmt: skip


def verdict(privacy: Privacy) -> Markup:
    """Whether budgets were kept, in words and not by colour alone."""
    kept, owners = sum(privacy.within), len(privacy.within)
    if kept == owners:
        return tag("p", f"✓ {kept:,} of {owners:,} within the budget", class_="verdict good")
    return tag("p", f"✗ {owners - kept:,} of {owners:,} above the budget", class_="verdict alarm")


def claims_section(privacy: Privacy) -> Markup:
    """Claimed, certified, audited: bars and a table, never added to each other."""
    same = len(set(privacy.budgets)) == 1
    above = privacy.claimed is not None and privacy.worst > privacy.claimed * (1 + 1e-6)
    rows = [
        Bar("claimed by the paper", "claimed", privacy.claimed, _claimed(privacy)),
        Bar(
            "certified, at most", "above" if above else "certified", privacy.worst, f"{number(privacy.worst)}"
        ),
        Bar("audited, at least", "audited", privacy.audited, _audited(privacy)),
    ]
    drawn, logarithmic = charts.bars(rows, privacy.budgets[0] if same else None)
    scale = "logarithmic" if logarithmic else "linear, from zero"
    mark = "The upright mark is the budget." if same else _range_of(privacy)
    world = (
        "" if privacy.audited is None else " Audited: the same mechanism in a small world of worst records."
    )
    figure = tag("figure", drawn, tag("figcaption", f"ε, {scale}. {mark}{world}"))
    notes = [tag("p", f"Note: {note}.", class_="soft") for note in _notes(privacy)]
    return tag(
        "section", tag("h2", "Claimed, certified, audited"), figure, table(privacy), *notes, class_="wide"
    )


def _range_of(privacy: Privacy) -> str:
    return f"Budgets: {number(min(privacy.budgets))} to {number(max(privacy.budgets))}, one for each owner."


def _claimed(privacy: Privacy) -> str:
    return "none stated" if privacy.claimed is None else number(privacy.claimed)


def _audited(privacy: Privacy) -> str:
    return "not measured" if privacy.audited is None else number(privacy.audited)


def table(privacy: Privacy) -> Markup:
    """Three columns: what each says, what it is about, who says so."""
    claim, certificate = privacy.claim, privacy.certificate
    finding = privacy.audit.get("finding")
    finding = finding if isinstance(finding, dict) else {}
    rows: list[tuple[str, ...]] = [
        ("is", "the theorem's number", "an upper bound for what was released",
         "a lower bound, by attacking the running code"),
        ("of", "these settings", _whose(privacy), _world(privacy)),
        ("δ", _of(claim, "delta"), number(privacy.delta), _of(finding, "delta")),
        ("adjacency", *(_of(one, "relation") for one in (claim, certificate, finding))),
        ("unit", *(_of(one, "unit") for one in (claim, certificate, finding))),
        ("view", *(_of(one, "view") for one in (claim, certificate, finding))),
        ("by", _of(claim, "source"), certificate["accountant"], _effort(finding)),
    ]  # fmt: skip
    first = (
        "none stated" if privacy.claimed is None else f"ε = {number(privacy.claimed)}",
        "ε = ∞" if math.isinf(privacy.worst) else f"ε ≤ {number(privacy.worst)}",
        f"ε ≥ {number(privacy.audited)}" if privacy.audited is not None else "not measured",
    )
    head = tag(
        "tr", tag("td"), *(tag("th", word, scope="col") for word in ("claimed", "certified", "audited"))
    )
    top = tag("tr", tag("th", "ε", scope="row"), *(tag("td", cell, class_="big") for cell in first))
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", top, *body), class_="columns")


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
        *privacy.warnings,
    ]
    if privacy.audited is not None:
        found += _contradictions(privacy.audited, privacy.audit)
    return [one.rstrip(".") for one in found if one]


def _contradictions(audited: float, audit: dict[str, Any]) -> list[str]:
    """What an attack refutes: claim and certificate of the world that it was made in, not of the run's."""
    found = []
    for key, words in (
        ("certified_epsilon", "the certificate of the world it attacked, so one of the two is wrong"),
        ("claimed_epsilon", "the claim for the world it attacked, and refutes it at the stated confidence"),
    ):
        bound = audit.get(key)
        if isinstance(bound, (int, float)) and audited > bound:
            found.append(f"the audit is above {words}")
    return found


def _whose(privacy: Privacy) -> str:
    return "this run" if len(privacy.certified) == 1 else "this run, the owner with the largest"


def _world(privacy: Privacy) -> str:
    """The audit's own small world, with the certificate that holds there."""
    if privacy.audited is None:
        return _NONE
    bound = privacy.audit.get("certified_epsilon")
    known = f"; certified there: ε ≤ {number(float(bound))}" if isinstance(bound, (int, float)) else ""
    return f"the same mechanism at its worst: {_of(privacy.audit, 'world')}{known}"


def statement_section(privacy: Privacy) -> Markup:
    """Each sentence with its item beside it."""
    rows = []
    for sentence in privacy.statement:
        item, _, words = sentence.partition(": ")
        parts = words.split("`")  # every second one is what somebody types
        shown = (tag("code", part) if at % 2 else part for at, part in enumerate(parts))
        rows.append(tag("div", tag("dt", item), tag("dd", *shown)))
    return tag("section", tag("h2", "Privacy statement"), tag("dl", *rows), class_="wide long")
