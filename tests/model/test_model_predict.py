"""Predictions: as training scored, in the target's own unit and class names, and clear about what does not fit."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from model_world import FIELDS, IMAGES, LOSSES, ROWS, TABLES, columns, ended, made, table

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.model import OutOfRange
from coterie.model.description import inputs_of
from coterie.model.predictor import from_bytes
from coterie.problems.datasets import census, load
from coterie.problems.fields import Category, Plain

PLAIN = made()


@pytest.mark.parametrize("kind", ["linear", "two_layer"])
@pytest.mark.parametrize("steps", TABLES)
def test_scores_are_those_of_training(steps, kind):
    found = made(steps, kind=kind)
    again = from_bytes(found.model.to_bytes(), "m")
    np.testing.assert_allclose(again.scores(found.raw), found.scored, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 8), (8, 12, 3)])
@pytest.mark.parametrize("steps", IMAGES)
def test_scores_of_images_are_those_of_training(steps, shape):
    found = made(steps, "multiclass", image=shape)
    again = from_bytes(found.model.to_bytes(), "m")
    np.testing.assert_allclose(again.scores(found.raw), found.scored, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("features", "kind"),
    [("ball", "linear"), ("scale,fourier:8", "linear"), ("piecewise:3,pca:5", "two_layer")],
)
def test_a_runs_model_scores_the_embedded_rows_as_the_run_does(features, kind):
    """From raw values of the census through the file, and through the run's own features and JAX."""
    chosen = Experiment(features=features, model=kind, hidden=4, public_rows="test", settings={"rounds": 2})
    drawn = np.random.default_rng(3)
    result = ended(chosen, None)
    like = result.prepared.task.params
    params = jax.tree.map(lambda leaf: drawn.normal(size=leaf.shape).astype(np.float32), like)
    result = replace(result, params=params)
    expected = np.asarray(result.prepared.task.problem.model.scores(params, result.prepared.x_test))
    stored = census.read()
    kept = stored["test"].astype(bool)
    raw = {field.name: stored[field.name][kept] for field in census.FIELDS}
    model = from_bytes(result.model.to_bytes(), "m")
    np.testing.assert_allclose(model.scores(raw), expected, rtol=1e-4, atol=1e-4)
    y = np.array(result.prepared.table.classes)[(result.prepared.y_test > 0).astype(int)]
    found = model.description.metrics
    assert (found["name"], found["value"]) == ("accuracy", pytest.approx(model.score(raw, y)))
    assert found["all"].keys() == set(result.prepared.judge.names)
    assert found["all"]["accuracy"]["joint"] == pytest.approx(found["value"])
    assert found["all"]["auc"]["constant"] == 0.5
    assert found["value"] == pytest.approx(result.prepared.judge(expected, result.prepared.y_test), abs=1e-3)


def test_the_embedded_rows_are_encoded_as_the_loader_does():
    """A made-up model over the census's own columns, from raw values."""
    from coterie.model.rows import encoded

    table, stored = load("census"), census.read()
    kept = stored["test"].astype(bool)
    raw = {field.name: stored[field.name][kept] for field in census.FIELDS}
    said = replace(PLAIN.model.description, fields=table.fields)
    x, notes = encoded(said, raw)
    assert np.array_equal(x, table.x_test)
    assert notes == []


def test_every_form_of_rows_gives_the_same():
    frame = pd.DataFrame(PLAIN.raw)
    expected = PLAIN.model.predict(PLAIN.raw)
    assert set(expected) == {"no", "yes"}
    mixed = frame[list(reversed(frame.columns))].assign(other="ignored", readmitted="yes")
    matrix = np.stack([np.asarray(PLAIN.raw[field.name], object) for field in FIELDS], axis=1)
    texts = {name: [str(value) for value in column] for name, column in PLAIN.raw.items()}
    duck = type("Duck", (), {"columns": list(texts), "__getitem__": lambda self, name: texts[name]})()
    for rows in (frame, mixed, matrix, texts, duck):
        assert np.array_equal(PLAIN.model.predict(rows), expected)


@pytest.mark.parametrize("grades", [[1, 2, 10], [1.0, 2.0, 10.0], ["1", "2", "10"], ["1.0", "02", " 10"]])
def test_a_category_that_is_a_number_may_be_written_as_one(grades):
    raw = {name: column[:3] for name, column in columns().items()}
    expected = PLAIN.model.scores(raw | {"grade": ["1", "2", "10"]})
    assert np.array_equal(PLAIN.model.scores(raw | {"grade": grades}), expected)


