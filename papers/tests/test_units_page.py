"""The page about units says what was measured, and what was measured says what the page says."""

import json
from pathlib import Path

import numpy as np
import pytest

from coterie.accounting import certify
from papers import census_people, units

PAGE = (Path(__file__).parents[2] / "docs" / "units.md").read_text("utf-8")


@pytest.fixture(scope="module")
def kept() -> dict:
    return json.loads(units.KEPT.read_text())


def test_the_page_has_the_tables(kept):
    for name in units.WORDS:
        assert units.table(kept, name) in PAGE
    assert units.device_table(kept) in PAGE
    assert (
        f"{kept['blackfriday']['persons']:,} persons with {kept['blackfriday']['records']:,} records" in PAGE
    )
    assert f"{kept['census']['persons']:,} persons with {kept['census']['records']:,} records" in PAGE


def test_the_plan_orders_caps_as_measured(kept):
    """Told sizes, ε and the mean number of records alone; the table is that of the planning page."""
    table = units.forecast_table(kept)
    assert table in (Path(__file__).parents[2] / "docs" / "planning.md").read_text("utf-8")
    cells = [line.split(" | ")[1:] for line in table.replace(" |\n", "\n").removesuffix(" |").split("\n")[2:]]
    for column in zip(*cells):
        told, measured = zip(*(map(float, cell.split(" / ")) for cell in column))
        assert sorted(told, reverse=True) == list(told)
        assert sorted(measured, reverse=True) == list(measured)


def test_unit_clipping_beats_naive_group_privacy(kept):
    for name in units.WORDS:
        for epsilon in units.EPSILON:
            for cap in units.CAPS:
                ours, naive = (np.mean(kept[name][f"{way} {cap} {epsilon:g}"]) for way in ("unit", "naive"))
                assert ours >= naive - 1e-3, (name, cap, epsilon)  # one record a person: the same run
                assert cap < 5 or ours > naive + 0.01, (name, cap, epsilon)


def test_group_privacy_is_as_good_as_it_can_be():
    from dp_accounting import GaussianDpEvent, get_sigma_gaussian

    assert units.for_group(1.0, 1e-5, 1) == pytest.approx(1.0)
    one = units.for_group(4.0, 1e-5, 5)
    multiplier = 2 * get_sigma_gaussian(one, 1e-5)  # over the clip norm, of which a replaced record moves two
    assert certify(GaussianDpEvent(multiplier / 5), delta=1e-5).epsilon == pytest.approx(4.0, rel=1e-3)


def test_persons_of_the_census_extract():
    persons = census_people.people()
    many = np.bincount(persons)
    assert (len(persons), int(many.min()), int(many.max())) == (27_530, 1, census_people.MOST)
    assert 4.5 < many.mean() < 5.5
    assert np.array_equal(persons, census_people.people())  # the same for everybody
