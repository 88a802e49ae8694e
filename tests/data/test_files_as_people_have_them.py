"""Separators, decimal signs, encodings, and columns that are neither plain numbers nor plain lists."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coterie.errors import InputError
from coterie.problems.datasets import load_file, schema
from coterie.problems.datasets.frames import read_as, read_frame, seen
from coterie.problems.datasets.identity import identity
from coterie.problems.datasets.schema import Schema

TARGET = {"target": "back", "classes": ["nein", "ja"]}
KINDS = {
    "weight": {"range": [40, 140], "unit": "kg", "missing": "marked"},
    "ward": {"values": ["Chirurgie", "Käte"], "missing": "marked"},
    "smoker": {"true": ["ja", "j"], "false": ["nein"], "missing": "middle"},
    "admitted": {
        "date": "2020-01-01",
        "range": ["2019-12-31", "2020-01-11"],
        "written": "DD.MM.YYYY",
        "missing": "middle",
    },
    "left": {"parts": ["month", "weekday"], "written": "DD.MM.YYYY", "missing": "none"},
}
HEADER = "id;weight;ward;smoker;admitted;left;back"
ROWS = [
    "1;90,0;Käte;ja;01.01.2020;06.07.2026;ja",
    "2;65.5;Chirurgie;nein;11.01.2020;07.07.2026;nein",
    "3;;;;;;nein",
    "4;140;Chirurgie;j;31.12.2019;01.12.2026;ja",
]


def file(folder: Path, rows: list[str], header: str = HEADER, encoding: str = "utf-8") -> Path:
    path = folder / "visits.csv"
    path.write_bytes("\n".join([header, *rows, ""]).encode(encoding))
    return path


def agreed(columns=None) -> Schema:
    return schema.from_json(TARGET | {"columns": KINDS if columns is None else columns}, "columns.toml")


def test_every_kind_is_encoded_as_it_is_declared(tmp_path):
    x = agreed().read(file(tmp_path, ROWS)).x
    names = agreed().empty("visits").columns
    first = dict(zip(names, x[0].tolist()))
    assert {name: value for name, value in first.items() if value} == {
        "ward=Käte": 1.0,
        "smoker": 1.0,
        "admitted": pytest.approx(-1 + 2 / 11),
        "left month=7": 1.0,
        "left weekday=Monday": 1.0,
    }
    assert x[1, 0] == pytest.approx(-0.49)
    empty = dict(zip(names, x[2].tolist()))
    assert {name: value for name, value in empty.items() if value} == {
        "weight is missing": 1.0,
        "ward is missing": 1.0,
        "smoker": 0.5,
    }
    low, high = agreed().empty("visits").bounds.T
    assert ((x >= low) & (x <= high)).all()


@pytest.mark.parametrize(
    ("separator", "sign", "words"),
    [
        (",", ".", "CSV with commas between cells, decimal point, UTF-8"),
        (";", ",", "CSV with semicolons between cells, decimal comma or point, UTF-8"),
        (";", ".", "CSV with semicolons between cells, decimal comma or point, UTF-8"),
        ("\t", ",", "CSV with tabs between cells, decimal comma or point, UTF-8"),
    ],
)
def test_separator_and_decimal_sign_are_recognised_and_stated(tmp_path, separator, sign, words):
    lines = [f"{at}{sign}5{separator}w{separator}{'ja' if at % 2 else 'nein'}" for at in range(10)]
    path = file(tmp_path, lines, separator.join(("x", "ward", "back")))
    said = TARGET | {"columns": {"x": [0, 10], "ward": ["w", "v"]}}
    table = load_file(path, columns=said)
    assert table.read_as == words
    everyone = np.concatenate([table.x, table.x_test])[:, 0]
    np.testing.assert_allclose(np.sort(everyone), (np.arange(10) + 0.5) / 5 - 1, atol=1e-6)
    plain = tmp_path / "plain.csv"
    plain.write_text(
        "\n".join(["x,ward,back", *(f"{at}.5,w,{'ja' if at % 2 else 'nein'}" for at in range(10))])
    )
    assert identity(read_frame(path)) == identity(read_frame(plain))  # a ledger knows the records either way


@pytest.mark.parametrize(
    ("encoding", "words", "others"),
    [
        ("utf-8", "UTF-8", ()),
        ("utf-8-sig", "UTF-8 with a byte-order mark", ()),
        ("latin-1", "UTF-8", ("1 of 5 lines are no UTF-8, and were read as Windows-1252 (Latin-1)",)),
    ],
)
def test_encodings_are_recognised_and_stated(tmp_path, encoding, words, others):
    path = file(tmp_path, ROWS, encoding=encoding)
    found = agreed().read(path)
    assert found.read_as.endswith(words)
    assert seen(read_frame(path)) == others
    assert found.findings[: len(others)] == others
    plain = agreed().read(file(tmp_path, ROWS))
    np.testing.assert_array_equal(found.x, plain.x)


@pytest.mark.parametrize(
    "other",
    [
        b"4;140;Stra\xdfe;j;31.12.2019;01.12.2026;ja",
        b"4;;;;;;nein",
        b"4;1e1;17;nein;05.01.2020;;nein",
        b'4;77,5;"a;b";vielleicht;01.01.1990;01.12.2026;nein',
    ],
    ids=["another encoding", "empty", "a number for a word", "outside"],
)
def test_a_changed_record_changes_no_other_and_nothing_public(tmp_path, other):
    one = file(tmp_path, ROWS)
    neighbour = tmp_path / "neighbour.csv"
    neighbour.write_bytes("\n".join([HEADER, *ROWS[:3], ""]).encode() + other + b"\n")
    before, after = agreed().read(one), agreed().read(neighbour)
    np.testing.assert_array_equal(after.x[:3], before.x[:3])
    assert (after.x[3] != before.x[3]).any()
    assert after.read_as == before.read_as


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("cell", ["0.5", "12345678901234567890", "1e2", "-0"])
def test_a_changed_number_changes_no_other(tmp_path, separator, cell):
    """Digits enough that a reader which takes whole columns for one kind would round them otherwise."""
    said = agreed({"x": {"range": [0, 2**60]}})
    kept = [f"{2**59 + at * 129}{separator}ja" for at in range(5)]
    header = separator.join(("x", "back"))
    before = said.read(file(tmp_path, [*kept, f"7{separator}ja"], header)).x
    after = said.read(file(tmp_path, [*kept, f"{cell}{separator}ja"], header)).x
    assert before[:5].tobytes() == after[:5].tobytes()


PUBLIC = ("name", "task", "columns", "classes", "classes_declared", "columns_declared", "target", "target_bounds",
          "fields", "owner_names", "read_as", "left_out", "unused", "source", "note")  # fmt: skip


def test_a_changed_record_changes_nothing_public_of_a_run(tmp_path):
    said = TARGET | {"columns": KINDS, "leave_out": ["id"]}
    before = load_file(file(tmp_path, ROWS * 3), columns=said)
    strange = b"99;77,5;Stra\xdfe;vielleicht;01.01.1990;;nein\n"
    path = file(tmp_path, (ROWS * 3)[:-1])
    path.write_bytes(path.read_bytes() + strange)
    after = load_file(path, columns=said)
    for name in PUBLIC:
        assert getattr(before, name) == getattr(after, name), name
    np.testing.assert_array_equal(before.bounds, after.bounds)
    pairs = ((before.x, after.x), (before.x_test, after.x_test))
    assert sum(int((one != other).any(axis=1).sum()) for one, other in pairs) == 1


def test_a_number_with_two_signs_is_none(tmp_path):
    path = file(tmp_path, [ROWS[0], ROWS[1].replace("65.5", "1.234,5")])
    with pytest.raises(InputError, match="'weight': row 2 is not a finite number") as caught:
        agreed().read(path)
    assert "1.234" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b;y\n1,2;3\n", "its header has commas and semicolons"),
        (b"a;b;y\n1;2;3\n1,2,3\n", "row 2 has 1 cell, and the header 3 names"),
        (b"a;b;y\n1;2;3\n\x81\xff;2;3\n", "line 3 is neither UTF-8 nor Windows-1252"),
        ("a;b;y\n1;2;3\n".encode("utf-16"), "is written in UTF-16"),
    ],
)
def test_files_that_cannot_be_read_are_one_line(tmp_path, content, words):
    path = tmp_path / "own.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_frame(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", ["2020-01-05", "30.02.2020", "5.1.20", "gestern"])
def test_a_date_that_is_none_names_the_row_and_no_value(tmp_path, cell):
    path = file(tmp_path, [ROWS[0], ROWS[1].replace("11.01.2020", cell)])
    with pytest.raises(InputError, match=r"'admitted': row 2 is no date written as DD.MM.YYYY") as caught:
        agreed().read(path)
    assert cell not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"range": [0, 1], "values": ["a"]}, "'range' does not go with 'values'"),
        ({"date": "2020-01-01", "parts": ["month"]}, "'date' does not go with 'parts'"),
        ({"date": "2020-01-01"}, "a date needs range"),
        ({"date": "2020-01-01", "range": ["2021-01-01", "2020-01-01"]}, "from an earlier day to a later one"),
        ({"date": "1.1.2020", "range": ["2021-01-01", "2022-01-01"]}, "must be a day, YYYY-MM-DD"),
        (
            {"date": "2020-01-01", "range": ["2021-01-01", "2022-01-01"], "written": "DD.MM.YY"},
            "YYYY, MM and DD",
        ),
        ({"parts": ["hour"]}, "must be one of month, weekday"),
        ({"true": ["ja"]}, "false must be a list of texts"),
        ({"true": ["ja"], "false": ["ja"]}, "'ja' is listed as true and as false"),
        ({"range": [0, 1], "missing": "mean"}, "must be 'middle' or 'marked'"),
        ({"values": ["a"], "missing": "middle"}, "must be 'none' or 'marked'"),
        ({"range": [0, 1], "unit": 3}, "unit must be a text"),
        ({"unit": "kg"}, "needs range, values, date"),
        ({"range": 3}, "two finite numbers"),
    ],
)
def test_contradictions_are_one_line(column, words):
    with pytest.raises(InputError, match=words) as caught:
        agreed({"x": column})
    assert "\n" not in str(caught.value)
    assert "'x'" in str(caught.value)


def test_simple_forms_are_what_they_were_and_plain_values_survive():
    simple, table = agreed({"age": [0, 120]}), agreed({"age": {"range": [0, 120]}})
    assert simple.empty("v").fields == table.empty("v").fields
    assert schema.from_json(agreed().to_json(), "here") == agreed()


def numbers(folder: Path) -> Path:
    lines = [f"{at};0.{at};{'ja' if at % 2 else 'nein'}" for at in range(10)]
    return file(folder, lines, "patient_id;x;back")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "feature 'patient_id': is named like an id"),
        ({"columns": {"patient_id": [0, 9]}}, "column 'patient_id': is named like an id"),
        ({"columns": {"x": [0, 1]}, "leave_out": ["x"]}, "leave_out: 'x' is also among the columns"),
        ({"leave_out": ["back"]}, "leave_out: 'back' is also the target"),
        ({"leave_out": ["patientid"]}, "leave_out='patientid': no such column"),
        ({"leave_out": "patient_id"}, "leave_out must be a list"),
    ],
)
def test_an_id_is_no_feature(tmp_path, said, words):
    with pytest.raises(InputError, match=words):
        load_file(numbers(tmp_path), columns=TARGET | said)


def test_columns_that_are_left_out_are_neither_features_nor_forgotten(tmp_path):
    table = load_file(numbers(tmp_path), columns=TARGET | {"leave_out": ["patient_id"]})
    assert (table.columns, table.left_out, table.unused) == (("x",), ("patient_id",), ())


def test_parquet_has_dates_of_its_own(tmp_path):
    days = pd.to_datetime(["2020-01-01", "2020-01-11", None] * 2)
    frame = pd.DataFrame({"admitted": days, "left": days, "back": ["ja", "nein"] * 3})
    frame.to_parquet(tmp_path / "visits.parquet")
    x = agreed({name: KINDS[name] for name in ("admitted", "left")}).read(tmp_path / "visits.parquet").x
    np.testing.assert_allclose(x[:3, 0], [-1 + 2 / 11, 1.0, 0.0], atol=1e-6)
    assert x[0, 1:].tolist() == [1.0] + [0.0] * 11 + [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert read_as(read_frame(tmp_path / "visits.parquet")) == ""


def test_the_tables_of_the_documents_are_what_they_say():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    block = next(one for one in page.split("```toml\n")[1:] if one.startswith("age = {"))
    fields = agreed(tomllib.loads(block.partition("```")[0])).empty("v").fields
    assert [type(one).__name__ for one in fields] == ["Numeric", "Category", "Flag", "Days", "Parts"]


def test_a_quantity_has_a_unit(tmp_path):
    said = {"target": "stay", "range": [0, 60], "unit": "days", "columns": {"x": [0, 1]}}
    path = file(tmp_path, [f"0,{at};{at},5" for at in range(10)], "x;stay")
    table = load_file(path, columns=said)
    assert (table.target_unit, table.target_bounds) == ("days", (0.0, 60.0))
    agreement = schema.from_json(said, "columns.toml")
    assert agreement.empty("stays").target_unit == "days"
    assert schema.from_json(agreement.to_json(), "here") == agreement
    np.testing.assert_allclose(agreement.read(path).y[:2], [0.5 / 30 - 1, 1.5 / 30 - 1], atol=1e-6)
    with pytest.raises(InputError, match="unit='days': is a quantity's"):
        schema.from_json(TARGET | {"unit": "days", "columns": {"x": [0, 1]}}, "columns.toml")
