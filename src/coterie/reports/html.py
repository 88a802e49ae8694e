"""One self-contained page about a run: no script, nothing fetched, readable on a phone, on paper, in the dark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from coterie.evaluation.words import choice
from coterie.relations import UNIT
from coterie.reports import benefit, charts, measures, over_epsilon, published, topology
from coterie.reports.constant import title as metric_title
from coterie.reports.gauges import gauges
from coterie.reports.markup import Markup, join, many, name, tag
from coterie.reports.privacy import (
    claims_section,
    in_short,
    lead,
    of_sizes,
    promise_section,
    statement_section,
    verdict,
)
from coterie.reports.reading import Run
from coterie.reports.style import SHEET
from coterie.units import counted, several

ORACLE = tag("span", "oracle", class_="oracle", title="computed from private records; no owner releases it")
_NUMBERED = 40  # owners whose numbers stand in the picture of their network
_WIDE = 60  # owners beyond whom that picture takes the page's whole width
_BOARD = "A summary for a board. The file that it is printed from has all metrics, the full statement and settings."


def page(run: Run, checksums: Mapping[str, str]) -> str:
    """The page as text. `checksums`: SHA-256 of the files that it was made from, by name."""
    title = f"{PurePath(run.facts['data']).stem}, {run.facts['protocol']}"
    sections = (
        *([section("Published by the owners", published.published(run), "wide")] if run.evaluation else []),
        section("Result over " + run.facts["step"] + "s", _curve(run), "wide board"),
        section("All metrics", measures.measures(run.metric, run.classes, ORACLE), "wide"),
        *([section("Who gains by joining", _benefit(run), "wide board")] if len(run.names) > 1 else []),
        *_over_epsilon(run),
        promise_section(run.privacy.promise),
        claims_section(run.privacy),
        statement_section(run.privacy),
        section("Each owner's budget", gauges(run), "wide long board"),
        section("Who talks to whom", _network(run), "wide" if len(run.names) > _WIDE else None),
        section("Who owns what", _partition(run)),
        section("Settings", _settings(run), "long"),
        section("Provenance", _provenance(run, checksums), "long"),
    )
    body = tag(
        "main",
        tag(
            "header",
            tag("h1", name(title)),
            lead(run, ORACLE),
            in_short(run.privacy.promise),
            verdict(run.privacy),
            _about_oracles(),
            tag("p", _BOARD, class_="soft printed"),
        ),
        tag("div", *sections, class_="grid"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head(title), tag('body', body), lang='en', class_='sheet')}\n"


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
    held = "rows" if run.privacy.unit == UNIT else "units"
    where = f"held-out {held} of the owners" if "joint" in metric.oracle else "public test rows"
    why = f"; {metric.why}" if metric.why else ""
    return join(
        [
            tag("p", f"{metric.words} on {metric.rows:,} {where}{why}", class_="soft"),
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
    where = f"; {run.metric.words} on the same rows as above. "
    lines = tag("p", told, ORACLE, where, benefit.spread(run), class_="soft")
    return join([lines, benefit.benefit(run, ORACLE)])


def _over_epsilon(run: Run) -> list[Markup]:
    """What other budgets would reach; only where the run was asked for it."""
    if run.over_epsilon is None:
        return []
    told = (
        "The same experiment at other budgets, simulated; settings left to the protocol are chosen for each."
    )
    drawn = over_epsilon.over_epsilon(run.over_epsilon, run.metric, max(run.privacy.budgets), ORACLE)
    content = join([tag("p", told, class_="soft"), drawn])
    return [section(f"{metric_title(run.metric.name)} over ε", content, "wide")]


def _network(run: Run) -> Markup:
    links = run.network
    if links.hub is None:
        told = f"Topology {links.topology}, {many(links.number_of_links, 'link')}"
        told += f", {many(run.facts['gossip_steps'], 'gossip step')} a {run.facts['step']}"
    elif run.facts["step"] == "visit":
        told = "One owner at a time meets the shared model"
    else:
        told = "Every owner sends to an aggregator and hears back"
    numbers = (
        "numbers are those of the budgets" if len(run.names) <= _NUMBERED else "point at one for its name"
    )
    return tag(
        "figure",
        topology.network(links, run),
        tag(
            "figcaption",
            f"{told}; {many(run.facts['messages'], 'message')}. Areas show numbers of {several(run.privacy.unit)}",
            *of_sizes(run, ORACLE),
            f"; {numbers}.",
        ),
    )


def _partition(run: Run) -> Markup:
    unit = run.privacy.unit
    told = f"{counted(sum(run.sizes), unit)}, partition {run.how}. Height: the owner's {several(unit)}"
    sized = of_sizes(run, ORACLE) or (" (public)",)
    marked = () if run.counts is None else ("; colours: their classes ", ORACLE)
    return tag(
        "figure",
        charts.stacks(run),
        tag("figcaption", told, *sized, *marked, "."),
    )


def _settings(run: Run) -> Markup:
    own = run.settings.get("settings", {})
    rows: dict[str, Any] = {key: value for key, value in run.settings.items() if key != "settings"}
    rows |= {
        f"{run.facts['protocol']}.{key}": value
        for key, value in (own if isinstance(own, dict) else {}).items()
    }
    chosen = {f"{run.facts['step']}s": f"{run.facts['rounds']:,}", "messages": f"{run.facts['messages']:,}"}
    if run.selection:
        chosen["chosen by the owners"] = choice(run.selection)
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
