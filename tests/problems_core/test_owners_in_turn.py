"""Many owners with many parts of records each: taken one after the other, every owner's sum is its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.problems.losses import softmax
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped
from coterie.program import Batch

OWNERS, ROWS, DIM, CLASSES = 3, 11, 6, 3


def world(model: Model) -> tuple[Problem, object, Batch, jax.Array]:
    """Owners with records, models and thresholds of their own; some records are padding, one is hostile."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(OWNERS, ROWS, DIM)).astype(np.float32)
    x[1, 2, 3] = np.nan
    y = rng.integers(0, CLASSES, (OWNERS, ROWS)).astype(np.int32)
    mask = (np.arange(ROWS) < np.array([[11], [9], [4]])).astype(np.float32)
    params = jax.vmap(model.init)(jax.random.split(jax.random.key(2), OWNERS))
    params = jax.tree.map(
        lambda leaf: leaf + 0.1 * jnp.arange(1.0, 4.0).reshape(-1, *[1] * (leaf.ndim - 1)), params
    )
    rows = Batch(*(jnp.asarray(part) for part in (x, y, mask)))
    return Problem(model, softmax(CLASSES), none()), params, rows, jnp.asarray([0.3, 0.5, 0.7])


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize(
    "model", [linear(DIM, CLASSES), two_layer(DIM, 64, CLASSES)], ids=lambda one: one.name
)
def test_mapped_over_owners_it_is_each_owners_own_sum(model: Model, careful: bool) -> None:
    problem, params, rows, thresholds = world(model)
    problem = problem._replace(microbatch=4, careful=careful)
    mapped = jax.jit(jax.vmap(lambda *given: clipped(problem, *given)))(params, rows, thresholds)
    whole = jax.jit(lambda *given: clipped(problem._replace(microbatch=ROWS), *given))
    for owner in range(OWNERS):
        own = jax.tree.map(lambda leaf, owner=owner: leaf[owner], (params, rows, thresholds))
        found = jax.tree.map(lambda leaf, owner=owner: leaf[owner], mapped)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, whole(*own))


def test_what_all_owners_share_need_not_be_repeated() -> None:
    problem, params, rows, thresholds = world(linear(DIM, CLASSES))
    records = jax.tree.map(lambda leaf: leaf[0], rows)
    parted = problem._replace(microbatch=4)
    found = jax.jit(jax.vmap(lambda p, c: clipped(parted, p, records, c).total))(params, thresholds)
    for owner in range(OWNERS):
        alone = clipped(problem, params[owner], records, thresholds[owner]).total
        np.testing.assert_allclose(found[owner], alone, rtol=1e-4, atol=1e-5)


def test_repeats_of_many_owners_are_the_owners_repeated() -> None:
    """Sweeps map once more, over seeds."""
    problem, params, rows, thresholds = world(linear(DIM, CLASSES))
    parted = problem._replace(microbatch=4)
    owners = jax.vmap(lambda p, r, c: clipped(parted, p, r, c).total)
    found = jax.jit(jax.vmap(owners, (0, None, None)))(jnp.stack([params, -params]), rows, thresholds)
    for sign, one in zip((1.0, -1.0), found):
        np.testing.assert_allclose(one, owners(sign * params, rows, thresholds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [1, 8, 9, 10, 12, 13, 16, 26])
def test_scores_of_any_number_of_columns(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, params = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((70, DIM), (DIM, columns)))
    found = linear(DIM, columns).factors(params, x, lambda scores: scores).slopes  # type: ignore[misc]
    np.testing.assert_allclose(found, np.asarray(x) @ np.asarray(params), rtol=1e-5, atol=1e-5)
