"""A public schema, and owners' files that do or do not fit it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.problems.datasets import load, schema
from coterie.problems.datasets.export import schema_of, write
from coterie.problems.datasets.schema import Schema
from coterie.problems.partition import iid

COLUMNS = {"age": (0, 100), "ward": ("a", "b")}
VISITS = Schema(target="back", columns=COLUMNS, classes=("no", "yes"))


def file(folder, text: str):
    path = folder / "owner.csv"
    path.write_text(text)
    return path


def test_rows_are_encoded_by_the_schema_alone(tmp_path):
    rows = VISITS.read(file(tmp_path, "back,ward,age,unused\nyes,b,50,7\nno,z,250,8\n"))
    np.testing.assert_allclose(rows.x, [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert rows.y.tolist() == [1.0, -1.0]
    assert rows.findings == (
        "column 'age': 1 of 2 rows lie outside [0, 100]; they count as its nearer end",
        "column 'ward': 1 of 2 rows hold none of the listed values; they count as none of them",
    )


def test_the_rows_of_one_owner_do_not_depend_on_another_row(tmp_path):
    alone = VISITS.read(file(tmp_path, "back,ward,age\nyes,b,50\n"))
    beside = VISITS.read(file(tmp_path, "back,ward,age\nyes,b,50\nno,a,100\n"))
    np.testing.assert_array_equal(alone.x[0], beside.x[0])


def test_numbers_may_be_classes_and_targets_quantities(tmp_path):
    digits = Schema(target="d", columns={"x": (0, 1)}, classes=("0", "1", "2"))
    assert digits.read(file(tmp_path, "x,d\n0.5,2\n1,0\n")).y.tolist() == [2, 0]
    amounts = Schema(target="t", columns={"x": (0, 1)}, range=(0, 10))
    assert amounts.read(file(tmp_path, "x,t\n0.5,10\n1,5\n")).y.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ward,age\na,1\n", "no column 'back'"),
        ("back,age\nyes,1\n", "no column 'ward'"),
        ("back,ward,age\nyes,a,1\nyes,a,\n", "'age': row 2 is empty"),
        ("back,ward,age\nyes,a,1\nyes,a,inf\n", "'age': row 2 is not a finite number"),
        ("back,ward,age\nyes,a,old\n", "'age': row 1 is not a finite number"),
        ("back,ward,age\nyes,a,1\nmaybe,a,2\n", "'back': row 2 is none of the declared classes"),
        ("back,ward,age\nyes,a,1\n Yes,a,2\n", "1 of 2 rows, 1 of them because of spaces or capitals alone"),
        ("back,ward,age\nyes,,1\n", "'ward': row 1 is empty"),
    ],
)
def test_a_file_that_does_not_fit_names_the_row_and_no_value(tmp_path, text, words):
    with pytest.raises(InputError, match=words) as caught:
        VISITS.read(file(tmp_path, text))
    assert "maybe" not in str(caught.value)
    assert "old" not in str(caught.value)


@pytest.mark.parametrize(("code", "values"), [("1.0", ("1", "2")), ("01", ("01", "02")), ("A", ("A", "B"))])
def test_how_a_cell_is_read_does_not_depend_on_other_rows(tmp_path, code, values):
    # With a text among the others a reader that guesses sees texts, without it numbers: then one changed record
    # would change everybody's features.
    codes = Schema(target="back", columns={"ward": values}, classes=("no", "yes"))
    rows = f"back,ward\nyes,{code}\nno,{code}\n"
    one = codes.read(file(tmp_path, rows + f"no,{code}\n"))
    other = codes.read(file(tmp_path, rows + "no,x\n"))
    np.testing.assert_array_equal(one.x[:2], other.x[:2])
    assert one.x[:2].tolist() == [[1.0, 0.0]] * 2
    assert not other.x[2].any()


def test_classes_that_are_long_numbers_stay_apart(tmp_path):
    codes = Schema(target="c", columns={"x": (0, 1)}, classes=("1234567", "1234568"))
    assert codes.read(file(tmp_path, "x,c\n0,1234568\n1,1234567.0\n")).y.tolist() == [1.0, -1.0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"target": "y", "classes": ["a", "b"], "columns": {}}, "none given"),
        ({"classes": ["a", "b"], "columns": {"x": [0, 1]}}, "needs target"),
        ({"target": "y", "classes": [True, False], "columns": {"x": [0, 1]}}, "as the file has it"),
        ({"target": "y", "age": [0, 1]}, r"below \[columns\]: age = \[low, high\]"),
        ({"target": "x", "classes": ["a", "b"], "columns": {"x": [0, 1]}}, "among the columns"),
        ({"target": "y", "columns": {"x": [0, 1]}}, "classes, or the range"),
        ({"target": "y", "classes": ["a", "b"], "range": [0, 1], "columns": {"x": [0, 1]}}, "not both"),
        ({"target": "y", "classes": ["a", "a"], "columns": {"x": [0, 1]}}, "different values"),
        ({"target": "y", "classes": ["a", "b"], "columns": {"x": [1, 0]}}, "low < high"),
        ({"target": "y", "classes": ["a", "b"], "columns": {"x": [0, float("nan")]}}, "finite"),
        ({"target": "y", "classes": ["a", "b"], "columns": {"x": 3}}, "list of values"),
        ({"target": "y", "classes": ["a", "b"], "columns": {"x": ["u", "u"]}}, "twice"),
        ({"target": "y", "klasses": [], "columns": {"x": [0, 1]}}, "unknown key 'klasses'"),
        (
            {"target": "y", "clases": ["a", "b"]},
            r"unknown key 'clases'\. Did you mean 'classes'\? Known keys",
        ),
        ({"target": "y", "ward": ["a", "b"]}, r"unknown key 'ward'\. A column's values go below \[columns\]"),
        ([], "must be a table"),
    ],
)
def test_a_schema_that_makes_no_sense_is_one_line(value, words):
    with pytest.raises(InputError, match=words) as caught:
        schema.from_json(value, "columns.toml")
    assert "\n" not in str(caught.value)


def test_a_schema_survives_its_plain_form():
    assert schema.from_json(VISITS.to_json(), "here") == Schema(
        target="back", columns={"age": (0, 100), "ward": ("a", "b")}, classes=("no", "yes")
    )


def test_an_exported_table_reads_back_as_it_was(tmp_path):
    table = load("census")
    parts = iid(len(table.y), 2, seed=3)
    sizes = write(table, parts, ("a", "b"), tmp_path / "out")
    agreed = schema.read_toml(tmp_path / "out" / "columns.toml")
    assert agreed == schema_of(table)
    rows = agreed.read(tmp_path / "out" / "b.csv")
    assert len(rows.y) == sizes["b"]
    np.testing.assert_array_equal(rows.y, table.y[parts.rows[1]])
    low, high = table.bounds.T
    np.testing.assert_allclose((rows.x + 1) / 2 * (high - low) + low, table.x[parts.rows[1]], atol=1e-6)
    with pytest.raises(InputError, match="not empty"):
        write(table, parts, ("a", "b"), tmp_path / "out")


@pytest.mark.parametrize("page", ["README.md", "docs/data.md", "docs/federation.md"])
def test_the_columns_file_of_the_documents_is_one(page):
    blocks = (Path(__file__).parents[2] / page).read_text().split("```toml\n")[1:]
    shown = [block.partition("```")[0] for block in blocks if "[columns]" in block.partition("```")[0]]
    assert len(shown) == 1
    agreed = schema.from_json(tomllib.loads(shown[0]), page)
    assert (agreed.target, agreed.classes) == ("readmitted", ("no", "yes"))
    assert agreed.columns["ward"] == ("surgery", "medicine")
