"""Rows made into units of privacy: whom they are about, how many stay, how they are dealt and held out."""

import numpy as np
import pandas as pd
import pytest

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment, from_toml
from coterie.experiments.prepare import prepare
from coterie.problems.datasets import Source, load_file
from coterie.problems.datasets.declared import Declared, from_json
from coterie.problems.datasets.memory import Records
from coterie.problems.holdings import laid_out, records_of, to_shards
from coterie.problems.partition import partition
from coterie.problems.whose import Whose, units_of
from coterie.units import RECORD, Unit, unit_of

PATIENT = unit_of("column:patient", 3)


def visits(rows: int = 120, patients: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": [f"p{one}" for one in rng.integers(0, patients, rows)],
            "a": rng.uniform(-1, 1, rows),
            "day": [f"{1 + at % 28:02}.01.{2000 + at // 28}" for at in range(rows)],
            "hospital": rng.choice(["north", "south"], rows),
            "ill": rng.choice(["no", "yes"], rows),
        }
    )


SAID = {
    "target": "ill",
    "classes": ["no", "yes"],
    "columns": {"a": [-1, 1]},
    "privacy_unit": "patient",
    "records_per_unit": 3,
}


def source(frame: pd.DataFrame, **more) -> Source:
    return Source(Records(frame), columns=SAID, **more)


@pytest.mark.parametrize("how", ["iid", "dirichlet:0.3", "two_groups:3", "random_sizes:2"])
def test_partitions_deal_whole_units(how):
    table = source(visits()).table()
    parts = partition(table, how, 4, 1, PATIENT)
    holders = [set(table.whose.codes[rows].tolist()) for rows in parts.rows]
    assert sum(map(len, holders)) == len(set(table.whose.codes.tolist()))  # nobody is with two owners
    assert sorted(np.concatenate(parts.rows).tolist()) == list(range(len(table.y)))
    assert min(map(len, holders)) >= 2
    if how == "iid":
        assert max(map(len, holders)) - min(map(len, holders)) <= 1  # of units, not of rows


def test_a_person_whom_two_owners_know_is_a_unit_at_each():
    asked = source(visits(), owner_column="hospital")
    table = asked.table()
    parts = asked.divided(table, None, None, 0)
    north, south = (set(table.whose.codes[rows].tolist()) for rows in parts.rows)
    assert north & south
    assert asked.privacy_unit == PATIENT
    sizes = [len(units_of(rows, table.whose, PATIENT, (0, at))) for at, rows in enumerate(parts.rows)]
    assert sizes == [len(north), len(south)]


def test_an_owner_with_fewer_than_two_units_is_named():
    frame = visits()
    frame.loc[frame["hospital"] == "south", "patient"] = "the only one"
    asked = source(frame, owner_column="hospital")
    table = asked.table()
    with pytest.raises(InputError, match=r"owner 'south': [01] of its units \(patient\) .* must be >= 2"):
        asked.divided(table, None, None, 0)
    with pytest.raises(InputError, match="cannot give each at least 2"):
        asked.divided(table, "iid", 20, 0)


def test_nobody_is_learnt_from_and_tested_on():
    frame = visits(400, 60).sort_values("a")  # rows of one patient lie far apart
    frame["patient_again"] = np.unique(frame["patient"], return_inverse=True)[1] / 60
    said = SAID | {"columns": {"patient_again": [0, 1]}}
    table = Source(Records(frame), columns=said).table()
    assert not set(table.x[:, 0].tolist()) & set(table.x_test[:, 0].tolist())
    assert table.whose.tested == len(set(table.x_test[:, 0].tolist())) == 12  # a fifth of them


def test_at_most_so_many_records_of_a_unit_stay_and_no_other_unit_moves():
    codes = np.repeat([4, 2, 9, 7], [1, 5, 3, 8])
    rows, whose = np.arange(17), Whose(codes)
    kept = units_of(rows, whose, PATIENT, (5, 0))
    assert [len(one) for one in kept] == [1, 3, 3, 3]
    assert [set(codes[one].tolist()) for one in kept] == [{4}, {2}, {9}, {7}]  # as they first appear
    neighbour = Whose(np.repeat([4, 2, 9, 7], [6, 5, 3, 3]))  # the first has six records now, not one
    others = units_of(rows, neighbour, PATIENT, (5, 0))[1]
    assert (others - 6).tolist() == (kept[1] - 1).tolist()
    draws = {tuple(units_of(rows, whose, PATIENT, (seed, 0))[3].tolist()) for seed in range(20)}
    assert len(draws) > 5  # by the owner's randomness


