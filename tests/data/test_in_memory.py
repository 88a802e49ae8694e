"""Rows in memory take the path of a file's rows: the same table, warnings and refusals, whatever library holds them."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import coterie
from coterie.errors import InputError
from coterie.experiments import output
from coterie.experiments.experiment import Experiment, from_toml
from coterie.experiments.prepare import prepare
from coterie.problems.datasets import Source, load_file
from coterie.problems.datasets.frames import MOST_COLUMNS
from coterie.problems.datasets.memory import Records

ROWS = 40
SAID = {
    "target": "outcome",
    "classes": ["no", "yes"],
    "columns": {
        "age": {"range": [0, 100], "missing": "marked"},
        "ward": ["surgery", "medicine"],
        "smoker": {"true": ["True"], "false": ["False"]},
        "admitted": {"date": "2020-01-01", "range": ["2020-01-01", "2020-12-31"]},
    },
}


def visits():
    rng = np.random.default_rng(5)
    age = rng.integers(0, 110, ROWS).astype(float)
    age[3] = np.nan
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(day)) for day in rng.integers(0, 360, ROWS)]
    return pd.DataFrame(
        {
            "age": age,
            "ward": rng.choice(["surgery", "medicine", "other"], ROWS),
            "smoker": rng.random(ROWS) < 0.4,
            "admitted": [str(day) for day in days],
            "outcome": rng.choice(["no", "yes"], ROWS),
            "hospital": rng.choice(["north", "south"], ROWS),
        }
    )


class PolarsLike:
    """As polars' frames are, without pandas' ways: names, and a way to pandas."""

    def __init__(self, frame):
        self._frame = frame
        self.columns = list(frame.columns)

    def to_pandas(self):
        return self._frame.copy()

    def __getitem__(self, name):
        return PolarsSeries(self._frame[name])

    def __len__(self):
        return len(self._frame)


class PolarsSeries:
    def __init__(self, values):
        self._values, self.name = values, values.name

    def to_numpy(self):
        return self._values.to_numpy()


class ClassLabel:
    def __init__(self, names):
        self.names = names


class HuggingFaceLike:
    """A table of Arrow with `features`, whose labels are positions in a list of names."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame.assign(outcome=(frame["outcome"] == "yes").astype(int)))
        self.features = dict.fromkeys(frame.columns) | {"outcome": ClassLabel(["no", "yes"])}
        self.column_names = list(frame.columns)

    def to_pandas(self):
        return self._table.to_pandas()

    def __getitem__(self, row):
        return {name: self._table[name][row].as_py() for name in self.column_names}

    def __len__(self):
        return len(self._table)


class Tensor:
    """As PyTorch's: an array by `__array__`."""

    def __init__(self, values):
        self._values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self._values.astype(dtype) if dtype else self._values

    @property
    def shape(self):
        return self._values.shape


class TorchLike:
    """A map-style data set: pairs of tensors."""

    def __init__(self, x, y):
        self._x, self._y = x, y

    def __getitem__(self, at):
        if at >= len(self._y):
            raise IndexError(at)
        return Tensor(self._x[at]), Tensor(self._y[at])

    def __len__(self):
        return len(self._y)


def same(table, other):
    for name in ("x", "y", "x_test", "y_test", "owner", "bounds"):
        np.testing.assert_array_equal(getattr(table, name), getattr(other, name), err_msg=name)
    for name in ("task", "columns", "classes", "target", "fields", "owner_names", "findings", "unused"):
        assert getattr(table, name) == getattr(other, name), name
    for name in ("classes_declared", "columns_declared", "test_is_public", "target_bounds"):
        assert getattr(table, name) == getattr(other, name), name
    return True


@pytest.mark.parametrize(
    "held",
    [
        lambda frame: frame,
        lambda frame: frame.set_index("age", drop=False),
        lambda frame: frame.assign(ward=frame["ward"].astype("category")),
        lambda frame: frame.assign(admitted=pd.to_datetime(frame["admitted"])),
        lambda frame: frame.convert_dtypes(),
        PolarsLike,
        HuggingFaceLike,
        lambda frame: pa.Table.from_pandas(frame),
        lambda frame: {name: frame[name].to_numpy() for name in frame},
        lambda frame: (frame.drop(columns="outcome"), frame["outcome"]),
        lambda frame: (frame.drop(columns="outcome"), frame["outcome"].tolist()),
        lambda frame: (PolarsLike(frame.drop(columns="outcome")), PolarsLike(frame)["outcome"]),
    ],
)
def test_a_frame_is_read_as_its_file_is(tmp_path, held):
    frame = visits()
    frame.to_csv(tmp_path / "visits.csv", index=False)
    file = load_file(tmp_path / "visits.csv", owner="hospital", columns=SAID)
    table = Source(Records(held(frame)), None, "hospital", SAID).table()
    assert same(table, file)
    assert table.findings  # such as the ward that is not listed
    other = frame.drop(columns="hospital"), frame["hospital"]
    assert same(Source(Records(*other), None, None, SAID).table(), file)


