"""`coterie run`, `show`, `predict` as a user calls them, on a file as a user has it."""

from __future__ import annotations

import csv
import io
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from model_world import columns, coterie, made, write_csv

from coterie.model import load
from coterie.reports.statement import CLASSES_READ

HOSPITALS = ("Northgate", "Riverside")
COLUMNS = "[columns]\nage = [0, 120]\nstay = [0, 60]\n"
STAYS = "range = [0, 60]\n[columns]\nage = [0, 120]\n"
RUN = ("--target", "readmitted", "--owner-column", "hospital", "--set", "batch=10", "--protocol", "wor_sgd")


def visits(rows: int = 120) -> pd.DataFrame:
    """Two hospitals; who is old and stayed long comes back."""
    rng = np.random.default_rng(2)
    age, stay = rng.integers(0, 121, rows), rng.integers(0, 61, rows)
    back = np.where(age / 120 + stay / 60 + rng.normal(0, 0.2, rows) > 1, "yes", "no")
    return pd.DataFrame(
        {"hospital": np.resize(HOSPITALS, rows), "age": age, "stay": stay, "readmitted": back}
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run by the command on such a file: its folder, and the file's rows."""
    folder = tmp_path_factory.mktemp("visits")
    frame = visits()
    frame.to_csv(folder / "visits.csv", index=False)
    (folder / "columns.toml").write_text(COLUMNS)
    files = ("--data", folder / "visits.csv", "--columns", folder / "columns.toml", "--out", folder / "run")
    done = coterie("run", *files, *RUN, "--epsilon", "4", "--delta", "1e-3", "--json")
    assert done.status == 0, done.stderr
    return folder, frame, done


@pytest.fixture
def saved(tmp_path):
    """The file of a made-up model with every kind of column."""
    return made().model.save(tmp_path / "model.safetensors")


def predicted(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_run_leaves_a_model_that_scores_as_the_run_said(ran):
    """In a protocol with one model, what the run measured on its held-out rows is what the file does on raw ones."""
    import json

    from coterie.problems.datasets._table import random_test_rows

    folder, frame, done = ran
    model = load(folder / "run")
    held_out = frame[random_test_rows(len(frame))]
    joint = json.loads(done.stdout)["metric"]["joint"]
    assert model.score(held_out, held_out["readmitted"]) == pytest.approx(joint)
    assert model.description.names == ("age", "stay")
    assert model.classes == ("no", "yes")
    assert model.description.metrics == {}  # its held-out rows are the hospitals' own


def test_predictions_of_a_run_for_new_rows(ran, tmp_path):
    folder, frame, _ = ran
    new = frame.drop(columns=["readmitted", "hospital"])
    done = coterie(
        "predict", folder / "run", write_csv(tmp_path / "new.csv", new), "--out", tmp_path / "out.csv"
    )
    assert (done.status, done.stdout) == (0, f"written: {tmp_path / 'out.csv'}\n")
    assert done.stderr == "your file: CSV with commas between cells, decimal point, UTF-8\n"
    rows = predicted((tmp_path / "out.csv").read_text())
    assert list(rows[0]) == ["row", "prediction", "probability no", "probability yes"]
    assert [row["prediction"] for row in rows] == load(folder / "run").predict(frame).tolist()
    assert [int(row["row"]) for row in rows] == list(range(1, len(frame) + 1))


def test_show_says_what_it_is_and_what_it_cost(ran):
    folder, _, _ = ran
    done = coterie("show", folder / "run")
    assert done.status == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    for words in ("'readmitted': 'no', 'yes', from 2 columns", "wor_sgd", "budget      ε = 4", "certified   ε ≤ ",
                  "δ = 0.001", "largest weights of 3", "age: for 'yes'", "(intercept): ",
                  "No score is given"):  # fmt: skip
        assert words in done.stdout
    assert re.search(r"sha256 [0-9a-f]{64}$", done.stdout.strip())


def test_what_a_model_cost_is_computed_again_from_its_file(ran):
    folder, _, _ = ran
    done = coterie("certify", "--from", folder / "run" / "model.safetensors")
    assert done.status == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        f"agrees: {name}" for name in HOSPITALS
    ]


def test_a_real_owner_s_folder_is_certified_by_the_model_in_it(ran, tmp_path):
    """Its result.json holds that owner's numbers and no certificates, which are in the model."""
    folder, _, _ = ran
    (tmp_path / "result.json").write_text('{"name": "north"}')
    assert "holds no certificates" in coterie("certify", "--from", tmp_path).stderr
    shutil.copy(folder / "run" / "model.safetensors", tmp_path)
    done = coterie("certify", "--from", tmp_path)
    assert done.status == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        f"agrees: {name}" for name in HOSPITALS
    ]


