"""Metrics against scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as reference

from coterie.errors import InputError
from coterie.problems.losses import softmax
from coterie.problems.metrics import METRICS, accuracy, auc, mean_loss, metric_for, mse


def binary(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], rows).astype(np.float32)
    return np.round(y[:, None] + rng.normal(size=(rows, 1)) * 2, 0).astype(
        np.float32
    ), y  # rounded: many ties


def test_binary_metrics_agree_also_with_ties() -> None:
    scores, y = binary()
    assert auc(scores, y) == pytest.approx(reference.roc_auc_score(y, scores[:, 0]), abs=1e-12)
    assert accuracy(scores, y) == pytest.approx(
        reference.accuracy_score(y, np.where(scores[:, 0] > 0, 1, -1))
    )
    assert auc(scores[:, 0], y) == auc(scores, y)
    assert auc(np.zeros(300), y) == 0.5


def test_multiclass_and_regression_agree() -> None:
    rng = np.random.default_rng(1)
    scores, y = rng.normal(size=(100, 3)).astype(np.float32), rng.integers(0, 3, 100).astype(np.int32)
    assert accuracy(scores, y) == pytest.approx(reference.accuracy_score(y, scores.argmax(1)))
    target = rng.normal(size=100)
    assert mse(scores[:, :1], target) == pytest.approx(reference.mean_squared_error(target, scores[:, 0]))
    powers = np.exp(scores.astype(np.float64))
    probabilities = powers / powers.sum(1, keepdims=True)
    assert mean_loss(softmax(3))(scores, y) == pytest.approx(reference.log_loss(y, probabilities), rel=1e-5)


def test_device_arrays_are_welcome() -> None:
    scores, y = binary()
    assert accuracy(jnp.asarray(scores), jnp.asarray(y)) == accuracy(scores, y)  # type: ignore[arg-type]


def test_choice_by_task() -> None:
    assert [metric_for(task) for task in ("binary", "multiclass", "regression")] == [accuracy, accuracy, mse]
    assert set(METRICS) == {"accuracy", "auc", "mse"}
    with pytest.raises(InputError, match="task='ranking'"):
        metric_for("ranking")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs both classes"):
        auc(np.ones(3), np.ones(3))