def matrix():
    rng = np.random.default_rng(1)
    x = np.round(rng.uniform(-1, 1, (ROWS, 3)), 2) * (rng.random((ROWS, 3)) < 0.5)
    return x, rng.integers(0, 3, ROWS)


@pytest.mark.parametrize(
    "held",
    [
        lambda x, y: (x, y),
        lambda x, y: (x, y[:, None]),
        lambda x, y: (x.tolist(), y.tolist()),
        lambda x, y: (sparse.csr_matrix(x), y),
        lambda x, y: (sparse.coo_array(x), y.astype(float)),
        lambda x, y: (Tensor(x), Tensor(y)),
        TorchLike,
        lambda x, y: TorchLike(x, y[:, None]),
    ],
)
def test_a_matrix_is_read_as_its_file_is(tmp_path, held):
    x, y = matrix()
    np.savez(tmp_path / "own.npz", x=x, target=y, owner=["a", "b"] * (ROWS // 2))
    file = load_file(tmp_path / "own.npz", "target", "owner")
    data = Records(held(x, y), ["a", "b"] * (ROWS // 2))
    table = Source(data).table()
    assert same(table, file)
    assert (table.columns, table.classes, table.classes_declared) == (
        ("x0", "x1", "x2"),
        ("0", "1", "2"),
        False,
    )


def test_images_are_a_column_of_arrays():
    images = np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4)
    for data in ((images, [0, 1] * 3), TorchLike(images, [0, 1] * 3)):
        cells = Records(data).frame["x"]
        assert [cell.shape for cell in cells] == [(4, 4)] * 6
        assert np.array_equal(np.stack(cells.to_list()), images)


def test_rows_are_numbered_and_not_matched_by_an_index():
    x, y = matrix()
    shuffled = pd.Series(y, index=np.arange(ROWS)[::-1], name="grade")
    frame = pd.DataFrame(x, columns=["a", "b", "c"], index=np.arange(ROWS) + 7)
    records = Records((frame, shuffled), pd.Series(["u", "v"] * (ROWS // 2), index=np.arange(ROWS)[::-1]))
    assert records.frame["grade"].tolist() == y.tolist()
    assert records.frame["owner"].tolist() == ["u", "v"] * (ROWS // 2)


def test_neighbours_differ_in_no_public_part():
    """Two data sets that differ in one record: the same columns, bounds, classes and owners, and equal other rows."""
    one = visits()
    other = one.copy().astype({"age": object, "smoker": object})
    other.loc[7, ["age", "ward", "smoker", "outcome"]] = ["", "elsewhere", "perhaps", "yes"]
    other.loc[7, "age"] = None
    first, second = (Source(Records(frame), None, "hospital", SAID).table() for frame in (one, other))
    for name in ("columns", "classes", "fields", "owner_names", "classes_declared"):
        assert getattr(first, name) == getattr(second, name), name
    assert np.array_equal(first.bounds, second.bounds)
    rows = [np.concatenate([table.x, table.x_test]) for table in (first, second)]
    assert (rows[0] != rows[1]).any(axis=1).sum() == 1


def test_what_is_read_off_rows_is_said():
    x, y = matrix()
    result = coterie.run(Experiment(data=(x, y), owners=["a", "b"] * (ROWS // 2), settings={"rounds": 2}))
    privacy = result.to_json(None)["privacy"]
    assert any("list of classes was read off the records" in line for line in privacy["warnings"])
    assert result.to_json(None)["data"] == "in memory"
    assert result.prepared.partition.names == ("a", "b")


def test_an_experiment_in_memory_runs_as_that_of_a_file(tmp_path):
    frame = visits()
    frame.to_csv(tmp_path / "visits.csv", index=False)
    more = {"owner_column": "hospital", "settings": {"rounds": 3}, "epsilon": 5}
    file = coterie.run(Experiment(data=str(tmp_path / "visits.csv"), columns=SAID, **more))
    held = coterie.run(Experiment(data=frame, columns=SAID, **more))
    np.testing.assert_array_equal(held.params, file.params)
    known = frame[(frame["ward"] != "other") & ~(frame["age"] > 100)]
    for rows in (known, PolarsLike(known), HuggingFaceLike(known)):
        assert held.model.predict(rows).tolist() == file.model.predict(known).tolist()
    assert not held.model.description.privacy["warnings"]
    output.write(held, tmp_path / "out")
    again = from_toml((tmp_path / "out/experiment.toml").read_text())
    assert again.columns == SAID
    with pytest.raises(
        InputError, match=r"data='in memory': these rows were given in Python.*Give them again"
    ):
        prepare(again)


def test_a_number_of_owners_divides_rows_or_keeps_the_largest():
    x, y = matrix()
    assert len(prepare(Experiment(data=(x, y), owners=4)).partition.names) == 4
    names = ["a"] * 20 + ["b"] * 12 + ["c"] * 8
    both = Experiment(data=Records((x, y), names), owners=2)
    assert prepare(both).partition.names == ("a", "b")


def test_the_experiment_shows_no_record():
    x, y = matrix()
    experiment = Experiment(data=(x + 0.123456, y))
    assert "123456" not in repr(experiment)
    assert "123456" not in experiment.to_toml()
    assert experiment == Experiment(data=experiment.data)
    assert experiment != Experiment(data=(x + 0.123456, y))  # which are other rows, as far as anybody knows


X, Y = matrix()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": X}, r"target=None: name the column that is to be learnt, or give data=\(X, y\)"),
        ({"data": 3}, r"data: a int holds no rows with columns\. Give a frame"),
        ({"data": X[0]}, r"data: a ndarray of shape \(3,\) holds no rows"),
        ({"data": (X, Y, Y)}, r"data: a tuple of 3; must be \(X, y\)"),
        ({"data": (X, Y[:-1])}, r"y: has shape \(39,\) for 40 rows"),
        ({"data": (X, Y), "owners": ["a"]}, r"owners: has shape \(1,\) for 40 rows"),
        ({"data": (X, Y), "owners": "clinic"}, r"owners: has shape \(\) for 40 rows"),
        (
            {"data": (X, Y), "owners": ["a"] * ROWS, "owner_column": "x0"},
            "owner_column='x0': owners are given",
        ),
        ({"data": (X, Y), "owners": ["a"] * 39 + [None]}, "row 40 is empty. Give every row an owner"),
        ({"data": (X, Y), "target": "x1"}, "target='x1': is a column of X, and y is given"),
        ({"data": (pd.DataFrame({"target": Y}), Y)}, "y: is named 'target', as a column of X is"),
        ({"data": (X * 9, Y)}, r"feature 'x0': row \d+ is outside \[-1, 1\].*Give its public range"),
        ({"data": (X, Y + 0.5)}, "target='target': a quantity needs a public range"),
        ({"data": (X[:4], Y[:4])}, "in memory: 4 rows and 3 features; needs at least 5 rows"),
        ({"data": {"a": [1, 2], "b": [1]}, "target": "a"}, "data: columns do not make a table"),
        ({"data": pd.DataFrame([[0, 1]], columns=["a", "a"])}, "column 'a' stands 2 times"),
        ({"data": (pd.DataFrame({"a": [10**400] * ROWS}), Y)}, "column 'a': row 1 is not a finite number"),
        ({"data": (pd.DataFrame({"a": [0.5, [1]] * 20}), Y)}, "column 'a': row 2 is not a finite number"),
        (
            {
                "data": (pd.DataFrame({"a": ["p", ["q"]] * 20}), Y),
                "owners": 2,
                "columns": {"columns": {"a": ["p", "q"]}},
            },
            "column 'a': row 2 is no single value",
        ),
        ({"data": TorchLike([], [])}, "data: has no rows"),
        ({"data": TorchLike([[1, 2], [1]], [0, 1])}, "data: row 2 has another shape"),
        ({"data": "census", "owners": ["a"] * 9}, r"owners=\['a', .*: must be a whole number"),
        (
            {"data": (sparse.csr_matrix((9, MOST_COLUMNS + 1)), range(9))},
            "has 20,001 columns, must be at most",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(given, message):
    with pytest.raises(InputError, match=message) as caught:
        prepare(Experiment(**given))
    assert "\n" not in str(caught.value)


def test_a_comparison_takes_rows_in_memory_and_goes_on_in_no_folder_of_others(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    columns = {"classes": ["no", "yes"], "columns": {"x0": [-1, 1], "x1": [-1, 1]}}
    shared = Experiment(
        data=(x, np.where(x[:, 0] > 0, "yes", "no")), owners=np.arange(60) % 2, columns=columns
    )
    asked = coterie.Comparison(
        protocols=("dual_averaging",),
        epsilon=(50.0,),
        seeds=1,
        settings={"dual_averaging": {"rounds": 2}},
        shared=shared,
    )
    found = coterie.compare(asked, out=tmp_path / "there").found
    assert found["data"] == "in memory"
    assert len(found["cells"]) == 1
    with pytest.raises(InputError, match="nobody can tell whether it is of these rows"):
        coterie.compare(asked, out=tmp_path / "there")
