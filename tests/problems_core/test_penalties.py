"""Penalties: gradients, constants, and minimisers against brute force."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from coterie.errors import InputError
from coterie.problems.penalties import PENALTIES, Penalty, ball, box, elastic_net, l2, none, prox, sine

ALL = [none(), l2(0.3), elastic_net(0.4, 0.2), ball(0.8), ball(0.8, 0.5), box(0.6), box(0.6, 0.5), sine()]
NAMES = ["none", "l2", "elastic_net", "ball", "ball+l2", "box", "box+l2", "sine"]
each_penalty = pytest.mark.parametrize("penalty", ALL, ids=NAMES)
needs_quad = {"none"}  # every other one has a minimum without a quadratic term


def tree(flat: np.ndarray) -> dict[str, jax.Array]:
    """Three numbers as two arrays of different rank: norms must go over the whole tree."""
    return {"a": jnp.asarray(flat[:2].reshape(2, 1), jnp.float32), "b": jnp.asarray(flat[2:], jnp.float32)}


def flat(x: dict[str, jax.Array]) -> np.ndarray:
    return np.concatenate([np.asarray(x["a"]).ravel(), np.asarray(x["b"]).ravel()]).astype(np.float64)


def exact_value(penalty: Penalty, x: np.ndarray) -> float:
    """The same functions written again in NumPy, without walls: the search below stays inside them."""
    square, norm = x @ x, math.sqrt(x @ x)
    if penalty.name == "elastic_net":
        return 0.4 * np.abs(x).sum() + 0.1 * square
    if penalty.name == "sine":
        return square + 3 * math.sin(norm) ** 2
    return 0.5 * penalty.strong_convexity * square


def brute_force(penalty: Penalty, z: np.ndarray, weight: float, quad: float) -> float:
    """The lowest value that a general solver finds from many starts."""

    def height(x: np.ndarray) -> float:
        return z @ x + weight * exact_value(penalty, x) + 0.5 * quad * x @ x

    wall = {"ball": [{"type": "ineq", "fun": lambda x: 0.64 - x @ x}]}.get(penalty.name, [])
    sides = [(-0.6, 0.6)] * 3 if penalty.name == "box" else None
    rng = np.random.default_rng(1)
    reach = 0.5 if wall or sides else 3.0
    starts = [
        np.full(3, 1e-3),
        *(rng.uniform(-reach, reach, (6, 3))),
        -z * reach / (np.linalg.norm(z) + 1e-9),
    ]
    options = {"ftol": 1e-13, "maxiter": 500}
    runs = [
        minimize(height, s, method="SLSQP", bounds=sides, constraints=wall, options=options) for s in starts
    ]
    return min(height(run.x) for run in runs if run.success)


@each_penalty
@pytest.mark.parametrize(("weight", "quad"), [(1.0, 0.5), (2.0, 0.0), (0.3, 1.0)])
def test_minimise_is_as_low_as_brute_force(penalty: Penalty, weight: float, quad: float) -> None:
    if penalty.name in needs_quad and quad == 0:
        quad = 0.1
    for size in (0.1, 1.5, 6.0):
        z = np.random.default_rng(int(10 * size)).normal(size=3) * size
        x = flat(jax.jit(penalty.minimise)(tree(z), jnp.float32(weight), jnp.float32(quad)))
        assert np.isfinite(float(penalty.value(tree(x))))  # inside the walls
        height = z @ x + weight * exact_value(penalty, x) + 0.5 * quad * x @ x
        assert height <= brute_force(penalty, z, weight, quad) + 1e-5 * (1 + abs(height))


def test_sine_finds_the_global_radius_also_near_ties() -> None:
    sizes, radii = np.linspace(0.0, 60.0, 481, dtype=np.float32)[:, None], np.linspace(0, 32, 8_001)[None]
    nearest = jax.jit(jax.vmap(sine().minimise, in_axes=(0, None, None)))

    def height(r: np.ndarray, quad: float) -> np.ndarray:
        return -sizes * r + (1 + 0.5 * quad) * r**2 + 3 * np.sin(r) ** 2

    for quad in (0.0, 0.3, 5.0):
        r = np.abs(np.asarray(nearest(jnp.asarray(sizes), 1.0, quad), np.float64))
        assert np.all(height(r, quad)[:, 0] <= height(radii, quad).min(axis=1) + 1e-4)


@each_penalty
def test_minimise_of_zero_is_zero(penalty: Penalty) -> None:
    assert flat(penalty.minimise(tree(np.zeros(3)), 1.0, 1.0)).tolist() == [0.0, 0.0, 0.0]


@each_penalty
def test_value_and_gradient_agree_with_the_definition(penalty: Penalty) -> None:
    value, gradient, expected = (
        jax.jit(f) for f in (penalty.value, penalty.gradient, jax.grad(penalty.value))
    )
    for x in np.random.default_rng(2).uniform(-0.45, 0.45, (20, 3)):
        assert float(value(tree(x))) == pytest.approx(exact_value(penalty, x), rel=1e-5, abs=1e-7)
        np.testing.assert_allclose(flat(gradient(tree(x))), flat(expected(tree(x))), rtol=1e-4, atol=1e-6)


@each_penalty
def test_derivatives_at_zero_are_finite(penalty: Penalty) -> None:
    zero = tree(np.zeros(3))
    np.testing.assert_array_equal(flat(penalty.gradient(zero)), 0.0)
    assert np.isfinite(flat(jax.grad(penalty.value)(zero))).all()


@each_penalty
def test_constants_hold_and_are_tight(penalty: Penalty) -> None:
    points = np.random.default_rng(3).normal(size=(400, 3)) * 0.2
    if penalty.name == "sine":  # its curvature goes through all values as the radius grows
        points *= np.linspace(0.01, 30, 400)[:, None]
    second = jax.jit(jax.vmap(jax.jacfwd(penalty.gradient)))(jnp.asarray(points, jnp.float32))
    eigenvalues = np.linalg.eigvalsh(np.asarray(second, np.float64))
    assert eigenvalues.min() == pytest.approx(penalty.strong_convexity, abs=0.02)
    if math.isfinite(penalty.smoothness):
        assert np.abs(eigenvalues).max() == pytest.approx(penalty.smoothness, abs=0.02)
    else:
        below, above = (flat(penalty.gradient(tree(np.full(3, s)))) for s in (-1e-6, 1e-6))
        assert np.abs(above - below).min() > 0.5


def test_walls() -> None:
    assert math.isinf(float(ball(1.0).value(jnp.array([0.8, 0.7]))))
    assert math.isinf(float(box(1.0).value(jnp.array([0.0, 1.1]))))
    np.testing.assert_allclose(prox(ball(1.0), jnp.array([3.0, 4.0]), 0.0), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(prox(box(1.0), jnp.array([3.0, -0.5]), 0.0), [1.0, -0.5], rtol=1e-6)


@each_penalty
def test_what_a_penalty_says_of_itself_is_so(penalty: Penalty) -> None:
    """What is released rests on it: where a gradient says all, and is affine, optima are moved by less."""
    far, rng = tree(np.array([3.0, -4.0, 5.0])), np.random.default_rng(0)
    assert penalty.walled == (not np.isfinite(float(penalty.value(far))))
    points = rng.normal(size=(200, 2, 3)) * 0.2
    slopes = [
        [flat(penalty.gradient(tree(x))) for x in (one, other, (one + other) / 2)] for one, other in points
    ]
    bends = max(float(np.abs((one + other) / 2 - middle).max()) for one, other, middle in slopes)
    assert penalty.affine == (bends < 1e-5 and not penalty.walled)
    assert penalty.smooth == (math.isfinite(penalty.smoothness) and not penalty.walled)


def test_prox_of_elastic_net_is_a_soft_threshold() -> None:
    shrunk = prox(elastic_net(1.0, 1.0), jnp.array([3.0, 0.4, -2.0]), 0.5)
    np.testing.assert_allclose(shrunk, [2.5 / 1.5, 0.0, -1.5 / 1.5], rtol=1e-6)


def test_settings() -> None:
    assert l2(0.3) is l2(0.3)
    assert set(PENALTIES) == {penalty.name for penalty in ALL}
    with pytest.raises(InputError, match=r"strength=-1\.0"):
        l2(-1.0)
    with pytest.raises(InputError, match="radius"):
        ball(0.0)
