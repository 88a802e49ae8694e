"""One self-contained page about a run: no script, nothing fetched, readable on a phone, on paper, in the dark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from coterie.reports import benefit, charts, over_epsilon, topology
from coterie.reports.markup import Markup, join, many, name, number, percent, tag
from coterie.reports.privacy import claims_section, lead, statement_section, verdict
from coterie.reports.reading import Run
from coterie.reports.style import SHEET

ORACLE = tag("span", "oracle", class_="oracle", title="computed from private records; no owner releases it")
_LISTED = 40  # gauges shown at once; of more owners only the fullest
_FULLEST = 12
_MOST = 1_000  # owners that the page names at all


def page(run: Run, checksums: Mapping[str, str]) -> str:
    """The page as text. `checksums`: SHA-256 of the files that it was made from, by name."""
    title = f"{PurePath(run.facts['data']).stem}, {run.facts['protocol']}"
    sections = (
        section("Result over " + run.facts["step"] + "s", _curve(run), "wide"),
        *([section("Who gains by joining", _benefit(run), "wide")] if len(run.names) > 1 else []),
        *_over_epsilon(run),
        claims_section(run.privacy),
        statement_section(run.privacy),
        section("Each owner's budget", _gauges(run), "wide long"),
        section("Who talks to whom", _network(run)),
        section("Who owns what", _partition(run)),
        section("Settings", _settings(run), "long"),
        section("Provenance", _provenance(run, checksums), "long"),
    )
    body = tag(
        "main",
        tag("header", tag("h1", name(title)), lead(run, ORACLE), verdict(run.privacy), _about_oracles()),
        tag("div", *sections, class_="grid"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head(title), tag('body', body), lang='en')}\n"


def head(title: str) -> Markup:
    """What a page of ours begins with: its title, its style, and no way to fetch anything."""
    # The policy forbids scripts and every request, should a mistake ever let one onto the page.
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"coterie: {title}"),
        tag("style", Markup(SHEET)),
    )


def section(title: str, content: object, kind: str | None = None) -> Markup:
    """One box of the page."""
    return tag("section", tag("h2", title), content, class_=kind)


def _about_oracles() -> Markup:
    meaning = (
        " values are computed from private records, for the researcher's eyes: no owner releases them, no guarantee "
        "covers them. All others are public, or follow from what owners released."
    )
    return tag("p", ORACLE, meaning, class_="soft")


def _curve(run: Run) -> Markup:
    metric = run.metric
    where = "held-out rows of the owners" if "joint" in metric.oracle else "public test rows"
    return join(
        [
            tag("p", f"{metric.name} on {metric.rows:,} {where}", class_="soft"),
            charts.curve(metric, np.array(run.sizes), run.facts["step"], ORACLE),
        ]
    )


def _benefit(run: Run) -> Markup:
    """Each owner's own model without privacy against what it gets by joining."""
    gains, owners = sum(run.benefit.gains), len(run.names)
    told = (
        f"{gains:,} of {owners:,} owners do better with the joint private model than with a model of their own records "
        "alone and no privacy at all "
    )
    where = f"; {run.metric.name} on the same rows as above."
    return join([tag("p", told, ORACLE, where, class_="soft"), benefit.benefit(run, ORACLE)])


def _over_epsilon(run: Run) -> list[Markup]:
    """What other budgets would reach; only where the run was asked for it."""
    if run.over_epsilon is None:
        return []
    told = (
        "The same experiment at other budgets, simulated; settings left to the protocol are chosen for each."
    )
    drawn = over_epsilon.over_epsilon(run.over_epsilon, run.metric, max(run.privacy.budgets), ORACLE)
    content = join([tag("p", told, class_="soft"), drawn])
    return [section(f"{run.metric.name.capitalize()} over ε", content, "wide")]


def _gauges(run: Run) -> Markup:
    """All owners of a few; of many the fullest, and the others folded away."""
    privacy, owners = run.privacy, len(run.names)
    order = list(range(owners))
    if owners > _LISTED:
        order.sort(key=lambda at: -round(privacy.certified[at] / privacy.budgets[at], 3))
    shown = len(order) if owners <= _LISTED else _FULLEST
    parts = [tag("ul", *(_gauge(run, at) for at in order[:shown]), class_="gauges")]
    others = order[shown:_MOST]
    if others:
        unnamed = f"; {owners - _MOST:,} more are in result.json" if owners > _MOST else ""
        inner = tag("ul", *(_gauge(run, at) for at in others), class_="gauges")
        what = f"{many(len(others), 'owner')} with a smaller or equal share of the budget spent{unnamed}"
        parts.append(tag("details", tag("summary", what), inner))
    note = "Certified ε against the budget that each owner set"
    note += f", fullest first; {_FULLEST} of {owners:,}." if owners > _LISTED else "."
    return join([tag("p", f"{note} δ = {number(privacy.delta)}.", class_="soft"), *parts])


