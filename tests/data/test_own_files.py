import urllib.error
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from coterie.errors import InputError
from coterie.problems.datasets import load_file, load_openml
from coterie.problems.datasets.delimited import MOST_HEADER
from coterie.problems.datasets.frames import MOST_COLUMNS
from coterie.problems.fields import Numeric

ROWS = 20


def frame():
    return pd.DataFrame(
        {
            "age": np.arange(ROWS) * 5.0,
            "score": np.linspace(-1, 1, ROWS),
            "label": ["yes", "no"] * (ROWS // 2),
            "clinic": ["north"] * 12 + ["south"] * 8,
        }
    )


def saved(data, path):
    if path.suffix.lower() == ".csv":
        data.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        data.to_parquet(path)
    else:
        np.savez(path, **{name: data[name].to_numpy().astype(data[name].to_numpy().dtype) for name in data})
    return path


AGES = {"columns": {"age": (0, 100), "score": (-1, 1)}}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_a_table_with_a_target_an_owner_and_ranges(tmp_path, suffix):
    path = saved(frame(), tmp_path / f"own{suffix}")
    said = {"columns": {"age": (0, 50), "score": (-1, 1)}}
    table = load_file(path, "label", "clinic", columns=said)
    assert (table.task, table.classes, table.owner_names) == ("binary", ("no", "yes"), ("north", "south"))
    assert (len(table.y), len(table.y_test), table.columns) == (16, 4, ("age", "score"))
    assert (table.target, table.fields) == ("label", (Numeric("age", 0, 50), Numeric("score", -1, 1)))
    assert table.x[:, 0].max() == 1.0  # ages above 50 are clipped to the public range, and counted
    assert table.findings == ("column 'age': 9 of 20 rows lie outside [0, 50]; they count as its nearer end",)
    assert (np.abs(table.x) <= 1).all()


def test_npz_with_a_matrix_and_more_than_two_classes(tmp_path):
    x = np.linspace(-1, 1, 60).reshape(30, 2)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(30) % 3 + 9)
    table = load_file(tmp_path / "own.npz", "y")
    assert (table.task, table.classes, table.columns) == ("multiclass", ("9", "10", "11"), ("x0", "x1"))
    assert sorted(set(table.y.tolist())) == [0, 1, 2]
    np.testing.assert_allclose(np.sort(table.x, 0)[[0, -1]], np.sort(x, 0)[[0, -1]], atol=0.1)


def test_a_range_makes_the_target_a_quantity(tmp_path):
    path = saved(frame().drop(columns=["label", "clinic"]), tmp_path / "own.csv")
    table = load_file(path, "age", columns={"range": [0, 90]})
    assert (table.task, table.target_bounds, table.classes_declared) == ("regression", (0, 90), True)
    assert (np.abs(table.y) <= 1).all()
    assert table.findings == ("column 'age': 1 of 20 rows lie outside [0, 90]; they count as its nearer end",)


def test_a_columns_file_says_what_its_content_says(tmp_path):
    path = saved(frame(), tmp_path / "own.csv")
    columns = tmp_path / "columns.toml"
    columns.write_text('target = "label"\nclasses = ["yes", "no"]\n[columns]\nage = [0, 100]\n')
    table = load_file(path, owner="clinic", columns=columns)
    said = {"target": "label", "classes": ["yes", "no"], "columns": {"age": [0, 100]}}
    same = load_file(path, "label", "clinic", columns=said)
    assert np.array_equal(table.x, same.x)
    assert np.array_equal(table.y, same.y)
    assert (table.classes, table.classes_declared) == (("yes", "no"), True)
    assert (table.columns, table.unused) == (("age",), ("score",))


def test_categories_are_encoded_by_the_declared_list(tmp_path):
    path = saved(frame().assign(ward=["B", "A", "C", "b "] * 5), tmp_path / "own.csv")
    said = {"columns": {"score": [-1, 1], "ward": ["A", "B"]}}
    table = load_file(path, "label", "clinic", columns=said)
    assert table.columns == ("score", "ward=A", "ward=B")
    assert set(map(tuple, table.x[:, 1:].tolist())) == {(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)}
    assert table.findings == (
        "column 'ward': 10 of 20 rows hold none of the listed values (5 of them because of spaces or capitals alone);"
        " they count as none of them",
    )


