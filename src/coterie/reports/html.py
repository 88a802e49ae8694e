"""One self-contained page about a run: no script, nothing fetched, readable on a phone, on paper, in the dark.

This module computes its values; `templates/run.html` has its words and their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePath

from coterie.evaluation.words import choice
from coterie.problems.metrics import METRICS
from coterie.reports import charts
from coterie.reports.amounts import number
from coterie.reports.benefit import benefit
from coterie.reports.gauges import gauges
from coterie.reports.privacy import claims, lead
from coterie.reports.published import SHOWN, told
from coterie.reports.reading import FILES, Reported
from coterie.reports.rendering import template
from coterie.reports.stacks import stacks
from coterie.reports.topology import NUMBERED, network
from coterie.units import counted, several

_WIDE = 60  # owners: beyond, the picture of their network has the page's full width


def page(run: Reported, files: Mapping[str, bytes]) -> bytes:
    """The page's bytes. `files`: the files it was made from, whose checksums it shows."""
    metric, classes = run.metric, run.partition.classes
    swept, first = run.over_epsilon, sorted(metric.all, key=lambda name: name != metric.name)
    return (
        template("run.html")
        .render(
            title=f"{PurePath(run.data).stem}, {run.protocol}",
            run=run,
            lead=lead(run),
            sizes_are_private=run.sizes_are_private,
            published=None if run.evaluation is None else told(run.evaluation, classes),
            curve=charts.curve(run),
            metrics=[
                (
                    words[0].upper() + words[1:] + " (lower is better)" * METRICS[name].lower_is_better,
                    number(metric.all[name]["joint"]),
                    number(metric.all[name]["constant"]),
                )
                for name, words in ((name, METRICS[name].words) for name in first)
            ],
            confusion=[
                [f"{count:,}" for count in row] for row in metric.confusion or () if len(classes) <= SHOWN
            ],
            benefit=benefit(run),
            over_epsilon=swept and charts.over_epsilon(swept, metric, max(run.privacy.budgets)),
            claims=claims(run.privacy),
            gauges=gauges(run),
            network=network(run),
            wide_network=len(run.names) > _WIDE,
            numbered=len(run.names) <= NUMBERED,
            stacks=stacks(run),
            units=several(run.privacy.unit),
            all_units=counted(sum(run.sizes), run.privacy.unit),
            settings=_settings(run),
            checksums={name: hashlib.sha256(files[name]).hexdigest() for name in FILES},
            # Files that hold oracle values: a guess of a record can be tried against their checksums.
            of_oracles={"result.json", *(("trace.csv",) if "joint" in metric.oracle else ())},
        )
        .encode("utf-8", "replace")
    )


def _settings(run: Reported) -> dict[str, str]:
    rows = {key: value for key, value in run.settings.items() if key != "settings"}
    if isinstance(own := run.settings.get("settings", {}), dict):
        rows |= {f"{run.protocol}.{key}": value for key, value in own.items()}
    if isinstance(budgets := rows.get("epsilon"), (list, dict)):
        per_owner = list(budgets.values()) if isinstance(budgets, dict) else budgets
        spread = f"{len(per_owner):,} budgets, {min(per_owner):g} to {max(per_owner):g}"
        rows["epsilon"] = per_owner[0] if len(per_owner) == 1 else spread
    rows |= {f"{run.step}s": f"{run.rounds:,}", "messages": f"{run.messages:,}"}
    if run.selection:
        rows["chosen by the owners"] = choice(run.selection)
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in rows.items()}