def test_show_as_json(saved):
    import json

    said = json.loads(coterie("show", saved, "--json").stdout)
    assert said["target"] == {"name": "readmitted", "classes": ["no", "yes"]}
    assert said["inputs"]["columns"][0] == {
        "kind": "scaled number", "name": "age", "low": 0, "high": 120, "log": False, "unit": "years",
    }  # fmt: skip
    assert len(said["sha256"]) == 64


def test_predictions_go_to_standard_output(saved, tmp_path):
    done = coterie("predict", saved, write_csv(tmp_path / "rows.csv", columns()))
    assert done.status == 0, done.stderr
    assert [row["prediction"] for row in predicted(done.stdout)] == made().model.predict(columns()).tolist()


def test_a_quantity_and_scores_without_probabilities(tmp_path):
    for more, lowest in (({"task": "regression"}, 3), ({"loss": "hinge"}, 0)):
        found = made(**more)
        path = found.model.save(tmp_path / "m.safetensors")
        rows = predicted(coterie("predict", path, write_csv(tmp_path / "rows.csv", columns())).stdout)
        assert list(rows[0]) == ["row", "prediction"]
        expected = found.model.predict(columns())
        if lowest:
            assert np.allclose([float(row["prediction"]) for row in rows], expected, rtol=1e-6)
        else:
            assert [row["prediction"] for row in rows] == expected.tolist()


def test_another_order_and_more_columns_change_nothing(saved, tmp_path):
    frame = pd.DataFrame(columns())
    mixed = frame[list(reversed(frame.columns))].assign(name="nobody", readmitted="no")
    one, other = (
        coterie("predict", saved, write_csv(tmp_path / f"{at}.csv", rows)).stdout
        for at, rows in enumerate((frame, mixed))
    )
    assert one == other


def test_values_out_of_range_are_counted_on_standard_error(saved, tmp_path):
    raw = columns() | {"age": np.full(40, 130)}
    done = coterie("predict", saved, write_csv(tmp_path / "rows.csv", raw))
    assert done.status == 0
    assert done.stderr.startswith("warning: column 'age': 40 of 40 values lie outside [0, 120]")
    assert len(predicted(done.stdout)) == 40


def spoilt(name: str, value: object) -> dict[str, object]:
    """Rows with one cell changed in the second."""
    column = columns()[name].tolist()
    column[1] = value
    return columns() | {name: column}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"age": [1.0]}, ("no column 'charges'", "'grade'", "The model needs")),
        (spoilt("ward", "cellar"), ("column 'ward'", "row 2", "none of its values", "'été'")),
        (spoilt("ward", ""), ("column 'ward'", "row 2", "empty")),
        (spoilt("age", None), ("column 'age'", "row 2", "empty")),
        (spoilt("age", "old"), ("column 'age'", "row 2", "not a finite number")),
        ({name: column[:0] for name, column in columns().items()}, ("rows: none given",)),
    ],
)
def test_rows_that_do_not_fit_are_one_line_and_write_nothing(saved, tmp_path, rows, words):
    done = coterie("predict", saved, write_csv(tmp_path / "rows.csv", rows), "--out", tmp_path / "out.csv")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in words)
    assert not (tmp_path / "out.csv").exists()


