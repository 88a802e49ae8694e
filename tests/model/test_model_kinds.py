"""Models of columns that may be empty, of dates and of yes and no: saved, predicted with, exported, described."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from model_world import made

from coterie.errors import InputError
from coterie.model import TrainedModel, load
from coterie.model.onnx import to_onnx
from coterie.model.words import card
from coterie.problems.datasets import encode, encoded_names
from coterie.problems.fields import Category, Days, Field, Flag, Numeric, Parts

FIELDS: tuple[Field, ...] = (
    Numeric("weight", 40, 140, unit="kg", missing="marked"),
    Numeric("age", 0, 120, missing="middle"),
    Category("ward", ("surgery", "medicine"), missing="marked"),
    Flag("smoker", ("ja", "j"), ("nein",), missing="marked"),
    Flag("alone", ("1",), ("0",)),
    Days("admitted", "2020-01-01", -10.0, 10.0, "DD.MM.YYYY", missing="marked"),
)
PARTS = Parts("left", ("month", "weekday"), "YYYY-MM-DD", missing="none")
RAW = {
    "weight": ["90", None, 65.5],
    "age": [60, None, float("nan")],
    "ward": ["medicine", "", "surgery"],
    "smoker": ["j", "nein", None],
    "alone": [1, "0", 1.0],
    "admitted": ["06.01.2020", "", "1.1.2020"],
    "left": ["2026-07-06", "2026-12-01", None],
}


def model(*fields: Field) -> TrainedModel:
    """With drawn weights, of rows as they are encoded."""
    like = made("none").model
    weights = np.random.default_rng(3).normal(size=(len(encoded_names(fields)), 1)).astype(np.float32)
    said = replace(like.description, fields=fields)
    return replace(like, description=said, steps=(), params={"weights": weights})


def expected(*fields: Field) -> np.ndarray:
    """The rows of RAW, read by hand."""
    nothing, never = float("nan"), np.datetime64("NaT")
    values = {
        "weight": np.array([90, nothing, 65.5]),
        "age": np.array([60, nothing, nothing]),
        "ward": np.array(["medicine", None, "surgery"], object),
        "smoker": np.array([1, 0, nothing]),
        "alone": np.array([1.0, 0.0, 1.0]),
        "admitted": np.array([5, nothing, 0]),
        "left": np.array([np.datetime64("2026-07-06"), np.datetime64("2026-12-01"), never]),
    }
    return encode(values, fields).x


def test_new_rows_are_read_as_training_reads_them(tmp_path):
    trained = model(*FIELDS, PARTS)
    again = load(trained.save(tmp_path / "model.safetensors"))
    assert again.description.fields == (*FIELDS, PARTS)
    np.testing.assert_allclose(again.scores(RAW), trained.scores_of(expected(*FIELDS, PARTS)), atol=1e-6)
    shown = card(again, "digest")
    assert "a date from 2019-12-22 to 2020-01-11, written as DD.MM.YYYY" in shown
    assert "of which month and weekday count; may be empty (none)" in shown


@pytest.mark.parametrize(
    ("name", "cells", "words"),
    [
        ("admitted", ["06.01.2020", "2020-01-06", ""], "column 'admitted': row 2 is no date"),
        ("smoker", ["ja", "vielleicht", "j"], "column 'smoker': row 2 is none of its values"),
        ("alone", ["1", "", "0"], "column 'alone': row 2 is empty"),
        ("weight", ["1", "2", "x"], "column 'weight': row 3 is not a finite number"),
    ],
)
def test_what_is_not_declared_is_refused(name, cells, words):
    with pytest.raises(InputError, match=words) as caught:
        model(*FIELDS).predict(RAW | {name: cells})
    assert "vielleicht'" not in str(caught.value)


def test_onnx_predicts_the_same_and_says_what_it_cannot():
    trained = model(*FIELDS)
    session = onnxruntime.InferenceSession(to_onnx(trained, "digest"), providers=["CPUExecutionProvider"])
    feed = {
        "weight": np.array([90, np.nan, 65.5]),
        "age": np.array([60, np.nan, np.nan]),
        "ward": np.array(["medicine", "", "surgery"], object),
        "smoker": np.array(["j", "nein", ""], object),
        "alone": np.array(["1", "0", "1"], object),
        "admitted": np.array([5, np.nan, 0]),
    }
    _, found = session.run(None, {name: values[:, None] for name, values in feed.items()})
    np.testing.assert_allclose(found, trained.predict_proba(RAW), atol=1e-5)
    with pytest.raises(InputError, match="column 'left': parts of a date cannot be exported to ONNX"):
        to_onnx(model(*FIELDS, PARTS), "digest")


@pytest.mark.parametrize(
    "change", [{"missing": "mean"}, {"origin": "soon"}, {"written": "DD"}, {"low": 99.0}]
)
def test_a_damaged_date_is_refused(change):
    from coterie.model.description import from_json, to_json

    said = to_json(model(FIELDS[-1]).description)
    said["inputs"]["columns"][0] |= change
    with pytest.raises((ValueError, InputError)):
        from_json(said)
