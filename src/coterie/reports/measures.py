"""The page's table of all metrics, with the constant beside the model, and which rows it takes for which class."""

from __future__ import annotations

from coterie.problems.metrics import METRICS
from coterie.reports.constant import title
from coterie.reports.markup import Markup, join, number, tag
from coterie.reports.reading import Metric

_SHOWN = 12  # classes of a table that can still be read


def measures(metric: Metric, classes: tuple[str, ...], oracle: Markup) -> Markup:
    """All metrics, the one that is shown first on top; `oracle` beside the words where no owner released them."""
    mark = (" ", oracle) if "all" in metric.oracle else ()
    unit = f"; quantities in {metric.unit}" if metric.unit else ""
    told = f"Of the joint model itself, on the same rows, beside a constant: {metric.constant_says}{unit}."
    first = [metric.name] if metric.name in metric.all else []
    rows = []
    for name in [*first, *(one for one in metric.all if one != metric.name)]:
        better = " (lower is better)" if METRICS[name].lower_is_better else ""
        cells = (tag("td", number(value)) for value in metric.all[name])
        rows.append(tag("tr", tag("td", title(name), better), *cells))
    head = tag("tr", tag("th", "metric"), tag("th", "joint model"), tag("th", "constant"))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return join([tag("p", told, *mark, class_="soft"), table, *_confusion(metric, classes, mark)])


def _confusion(metric: Metric, classes: tuple[str, ...], mark: tuple[object, ...]) -> list[Markup]:
    if metric.confusion is None or len(classes) > _SHOWN:
        return []
    head = tag(
        "tr", tag("th", "rows of class"), *(tag("th", "said to be ", tag("bdi", name)) for name in classes)
    )
    rows = [
        tag("tr", tag("td", tag("bdi", one)), *(tag("td", f"{count:,}") for count in counts))
        for one, counts in zip(classes, metric.confusion.tolist())
    ]
    return [
        tag("p", "Which class the joint model takes rows for:", *mark, class_="soft"),
        tag("table", tag("thead", head), tag("tbody", *rows)),
    ]