def test_declared_classes_do_not_depend_on_any_record(tmp_path):
    # Neighbours: the only record of a third class, and the same record with another label.
    labels = ["yes", "no"] * (ROWS // 2 - 1) + ["yes", "maybe"]
    rows = frame().drop(columns=["age", "clinic"])
    one = saved(rows.assign(label=labels), tmp_path / "one.csv")
    other = saved(rows.assign(label=[*labels[:-1], "no"]), tmp_path / "other.csv")
    read_off = [load_file(path, "label") for path in (one, other)]
    assert [table.classes for table in read_off] == [("maybe", "no", "yes"), ("no", "yes")]
    assert not any(table.classes_declared for table in read_off)
    said = {"classes": ["yes", "no", "maybe"]}
    tables = [load_file(path, "label", columns=said) for path in (one, other)]
    assert all(table.task == "multiclass" and table.classes_declared for table in tables)
    assert tables[0].classes == tables[1].classes == ("yes", "no", "maybe")


def test_owners_and_classes_are_in_natural_order(tmp_path):
    rows = frame().assign(clinic=["10", "2", "ward 1", "1"] * 5, label=["grade 10", "grade 9"] * 10)
    table = load_file(saved(rows, tmp_path / "own.csv"), "label", "clinic", columns=AGES)
    assert table.owner_names == ("1", "2", "10", "ward 1")
    assert table.classes == ("grade 9", "grade 10")


def test_classes_that_are_numbers_are_ordered_by_size(tmp_path):
    rows = frame().assign(label=["10", "-1", "2.0", "2"] * 5)
    table = load_file(saved(rows, tmp_path / "own.csv"), "label", "clinic", columns=AGES)
    assert table.classes == ("-1", "2", "10")


def test_owners_are_called_as_the_file_writes_them(tmp_path):
    rows = frame().assign(clinic=["007", "01"] * 10)
    path = saved(rows, tmp_path / "own.csv")
    assert load_file(path, "label", "clinic", columns=AGES).owner_names == ("01", "007")


def with_value(column, row, value):
    data = frame().astype({column: object})
    data.loc[row, column] = value
    return data


@pytest.mark.parametrize(
    ("data", "ask", "part"),
    [
        (frame(), {"target": "nope"}, "target='nope': no such column in own.csv. Columns: age, score, label"),
        (frame(), {"owner": "nope"}, "owner='nope': no such column"),
        (frame(), {"columns": None}, "feature 'age': row 2 is outside [-1, 1]"),
        (frame(), {"columns": {"columns": {"age": (5, 5)}}}, "column 'age'=[5, 5]"),
        (frame(), {"columns": {"columns": {"age": (0, float("nan"))}}}, "column 'age'"),
        (
            frame(),
            {"columns": {"columns": {"Age": (0, 1)}}},
            "columns='Age': no such column in own.csv. Did you mean 'age'?",
        ),
        (
            frame(),
            {"columns": {"columns": {"sex": (0, 1)}}},
            "columns='sex': no such column in own.csv. Columns: age",
        ),
        (
            frame(),
            {"columns": {"columns": {"age": (200, 300)}}},
            "column 'age': all 20 rows lie outside [200, 300]",
        ),
        (
            frame(),
            {"columns": {"columns": {"clinic": ["east"]}}, "owner": None},
            "'clinic': all 20 rows hold none",
        ),
        (frame(), {"columns": {"target": "age"}}, "target='label': the columns file says 'age'"),
        (frame(), {"columns": {"columns": {"clinic": ["north"]}}}, "owner='clinic': is also"),
        (
            frame(),
            {"columns": AGES | {"classes": ["a", "b"]}},
            "row 1 is none of the declared classes (in all 20 of 20 rows)",
        ),
        (frame(), {"target": None}, "target=None"),
        (
            frame()[["clinic", "label"]],
            {"owner": None, "columns": None},
            "name the column that says whose a row is (--owner-column)",
        ),
        (
            frame().assign(clinic=["p", "p ", "P", "q"] * 5),
            {},
            "owner='clinic': 'P' (5 rows), 'p' (5 rows), 'p ' (5 rows) differ only in",
        ),
        (
            frame().assign(clinic=["1", "01"] * 10),
            {},
            "owner='clinic': '01' (10 rows), '1' (10 rows) differ only in",
        ),
        (
            frame().assign(label=["Yes", " yes", "no", "no"] * 5),
            {},
            "target='label': ' yes' (5 rows), 'Yes' (5 rows) differ only in",
        ),
        (with_value("score", 3, None), {}, "column 'score': row 4 is empty"),
        (with_value("score", 3, "inf"), {}, "column 'score': row 4 is not a finite number"),
        (with_value("label", 1, None), {}, "target='label': row 2 is empty"),
        (with_value("clinic", 1, None), {}, "owner='clinic': row 2 is empty"),
        (frame().assign(label="yes"), {}, "has one class"),
        (frame().assign(label=np.linspace(0, 1, ROWS)), {}, "a quantity needs a public range"),
        (frame()[:3], {}, "3 rows"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, data, ask, part):
    path = saved(data, tmp_path / "own.csv")
    asked = {"target": "label", "owner": "clinic", "columns": AGES} | ask
    with pytest.raises(InputError) as caught:
        load_file(path, **asked)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("own.xlsx", b"", "unknown format"),
        ("absent.csv", None, "no such file"),
        ("own.csv", b"", "cannot be read as csv"),
        ("own.parquet", b"junk", "cannot be read as parquet"),
        ("own.npz", b"junk", "cannot be read as npz"),
    ],
)
def test_unreadable_files_are_one_line(tmp_path, name, content, part):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_file(tmp_path / name, "label")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "row", "part"),
    [
        ("a,b,a,y", "0,0,0,0", "column 'a' stands 2 times in the header"),
        ("a,b,b ,y", "0,0,0,0", "column 'b' stands 2 times in the header"),
        (",,y", "0,0,0", "2 columns have no name in the header"),
        ("a,y", "0,0,0", "row 1 has 3 cells, and the header 2 names"),
        (
            ",".join(f"c{at}" for at in range(MOST_COLUMNS)) + ",y",
            "0",
            "has 20,001 columns, must be at most 20,000",
        ),
        ("a" * 30 + "," + "b" * (MOST_HEADER - 30), "0", "its header is longer than 2,000,000 characters"),
        (
            '"a,y\n' + "0,0\n" * (MOST_HEADER // 4),
            "0",
            "its header is longer than 2,000,000 characters. Leave columns out, give them shorter names",
        ),
    ],
    ids=["twice", "but for a space", "no names", "more cells", "columns", "characters", "a quote left open"],
)
def test_headers_that_cannot_be_meant_are_one_line(tmp_path, header, row, part):
    path = tmp_path / "own.csv"
    path.write_text(header + "\n" + f"{row}\n" * 20)
    with pytest.raises(InputError) as caught:
        load_file(path, "y")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_of_arrays_and_parquet_are_bounded_and_have_one_name_each(tmp_path):
    np.savez(tmp_path / "wide.npz", x=np.zeros((5, MOST_COLUMNS)), y=np.arange(5))
    with pytest.raises(InputError, match="more than 20,000 columns"):
        load_file(tmp_path / "wide.npz", "y")
    np.savez(tmp_path / "twice.npz", x=np.zeros((5, 2)), x0=np.ones(5), y=np.arange(5))
    with pytest.raises(InputError, match="'x0' stands 2 times"):
        load_file(tmp_path / "twice.npz", "y")
    parquet.write_table(pa.table([[0.0] * 5] * 2, names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="'a' stands 2 times"):
        load_file(tmp_path / "twice.parquet", "a")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[", "is not TOML"),
        ("age = [0, 100]", "below [columns]"),
        ("[columns]\nage = 3", "must be [low, high]"),
        (f"[columns]\nage = [0, 1{'0' * 400}]", "must be two finite numbers"),
    ],
)
def test_bad_columns_files_are_one_line(tmp_path, text, part):
    path = saved(frame(), tmp_path / "own.csv")
    (tmp_path / "columns.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_file(path, "label", "clinic", columns=tmp_path / "columns.toml")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_openml_uses_the_cache_folder_and_the_declared_categories(tmp_path):
    asked = {}

    def fetch(**arguments):
        asked.update(arguments)
        colours = pd.Categorical(["red", "blue"] * 10, categories=["red", "blue", "green"])
        data = pd.DataFrame({"size": np.linspace(0, 1, ROWS), "colour": colours})
        return SimpleNamespace(data=data, target=pd.Series(["a", "b"] * 10, name="class"))

    table = load_openml("openml:toy", cache=tmp_path, fetch=fetch)
    assert asked["name"] == "toy"
    assert asked["data_home"] == str(tmp_path / "openml")
    assert table.columns == ("size", "colour_red", "colour_blue", "colour_green")
    assert not table.x[:, 3].any()
    assert not table.classes_declared
    load_openml("openml:61", cache=tmp_path, fetch=fetch)
    assert asked["data_id"] == 61
    listed = {"classes": ["b", "a"], "columns": {"size": [0, 2]}}
    table = load_openml("openml:toy", columns=listed, cache=tmp_path, fetch=fetch)
    assert (table.columns[:2], table.classes) == (("size", "colour_red"), ("b", "a"))
    listed = {"columns": {"colour": ["blue", "green"]}}
    table = load_openml("openml:toy", columns=listed, cache=tmp_path, fetch=fetch)
    assert (table.columns, table.unused) == (("colour=blue", "colour=green"), ("size",))


def test_openml_classes_come_from_the_header_where_it_has_them(tmp_path):
    def fetch(**_):
        data = pd.DataFrame({"size": np.linspace(0, 1, ROWS)})
        grades = pd.Categorical(["low", "high"] * 10, categories=["low", "middle", "high"])
        return SimpleNamespace(data=data, target=pd.Series(grades, name="class"))

    table = load_openml("openml:toy", cache=tmp_path, fetch=fetch)
    assert (table.classes, table.classes_declared) == (("low", "middle", "high"), True)


def test_openml_without_a_network_is_one_line(tmp_path):
    def fetch(**_):
        raise urllib.error.URLError("no route to host")

    with pytest.raises(InputError, match="cannot be downloaded") as caught:
        load_openml("openml:adult", cache=tmp_path, fetch=fetch)
    assert "\n" not in str(caught.value)
