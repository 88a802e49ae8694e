import json
import urllib.error
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from coterie.errors import InputError
from coterie.problems.datasets import load_file, load_openml

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
    if path.suffix == ".csv":
        data.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        data.to_parquet(path)
    else:
        np.savez(path, **{name: data[name].to_numpy().astype(data[name].to_numpy().dtype) for name in data})
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_with_a_target_an_owner_and_ranges(tmp_path, suffix):
    path = saved(frame(), tmp_path / f"own{suffix}")
    table = load_file(path, "label", "clinic", bounds={"age": (0, 50)})
    assert (table.task, table.classes, table.owner_names) == ("binary", ("no", "yes"), ("north", "south"))
    assert (len(table.y), len(table.y_test), table.columns) == (16, 4, ("age", "score"))
    assert table.x[:, 0].max() == 1.0  # ages above 50 are clipped to the public range
    assert (np.abs(table.x) <= 1).all()


def test_npz_with_a_matrix_and_more_than_two_classes(tmp_path):
    x = np.linspace(-1, 1, 60).reshape(30, 2)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(30) % 3 + 9)
    table = load_file(tmp_path / "own.npz", "y")
    assert (table.task, table.classes, table.columns) == ("multiclass", ("9", "10", "11"), ("x0", "x1"))
    assert sorted(set(table.y.tolist())) == [0, 1, 2]


def test_a_range_makes_the_target_a_quantity(tmp_path):
    path = saved(frame().drop(columns=["label", "clinic"]), tmp_path / "own.csv")
    table = load_file(path, "age", bounds={"age": (0, 100)})
    assert (table.task, table.target_bounds) == ("regression", (0, 100))
    assert (np.abs(table.y) <= 1).all()


@pytest.mark.parametrize("name", ["ranges.toml", "ranges.json"])
def test_ranges_from_a_side_file(tmp_path, name):
    path = saved(frame(), tmp_path / "own.csv")
    (tmp_path / name).write_text("age = [0, 100]" if name.endswith("toml") else json.dumps({"age": [0, 100]}))
    table = load_file(path, "label", "clinic", bounds=tmp_path / name)
    same = load_file(path, "label", "clinic", bounds={"age": (0, 100)})
    assert np.array_equal(table.x, same.x)


def with_value(column, row, value):
    data = frame().astype({column: object})
    data.loc[row, column] = value
    return data


@pytest.mark.parametrize(
    ("data", "ask", "part"),
    [
        (frame(), {"target": "nope"}, "target='nope': no such column in own.csv. Columns: age, score, label"),
        (frame(), {"owner": "nope"}, "owner='nope': no such column"),
        (frame(), {"features": ("nope",)}, "features='nope'"),
        (frame(), {"bounds": None}, "feature 'age': row 2 is outside [-1, 1]"),
        (frame(), {"bounds": {"age": (5, 5)}}, "bounds['age']=[5, 5]"),
        (frame(), {"bounds": {"age": (0, float("nan"))}}, "bounds['age']"),
        (frame(), {"owner": None}, "column 'clinic': row 1 is not a finite number"),
        (with_value("score", 3, None), {}, "column 'score': row 4 is empty"),
        (with_value("score", 3, "inf"), {}, "column 'score': row 4 is not a finite number"),
        (with_value("label", 1, None), {}, "target='label': row 2 is empty"),
        (with_value("clinic", 1, None), {}, "owner='clinic': row 2 is empty"),
        (with_value("clinic", 1, "alone"), {}, "'alone' has fewer than 2 records"),
        (frame().assign(label="yes"), {}, "has one class"),
        (frame().assign(label=np.linspace(0, 1, ROWS)), {}, "a quantity needs a public range"),
        (frame()[:3], {}, "3 rows"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, data, ask, part):
    path = saved(data, tmp_path / "own.csv")
    asked = {"target": "label", "owner": "clinic", "bounds": {"age": (0, 100)}} | ask
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


@pytest.mark.parametrize("text", ["[", '["age"]', '{"age": 3}'])
def test_bad_side_files_are_one_line(tmp_path, text):
    path = saved(frame(), tmp_path / "own.csv")
    (tmp_path / "ranges.json").write_text(text)
    with pytest.raises(InputError, match="bounds="):
        load_file(path, "label", "clinic", bounds=tmp_path / "ranges.json")


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
    load_openml("openml:61", cache=tmp_path, fetch=fetch)
    assert asked["data_id"] == 61


def test_openml_without_a_network_is_one_line(tmp_path):
    def fetch(**_):
        raise urllib.error.URLError("no route to host")

    with pytest.raises(InputError, match="cannot be downloaded") as caught:
        load_openml("openml:adult", cache=tmp_path, fetch=fetch)
    assert "\n" not in str(caught.value)
