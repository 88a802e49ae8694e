"""Losses: slopes are derivatives, and the declared constants are the least that hold."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.errors import InputError
from coterie.problems.losses import (
    LOSSES,
    Loss,
    hinge,
    huber,
    logistic,
    one_vs_all,
    softmax,
    squared,
    weighted,
)

ALL = [logistic(), hinge(), squared(), huber(0.7), softmax(2), softmax(4), one_vs_all(3)]
NAMES = [f"{loss.name}-{loss.outputs}" for loss in ALL]
each_loss = pytest.mark.parametrize("loss", ALL, ids=NAMES)
each_and_weighted = pytest.mark.parametrize(
    "loss", [*ALL, weighted(logistic(), 0.25, 1.0)], ids=[*NAMES, "weighted"]
)


def cases(loss: Loss, rows: int = 400) -> tuple[jax.Array, jax.Array]:
    """Scores on a wide range with every target."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(rows, loss.outputs)) * rng.choice([0.1, 1.0, 8.0], size=(rows, 1))
    return jnp.asarray(scores, jnp.float32), targets(loss, rng, rows)


def targets(loss: Loss, rng: np.random.Generator, rows: int) -> jax.Array:
    if loss.outputs > 1:
        return jnp.asarray(rng.integers(0, loss.outputs, rows), jnp.int32)
    if loss.name in ("logistic", "hinge"):
        return jnp.asarray(rng.choice([-1.0, 1.0], rows), jnp.float32)
    return jnp.asarray(rng.normal(size=rows), jnp.float32)


def extremes(loss: Loss) -> tuple[jax.Array, jax.Array]:
    """Scores near every bend and far out, with the first target: suprema are attained or approached here."""
    axis = np.concatenate([[-40.0, 40.0], np.linspace(-2.0, 2.0, 33)])
    if loss.outputs > 2:
        axis = np.array([-40.0, -1.0, -0.1, 0.0, 0.1, 1.0, 40.0])
    grid = np.stack(np.meshgrid(*[axis] * loss.outputs), -1).reshape(-1, loss.outputs)
    y = jnp.zeros(len(grid), jnp.int32) if loss.outputs > 1 else jnp.ones(len(grid), jnp.float32)
    return jnp.asarray(grid, jnp.float32), y


def curvatures(loss: Loss, scores: jax.Array, y: jax.Array) -> np.ndarray:
    """(rows, outputs) eigenvalues of the second derivative: the tested slope, differentiated."""

    def one(s: jax.Array, t: jax.Array) -> jax.Array:
        return loss.slope(s[None], t[None])[0]

    return np.linalg.eigvalsh(np.asarray(jax.jit(jax.vmap(jax.jacfwd(one)))(scores, y), np.float64))


@each_and_weighted
def test_slope_is_the_derivative_of_the_value(loss: Loss) -> None:
    scores, y = cases(loss)
    expected = jax.jit(jax.grad(lambda s: jnp.sum(loss.value(s, y))))(scores)
    slope = jax.jit(loss.slope)(scores, y)
    assert slope.shape == scores.shape
    np.testing.assert_allclose(slope, expected, atol=1e-5)


@each_and_weighted
def test_lipschitz_constant_holds_and_is_tight(loss: Loss) -> None:
    scores, y = extremes(loss)
    largest = np.linalg.norm(jax.jit(loss.slope)(scores, y), axis=1).max()
    if math.isinf(loss.lipschitz):
        assert largest > 30  # grows with the scores
    else:
        assert 0.999 * loss.lipschitz <= largest <= loss.lipschitz * (1 + 1e-6)


@each_and_weighted
def test_smoothness_and_strong_convexity_hold_and_are_tight(loss: Loss) -> None:
    eigenvalues = curvatures(loss, *extremes(loss))
    assert eigenvalues.min() == pytest.approx(loss.strong_convexity, abs=1e-5)
    if math.isinf(loss.smoothness):
        below, above = loss.slope(jnp.array([[1 - 1e-6], [1 + 1e-6]]), jnp.ones(2))
        assert abs(float(below[0] - above[0])) == 1.0  # a jump, so no finite constant
    else:
        assert eigenvalues.max() == pytest.approx(loss.smoothness, rel=1e-3)


@each_and_weighted
def test_values_and_slopes_stay_finite_far_out(loss: Loss) -> None:
    scores, y = extremes(loss)
    far = np.asarray(scores) * np.float32(50)
    assert np.isfinite(jax.jit(loss.value)(far, y)).all()
    assert np.isfinite(jax.jit(loss.slope)(far, y)).all()


def test_one_vs_all_is_a_sum_of_logistic_losses() -> None:
    scores, y = cases(one_vs_all(3))
    parts = [logistic().value(scores[:, k : k + 1], jnp.where(y == k, 1.0, -1.0)) for k in range(3)]
    np.testing.assert_allclose(one_vs_all(3).value(scores, y), sum(parts), rtol=1e-5)


def test_equal_settings_are_the_same_object() -> None:
    assert softmax(4) is softmax(4)
    assert huber(0.7) is huber(0.7)
    assert huber(0.7) is not huber(0.8)
    assert {LOSSES.find(name)(3).name for name in LOSSES} == set(LOSSES)


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(InputError, match="loss='cubic': unknown"):
        LOSSES.find("cubic")(0)
    with pytest.raises(InputError, match="classes=0"):
        LOSSES.find("softmax")(0)
    with pytest.raises(InputError, match="threshold"):
        huber(0.0)
    for weights in ((0.0, 1.0), (1.0, 1.01), (float("nan"), 1.0)):
        with pytest.raises(InputError, match="a weight must be above 0 and at most 1"):
            weighted(logistic(), *weights)
