"""A threshold and an offset of scores: kept in the file, used by every prediction, exported alike."""

from dataclasses import replace

import numpy as np
import pytest
from model_world import Made, made
from test_model_onnx import ran

from coterie.errors import InputError
from coterie.model import TrainedModel
from coterie.model.description import from_json, to_json
from coterie.model.predictor import from_bytes
from coterie.model.words import card, predicts
from coterie.problems.metrics import Decision

CHOSEN = Decision(offset=-1.5, threshold=0.2, weights=(0.25, 1.0))


def decided(decision: Decision = CHOSEN) -> Made:
    found = made()
    return found._replace(
        model=replace(found.model, description=replace(found.model.description, decision=decision))
    )


def test_predictions_follow_the_threshold_and_probabilities_the_offset():
    found, plain = decided().model, made()
    raw, scores = plain.raw, plain.scored[:, 0].astype(np.float64)
    p = 1 / (1 + np.exp(1.5 - scores))
    np.testing.assert_allclose(found.predict_proba(raw)[:, 1], p, rtol=1e-5)
    assert found.predict(raw).tolist() == np.where(p > 0.2, "yes", "no").tolist()
    assert 0 < (p > 0.2).mean() < 1
    assert found.predict(raw).tolist() != plain.model.predict(raw).tolist()
    assert np.array_equal(found.decision_function(raw) > 0, p > 0.2)
    assert found.score(raw, np.where(p > 0.2, "yes", "no")) == 1


def test_the_file_keeps_it():
    found = decided().model
    again = from_bytes(found.to_bytes(), "file")
    assert again.description == found.description
    assert again.to_bytes() == found.to_bytes()
    older = to_json(found.description)
    del older["decision"]  # of before there was a choice
    assert from_json(older).decision == Decision()


@pytest.mark.parametrize(
    "wrong", [{"threshold": 1.0}, {"threshold": "0.2"}, {"offset": None}, {"weights": [1.0]}, {"more": 1}]
)
def test_a_wrong_one_is_refused(wrong):
    value = to_json(decided().model.description)
    value["decision"] |= wrong
    with pytest.raises((TypeError, ValueError)):
        from_json(value)


def test_it_is_of_two_classes():
    several = made("ball", "multiclass").model
    bad = replace(several, description=replace(several.description, decision=CHOSEN))
    with pytest.raises(InputError, match="a decision is of two classes"):
        from_bytes(bad.to_bytes(), "file")


def test_onnx_decides_alike():
    found = decided()
    outputs = ran(found)
    assert outputs["label"].tolist() == found.model.predict(found.raw).tolist()
    np.testing.assert_allclose(outputs["probabilities"], found.model.predict_proba(found.raw), atol=1e-5)


def test_words_and_card_say_so():
    found: TrainedModel = decided().model
    assert predicts(found.description).endswith("(where its probability is above 0.2)")
    assert "class weights 0.25 and 1" in card(found, "digest")
    assert "class weights" not in card(made().model, "digest")
