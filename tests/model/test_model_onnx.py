"""ONNX: what another runtime computes is what we predict, for every feature step, model and task."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from model_world import FIELDS, IMAGES, LOSSES, TABLES, Made, coterie, made

from coterie.errors import InputError
from coterie.model import OutOfRange
from coterie.model.onnx import to_onnx
from coterie.problems.features import Step
from coterie.problems.fields import Category

CLOSE = 1e-5


def ran(found: Made) -> dict[str, np.ndarray]:
    """The exported model's outputs for the model's own raw rows."""
    session = onnxruntime.InferenceSession(to_onnx(found.model, "digest"), providers=["CPUExecutionProvider"])
    feed = {"images": found.raw}
    if isinstance(found.raw, dict):
        feed = {field.name: _column(field, found.raw[field.name]) for field in FIELDS}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, feed)))


def _column(field, values) -> np.ndarray:
    kind = object if isinstance(field, Category) else np.float64
    return np.asarray(values.astype(str) if kind is object else values, kind)[:, None]


@pytest.mark.parametrize("kind", ["linear", "two_layer"])
@pytest.mark.parametrize("steps", TABLES)
def test_every_step_of_tables(steps, kind):
    found = made(steps, kind=kind)
    outputs = ran(found)
    assert outputs["label"].tolist() == found.model.predict(found.raw).tolist()
    np.testing.assert_allclose(outputs["probabilities"], found.model.predict_proba(found.raw), atol=CLOSE)


@pytest.mark.parametrize("shape", [(8, 8), (8, 12, 3), (9, 10)])
@pytest.mark.parametrize("steps", IMAGES)
def test_every_step_of_images(steps, shape):
    if "pool" in steps and shape == (9, 10):
        steps = "gradients:3,ball"  # cells that do not fill the image
    found = made(steps, "multiclass", image=shape)
    outputs = ran(found)
    assert outputs["label"].tolist() == found.model.predict(found.raw).tolist()
    np.testing.assert_allclose(outputs["probabilities"], found.model.predict_proba(found.raw), atol=CLOSE)


@pytest.mark.parametrize(("task", "loss"), [(task, loss) for task in LOSSES for loss in LOSSES[task]])
def test_every_task_and_loss(task, loss):
    found = made("scale,ball", task, loss=loss)
    outputs = ran(found)
    predicted = found.model.predict(found.raw)
    if task == "regression":
        np.testing.assert_allclose(outputs["prediction"][:, 0], predicted, rtol=CLOSE, atol=CLOSE)
        return
    assert outputs["label"].tolist() == predicted.tolist()
    if loss == "hinge":
        np.testing.assert_allclose(outputs["scores"], found.scored, atol=CLOSE)
    else:
        np.testing.assert_allclose(outputs["probabilities"], found.model.predict_proba(found.raw), atol=CLOSE)


def test_classes_that_are_all_but_impossible_one_by_one_have_shares_all_the_same():
    """A long model of `one_vs_all`, as noise makes them: each class's own share is zero, in single and in double."""
    found = made("scale,ball", "multiclass", loss="one_vs_all")
    weights = found.model.params["weights"]
    for far in (300.0, 3e4):
        lifted = weights + np.where(np.arange(len(weights)) == len(weights) - 1, -far, 0.0)[:, None]
        model = replace(found.model, params={"weights": lifted.astype(np.float32)})
        shares = model.predict_proba(found.raw)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        np.testing.assert_allclose(ran(found._replace(model=model))["probabilities"], shares, atol=3e-3)


def test_flat_images_and_upright_edges():
    """Where both slopes are zero, or one of them, an angle of a quotient needs care."""
    found = made("gradients:4,ball", "multiclass", image=(8, 8))
    pictures = np.zeros((6, 8, 8), np.float32)
    pictures[1] = 0.5
    pictures[2, :, 4:] = 1.0
    pictures[3, 4:] = 1.0
    pictures[4, :, :4] = 1.0
    pictures[5, :4] = 1.0
    outputs = ran(found._replace(raw=pictures))
    np.testing.assert_allclose(outputs["probabilities"], found.model.predict_proba(pictures), atol=CLOSE)


def test_values_out_of_range_count_as_the_end_there_too():
    found = made("scale,ball")
    raw = found.raw | {"age": found.raw["age"] + 200, "stay": found.raw["stay"] - 100}
    with pytest.warns(OutOfRange):
        expected = found.model.predict_proba(raw)
    np.testing.assert_allclose(ran(found._replace(raw=raw))["probabilities"], expected, atol=CLOSE)


def test_columns_may_be_called_like_outputs():
    found = made()
    said = found.model.description
    fields = (FIELDS[0]._replace(name="label"), FIELDS[1]._replace(name="probabilities"), *FIELDS[2:])
    renamed = replace(found.model, description=replace(said, fields=fields))
    session = onnxruntime.InferenceSession(to_onnx(renamed, "digest"), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_outputs()] == ["coterie/label", "coterie/probabilities"]


def test_a_step_that_onnx_has_not_is_named():
    model = replace(made().model, steps=(Step("unheard", {}),))
    with pytest.raises(InputError, match="step 'unheard' cannot be exported to ONNX"):
        to_onnx(model, "digest")


def test_the_command_writes_it(tmp_path):
    found = made()
    place = found.model.save(tmp_path / "model.safetensors")
    done = coterie("export", tmp_path, "--onnx", tmp_path / "m.onnx")
    assert done.status == 0, done.stderr
    stored = onnx.load(tmp_path / "m.onnx")
    facts = {one.key: one.value for one in stored.metadata_props}
    assert facts["coterie.certified_epsilon"] == "1.75"
    assert facts["coterie.sha256"].encode() in place.read_bytes()
    assert facts["coterie.statement"] == "Guarantee: a sentence of the statement."


def test_without_the_package_the_remedy_is_named(tmp_path, monkeypatch):
    made().model.save(tmp_path / "model.safetensors")
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = coterie("export", tmp_path, "--onnx", tmp_path / "m.onnx")
    assert done.status == 2
    assert "pip install 'coterie[onnx]'" in done.stderr
    assert not (tmp_path / "m.onnx").exists()
