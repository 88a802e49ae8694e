"""The page's box of what owners published: metrics with intervals, decisions by class, calibration."""

from __future__ import annotations

from typing import Any

from coterie.evaluation.words import DIVERGED, about, shown, title, too_few
from coterie.relations import UNIT
from coterie.reports.markup import Markup, join, tag
from coterie.reports.reading import Run
from coterie.units import several

_SHOWN = 12  # classes of a table that can still be read


def published(run: Run) -> Markup:
    """Numbers that may be told, with 95 % intervals; none of them is an oracle value."""
    assert run.evaluation is not None
    return box(run.evaluation, run.classes)


def box(told: dict[str, Any], classes: tuple[str, ...]) -> Markup:
    """The same from the evaluation's own values."""
    if told["diverged"]:
        return join([tag("p", DIVERGED, class_="alarm"), tag("p", f"{about(told)}.", class_="soft")])
    rows = [tag("tr", tag("td", title(name)), tag("td", shown(one))) for name, one in told["metrics"].items()]
    head = tag("tr", tag("th", "metric"), tag("th", "value (95 % interval)"))
    lead = f"May be told: it was charged. {about(told)[0].upper()}{about(told)[1:]}."
    what = "rows" if told["unit"] == UNIT else several(told["unit"])
    parts = [tag("p", lead, class_="soft"), tag("table", tag("thead", head), tag("tbody", *rows))]
    return join(
        [
            *parts,
            *_groups(told["groups"], told["unit"]),
            *_confusion(told["confusion"], classes, what),
            *_calibration(told["calibration"], classes, what),
        ]
    )


def _groups(groups: dict[str, Any] | None, unit: str) -> list[Markup]:
    """A row for each group; of one with too few records, or units, that."""
    if groups is None:
        return []
    names = list(next(iter(groups["metrics"].values())))
    rows = []
    for group, metrics in groups["metrics"].items():
        known = [metric["value"] is not None for name, metric in metrics.items() if name != "records"]
        cells = [
            tag("td", shown(metric) if metric["value"] is not None else "–") for metric in metrics.values()
        ]
        told = cells if any(known) else [tag("td", too_few(unit), colspan=str(len(names)))]
        rows.append(tag("tr", tag("td", tag("bdi", group)), *told))
    head = tag("tr", tag("th", "group"), *(tag("th", title(name, unit)) for name in names))
    lead = (
        "By groups of ",
        tag("bdi", groups["column"]),
        ", each with its 95 % interval; –: too few to tell.",
    )
    return [tag("p", *lead, class_="soft"), tag("table", tag("thead", head), tag("tbody", *rows))]


def _confusion(cells: list[list[dict[str, Any]]] | None, classes: tuple[str, ...], what: str) -> list[Markup]:
    """`what`: whatever is counted."""
    if cells is None or len(classes) > _SHOWN or len(classes) != len(cells):
        return []
    said = (tag("th", "said to be ", tag("bdi", one)) for one in classes)
    rows = [
        tag("tr", tag("td", tag("bdi", name)), *(tag("td", _count(cell)) for cell in row))
        for name, row in zip(classes, cells)
    ]
    table = tag("table", tag("thead", tag("tr", tag("th", f"{what} of class"), *said)), tag("tbody", *rows))
    return [tag("p", f"Which class {what} are taken for, about:", class_="soft"), table]


def _count(one: dict[str, Any]) -> str:
    return f"{one['value']:,.0f} ({one['low']:,.0f} to {one['high']:,.0f})"


def _calibration(bands: list[dict[str, Any]] | None, classes: tuple[str, ...], what: str) -> list[Markup]:
    if bands is None or len(classes) != 2:
        return []
    rows = [
        tag("tr", tag("td", f"{band['from']:.0%} to {band['to']:.0%}"), tag("td", shown(band)))
        for band in bands
    ]
    head = tag(
        "tr",
        tag("th", "the model says"),
        tag("th", "share of ", tag("bdi", classes[1]), f" among these {what}"),
    )
    told = "Calibration: what the model says of the second class, and how often it is so."
    return [tag("p", told, class_="soft"), tag("table", tag("thead", head), tag("tbody", *rows))]
