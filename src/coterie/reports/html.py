"""One self-contained page about a run: no script, nothing fetched, readable on a phone, on paper, in the dark.

Here are its values; `templates/run.html` has its words and their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from coterie.evaluation.words import choice
from coterie.problems.metrics import METRICS
from coterie.relations import UNIT
from coterie.reports import charts
from coterie.reports.amounts import many, number
from coterie.reports.benefit import benefit
from coterie.reports.constant import title as metric_title
from coterie.reports.constant import with_unit
from coterie.reports.gauges import gauges
from coterie.reports.privacy import claims, lead, sizes_are_private
from coterie.reports.published import SHOWN, told
from coterie.reports.reading import Metric, Run
from coterie.reports.rendering import render
from coterie.reports.stacks import stacks
from coterie.reports.topology import NUMBERED, network
from coterie.units import counted, several

_WIDE = 60  # owners beyond whom the picture of their network takes the page's whole width


def page(run: Run, checksums: Mapping[str, str]) -> str:
    """The page as text. `checksums`: SHA-256 of the files that it was made from, by name."""
    return render(
        "run.html",
        title=f"{PurePath(run.facts['data']).stem}, {run.facts['protocol']}",
        run=run,
        lead=lead(run),
        sizes_are_private=sizes_are_private(run),
        published=None if run.evaluation is None else told(run.evaluation, run.classes),
        curve=curve(run),
        metrics=_metrics(run.metric),
        confusion=_confusion(run),
        benefit=benefit(run),
        over_epsilon=_over_epsilon(run),
        claims=claims(run.privacy),
        gauges=gauges(run),
        network=network(run.network, run),
        wide_network=len(run.names) > _WIDE,
        talk=_talk(run),
        numbered=len(run.names) <= NUMBERED,
        stacks=stacks(run),
        units=several(run.privacy.unit),
        all_units=counted(sum(run.sizes), run.privacy.unit),
        settings=_settings(run),
        made=_made(run),
        checksums=dict(checksums),
    )


def curve(run: Run) -> charts.Chart:
    """The metric over the run."""
    upright = f"{with_unit(run.metric.name, run.metric.unit)} on {run.metric.rows:,} {_where(run)}"
    return charts.curve(run.metric, np.array(run.sizes), run.facts["step"], upright)


def _where(run: Run) -> str:
    """On which rows the metric was computed."""
    held = "rows" if run.privacy.unit == UNIT else "units"
    return f"held-out {held} of the owners" if "joint" in run.metric.oracle else "public test rows"


def _metrics(metric: Metric) -> list[tuple[str, str, str]]:
    """All metrics of the joint model and of a constant; the one that is shown first on top."""
    names = sorted(metric.all, key=lambda name: name != metric.name)
    better = {name: " (lower is better)" * METRICS[name].lower_is_better for name in names}
    return [(metric_title(name) + better[name], *map(number, metric.all[name])) for name in names]  # type: ignore[misc]


def _confusion(run: Run) -> list[list[str]]:
    if run.metric.confusion is None or len(run.classes) > SHOWN:
        return []
    return [[f"{count:,}" for count in row] for row in run.metric.confusion.tolist()]


def _over_epsilon(run: Run) -> dict[str, Any] | None:
    """What other budgets would reach; only where the run was asked for it."""
    if run.over_epsilon is None:
        return None
    drawn = charts.over_epsilon(run.over_epsilon, run.metric, max(run.privacy.budgets))
    return {"title": metric_title(run.metric.name), "chart": drawn}


def _talk(run: Run) -> str:
    """Who talks to whom, in words."""
    links = run.network
    if links.hub is None:
        told = f"Topology {links.topology}, {many(links.number_of_links, 'link')}"
        return f"{told}, {many(run.facts['gossip_steps'], 'gossip step')} a {run.facts['step']}"
    if run.facts["step"] == "visit":
        return "One owner at a time meets the shared model"
    return "Every owner sends to an aggregator and hears back"


def _settings(run: Run) -> dict[str, str]:
    own = run.settings.get("settings", {})
    rows = {key: value for key, value in run.settings.items() if key != "settings"}
    if isinstance(own, dict):
        rows |= {f"{run.facts['protocol']}.{key}": value for key, value in own.items()}
    chosen = {f"{run.facts['step']}s": f"{run.facts['rounds']:,}", "messages": f"{run.facts['messages']:,}"}
    if run.selection:
        chosen["chosen by the owners"] = choice(run.selection)
    return {key: _setting(key, value) for key, value in rows.items()} | chosen


def _setting(key: str, value: Any) -> str:
    if key == "epsilon" and isinstance(value, (list, dict)):
        each = list(value.values()) if isinstance(value, dict) else value
        return str(each[0]) if len(each) == 1 else f"{len(each):,} budgets, {min(each):g} to {max(each):g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _made(run: Run) -> dict[str, str]:
    """With what, where and from which seed the run was made."""
    seed = run.facts["seed"]
    return {
        "engine": f"{run.facts['engine']}, {run.facts['seconds']:.1f} s",
        "versions": ", ".join(f"{key} {value}" for key, value in run.versions.items()),
        "platform": run.facts["platform"],
        "seed": f"{seed} (partition, sampling and noise; each owner alone: {seed + 1})",
    }
