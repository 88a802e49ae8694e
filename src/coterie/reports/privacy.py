"""The page's words and table about privacy: the result in a sentence, the three columns, the statement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from coterie._rounding import at_least, at_most
from coterie.evaluation.words import shown, title
from coterie.relations import RELATIONS
from coterie.reports import charts
from coterie.reports.charts import Bar
from coterie.reports.constant import an
from coterie.reports.constant import verdict as verdict_of
from coterie.reports.markup import Markup, join, number, tag
from coterie.reports.reading import Privacy, Run
from coterie.units import at_owners, counted, noun_of, told_owners

PLAIN = "The promise in plain words"
_NONE = "—"


def in_short(promise: Sequence[str]) -> Markup:
    """The promise's first sentence, for the head of the page."""
    return tag("p", tag("b", "The promise: "), _sentence(promise[0].split(": ", 1)[1]), class_="inshort")


def of_sizes(run: Run, oracle: Markup) -> tuple[object, ...]:
    """The mark of numbers of records where the relation keeps them private: then no owner tells its own."""
    relation = RELATIONS.get(run.privacy.certificate["relation"])
    return () if relation is None or relation.sizes_are_public else (" ", oracle)


def lead(run: Run, oracle: Markup) -> Markup:
    """The result in a sentence, beside what a constant has and what the owners published; then its other measures."""
    metric, owners = run.metric, len(run.names)

    def value(amount: float, key: str) -> Markup:
        return tag("span", tag("b", number(amount)), *((" ", oracle) if key in metric.oracle else ()))

    reached = (
        join([f"{an(metric.name)} of ", value(metric.joint, "joint")])
        if math.isfinite(metric.joint)
        else f"no finite {metric.words}: the model diverged"
    )
    who = "One owner" if owners == 1 else f"Together, {owners:,} owners"
    verb = "reaches" if owners == 1 else "reach"
    told = verdict_of(metric.name, metric.joint, metric.constant, metric.constant_says)
    mark = (oracle, " ") if "constant" in metric.oracle else ()
    return tag(
        "p",
        *((tag("b", told, class_="alarm"), " ", *mark) if told else ()),
        f"{who} with {counted(sum(run.sizes), run.privacy.unit)}",
        *of_sizes(run, oracle),
        f" {verb} ",
        reached,
        f"; a constant ({metric.constant_says}) has ",
        value(metric.constant, "constant"),
        *_published(run),
        ". Alone, at the same budget, " if owners > 1 else ". The baseline at the same budget reaches ",
        *(("they reach ",) if owners > 1 else ()),
        value(metric.local_only, "local_only"),
        "; with all records and no privacy, ",
        value(metric.central, "central"),
        ". ",
        _certified_words(run.privacy),
        class_="lead",
    )


def _published(run: Run) -> tuple[object, ...]:
    """What was charged for, so that all may hear it: the first metric with its interval."""
    told = run.evaluation
    if told is None or told["diverged"] or not told["metrics"]:
        return ()
    first = run.metric.name if run.metric.name in told["metrics"] else next(iter(told["metrics"]))
    words = f"{title(first)} {shown(told['metrics'][first])}"
    return "; published by the owners, charged: ", tag("b", words)


def certified(privacy: Privacy) -> str:
    """The largest certificate, rounded up."""
    return number(at_most(privacy.worst))


def _certified_words(privacy: Privacy) -> Markup:
    if math.isinf(privacy.worst):
        return join(["No finite privacy can be certified: ", tag("b", "ε = ∞"), "."])
    return join([f"What one {privacy.unit} can change is certified at ", tag("b", f"ε ≤ {certified(privacy)}"),
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
        Bar("certified, at most", "above" if above else "certified", privacy.worst, certified(privacy)),
        Bar("audited, at least", "audited", privacy.audited, _audited(privacy)),
    ]
    drawn, logarithmic = charts.bars(rows, privacy.budgets[0] if same else None)
    scale = "logarithmic" if logarithmic else "linear, from zero"
    mark = "The upright mark is the budget." if same else _range_of(privacy)
    world = (
        ""
        if privacy.audited is None
        else f" Audited: this run's releases, with a {noun_of(privacy.unit)} at its worst."
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
    return "not measured" if privacy.audited is None else number(at_least(privacy.audited))


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
        "ε = ∞" if math.isinf(privacy.worst) else f"ε ≤ {certified(privacy)}",
        f"ε ≥ {_audited(privacy)}" if privacy.audited is not None else "not measured",
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


def promise_section(promise: Sequence[str]) -> Markup:
    """For whom a record is about: the sentence that is all of it, then what it means."""
    (_, short), *items = (sentence.split(": ", 1) for sentence in promise)
    rows = [tag("div", tag("dt", item), tag("dd", _sentence(words))) for item, words in items]
    first = tag("p", tag("b", _sentence(short)))
    return tag("section", tag("h2", PLAIN), first, tag("dl", *rows), class_="wide long")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def statement_section(privacy: Privacy) -> Markup:
    """Each sentence with its item beside it."""
    rows = []
    for sentence in privacy.statement:
        item, _, words = sentence.partition(": ")
        parts = words.split("`")  # every second one is what somebody types
        shown = (tag("code", part) if at % 2 else part for at, part in enumerate(parts))
        rows.append(tag("div", tag("dt", item), tag("dd", *shown)))
    return tag("section", tag("h2", "Privacy statement"), tag("dl", *rows), class_="wide long")
