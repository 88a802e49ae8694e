"""Metrics against scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as reference

from coterie.problems.metrics import METRICS, Judge, beats, probabilities


def judge(task: str, loss: str, metric: str = "accuracy", **more) -> Judge:
    classes = {"binary": 2, "multiclass": 3, "regression": 0}[task]
    return Judge(**{"task": task, "loss": loss, "classes": classes, "bounds": None, "metric": metric} | more)


def named(one: Judge, scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return dict(zip(one.names, one.all(scores, y).tolist()))


def binary(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], rows).astype(np.float32)
    return np.round(y[:, None] + rng.normal(size=(rows, 1)) * 2, 0).astype(
        np.float32
    ), y  # rounded: many ties


def test_binary_metrics_agree_also_with_ties() -> None:
    scores, y = binary()
    found = named(judge("binary", "logistic"), scores, y)
    said, p = np.where(scores[:, 0] > 0, 1, -1), 1 / (1 + np.exp(-scores[:, 0].astype(np.float64)))
    assert found == pytest.approx(
        {
            "accuracy": reference.accuracy_score(y, said),
            "balanced_accuracy": reference.balanced_accuracy_score(y, said),
            "auc": reference.roc_auc_score(y, scores[:, 0]),
            "average_precision": reference.average_precision_score(y, scores[:, 0], pos_label=1),
            "recall": reference.recall_score(y, said, pos_label=1),
            "log_loss": reference.log_loss(y, p),
            "brier": reference.brier_score_loss(y, p, pos_label=1),
        },
        abs=1e-12,
    )
    matrix = judge("binary", "logistic").confusion(scores, y)
    assert np.array_equal(matrix, reference.confusion_matrix(y, said, labels=[-1, 1]))
    assert (
        judge("binary", "logistic")(scores[:, 0], y) == found["accuracy"]
    )  # one score may come without its axis


@pytest.mark.parametrize("loss", ["softmax", "one_vs_all"])
def test_metrics_of_several_classes_agree(loss) -> None:
    rng = np.random.default_rng(1)
    y = rng.choice(3, 200, p=[0.7, 0.2, 0.1]).astype(np.int32)
    scores = np.round(rng.normal(size=(200, 3)) + np.eye(3)[y]).astype(np.float32)
    p, said = probabilities(loss, scores), scores.argmax(1)
    precisions = [reference.average_precision_score(y == one, p[:, one]) for one in range(3)]
    assert named(judge("multiclass", loss), scores, y) == pytest.approx(
        {
            "accuracy": reference.accuracy_score(y, said),
            "balanced_accuracy": reference.balanced_accuracy_score(y, said),
            "auc": reference.roc_auc_score(y, p, multi_class="ovr"),
            "average_precision": np.mean(precisions),
            "log_loss": reference.log_loss(y, p),
            "brier": np.mean(np.sum((p - np.eye(3)[y]) ** 2, axis=1)),
        },
        abs=1e-12,
    )
    assert np.array_equal(judge("multiclass", loss).confusion(scores, y), reference.confusion_matrix(y, said))
    assert np.isfinite(judge("multiclass", loss).all(scores[y != 1], y[y != 1])).all()  # a class is absent


def test_quantities_are_measured_in_their_own_unit() -> None:
    rng = np.random.default_rng(2)
    own, guess = rng.uniform(100, 300, 50), rng.uniform(100, 300, 50)
    scale = {"bounds": (100.0, 300.0)}
    found = named(
        judge("regression", "huber", "mse", **scale), ((guess - 200) / 100)[:, None], (own - 200) / 100
    )
    assert found == pytest.approx(
        {
            "mse": reference.mean_squared_error(own, guess),
            "mae": reference.mean_absolute_error(own, guess),
            "r2": reference.r2_score(own, guess),
        }
    )
    assert named(judge("regression", "huber", "mse"), guess[:, None], own)["mse"] == pytest.approx(
        reference.mean_squared_error(own, guess)
    )


def test_a_loss_without_probabilities_has_no_metric_of_them() -> None:
    assert not {"log_loss", "brier"} & set(judge("binary", "hinge").names)
    assert "recall" not in judge("multiclass", "softmax").names
    assert {
        one for name in ("binary", "multiclass", "regression") for one in judge(name, "softmax").names
    } == set(METRICS)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_the_constant_of_a_rare_outcome(loss) -> None:
    y = np.where(np.arange(1000) < 37, 1.0, -1.0)
    one = judge("binary", loss)
    found = named(one, one.constant(y), y)
    expected = {
        "accuracy": 0.963,
        "balanced_accuracy": 0.5,
        "auc": 0.5,
        "average_precision": 0.037,
        "recall": 0.0,
    }
    if loss == "logistic":
        entropy = -(0.037 * np.log(0.037) + 0.963 * np.log(0.963))
        expected |= {"log_loss": entropy, "brier": 0.037 * 0.963}
    assert found == pytest.approx(expected, abs=1e-12)
    assert one.confusion(one.constant(y), y).tolist() == [[963, 0], [37, 0]]


@pytest.mark.parametrize("loss", ["softmax", "one_vs_all"])
def test_the_constant_of_several_classes_and_of_a_quantity(loss) -> None:
    y = np.repeat([0, 1, 2], [70, 20, 10])
    one = judge("multiclass", loss)
    assert np.allclose(probabilities(loss, one.constant(y)), [0.7, 0.2, 0.1])
    assert named(one, one.constant(y), y)["accuracy"] == 0.7
    target = np.random.default_rng(3).uniform(-1, 1, 40).astype(np.float32)
    quantity = judge("regression", "huber", "r2", bounds=(0.0, 10.0))
    found = named(quantity, quantity.constant(target), target)
    assert found["r2"] == pytest.approx(0, abs=1e-9)
    assert found["mse"] == pytest.approx(np.var(5 * target.astype(np.float64)))


def test_no_constant_needs_both_classes_and_what_diverged_is_no_number() -> None:
    one = judge("binary", "logistic")
    same = np.full(5, -1.0)
    found = named(one, one.constant(same), same)
    assert np.isnan(found["auc"])
    assert np.isnan(found["recall"])
    assert found["log_loss"] == pytest.approx(0)
    assert np.isnan(one.all(np.full((5, 1), np.nan), same)).all()
    assert not one.confusion(np.full((5, 1), np.inf), same).any()


def test_better_is_better_in_the_digits_that_are_shown() -> None:
    assert not beats("accuracy", 0.96892, 0.96891)
    assert beats("accuracy", 0.9690, 0.9689)
    assert beats("log_loss", 0.1, 0.2)
    assert not beats("mse", float("nan"), 0.2)
    assert not beats("mse", float("inf"), 0.2)


def test_device_arrays_are_welcome() -> None:
    scores, y = binary()
    one = judge("binary", "logistic")
    assert one(jnp.asarray(scores), jnp.asarray(y)) == one(scores, y)  # type: ignore[arg-type]
