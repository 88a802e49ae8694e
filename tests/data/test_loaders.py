import gzip
import hashlib
import lzma
import struct

import numpy as np
import pandas as pd
import pytest

from coterie.errors import InputError
from coterie.problems.datasets import (
    DATASETS,
    File,
    check,
    encoded_names,
    hospitals,
    images,
    intrusion,
    load,
    loans,
    retail,
    tabular,
)
from coterie.problems.datasets._encode import Binned, Category, Numeric, encode
from coterie.problems.datasets._files import data_dir
from coterie.problems.datasets._table import random_test_rows
from coterie.problems.datasets.registry import read


def packed(folder, path, text):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())


def in_bounds(table):
    assert encoded_names(table.fields) == table.columns  # what a model needs to encode new rows the same way
    for x in (table.x, table.x_test):
        assert x.dtype == np.float32
        assert (x >= table.bounds[:, 0]).all()
        assert (x <= table.bounds[:, 1]).all()


def row_of(table, index):
    """A row as {column: value}; train and test rows together, for tables too small to care which is which."""
    return dict(zip(table.columns, np.concatenate([table.x, table.x_test])[index].tolist()))


def test_encoding_clips_and_zeroes_what_the_documentation_does_not_know():
    out = encode(
        {"a": np.array([-5, 50, 500]), "b": np.array(["x", "?", "y"]), "c": np.array([0, 10, 99])},
        (Numeric("a", 0, 100), Category("b", ("x", "y")), Binned("c", (0, 10, 20))),
    )
    assert out.x.tolist() == [[-1, 1, 0, 1, 0], [0, 0, 0, 0, 1], [1, 0, 1, 0, 1]]
    assert out.columns == ("a", "b=x", "b=y", "c 0 to 10", "c 10 to 20")
    assert out.bounds.tolist() == [[-1, 1], [0, 1], [0, 1], [0, 1], [0, 1]]


def test_the_split_is_fixed_and_a_fifth():
    assert random_test_rows(581_012).sum() == 116_203
    assert np.flatnonzero(random_test_rows(20)).tolist() == np.flatnonzero(random_test_rows(20)).tolist()
    assert random_test_rows(20).sum() == 4