def test_codes_of_many_digits_are_not_rounded():
    fields = (*FIELDS[:-1], Category("grade", ("1234567", "1234568", "10")))
    model = replace(PLAIN.model, description=replace(PLAIN.model.description, fields=fields))
    raw = {name: column[:2] for name, column in columns().items()}
    one, other = (model.scores(raw | {"grade": [code, code]}) for code in (1234567, 1234568))
    assert not np.array_equal(one, other)


def test_columns_may_be_called_by_numbers():
    said = replace(
        PLAIN.model.description, fields=tuple(f._replace(name=str(at)) for at, f in enumerate(FIELDS))
    )
    numbered = pd.DataFrame(dict(enumerate(PLAIN.raw.values())))
    model = replace(PLAIN.model, description=said)
    assert np.array_equal(model.predict(numbered), PLAIN.model.predict(PLAIN.raw))


def test_a_table_that_was_never_encoded_has_numbers_within_its_bounds():
    given, _ = table()
    plain = inputs_of(replace(given, fields=(), classes=()))
    assert plain["fields"][0] == Plain("age", -1.0, 1.0)
    assert len(plain["fields"]) == given.x.shape[1]
    assert plain["classes"] == ("-1", "+1")


def test_binary_predictions():
    model, scores = PLAIN.model, PLAIN.scored[:, 0]
    assert np.array_equal(model.predict(PLAIN.raw) == "yes", scores > 0)
    assert np.allclose(model.decision_function(PLAIN.raw), scores, atol=1e-5)
    share = model.predict_proba(PLAIN.raw)
    assert np.allclose(share[:, 1], 1 / (1 + np.exp(-scores)), atol=1e-6)
    assert np.allclose(share.sum(axis=1), 1)
    assert model.score(PLAIN.raw, np.where(scores > 0, "yes", "no")) == 1.0
    assert model.score(PLAIN.raw, ["no"] * ROWS) == pytest.approx(np.mean(scores <= 0))


@pytest.mark.parametrize("loss", LOSSES["multiclass"])
def test_predictions_of_several_classes(loss):
    found = made(task="multiclass", loss=loss)
    names = np.array(("low", "middle", "high"))
    assert np.array_equal(found.model.predict(found.raw), names[found.scored.argmax(axis=1)])
    share = found.model.predict_proba(found.raw)
    assert share.shape == (ROWS, 3)
    assert np.allclose(share.sum(axis=1), 1)
    assert np.array_equal(share.argmax(axis=1), found.scored.argmax(axis=1))
    assert found.model.decision_function(found.raw).shape == (ROWS, 3)


def test_a_quantity_comes_in_its_own_unit():
    found = made(task="regression")
    predicted = found.model.predict(found.raw)
    assert np.allclose(
        predicted, 60 + 60 * found.scored[:, 0], rtol=1e-5
    )  # scores -1 and 1 are 0 and 120 days
    assert found.model.score(found.raw, predicted) == 1.0
    y = predicted + np.random.default_rng(0).normal(0, 9, ROWS)
    expected = 1 - np.sum((predicted - y) ** 2) / np.sum((y - y.mean()) ** 2)
    assert found.model.score(found.raw, y) == pytest.approx(expected)
    with pytest.raises(InputError, match="predict_proba: is for classes, and 'readmitted' is a quantity"):
        found.model.predict_proba(found.raw)
    with pytest.raises(InputError, match="decision_function: is for classes"):
        found.model.decision_function(found.raw)
    with pytest.raises(InputError, match="all values are equal"):
        found.model.score(found.raw, np.ones(ROWS))


