"""`plan` for persons: what caps and clips cost, from a declared number of records of each."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli import app
from coterie.errors import InputError
from coterie.mechanisms.clipping import clip_whole
from coterie.planning.caps import compare
from coterie.planning.constants import assumed
from coterie.planning.persons import TYPICAL, declared
from coterie.planning.public import Consortium
from coterie.planning.search import plan
from coterie.units import unit_of

SOME = "1:0.5,4:0.3,20:0.2"
SMALL = ("--owners", 3, "--records", 2000, "--dimension", 10, "--rounds-at-most", 20)


def coterie(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


def test_a_mean_is_a_geometric_distribution():
    found = declared("5")
    assert np.isclose(found.mean, 5)
    assert np.isclose(sum(share for _, share in found.shares), 1)
    assert np.isclose(found.shares[0][1], 0.2)


def test_a_person_adds_what_clipping_leaves_of_a_walk():
    """Slopes of calibrated, uniform predictions, outcomes of their own, summed, and clipped by the real function."""
    rng, people, clip = np.random.default_rng(0), 400, 0.75
    for records in (1, 2, 5, 20, 100):
        x = rng.standard_normal((people, records, 20))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        chance = rng.uniform(size=(people, records))
        slopes = (rng.uniform(size=chance.shape) < chance) - chance
        sums = np.einsum("pr,prd->pd", slopes, x)
        lengths = np.linalg.norm(sums, axis=1)
        assert np.isclose(np.sqrt(np.mean(lengths**2)), TYPICAL * np.sqrt(records), rtol=0.1)
        clipped = np.array([clip_whole(np.float32(one), clip).total for one in sums])
        factors = np.linalg.norm(clipped, axis=1) / lengths
        told = declared(f"{records}:1").gain(100, clip)
        assert 0.9 < records * np.mean(factors) / told < 1.1, records


def test_a_larger_cap_costs_no_noise_and_says_more():
    persons = declared(SOME)
    assert [persons.kept(cap) for cap in (1, 2, 5, 20, 100)] == pytest.approx([1.0, 1.5, 2.7, 5.7, 5.7])
    gains = [persons.gain(cap, 0.75) for cap in (1, 2, 5, 20, 100)]
    assert gains == sorted(gains)
    assert gains[3] == gains[4]
    assert persons.gain(20, 0.5) < persons.gain(20, 1.0) <= persons.mean


def test_records_are_planned_as_before():
    """Persons of one record are records: the same forecast to the last digit."""
    base, constants = Consortium(sizes=(1000,) * 4, dimension=20), assumed(20)
    rows = plan(base.task(), 20, constants, protocol="dual_averaging").best
    single = replace(base, unit=unit_of("column:person", 1))
    people = plan(
        single.task(), 20, replace(constants, persons=declared("7")), protocol="dual_averaging"
    ).best
    assert people.settings == rows.settings
    assert np.isclose(people.predicted, rows.predicted, rtol=1e-12)


@pytest.mark.parametrize("protocol", ["dual_averaging", "wor_sgd", "push_sum"])
def test_caps_are_compared_in_the_plans_protocol(protocol):
    base = Consortium(sizes=(400,) * 4, dimension=20, unit=unit_of("column:person", 3))
    constants = replace(assumed(20), persons=declared(SOME))
    found = plan(base.task(), 20, constants, protocol=protocol)
    caps = compare(base.task(), found, 20, constants)
    assert [cap.cap for cap in caps] == [1, 2, 3, 5, 20, None]
    asked = caps[2].best
    assert (asked.protocol, asked.predicted) == (protocol, found.best.predicted)
    risks = [cap.best.predicted for cap in caps]
    assert risks == sorted(risks, reverse=True)
    assert all(one.predicted > 0 for cap in caps for one in cap.clips)


def test_words_and_json_agree():
    words, done = (coterie("plan", *SMALL, "--records-per-person", SOME, *more) for more in ((), ("--json",)))
    assert words.exit_code == done.exit_code == 0, words.output
    found = json.loads(done.stdout)
    text = " ".join(words.stdout.split())
    assert "3 owners, 1,053 units (person)" in text  # 351 of 5.7 records each
    assert "one person's summed gradient" in text
    assert "--unit column:… --records-per-unit 20" in text
    assert (found["unit"], found["units"]) == ("person with up to 20 records", 1053)
    assert found["reads_records"] is False
    assert [cap["records_per_unit"] for cap in found["caps"]] == [1, 2, 5, 20, None]
    points = 100 * found["caps"][0]["clips"][0]["metrics"][0]["lost"]
    assert f"1 18% {points:.2g}" in text
    assert "caps" not in json.loads(coterie("plan", *SMALL, "--json").stdout)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--records-per-person", "few"), ("records_per_person='few'", "1:0.5")),
        (("--records-per-person", "1:0.5:2"), ("records_per_person='1:0.5:2'",)),
        (("--records-per-person", "1.5:1"), ("records_per_person='1.5:1'",)),
        (("--records-per-person", "0:0.5,2:0.5"), ("1 or more",)),
        (("--records-per-person", "2:0.5,2:0.5"), ("named once",)),
        (("--records-per-person", "1:1.5,2:-0.5"), ("above 0",)),
        (("--records-per-person", "1:0.5,2:0.4"), ("add up to 0.9",)),
        (("--records-per-person", "nan"), ("between 1 and 100",)),
        (("--records-per-person", "0.5"), ("between 1 and 100",)),
        (("--records-per-person", "1"), ("a person is a record",)),
        (("--records-per-person", "1500:1"), ("2000 records", "fewer than 2 persons")),
        (("--records-per-person", "5", "--records-per-unit", 0), ("records_per_unit=0",)),
        (("--records-per-unit", 5), ("records_per_unit=5", "--records-per-person")),
    ],
)
def test_mistakes_are_one_line(words, names):
    done = coterie("plan", *SMALL, *words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for name in names:
        assert name in done.stderr


def test_a_sweep_is_of_persons_too():
    words = ("--sizes", "500,900", "--dimension", 5, "--rounds-at-most", 10, "--sweep", "owners", "--json")
    rows, people = (
        json.loads(coterie("plan", *words, *more).stdout)["points"]
        for more in ((), ("--records-per-person", SOME))
    )
    for row, person in zip(rows, people):
        assert person["predicted"]["excess_risk"] > row["predicted"]["excess_risk"]


def test_the_message_of_python_is_the_same():
    with pytest.raises(InputError, match="records_per_person='x'"):
        declared("x")
