"""Reference optima: optimality conditions of exactly our objective, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.errors import InputError
from coterie.problems.losses import Loss, hinge, huber, logistic, one_vs_all, softmax, squared, weighted
from coterie.problems.models import linear, two_layer
from coterie.problems.penalties import Penalty, ball, box, elastic_net, l2, none, prox, sine
from coterie.problems.problem import Problem
from coterie.problems.reference import central_optimum, objective_value

ROWS, DIM = 200, 4
RNG = np.random.default_rng(0)
X = (RNG.normal(size=(ROWS, DIM)) / 2).astype(np.float32)
SCORE = X @ np.array([1.0, -2.0, 0.5, 0.0])
Y = {
    "binary": np.where(SCORE + RNG.normal(size=ROWS) / 2 > 0, 1.0, -1.0).astype(np.float32),
    "regression": (SCORE + RNG.normal(size=ROWS) / 10).astype(np.float32),
    "multiclass": np.digitize(SCORE + RNG.normal(size=ROWS) / 2, [-0.4, 0.4]).astype(np.int32),
}


def target(loss: Loss) -> np.ndarray:
    if loss.outputs > 1:
        return Y["multiclass"]
    return Y["binary" if loss.name in ("logistic", "hinge") else "regression"]


SMOOTH = [
    (logistic(), l2(0.01)),  # scikit-learn
    (weighted(logistic(), 0.1, 1.0), l2(0.01)),
    (one_vs_all(3), l2(0.01)),
    (squared(), l2(0.01)),
    (softmax(3), l2(0.01)),  # L-BFGS
    (huber(0.5), none()),
    (squared(), sine()),
    (logistic(), elastic_net(0.02, 0.01)),  # proximal gradient
    (softmax(3), ball(0.7)),
    (squared(), box(0.3, 0.01)),
]


@pytest.mark.parametrize(("loss", "penalty"), SMOOTH, ids=lambda value: value.name)
def test_a_gradient_step_from_the_optimum_leads_back_to_it(loss: Loss, penalty: Penalty) -> None:
    """x = prox(x - gradient) holds at a minimum of smooth loss + convex penalty, and nowhere else."""
    problem = Problem(linear(DIM, loss.outputs), loss, penalty)
    params = central_optimum(problem, X, target(loss))
    gradient = X.T @ np.asarray(jax.jit(loss.slope)(X @ params, target(loss))) / ROWS
    step = 0.1  # below 1 / (weak convexity of sine): its prox is then single-valued
    again = jax.jit(lambda v: prox(penalty, v, step))(params - step * gradient)
    np.testing.assert_allclose(again, params, atol=2e-5)
    assert np.abs(params).max() > 0.01  # not the trivial answer


@pytest.mark.parametrize(
    ("loss", "only"),
    [(logistic(), 1.0), (hinge(), -1.0), (one_vs_all(3), 1)],
    ids=["logistic", "hinge", "one_vs_all"],
)
def test_rows_of_one_declared_class_have_an_optimum_that_says_so(loss: Loss, only: float) -> None:
    """scikit-learn refuses such rows; a consortium may have declared a disease that nobody turned out to have."""
    problem = Problem(linear(DIM, loss.outputs), loss, l2(0.01))
    rows, y = np.abs(X), np.full(ROWS, only, np.int32 if loss.outputs > 1 else np.float32)
    scores = rows @ central_optimum(problem, rows, y)
    said = scores.argmax(axis=1) if loss.outputs > 1 else np.sign(scores[:, 0])
    np.testing.assert_array_equal(said, y)


HINGE = [l2(0.01), elastic_net(0.02, 0.01), ball(0.7), box(0.3)]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.2, 1.0)])
@pytest.mark.parametrize("penalty", HINGE, ids=lambda penalty: penalty.name)
def test_no_neighbour_of_the_hinge_optimum_is_lower(penalty: Penalty, weights: tuple[float, float]) -> None:
    problem = Problem(linear(DIM), weighted(hinge(), *weights), penalty)
    params = central_optimum(problem, X, Y["binary"])
    lowest = objective_value(problem, params, X, Y["binary"])
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            near = jnp.asarray(params + size * rng.normal(size=params.shape), jnp.float32)
            inside = near if penalty.name in ("l2", "elastic_net") else prox(penalty, near, 0.0)
            assert objective_value(problem, np.asarray(inside), X, Y["binary"]) >= lowest - 1e-6


def test_the_sine_optimum_is_the_best_of_its_starts() -> None:
    """Strong data against a weak pull: the landscape over the radius has several valleys."""
    problem, y = Problem(linear(DIM), squared(), sine()), 60 * Y["regression"]
    lowest = objective_value(problem, central_optimum(problem, X, y), X, y)
    ridge = central_optimum(Problem(linear(DIM), squared(), l2(2.0)), X, y)
    along = [objective_value(problem, scale * ridge, X, y) for scale in np.linspace(0, 2, 60)]
    assert lowest <= min(along) + 1e-6


def test_value_is_in_double_precision() -> None:
    problem = Problem(linear(DIM), squared(), l2(0.01))
    params = np.full((DIM, 1), 0.3)
    x, y = X.astype(np.float64), Y["regression"].astype(np.float64)
    expected = 0.5 * np.mean((x @ params[:, 0] - y) ** 2) + 0.005 * np.sum(params**2)
    assert objective_value(problem, params, X, Y["regression"]) == pytest.approx(expected, rel=1e-12)


def test_what_has_no_reference_is_refused() -> None:
    with pytest.raises(InputError, match="linear models only"):
        central_optimum(Problem(two_layer(DIM, 3), logistic(), l2(0.1)), X, Y["binary"])
    with pytest.raises(InputError, match="convex penalties only"):
        central_optimum(Problem(linear(DIM), hinge(), sine()), X, Y["binary"])
