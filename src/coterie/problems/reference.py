"""Reference optima without privacy: what a protocol's answer is compared with.

Oracle only: every function here reads private rows, all owners' together. Results are for the researcher's
eyes and never part of a run's transcript.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.problems.losses import Loss
from coterie.problems.problem import Problem, objective
from coterie.program import Batch

_ITERATIONS = 20_000
_STILL = 1e-7  # largest entry of the optimality conditions
_STARTS = 6  # for penalties that are not convex

_height = jax.jit(objective, static_argnums=0)
_height_and_slope = jax.jit(jax.value_and_grad(objective, argnums=1), static_argnums=0)


def central_optimum(problem: Problem, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minimiser of mean loss + penalty for a linear model, (dim, outputs). Reads private rows: oracle.

    scikit-learn where it has exactly this objective (logistic, one_vs_all, hinge and squared loss with l2),
    L-BFGS for other smooth objectives, accelerated proximal gradient for penalties with a kink or a wall, a
    primal-dual method for hinge with those. Where the penalty is not convex, the best of several starts.
    """
    if not problem.model.is_linear:
        raise InputError(f"model={problem.model.name!r}: a reference optimum exists for linear models only.")
    loss, penalty = problem.loss.name, problem.penalty
    if penalty.name == "l2" and penalty.strong_convexity > 0 and loss in _BY_SKLEARN:
        solution = _BY_SKLEARN[loss](x, y, penalty.strong_convexity, problem.loss)
    elif loss == "hinge":
        solution = _primal_dual(problem, x, y)
    elif penalty.smooth:
        solution = _lbfgs(problem, x, y)
    else:
        solution = _proximal_gradient(problem, x, y)
    return np.asarray(solution, np.float32).reshape(x.shape[1], problem.loss.outputs)


def trained(problem: Problem, params: PyTree, x: np.ndarray, y: np.ndarray, epochs: int = 20) -> PyTree:
    """The model that Adam reaches from `params` on everyone's records: a ceiling without a proof of optimality.

    Reads private rows: oracle. Mini-batches of 256 in a fixed random order, step 1e-3 falling to zero.
    """
    import optax

    size = min(256, len(y))
    steps = epochs * (len(y) // size)
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-3, steps))
    gradient = jax.grad(objective, argnums=1)

    @jax.jit
    def step(carry: tuple, batch: Batch) -> tuple:
        params, state = carry
        updates, state = optimiser.update(gradient(problem, params, batch), state, params)
        return optax.apply_updates(params, updates), state

    rng, carry = np.random.default_rng(0), (params, optimiser.init(params))
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for start in range(0, len(y) - size + 1, size):
            rows = order[start : start + size]
            carry = step(carry, Batch(jnp.asarray(x[rows]), jnp.asarray(y[rows]), jnp.ones(size)))
    return carry[0]


