"""The pictures say what the numbers say, for one owner as for a hundred, finite or not."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from coterie.reports.figures import JOINT, LOCAL, Curve, _apart, epsilon_by_owner, metric_over_rounds


def draw(figure):
    figure.canvas.draw()  # lays everything out; warnings are errors
    return figure


def epsilon_picture(certified, budgets):
    certified, budgets = np.array(certified, float), np.array(budgets, float)
    names = tuple(f"owner {at}" for at in range(len(budgets)))
    return draw(epsilon_by_owner(names, np.full(len(names), 1234), certified, budgets, "title"))


def metric_picture(values, floor=0.5, ceiling=0.9):
    values = np.array(values)
    steps = np.arange(1, len(values) + 1)
    return draw(
        metric_over_rounds(
            Curve(steps, values, np.ones(3), floor, ceiling, 0.6), "accuracy", "round", "title"
        )
    )


@pytest.mark.parametrize("owners", [1, 4, 20, 40, 100])
def test_one_bar_and_one_budget_for_each_owner(owners):
    certified = np.linspace(0.1, 0.9, owners)
    axes = epsilon_picture(certified, np.ones(owners)).axes[0]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(certified.tolist())
    assert len(axes.collections[0].get_segments()) == owners
    assert len(axes.get_xticklabels()) == owners or owners > 40


def test_bars_above_the_budget_have_another_colour():
    axes = epsilon_picture([0.5, 3.0, 2.0], [1.0, 1.0, 2.0]).axes[0]
    colours = {round(bar.get_x() + bar.get_width() / 2): bar.get_facecolor() for bar in axes.patches}
    assert colours == {0: to_rgba(JOINT), 1: to_rgba(LOCAL), 2: to_rgba(JOINT)}


def test_an_infinite_epsilon_fills_the_picture_and_says_so():
    axes = epsilon_picture([0.5, np.inf], [1.0, 1.0]).axes[0]
    assert max(bar.get_height() for bar in axes.patches) == axes.get_ylim()[1]
    assert [text.get_text() for text in axes.texts] == ["∞"]


def test_many_infinite_owners_are_counted_instead():
    axes = epsilon_picture([np.inf] * 50, np.ones(50)).axes[0]
    assert "∞ for 50" in axes.get_xlabel()
    assert not axes.texts


@pytest.mark.parametrize("owners", [1, 4, 20, 100])
def test_the_legend_covers_no_bar(owners):
    figure = epsilon_picture(np.ones(owners), np.ones(owners))
    legend = figure.legends[0].get_window_extent()
    assert not any(legend.overlaps(bar.get_window_extent()) for bar in figure.axes[0].patches)
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width


def test_the_labels_give_the_last_values():
    axes = metric_picture([[0.6, 0.6, 0.6], [0.7, 0.8, 0.9]]).axes[0]
    labels = {text.get_text().rpartition("  ")[2] for text in axes.texts}
    assert labels == {"0.800", "0.500", "0.900", "0.600"}


@pytest.mark.parametrize(("floor", "ceiling"), [(0.5, 0.9), (0.7, 0.7001), (0.7, 0.7), (0.8999, 0.9)])
@pytest.mark.parametrize("values", [[[0.7]], [[0.6, 0.7, 0.8]] * 30])
def test_labels_do_not_overlap_and_stay_inside(values, floor, ceiling):
    figure = metric_picture(values, floor, ceiling)
    boxes = sorted((text.get_window_extent() for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    assert all(above.y0 >= below.y1 - 1 for below, above in pairwise(boxes))
    assert all(box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height for box in boxes)


def test_what_diverged_is_left_out():
    axes = metric_picture([[0.5, 0.6, 0.7], [np.nan, np.inf, 0.1]], ceiling=np.inf).axes[0]
    assert [text.get_text() for text in axes.texts] == [
        "each owner alone, private  0.500",
        "a constant  0.600",
    ]


def test_apart_keeps_order_gap_and_top():
    spots = _apart(np.array([0.0, 0.98, 0.99]), 0.1, 1.0)
    assert spots.tolist() == pytest.approx([0.0, 0.9, 1.0])
    assert _apart(np.array([0.1, 0.5]), 0.1, 1.0).tolist() == [0.1, 0.5]
