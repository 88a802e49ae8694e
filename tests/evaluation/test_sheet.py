"""What one record can move of a table: measured on explicit neighbours, against what is declared."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from coterie.evaluation.sheet import Sheet

NAN, INF = float("nan"), float("inf")
SCORES = (-1e30, -9.0, -1.0, -1e-9, 0.0, 1e-9, 0.3, 2.0, 9.0, 1e30, NAN, INF, -INF)

SHEETS = [
    *(Sheet("binary", loss, 2, public) for loss in ("logistic", "hinge") for public in (True, False)),
    *(Sheet("multiclass", loss, 4, public) for loss in ("softmax", "one_vs_all") for public in (True, False)),
    *(Sheet("regression", "huber", 0, public) for public in (True, False)),
]


def records(sheet: Sheet) -> list[tuple[np.ndarray, float]]:
    """Scores and targets at their ends, between them, and no numbers at all."""
    if sheet.task == "binary":
        return [(np.array([score]), y) for score in SCORES for y in (-1.0, 1.0)]
    if sheet.task == "multiclass":
        rows = [np.full(4, value) for value in (0.0, NAN, 1e30, -1e30, -800.0)]
        rows += [size * np.eye(4)[one] for one in range(4) for size in (0.5, 3.0, 40.0, -40.0)]
        return [(row, y) for row in rows for y in range(4)]
    grid = (*np.linspace(-1, 1, 9), -0.1464, 0.1464)
    return [(np.array([score]), y) for score in (*grid, -5.0, 5.0, NAN) for y in grid]


@pytest.mark.parametrize("sheet", SHEETS, ids=str)
def test_one_record_moves_the_table_by_at_most_what_is_declared(sheet):
    others = records(sheet)[::3]
    rest = sheet.tally(np.array([s for s, _ in others]), np.array([y for _, y in others]))
    each = []
    for score, y in records(sheet):
        both = [*others, (score, y)]
        each.append(sheet.tally(np.array([s for s, _ in both]), np.array([y for _, y in both])) - rest)
    moves = np.array(each, float)
    if sheet.sizes_public:
        far = max(np.linalg.norm(a - b) for a, b in itertools.combinations(moves, 2))
        assert far <= 2 * sheet.reach + 1e-9
        assert far >= 2 * sheet.reach * 0.97  # and the declared one is no waste of noise
    else:
        assert np.linalg.norm(moves, axis=1).max() <= sheet.reach + 1e-9


def test_neighbours_that_round_away_from_each_other_are_no_further_apart_than_declared():
    """Targets and errors lie between whole numbers; the farthest pair without rounding is 2 * 962.8 apart."""
    sheet = Sheet("regression", "squared", 0, True)
    new = sheet.tally(np.array([[5.0]]), np.ones(1))  # error and target at their ends
    targets = np.linspace(-0.2, -0.1, 20_001)
    old = [sheet.tally(np.array([[y]]), np.array([y])) for y in targets]
    far = max(np.linalg.norm(new - one) for one in old)
    assert 2 * 962.81 < far <= 2 * sheet.reach


def units(sheet: Sheet) -> list[list[tuple[np.ndarray, float]]]:
    """Units of one record, of all alike, of two that cancel, and of many that differ."""
    some = records(sheet)[::2]
    return [
        *([one] for one in some),
        *([one] * 5 for one in some[::3]),
        *([one, other] for one, other in zip(some, reversed(some))),
        *(some[at : at + 7] for at in range(0, len(some), 5)),
        some,
    ]


def summed(sheet: Sheet, held: list) -> np.ndarray:
    rows = [(score, y, at) for at, unit in enumerate(held) for score, y in unit]
    scores, y, unit = (np.array(part) for part in zip(*rows))
    return sheet.tally(scores, y, unit=unit)


@pytest.mark.parametrize("sheet", [replace(sheet, of_units=True) for sheet in SHEETS], ids=str)
def test_one_unit_moves_the_table_by_at_most_what_is_declared(sheet):
    """However many records it has, and whatever it is replaced by."""
    others = units(sheet)[1::9]
    rest = summed(sheet, others)
    moves = np.array([summed(sheet, [*others, one]) - rest for one in units(sheet)], float)
    apart = max(np.linalg.norm(a - b) for a, b in itertools.combinations(moves, 2))
    far = apart / 2 if sheet.sizes_public else np.linalg.norm(moves, axis=1).max()
    assert 0.9 * sheet.reach < far <= sheet.reach
    assert sheet.reach < 1.02 * replace(sheet, of_units=False).reach  # rounding costs next to nothing


def test_a_person_counts_once():
    sheet = Sheet("binary", "logistic", 2, True, of_units=True)
    right, wrong = (np.array([2.0]), 1.0), (np.array([-2.0]), 1.0)
    table = summed(sheet, [[right], [right] * 9, [right, wrong, wrong]]) / sheet.units
    assert table[:24].sum() == pytest.approx(3, abs=2 / 1024)
    assert table[24] == pytest.approx(2 / 3, abs=1 / 1024)  # not two of thirteen
    alike = summed(sheet, [[right], [wrong]])
    assert np.array_equal(alike, sheet.tally(np.array([[2.0], [-2.0]]), np.ones(2)))


def test_a_table_counts_what_it_says():
    sheet = Sheet("binary", "logistic", 2, True)
    table = (
        sheet.tally(np.array([[-3.0], [0.2], [0.2], [NAN]]), np.array([-1.0, 1.0, -1.0, 1.0])) / sheet.units
    )
    cells, wrong, brier = table[:24].reshape(12, 2), table[24], table[25]
    assert cells.sum() == 4
    assert cells[1, 0] == 1
    assert cells[6].tolist() == [1, 1]
    assert cells[5, 1] == 1  # no score counts as the wrong class
    assert wrong == 2
    p = 1 / (1 + np.exp(-np.array([-3.0, 0.2, 0.2])))
    assert brier == pytest.approx(p[0] ** 2 + (1 - p[1]) ** 2 + p[2] ** 2 + 1, abs=4 / 512)


def test_the_edge_at_zero_decides_as_the_loss_does():
    sheet = Sheet("binary", "logistic", 2, True)
    assert sheet.tally(np.array([[0.0]]), np.array([-1.0]))[24] == 0
    assert sheet.tally(np.array([[0.0]]), np.array([1.0]))[24] == sheet.units[24]
