"""The pages' charts and gauges as pictures: matplotlib draws them in the style sheet's colours."""

from __future__ import annotations

import io
import re
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from coterie.reports.charts import Chart, Shape
from coterie.reports.gauges import Gauge
from coterie.reports.style import LIGHT, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 0.75  # of a pixel
_WIDTH = 8.0  # inches
_ROOM = 45  # characters of the key that fit side by side
_LONGEST = 95  # characters of the key that fit in a line
_NAME = 40  # characters of an owner's name


def drawn(chart: Chart, title: str) -> Figure:
    """The chart with its key below."""
    labels = []
    for entry in chart.key:  # oracle values are marked as on the page
        end = f"{f': {entry.value}' * bool(entry.value)}{' (oracle)' * entry.oracle}"
        labels.append(shorten(entry.words, _LONGEST - len(end), placeholder="…") + end)
    columns = 1 if max(map(len, labels)) > _ROOM else 2
    figure, axes = _new(3.9 + 0.2 * -(-len(labels) // columns), title)
    for shape in [shape for _, shapes in chart.groups for shape in shapes]:
        _draw(axes, shape)
    for entry, label in zip(chart.key, labels):
        _draw(axes, Shape(entry.kind, [], entry.colour), label)
    axes.set(xlim=(0, 100), ylim=(100, 0), xlabel=chart.axis, ylabel=chart.upright)
    axes.set_xticks([100 * place for place, _ in chart.along], [words for _, words in chart.along])
    axes.set_yticks([100 - 100 * place for place, _ in chart.up], [words for _, words in chart.up])
    figure.legend(loc="outside lower left", ncols=columns, fontsize=9, frameon=False)
    return figure


def gauged(gauges: dict[str, Any], title: str) -> Figure:
    """The gauges that a page shows at once, one below the other."""
    bars: list[Gauge] = gauges["shown"]
    figure, axes = _new(1.0 + 0.28 * len(bars), title)
    for at, bar in enumerate(bars):
        colour = LIGHT["alarm" if bar.kind else "joint"]
        axes.barh(at, 1.0, 0.5, color=LIGHT["track"])
        hatch = {"hatch": "///", "edgecolor": LIGHT["track"]} if bar.kind == "endless" else {}
        axes.barh(at, bar.part, 0.5, color=colour, linewidth=0, **hatch)
        axes.text(1.02, at, bar.words, va="center", fontsize=9, color=LIGHT["ink" if bar.within else "alarm"])
    names = [shorten(" ".join(bar.who).strip(), _NAME, placeholder="…") for bar in bars]
    axes.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5), xticks=[])
    axes.set_yticks(range(len(bars)), names, color=LIGHT["ink"])
    axes.set_title(gauges["note"], fontsize=9, color=LIGHT["soft"])
    return figure


def png(figure: Figure) -> bytes:
    """The picture as a file holds it. No name in it is a formula, whatever it is made of."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # type: ignore[attr-defined]
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _draw(axes: Axes, shape: Shape, label: str | None = None) -> None:
    """Draw a shape as the style sheet says; shapes at the picture's edge are not cut off, as on the page."""
    says = look(shape.kind)
    colour = says.get("stroke") or says["fill"]
    colour = shape.colour if colour == "currentColor" else colour
    width = _POINTS * float(says.get("stroke-width", 0))
    style: dict[str, Any] = {
        "color": LIGHT[colour[len("var(--") : -1]]
        if colour.startswith("var")
        else colour,  # of the light theme
        "alpha": float(says.get("opacity", 1)),
        "clip_on": False,
    }
    x, y = [x for x, _ in shape.points], [y for _, y in shape.points]
    if shape.form == "area":
        axes.fill(x, y, linewidth=0, **style)
    elif shape.form == "dots":
        axes.plot(x, y, "o", markersize=width, markeredgewidth=0, label=label, **style)
    else:
        dashes = [
            float(length) * _POINTS / width for length in re.findall(r"\d+", says.get("stroke-dasharray", ""))
        ]
        line = (0, dashes) if dashes else "-"
        axes.plot(x, y, linewidth=width, linestyle=line, label=label, **style)  # pyright: ignore[reportArgumentType]


def _new(height: float, title: str) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=7, labelsize=9, labelcolor=LIGHT["soft"])
    axes.xaxis.label.set_color(LIGHT["soft"])
    axes.yaxis.label.set_color(LIGHT["soft"])
    figure.suptitle(shorten(title, _LONGEST, placeholder="…"), fontsize=12)
    return figure, axes