def objective_value(problem: Problem, params: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """The objective in double precision, fit for small differences. Reads private rows: oracle."""
    with jax.enable_x64(True):
        return float(_height(problem, jnp.asarray(params, jnp.float64), _batch(x, y)))


def _of_two_classes(x: np.ndarray, y: np.ndarray, strength: float, loss: Loss) -> np.ndarray:
    """Where all rows are of one class, one of zeros of the other is added: scikit-learn refuses a single class, and
    zeros cost the same whatever the model is, so that the optimum stays where it is."""
    given: dict[str, Any] = {
        "C": 1 / (len(y) * strength),
        "fit_intercept": False,
        "max_iter": _ITERATIONS,
        "class_weight": dict(zip((-1.0, 1.0), loss.weights)),
    }
    if loss.name == "hinge":
        from sklearn.svm import LinearSVC

        model = LinearSVC(loss="hinge", tol=1e-6, random_state=0, **given)
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(tol=1e-8, **given)
    absent = np.setdiff1d([-1.0, 1.0], y)
    rows = np.vstack([np.asarray(x, np.float64), np.zeros((len(absent), x.shape[1]))])
    return model.fit(rows, np.append(y, absent)).coef_.T


def _one_vs_all(x: np.ndarray, y: np.ndarray, strength: float, loss: Loss) -> np.ndarray:
    two = (np.where(y == label, 1.0, -1.0) for label in range(loss.outputs))
    return np.hstack([_of_two_classes(x, signs, strength, loss) for signs in two])


def _squared(x: np.ndarray, y: np.ndarray, strength: float, loss: Loss) -> np.ndarray:
    from sklearn.linear_model import Ridge

    del loss
    model = Ridge(alpha=len(y) * strength, fit_intercept=False)
    return model.fit(np.asarray(x, np.float64), np.asarray(y, np.float64)).coef_[:, None]


_BY_SKLEARN: dict[str, Callable[[np.ndarray, np.ndarray, float, Loss], np.ndarray]] = {
    "logistic": _of_two_classes,
    "one_vs_all": _one_vs_all,
    "hinge": _of_two_classes,
    "squared": _squared,
}


def _batch(x: np.ndarray, y: np.ndarray) -> Batch:
    exact = np.asarray(x, np.float64)
    target = np.asarray(y) if np.issubdtype(np.asarray(y).dtype, np.integer) else np.asarray(y, np.float64)
    return Batch(jnp.asarray(exact), jnp.asarray(target), jnp.ones(len(exact), jnp.float64))


def _lbfgs(problem: Problem, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    shape = (x.shape[1], problem.loss.outputs)
    with jax.enable_x64(True):
        batch = _batch(x, y)

        def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = _height_and_slope(problem, jnp.asarray(flat.reshape(shape)), batch)
            return float(value), np.asarray(gradient).ravel()

        limits = {"maxiter": _ITERATIONS, "maxfun": _ITERATIONS, "ftol": 1e-15, "gtol": 1e-9}
        runs = [
            minimize(evaluate, start, jac=True, method="L-BFGS-B", options=limits)
            for start in _starts(problem, shape)
        ]
    best = min(runs, key=lambda run: run.fun)
    if best.nit >= _ITERATIONS or not np.isfinite(best.fun):
        raise InputError(
            f"penalty={problem.penalty.name!r}: no minimum in {best.nit} steps. Use l2 with a strength > 0."
        )
    return best.x


def _starts(problem: Problem, shape: tuple[int, int]) -> list[np.ndarray]:
    size = shape[0] * shape[1]
    if problem.penalty.strong_convexity >= 0:
        return [np.zeros(size)]
    rng = np.random.default_rng(0)  # the minima of a radial penalty differ in their radius
    directions = rng.standard_normal((_STARTS - 1, size)) / np.sqrt(size)
    return [np.zeros(size), *(directions * 2.0 ** np.arange(_STARTS - 1)[:, None])]


def _largest_eigenvalue(x: np.ndarray) -> float:
    """The largest eigenvalue of xᵀx / rows, exactly: the step sizes below are only safe above it."""
    exact = np.asarray(x, np.float64)
    return float(np.linalg.eigvalsh(exact.T @ exact / len(exact))[-1])


class _Momentum(NamedTuple):
    point: Array
    ahead: Array
    pace: Array
    residual: Array


def _proximal_gradient(problem: Problem, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """FISTA (Beck & Teboulle 2009), restarted whenever momentum points uphill (O'Donoghue & Candès 2015)."""
    step = 1.0 / (problem.loss.smoothness * _largest_eigenvalue(x))

    def advance(state: _Momentum, batch: Batch) -> _Momentum:
        slopes = problem.loss.slope(batch.x @ state.ahead, batch.y)
        gradient = batch.x.T @ slopes / batch.x.shape[0]
        new = problem.penalty.minimise(step * gradient - state.ahead, step, 1.0)
        uphill = jnp.sum((state.ahead - new) * (new - state.point)) > 0
        pace = jnp.where(uphill, 1.0, state.pace)
        faster = 0.5 * (1.0 + jnp.sqrt(1.0 + 4.0 * pace * pace))
        ahead = new + (pace - 1.0) / faster * (new - state.point)
        return _Momentum(new, ahead, faster, jnp.max(jnp.abs(state.ahead - new)) / step)

    with jax.enable_x64(True):
        zero = jnp.zeros((x.shape[1], problem.loss.outputs), jnp.float64)
        start = _Momentum(zero, zero, jnp.ones(()), jnp.asarray(jnp.inf))
        return np.asarray(_until_still(advance, start, _batch(x, y)).point)


class _Saddle(NamedTuple):
    point: Array
    ahead: Array
    dual: Array
    step: Array
    residual: Array


def _primal_dual(problem: Problem, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Hinge with any convex penalty h, as min_w max_{0 <= a <= 1} mean a_i (1 - y_i x_i·w) + h(w), 1 times the weight.

    Chambolle & Pock 2011. The mean's 1/rows is taken as the dual's metric: then ‖coupling‖² is the largest
    eigenvalue, and primal step × dual step × eigenvalue = 1 throughout.
    """
    if problem.penalty.strong_convexity < 0:
        raise InputError(
            f"penalty={problem.penalty.name!r}: hinge has a reference optimum for convex penalties only."
        )
    eigenvalue, (first, second) = _largest_eigenvalue(x), problem.loss.weights

    def advance(state: _Saddle, batch: Batch) -> _Saddle:
        most = jnp.where(batch.y[:, None] > 0, second, first)
        signed, dual_step = batch.x * batch.y[:, None], 1.0 / (eigenvalue * state.step)
        dual = jnp.clip(state.dual + dual_step * (1.0 - signed @ state.ahead), 0.0, most)
        pull = signed.T @ dual / signed.shape[0]
        new = problem.penalty.minimise(-state.step * pull - state.point, state.step, 1.0)
        damping = 1.0 / jnp.sqrt(1.0 + 2.0 * problem.penalty.strong_convexity * state.step)
        still = (
            jnp.max(jnp.abs(new - state.point)) / state.step,
            jnp.max(jnp.abs(dual - state.dual)) / dual_step,
        )
        return _Saddle(
            new, new + damping * (new - state.point), dual, damping * state.step, jnp.maximum(*still)
        )

    with jax.enable_x64(True):
        zero, dual = jnp.zeros((x.shape[1], 1), jnp.float64), jnp.zeros((len(x), 1), jnp.float64)
        start = _Saddle(zero, zero, dual, jnp.asarray(eigenvalue**-0.5), jnp.asarray(jnp.inf))
        return np.asarray(_until_still(advance, start, _batch(x, y)).point)


_Moving = TypeVar("_Moving", _Momentum, _Saddle)


def _until_still(advance: Callable[[_Moving, Batch], _Moving], start: _Moving, batch: Batch) -> _Moving:
    """Repeat until the optimality conditions hold to `_STILL`."""

    def go_on(carry: tuple[_Moving, Array]) -> Array:
        return (carry[0].residual > _STILL) & (carry[1] < _ITERATIONS)

    @jax.jit
    def solve(start: _Moving, batch: Batch) -> tuple[_Moving, Array]:
        return jax.lax.while_loop(
            go_on, lambda carry: (advance(carry[0], batch), carry[1] + 1), (start, jnp.zeros((), jnp.int32))
        )

    end, steps = solve(start, batch)
    if not end.residual <= _STILL:
        raise InputError(
            f"no optimum in {steps} steps (off by {end.residual:.1e}): use a larger penalty strength."
        )
    return end