def test_mnist(tmp_path):
    pixels = np.arange(2 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(2, 28, 28)
    for part in ("train", "t10k"):
        raw = struct.pack(">4B3I", 0, 0, 8, 3, 2, 28, 28) + pixels.tobytes()
        (tmp_path / "mnist").mkdir(exist_ok=True)
        (tmp_path / f"mnist/{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(raw))
        labels = struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes([7, 3])
        (tmp_path / f"mnist/{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    table = images.mnist(tmp_path)
    assert table.y.tolist() == [7, 3]
    np.testing.assert_allclose(table.x, pixels / 255, rtol=1e-6)
    assert table.x.dtype == np.float32


def test_a_broken_idx_file_is_one_line(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 9) + b"abc"))
    with pytest.raises(InputError, match="not an IDX file"):
        images.read_idx(path)


def test_cifar10(tmp_path):
    red, green, blue = (bytes([value] * 1024) for value in (255, 0, 51))
    (tmp_path / "cifar-10").mkdir()
    for name in [f"data_batch_{batch}" for batch in range(1, 6)] + ["test_batch"]:
        (tmp_path / f"cifar-10/{name}.bin.xz").write_bytes(lzma.compress(bytes([9]) + red + green + blue))
    table = images.cifar10(tmp_path)
    assert table.x.shape == (5, 32, 32, 3)
    np.testing.assert_allclose(table.x[0, 31, 0], [1.0, 0.0, 0.2], rtol=1e-6)
    assert table.classes[table.y[0]] == "truck"


def test_adult_drops_incomplete_rows_and_keeps_its_split(tmp_path):
    line = (
        "39, State-gov, 7, Bachelors, 13, Never-married, Adm-clerical, Own-child, White, Male, 2174, 0, 40, "
    )
    packed(tmp_path, "adult/adult.data.gz", f"{line}United-States, <=50K\n{line}?, >50K\n{line}Cuba, >50K\n")
    packed(tmp_path, "adult/adult.test.gz", f"|1x3 Cross validator\n{line}Cuba, >50K.\n{line}Cuba, <=50K.\n")
    table = read("adult", tmp_path)
    assert table.y.tolist() == [-1.0, 1.0]
    assert table.y_test.tolist() == [1.0, -1.0]
    assert row_of(table, 1)["native-country=Cuba"] == 1.0
    in_bounds(table)


def test_a9a(tmp_path):
    packed(tmp_path, "a9a/a9a.gz", "-1 3:1 11:1 \n+1 123:1 \n")
    packed(tmp_path, "a9a/a9a.t.gz", "+1 1:1 \n")
    table = read("a9a", tmp_path)
    assert table.x.shape == (2, 123)
    assert np.flatnonzero(table.x[0]).tolist() == [2, 10]
    assert (table.y.tolist(), table.y_test.tolist()) == ([-1.0, 1.0], [1.0])


def test_bank(tmp_path):
    head = [field.name for field in tabular.BANK]
    row = {
        field.name: field.values[0] if isinstance(field, Category) else field.high for field in tabular.BANK
    }
    lines = [";".join([*(str(row[name]) for name in head), answer]) for answer in ("yes", "no") * 5]
    packed(
        tmp_path, "bank-marketing/bank-additional-full.csv.gz", "\n".join([";".join([*head, "y"]), *lines])
    )
    table = read("bank", tmp_path)
    assert sorted(np.concatenate([table.y, table.y_test])) == [-1.0] * 5 + [1.0] * 5
    in_bounds(table)


def test_breast_cancer_drops_question_marks(tmp_path):
    lines = ["1000025,5,1,1,1,2,10,3,1,1,2", "1,5,1,1,1,2,?,3,1,1,4"] + ["2,1,1,1,1,1,1,1,1,1,4"] * 9
    packed(tmp_path, "breast-cancer-wisconsin/breast-cancer-wisconsin.data", "\n".join(lines))
    table = read("breast_cancer", tmp_path)
    assert len(table.y) + len(table.y_test) == 10
    assert (np.concatenate([table.y, table.y_test]) > 0).sum() == 9
    in_bounds(table)


def credit_frame():
    frame = pd.DataFrame({field.name: np.linspace(-3, 3, 10) for field in tabular.CREDIT})
    return frame.assign(Class=[0, 1] * 5)


def test_credit_card_in_both_formats(tmp_path):
    (tmp_path / "creditcard").mkdir()
    credit_frame().to_parquet(tmp_path / "creditcard/creditcard.parquet")
    credit_frame().to_csv(tmp_path / "creditcard/creditcard_balanced984.csv.gz", index=False)
    full, balanced = read("credit_card", tmp_path), read("credit_card_balanced", tmp_path)
    assert np.array_equal(full.y, balanced.y)
    np.testing.assert_allclose(full.x, balanced.x, rtol=1e-6)
    in_bounds(full)


def test_covtype_binary_and_seven_classes(tmp_path):
    rows = [
        [2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279] + [1] + [0] * 43 + [label] for label in range(1, 8)
    ]
    packed(tmp_path, "covtype/covtype.data.gz", "\n".join(",".join(map(str, row)) for row in rows))
    two, seven = read("covtype", tmp_path), read("covtype7", tmp_path)
    assert (np.concatenate([two.y, two.y_test]) > 0).sum() == 1
    assert sorted(np.concatenate([seven.y, seven.y_test])) == list(range(7))
    assert row_of(seven, 0)["wilderness 1"] == 1.0
    in_bounds(seven)


def test_epsilon_keeps_its_test_part(tmp_path):
    head = ",".join(["id", "y", *(f"x{at}" for at in range(1, 101))])
    lines = [",".join([str(number), str(number % 2), *["0.01"] * 100]) for number in (1, 2, 4001)]
    packed(tmp_path, "epsilon-subset/epsilon_5k.csv.gz", "\n".join([head, *lines]))
    table = read("epsilon", tmp_path)
    assert (table.x.shape, table.y.tolist(), table.y_test.tolist()) == ((2, 100), [1.0, -1.0], [1.0])


def test_kddcup99(tmp_path):
    def line(label, service):
        row = ["0"] * 41
        row[1:4] = ["tcp", service, "SF"]
        return ",".join([*row, label])

    lines = [line("normal.", "http")] * 5 + [line("smurf.", "unheard_of")] * 5
    packed(tmp_path, "kddcup99/kddcup.data_10_percent.gz", "\n".join(lines))
    table = read("kddcup99", tmp_path)
    assert len(intrusion.FIELDS) == 41
    services = [at for at, name in enumerate(table.columns) if name.startswith("service=")]
    assert len(services) == 70
    assert np.array_equal(table.x[:, services].sum(axis=1), (table.y < 0).astype(np.float32))
    in_bounds(table)


def filled(fields, rows=10):
    return pd.DataFrame(
        {
            field.name: [field.values[0] if isinstance(field, Category) else field.low] * rows
            for field in fields
        }
    )


def test_lending_club_drops_rows_without_a_rate(tmp_path):
    frame = filled(loans.CLUB).assign(int_rate_recovered=[np.nan, 18.0] * 5)
    (tmp_path / "lending-club").mkdir()
    frame.to_parquet(tmp_path / "lending-club/lending_club_full_train_set.parquet")
    table = read("lending_club", tmp_path)
    assert len(table.y) + len(table.y_test) == 5
    assert not table.y.any()  # 18 is the middle of 5 to 31
    assert table.target_bounds == (5.0, 31.0)
    in_bounds(table)


def test_lending_club_states_and_outlets_are_owners(tmp_path):
    frame = filled(loans.CLUB_STATES).assign(interest_rate=31.0, state=["NY", "AL"] * 5)
    (tmp_path / "lending-club").mkdir()
    frame.to_csv(tmp_path / "lending-club/loans_full_schema.csv.gz", index=False)
    table = read("lending_club_states", tmp_path)
    assert {table.owner_names[code] for code in table.owner} == {"NY", "AL"}
    assert (table.y == 1.0).all()

    shop = filled(retail.BIGMART).assign(
        Item_Outlet_Sales=0.0, Outlet_Identifier="OUT013", Item_Weight=np.nan, Item_Fat_Content="LF"
    )
    (tmp_path / "bigmart").mkdir()
    shop.to_csv(tmp_path / "bigmart/Train.csv.gz", index=False)
    table = read("bigmart", tmp_path)
    assert set(table.owner) == {retail.OUTLETS.index("OUT013")}
    assert row_of(table, 0)["Item_Weight"] == 0.0
    assert row_of(table, 0)["Item_Fat_Content=low fat"] == 1.0


def test_blackfriday_reads_missing_categories_as_none(tmp_path):
    frame = filled(retail.BLACKFRIDAY).assign(Purchase=12_500, Product_Category_3=np.nan)
    (tmp_path / "blackfriday").mkdir()
    frame.to_csv(tmp_path / "blackfriday/BlackFriday_first19280.csv.gz", index=False)
    table = read("blackfriday", tmp_path)
    assert not table.y.any()
    assert (table.x.sum(axis=1) == len(retail.BLACKFRIDAY) - 1).all()


def test_sba_loans(tmp_path):
    frame = pd.DataFrame({
        "Term": 84, "NoEmp": 4, "CreateJob": 0, "RetainedJob": 0, "GrAppv": 60_000.0, "SBA_Appv": 48_000.0,
        "NewExist": "2", "UrbanRural": "0", "RevLineCr": "N", "LowDoc": "Y", "FranchiseCode": 1,
        "NAICS": "451120", "ApprovalFY": "1976A",
        "MIS_Status": ["P I F", "CHGOFF", None, "P I F", "P I F"] * 2,
        "State": ["IN", "CA", "IN", None, "IN"] * 2,
    })  # fmt: skip
    (tmp_path / "sba-loans").mkdir()
    frame.to_parquet(tmp_path / "sba-loans/SBAnational.parquet")
    table = read("sba_loans", tmp_path)
    assert len(table.y) + len(table.y_test) == 6
    row = row_of(table, 0)
    assert (row["franchise=no"], row["sector=45"], row["LowDoc=Y"]) == (1.0, 1.0, 1.0)
    assert row["SBA share"] == pytest.approx(0.6)
    assert row["year"] == pytest.approx(2 * 14 / 52 - 1)


def test_sparcs_cells_become_every_29th_discharge(tmp_path):
    frame = pd.DataFrame({
        "Facility ID": [5, 1], "Number of Discharges": [290, 580], "Average Length of Stay": ["120 +", "60"],
        "Discharge Year": 2020, "APR Medical Surgical Description": "Medical", "Type of Insurance": "Other",
        "Patient Gender": "Male", "Discharged Dead or Alive": "Discharged Alive", "Patient Age Group": "75+",
    })  # fmt: skip
    (tmp_path / "sparcs").mkdir()
    frame.to_parquet(tmp_path / "sparcs/sparcs_discharges_by_facility_2009_2020.parquet")
    table = read("sparcs", tmp_path)
    y = np.concatenate([table.y, table.y_test])
    assert ((y == 0).sum(), (y == 1).sum()) == (20, 10)
    assert table.owner_names == ("facility 1", "facility 5")
    assert np.array_equal(table.owner, (table.y == 1).astype(int))


def test_sparcs_records(tmp_path):
    frame = filled(hospitals.RECORDS).assign(
        **{
            "Facility Id": ["1,456"] * 9 + [None],
            "Length of Stay": ["120 +"] * 10,
            "Total Charges": "1,214.8",
        }
    )
    (tmp_path / "sparcs").mkdir()
    frame.to_csv(tmp_path / "sparcs/sparcs_2016_records_1000.csv.gz", index=False)
    table = read("sparcs_records", tmp_path)
    assert len(table.y) + len(table.y_test) == 9
    assert (table.y == 1.0).all()
    assert table.owner_names == ("facility 1456",)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """breast_cancer with a tiny file whose checksum is the registered one."""
    path = "breast-cancer-wisconsin/breast-cancer-wisconsin.data"
    packed(tmp_path, path, "\n".join(["1,1,1,1,1,1,1,1,1,1,2"] * 10))
    digest = hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()
    entry = DATASETS["breast_cancer"]
    changed = {field: getattr(entry, field) for field in entry.__dataclass_fields__} | {
        "files": (File(path, digest),)
    }
    monkeypatch.setitem(DATASETS._own, "breast_cancer", type(entry)(**changed))
    return tmp_path


def test_load_verifies_checksums_and_notices_a_later_change(toy, monkeypatch):
    monkeypatch.setenv("COTERIE_DATA", str(toy))
    assert len(load("breast_cancer").y) == 8
    packed(toy, "breast-cancer-wisconsin/breast-cancer-wisconsin.data", "1,1,1,1,1,1,1,1,1,1,4\n" * 11)
    with pytest.raises(InputError, match="sha256 is"):
        load("breast_cancer")


@pytest.mark.parametrize(
    ("name", "folder", "part"),
    [
        ("nope", None, "data='nope': unknown"),
        ("adult", None, "Set COTERIE_DATA or --data-dir"),
        ("adult", "absent", "no such folder"),
        ("adult", ".", "adult.data.gz: missing"),
    ],
)
def test_missing_data_is_one_line(name, folder, part, tmp_path, monkeypatch):
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    with pytest.raises(InputError) as caught:
        load(name, folder and tmp_path / folder)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_relative_folder_outlives_a_change_of_the_working_folder(toy, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(toy.parent)
    monkeypatch.setenv("COTERIE_DATA", toy.name)
    folder = data_dir()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert len(load("breast_cancer", folder).y) == 8


def test_the_embedded_set_needs_no_folder(monkeypatch):
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    assert check("census") is None