def test_files_that_are_none_are_one_line(saved, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.safetensors").write_bytes(saved.read_bytes()[:-1])
    rows = write_csv(tmp_path / "rows.csv", columns())
    for arguments, words in (
        (("predict", saved, tmp_path / "empty.csv"), "cannot be read as csv"),
        (("predict", saved, tmp_path / "nothing.csv"), "no such file"),
        (("predict", tmp_path / "broken.safetensors", rows), "is damaged"),
        (("predict", tmp_path / "nothing", rows), "Give a run's folder"),
        (("show", rows), "is damaged"),
        (("predict", saved, rows, "--out", tmp_path / "no folder" / "out.csv"), "cannot be written"),
        (("show", saved, "--card", tmp_path / "no folder" / "card.md"), "cannot be written"),
        (("certify", "--from", tmp_path / "broken.safetensors"), "is damaged"),
    ):
        done = coterie(*arguments)
        assert done.status == 2, arguments
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


def test_no_file_is_overwritten(saved, tmp_path):
    rows = write_csv(tmp_path / "rows.csv", columns())
    for arguments in (("predict", saved, rows, "--out", rows), ("show", saved, "--card", rows),
                      ("export", saved, "--onnx", saved)):  # fmt: skip
        before = saved.read_bytes(), rows.read_bytes()
        done = coterie(*arguments)
        assert done.status == 2
        assert "exists. Name a new file" in done.stderr
        assert (saved.read_bytes(), rows.read_bytes()) == before


def test_images_come_as_an_array(tmp_path):
    found = made("gradients:4,ball", "multiclass", image=(8, 8))
    path = found.model.save(tmp_path / "m.safetensors")
    np.savez(tmp_path / "images.npz", x=found.raw)
    done = coterie("predict", path, tmp_path / "images.npz")
    assert done.status == 0, done.stderr
    assert [row["prediction"] for row in predicted(done.stdout)] == found.model.predict(found.raw).tolist()
    np.savez(tmp_path / "other.npz", pictures=found.raw)
    np.save(tmp_path / "one.npy", found.raw)
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "wide.npz", x=np.zeros((3, 8, 9)))
    told = {
        "other.npz": "an array 'x' of (rows, 8, 8)",
        "one.npy": "unknown format",
        "broken.npz": "cannot be read as npz",
        "empty.npz": "cannot be read as npz",
        "absent.npz": "no such file",
        "wide.npz": "image 1 is 8 x 9, must be 8 x 8",
    }
    for name, said in told.items():
        done = coterie("predict", path, tmp_path / name)
        assert (done.status, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr


@pytest.mark.parametrize(("loss", "task"), [("softmax", "binary"), ("logistic", "regression")])
def test_a_loss_whose_scores_say_nothing_of_the_target_is_refused(tmp_path, loss, task):
    """Such a model could not name what it predicts."""
    frame = visits(20)
    frame.to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "columns.toml").write_text(COLUMNS if task == "binary" else STAYS)
    target = ("--target", "readmitted") if task == "binary" else ("--target", "stay")
    frame = frame if task == "binary" else frame.drop(columns="readmitted")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    given = (
        "--data",
        tmp_path / "visits.csv",
        "--columns",
        tmp_path / "columns.toml",
        "--owner-column",
        "hospital",
    )
    done = coterie("run", *given, *target, "--loss", loss, "--out", tmp_path / "run")
    assert done.status == 2
    assert f"loss='{loss}'" in done.stderr
    assert f"{task} target" in done.stderr


def test_a_model_warns_of_classes_that_nobody_declared(ran):
    folder, *_ = ran
    assert CLASSES_READ in load(folder / "run").description.privacy["warnings"]