def test_scores_that_are_no_probabilities_say_so():
    found = made(loss="hinge")
    with pytest.raises(
        InputError, match="loss='hinge': its scores are no probabilities. Use decision_function"
    ):
        found.model.predict_proba(found.raw)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("age", np.nan, ("column 'age'", "row 3", "empty")),
        ("age", None, ("column 'age'", "row 3", "empty")),
        ("age", "", ("column 'age'", "row 3", "empty")),
        ("age", "fifty", ("column 'age'", "row 3", "not a finite number")),
        ("age", np.inf, ("column 'age'", "row 3", "not a finite number")),
        ("age", 10**400, ("column 'age'", "row 3", "not a finite number")),
        ("stay", pd.NA, ("column 'stay'", "row 3", "empty")),
        ("ward", "cellar", ("column 'ward'", "row 3", "none of its values", "'intensive care'")),
        ("ward", None, ("column 'ward'", "row 3", "empty")),
        ("grade", 3.0, ("column 'grade'", "row 3", "'10'")),
    ],
)
def test_a_cell_that_does_not_fit_is_named_by_its_row(name, value, words):
    raw = columns()
    column = np.array(raw[name].tolist(), object)
    column[2] = value
    with pytest.raises(InputError) as caught:
        PLAIN.model.predict(raw | {name: column})
    assert all(word in str(caught.value) for word in words)
    assert "cellar" not in str(caught.value)  # rows are records: no message repeats them
    assert "fifty" not in str(caught.value)


def test_values_out_of_range_count_as_the_end_and_are_counted():
    raw = columns()
    beyond, ends = raw["age"].copy(), raw["age"].copy()
    beyond[:3], ends[:3] = (130, 121, -5), (120, 120, 0)
    stay = raw["stay"].copy()
    stay[0] = 60  # the last bin ends before it
    with pytest.warns(OutOfRange) as warned:
        found = PLAIN.model.scores(raw | {"age": beyond, "stay": stay})
    (message,) = (str(one.message) for one in warned)
    assert f"column 'age': 3 of {ROWS} values lie outside [0, 120]" in message
    assert f"column 'stay': 1 of {ROWS} values lie outside [0, 60]" in message
    stay[0] = 59
    assert np.array_equal(found, PLAIN.model.scores(raw | {"age": ends, "stay": stay}))


def test_values_at_the_ends_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PLAIN.model.predict(
            {name: column[:1] for name, column in (columns() | {"age": np.array([120])}).items()}
        )


def test_rows_of_the_wrong_shape_say_what_is_needed():
    raw = columns()
    del raw["ward"], raw["age"]
    with pytest.raises(InputError, match="no column 'age', 'ward'. The model needs 'age', 'charges'"):
        PLAIN.model.predict(raw)
    with pytest.raises(InputError, match=r"must be \(rows, 7\), in the order 'age', 'charges'"):
        PLAIN.model.predict(np.zeros((4, 6)))
    with pytest.raises(InputError, match="none given"):
        PLAIN.model.predict({name: column[:0] for name, column in columns().items()})
    with pytest.raises(InputError, match="differ in length"):
        PLAIN.model.predict(columns() | {"age": np.zeros(3)})
    with pytest.raises(InputError, match="column 'y': row 2 is none of the model's classes: 'no', 'yes'"):
        PLAIN.model.score(columns(), ["no", "perhaps", *["no"] * (ROWS - 2)])
    with pytest.raises(InputError, match="has 3 values for 40 rows"):
        PLAIN.model.score(columns(), ["no"] * 3)


def test_images_of_another_scale_or_shape_are_refused():
    found = made("gradients:4,ball", "multiclass", image=(8, 8))
    with pytest.raises(InputError, match="image 1 has a value outside .0, 1., or none. Scale bytes by 1/255"):
        found.model.predict(found.raw * 255)
    wrong = found.raw.copy()
    wrong[4, 2, 2] = np.nan
    with pytest.raises(InputError, match="image 5 has a value"):
        found.model.predict(wrong)
    with pytest.raises(InputError, match=r"must be an array of images, \(rows, 8, 8\)"):
        found.model.predict(found.raw[:, :4])


def test_a_model_that_diverged_predicts_nothing():
    lost = replace(PLAIN.model, params={"weights": PLAIN.model.params["weights"] * np.float32(np.nan)})
    with pytest.raises(InputError, match="its training diverged"):
        from_bytes(lost.to_bytes(), "m").predict(PLAIN.raw)


def test_predicting_needs_no_jax(tmp_path):
    path = PLAIN.model.save(tmp_path / "m.safetensors")
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "import coterie\n"
        "rows = {'age': [5], 'charges': [1], 'year': [2000], 'score': [0], 'stay': [2]}\n"
        "rows |= {'ward': ['été'], 'grade': [2]}\n"
        f"print(coterie.load({str(path)!r}).predict(rows)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("yes", "no"), done.stderr