def test_the_latest_records_stay_by_the_declared_date(tmp_path):
    said = SAID | {"columns": {"a": [-1, 1], "day": {"parts": ["month"], "written": "DD.MM.YYYY"}}}
    path = tmp_path / "visits.csv"
    visits().to_csv(path, index=False)
    asked = Source(str(path), columns=said, latest="day")
    table = asked.table()
    for rows in units_of(np.arange(len(table.y)), table.whose, asked.privacy_unit, (0,)):
        own = np.flatnonzero(table.whose.codes == table.whose.codes[rows[0]])
        assert sorted(table.whose.when[rows]) == sorted(table.whose.when[own])[-3:]
    assert len(table.columns) == 13  # a date that is declared is a feature, too
    undeclared = Source(str(path), columns=SAID, latest="day")
    with pytest.raises(InputError, match=r"'day': row 1 is no date written as YYYY-MM-DD"):
        undeclared.table()


def test_units_take_a_records_place_in_the_arrays():
    x, y = np.arange(14, dtype=np.float32).reshape(7, 2), np.arange(7.0, dtype=np.float32)
    units = [[np.array([0]), np.array([1, 2, 3])], [np.array([5, 4])]]
    shards = to_shards(x, y, units)
    assert (shards.x.shape, shards.y.shape) == ((2, 2, 3, 2), (2, 2, 3))
    assert shards.counts.tolist() == [2, 1]
    assert shards.within.tolist() == [[1, 3], [2, 0]]
    assert shards.y[0].tolist() == [[0, 0, 0], [1, 2, 3]]
    own_x, own_y, unit = records_of(shards, 0)
    assert (own_y.tolist(), unit.tolist()) == ([0, 1, 2, 3], [0, 1, 1, 1])
    assert np.array_equal(own_x, x[:4])
    assert laid_out(*(np.asarray(leaf)[1] for leaf in (shards.x, shards.y, shards.within)))[1].tolist() == [
        5,
        4,
    ]


def test_owners_of_many_sizes_keep_their_units():
    x = np.zeros((4000, 600), np.float32)
    y = np.arange(4000, dtype=np.float32)
    units = [[np.array([at]) for at in range(3900)], *([np.array([3900 + at])] for at in range(100))]
    shards = to_shards(x, y, units)
    assert not hasattr(shards, "x")  # in several arrays
    assert [records_of(shards, owner)[1][0] for owner in (0, 1, 100)] == [0, 3900, 3999]


@pytest.mark.parametrize(
    ("change", "asked", "words"),
    [
        ({"patient": None}, {}, "row 8 is empty. Say whom every row is about"),
        ({"patient": "  "}, {}, "row 8 is empty"),
        ({}, {"unit": "column:patients"}, "the columns file says 'column:patient'"),
        ({}, {"latest": "when"}, "latest='when': no such column"),
        ({}, {"records_per_unit": 0}, "records_per_unit=0: must be"),
    ],
)
def test_what_cannot_be_a_unit_is_refused_in_one_line(change, asked, words):
    frame = visits().astype({"patient": object})
    for column, value in change.items():
        frame.loc[7, column] = value
    with pytest.raises(InputError, match=words) as error:
        source(frame, **asked).table()
    assert "\n" not in str(error.value)


def test_a_column_that_tells_rows_apart_is_a_record():
    frame = visits()
    frame["patient"] = [f"visit {at}" for at in range(len(frame))]
    with pytest.raises(InputError, match=r"another value in every row.*--unit record"):
        source(frame).table()


def test_a_unit_column_is_never_a_feature(tmp_path):
    with pytest.raises(InputError, match=r"privacy unit 'a': is also the target or a feature"):
        Source(Records(visits()), columns={k: v for k, v in SAID.items() if k != "privacy_unit" and
                                           k != "records_per_unit"}, unit="column:a").table()  # fmt: skip
    with pytest.raises(InputError, match=r"privacy unit 'a'"):
        Declared(target="ill", columns={"a": (-1, 1)}, privacy_unit="a")
    frame = visits()[["patient", "a", "ill"]]
    frame["patient"] = frame["patient"].str[1:].astype(float) / 100  # could be learnt from
    frame.to_csv(tmp_path / "v.csv", index=False)
    table = load_file(tmp_path / "v.csv", "ill", unit=PATIENT)
    assert table.columns == ("a",)
    with pytest.raises(InputError, match=r"privacy unit 'patient'"):
        load_file(
            tmp_path / "v.csv", "ill", columns={"columns": {"a": [-1, 1], "patient": [0, 1]}}, unit=PATIENT
        )


