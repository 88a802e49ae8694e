"""Pictures say what the pages' charts and gauges say, in their style, with nothing cut off."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from coterie.reports import charts
from coterie.reports.charts import Chart, Entry, Shape
from coterie.reports.figures import drawn, gauged, png
from coterie.reports.gauges import Gauge
from coterie.reports.style import LIGHT, look

KINDS = (
    "rule",
    "mean",
    "floor",
    "ceiling",
    "constant",
    "series",
    "around",
    "band",
    "error",
    "own gains",
    "link",
)


def laid_out(figure):
    figure.canvas.draw()  # warnings are errors
    return figure


def run_of(values, **more):
    """A run as `charts.curve` looks at it."""
    said = {"joint": 0.8, "local_only": 0.5, "central": 0.9, "constant": 0.6} | more
    metric = SimpleNamespace(
        name="accuracy",
        words="accuracy",
        unit="",
        rows=100,
        constant_says="always saying 'no'",
        oracle={"local_only", "central"},
        **said,
    )
    steps, values = np.arange(1.0, len(values) + 1), np.array(values)
    privacy = SimpleNamespace(unit="record")
    return SimpleNamespace(
        metric=metric, steps=steps, values=values, joint=values.mean(axis=1), step="round", privacy=privacy
    )


def curve(values, **more):
    return charts.curve(run_of(values, **more))


def gauge(words="ε 0.5 of 1", within=True, kind="", part=0.5, name="clinic"):
    return Gauge(("1", name), words, within, kind, part)


def gauges(*bars):
    return laid_out(gauged({"shown": list(bars), "note": "what each spent"}, "title"))


def keyed(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_picture_has_the_shapes_of_the_chart():
    chart = curve([[0.6, 0.6, 0.6], [0.7, 0.8, 0.9]])
    axes = laid_out(drawn(chart, "title")).axes[0]
    shapes = [shape for _, group in chart.groups for shape in group]
    lines = [line.get_xydata() for line in axes.lines if len(line.get_xydata())]
    assert [one.tolist() for one in lines] == [
        [list(map(float, spot)) for spot in shape.points] for shape in shapes if shape.form != "area"
    ]
    assert len(axes.patches) == 1
    assert axes.get_ylim() == (100, 0)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "accuracy on 100 public test rows")
    assert [text.get_text() for text in axes.get_yticklabels()] == [words for _, words in chart.up]
    assert [text.get_text() for text in axes.get_xticklabels()] == [words for _, words in chart.along]


def test_the_key_has_the_values_and_marks_what_no_owner_released():
    assert keyed(drawn(curve([[0.6, 0.7, 0.8]] * 2), "title")) == [
        "joint model (band: the owners' own models): 0.8",
        "each owner alone, same budget: 0.5 (oracle)",
        "all records, no privacy: 0.9 (oracle)",
        "a constant (always saying 'no'): 0.6",
    ]


def test_a_line_looks_as_on_the_page():
    figure = drawn(curve([[0.6, 0.7, 0.8]] * 20), "title")
    floor = figure.legends[0].get_lines()[1]
    assert look("floor")["stroke"] == "var(--floor)"
    assert to_rgba(floor.get_color()) == to_rgba(LIGHT["floor"])
    assert floor.get_linewidth() == pytest.approx(0.75 * 2)
    assert floor.is_dashed()


@pytest.mark.parametrize("kind", KINDS)
def test_the_style_sheet_has_every_kind_of_shape(kind):
    assert {"stroke", "fill"} & set(look(kind))
    shape = Shape(kind, [(0, 0), (50, 50), (100, 0)], "#123456")
    chart = Chart("curve", "", [("", [shape])], [], [], "", "", [Entry("mean", "words")])
    axes = laid_out(drawn(chart, "title")).axes[0]
    assert len(axes.patches) + len(axes.lines) == 2


def test_what_diverged_is_left_out():
    chart = curve([[0.5, 0.6, 0.7], [np.nan, np.inf, 0.1]], central=np.inf)
    axes = laid_out(drawn(chart, "title")).axes[0]
    assert all(np.isfinite(line.get_xydata()).all() for line in axes.lines)
    assert to_rgba(LIGHT["ceiling"]) not in [
        to_rgba(one.get_color()) for one in axes.lines if len(one.get_xdata())
    ]


@pytest.mark.parametrize("words", ["short", "of many words " * 20, "onelongword" * 30])
@pytest.mark.parametrize("series", [1, 12])
def test_the_key_stays_inside_and_covers_nothing(words, series):
    entries = [Entry("series", f"{at} {words}", "0.8123", True, "#123456") for at in range(series)]
    figure = laid_out(drawn(curve([[0.6, 0.7, 0.8]] * 3)._replace(key=entries), "title"))
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_tightbbox()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width
    assert legend.y1 <= axes.y0
    assert axes.y1 <= figure.bbox.height


def test_a_bar_is_as_full_as_its_gauge_and_red_above_the_budget():
    figure = gauges(gauge(), gauge("ε 3 of 1, above", within=False, kind="above", part=1.0))
    bars = figure.axes[0].patches[1::2]
    assert [bar.get_width() for bar in bars] == [0.5, 1.0]
    assert [bar.get_facecolor() for bar in bars] == [to_rgba(LIGHT["joint"]), to_rgba(LIGHT["alarm"])]
    assert [text.get_text() for text in figure.axes[0].texts] == ["ε 0.5 of 1", "ε 3 of 1, above"]
    assert figure.axes[0].get_title() == "what each spent"


def test_an_endless_bar_is_hatched():
    figure = gauges(gauge("ε ∞ of 1, above", within=False, kind="endless", part=1.0))
    assert figure.axes[0].patches[1].get_hatch()


@pytest.mark.parametrize("owners", [1, 4, 40])
def test_names_and_words_of_gauges_stay_inside(owners):
    figure = gauges(
        *(
            gauge(name="a hospital with a rather long name, of which the end is left out")
            for _ in range(owners)
        )
    )
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in [*axes.texts, *axes.get_yticklabels()]]
    assert len(boxes) == 2 * owners
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)


def test_no_name_is_a_formula():
    picture = gauged({"shown": [gauge(name="$\\nothing$")], "note": "$\\nor this$"}, "$\\nor that$")
    assert png(picture).startswith(b"\x89PNG")