def _gauge(run: Run, at: int) -> Markup:
    spent, budget, fine = run.privacy.certified[at], run.privacy.budgets[at], run.privacy.within[at]
    kind = "endless" if math.isinf(spent) else None if fine else "above"
    words = f"ε {number(spent)} of {number(budget)}" + ("" if fine else ", above")
    generated = run.names[at] == f"owner {run.numbers[at]}"
    number_of = () if generated else (tag("span", run.numbers[at], class_="no"), " ")
    head = tag(
        "div",
        tag("span", *number_of, name(run.names[at])),
        tag("span", words, class_=None if fine else "alarm"),
    )
    part = min(spent / budget, 1.0)
    return tag("li", head, tag("span", tag("b", class_=kind, style=f"width:{percent(part)}"), class_="track"))


def _network(run: Run) -> Markup:
    links = run.network
    if links.hub is None:
        told = f"Topology {links.topology}, {many(links.number_of_links, 'link')}"
        told += f", {many(run.facts['gossip_steps'], 'gossip step')} a {run.facts['step']}"
    elif run.facts["step"] == "visit":
        told = "One owner at a time meets the shared model"
    else:
        told = "Every owner sends to an aggregator and hears back"
    numbers = "numbers are those of the budgets" if len(run.names) <= _LISTED else "point at one for its name"
    return tag(
        "figure",
        topology.network(links, run),
        tag(
            "figcaption",
            f"{told}; {run.facts['messages']:,} messages. Areas show numbers of records; {numbers}.",
        ),
    )


def _partition(run: Run) -> Markup:
    told = f"{many(sum(run.sizes), 'record')}, partition {run.how}. Height: the owner's records (public)"
    marked = () if run.counts is None else ("; colours: their classes ", ORACLE)
    return tag(
        "figure",
        charts.stacks(run),
        tag("figcaption", told, *marked, "."),
    )


def _settings(run: Run) -> Markup:
    own = run.settings.get("settings", {})
    rows: dict[str, Any] = {key: value for key, value in run.settings.items() if key != "settings"}
    rows |= {
        f"{run.facts['protocol']}.{key}": value
        for key, value in (own if isinstance(own, dict) else {}).items()
    }
    chosen = {f"{run.facts['step']}s": f"{run.facts['rounds']:,}", "messages": f"{run.facts['messages']:,}"}
    note = "As in experiment.toml; what is not listed was left to the data or the protocol."
    return join([pairs({key: _setting(key, value) for key, value in rows.items()} | chosen, "short"),
                 tag("p", note, class_="soft")])  # fmt: skip


def _setting(key: str, value: Any) -> str:
    if key == "epsilon" and isinstance(value, (list, dict)):
        each = list(value.values()) if isinstance(value, dict) else value
        return str(each[0]) if len(each) == 1 else f"{len(each):,} budgets, {min(each):g} to {max(each):g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _provenance(run: Run, checksums: Mapping[str, str]) -> Markup:
    versions = ", ".join(f"{key} {value}" for key, value in run.versions.items())
    rows: dict[str, object] = {
        "engine": f"{run.facts['engine']}, {run.facts['seconds']:.1f} s",
        "versions": versions,
        "platform": run.facts["platform"],
        "seed": f"{run.facts['seed']} (partition, sampling and noise; each owner alone: {run.facts['seed'] + 1})",
    }
    rows |= {f"SHA-256 of {file}": tag("code", digest) for file, digest in checksums.items()}
    if run.data_checksums is None:
        rows["SHA-256 of the data"] = (
            "not given: who knows all records but one could try guesses of that one against it"
        )
    else:
        rows |= {f"SHA-256 of {file}": tag("code", digest) for file, digest in run.data_checksums.items()}
    return pairs(rows)


def pairs(rows: Mapping[str, object], kind: str | None = None) -> Markup:
    """Names and their values."""
    return tag(
        "dl", *(tag("div", tag("dt", key), tag("dd", value)) for key, value in rows.items()), class_=kind
    )