def test_ids_that_look_alike_are_told_to_the_holder():
    frame = visits()
    frame.loc[[3, 4], "patient"] = ["Case 7", "case 7 "]
    findings = source(frame).table().findings
    assert any("'Case 7', 'case 7 '" in one and "count as different units" in one for one in findings)
    assert not any("differ" in one for one in source(visits()).table().findings)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"privacy_unit": 3}, "privacy_unit and latest must name columns"),
        ({"records_per_unit": 0}, "records_per_unit=0: must be a whole number, at least 1"),
        ({"records_per_unit": True}, "records_per_unit=True"),
    ],
)
def test_a_columns_file_says_it_right(more, words):
    with pytest.raises(InputError, match=words):
        from_json(SAID | more, "columns.toml")
    lone = {key: value for key, value in SAID.items() if key != "privacy_unit"}
    with pytest.raises(InputError, match="need privacy_unit"):
        from_json(lone, "columns.toml")


def test_what_is_said_beside_the_file_goes_first():
    assert source(visits(), records_per_unit=7).privacy_unit == unit_of("column:patient", 7)
    assert source(visits(), unit="record").privacy_unit == RECORD
    assert source(visits(), unit="owner").privacy_unit == Unit("owner", None, 1000)
    assert Source("census").privacy_unit == RECORD


def test_known_data_sets_say_whom_their_rows_are_about():
    with pytest.raises(InputError, match="census has no such column of persons. It has none"):
        Source("census", unit="column:person").table()
    with pytest.raises(InputError, match="Known there: User_ID"):
        Source("blackfriday", unit="column:Age").table()
    with pytest.raises(InputError, match="census has no dates"):
        Source("census", unit="owner", latest="year").table()


def test_neighbours_differ_in_one_unit_alone():
    """A person replaced by another, with another id and other records: all others keep owner, place and records."""
    one = visits(200, 40).sort_values("patient", kind="stable", ignore_index=True)
    gone = one["patient"] == one["patient"][50]
    first = int(np.flatnonzero(gone)[0])
    new = one.loc[[first] * 9].assign(patient="A new one", a=np.linspace(-1, 1, 9))
    other = pd.concat([one[:first], new, one[first:][~gone[first:]]])
    given = {"columns": SAID, "owners": 3, "topology": "ring"}
    sides = [prepare(Experiment(data=Records(frame), **given)) for frame in (one, other)]
    assert sides[0].task.sizes == sides[1].task.sizes
    assert np.array_equal(sides[0].y_test, sides[1].y_test)  # the person is learnt from in both
    moved = (np.asarray(sides[0].shards.x) != np.asarray(sides[1].shards.x)).any(axis=(2, 3))
    assert moved.sum() == 1
    assert (sides[0].shards.within != sides[1].shards.within).sum() <= 1


def test_rows_in_memory_come_with_whom_they_are_about():
    frame = visits()
    x, y = frame[["a"]], (frame["ill"] == "yes").to_numpy()
    named = Experiment(data=(x, y), owners=2, unit=frame["patient"], records_per_unit=4)
    assert named.unit == "column:patient"
    assert prepare(named).task.unit == unit_of("column:patient", 4)
    assert Experiment(data=(x, y), unit=frame["patient"].to_numpy()).unit == "column:group"
    again = from_toml(named.to_toml())
    assert (again.unit, again.records_per_unit) == ("column:patient", 4)
    with pytest.raises(InputError, match=r"groups: has shape \(3,\) for 120 rows"):
        Experiment(data=(x, y), unit=[1, 2, 3])


def test_a_whole_owner_is_a_unit_of_what_it_holds():
    table = prepare(Experiment(data="census", unit="owner", records_per_unit=3, owners=30, partition="iid"))
    assert table.task.sizes == (1,) * 30
    assert table.shards.x.shape[:3] == (30, 1, 3)
    few = visits(40).assign(hospital=["alone"] + ["together"] * 39)
    lone = Experiment(data=Records(few), columns=SAID, unit="owner", owner_column="hospital")
    assert (
        prepare(lone).task.unit.kind == "owner"
    )  # of one record, perhaps: it is no secret that an owner is one
