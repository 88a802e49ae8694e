"""The C function against the clipping it stands for: same sums, same norms, same bound, hostile records included."""

import os
import platform
import shutil
import sysconfig
from functools import partial
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.engines.spmd import spmd
from coterie.mechanisms import onepass
from coterie.mechanisms.clipping import Outer, clip_outer, row_norms, upright
from coterie.problems.losses import softmax
from coterie.problems.models import linear
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, _Measured, clipped
from coterie.program import Batch, Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task

CLIP = 0.3
CASES = [  # owners, rows, dim, classes, order: vectors and their rests, one part and several, few and many columns
    (2, 300, 784, 10, 2),
    (3, 77, 50, 2, 1),
    (2, 64, 17, 3, 2),
    (1, 1, 3, 5, 2),
    (2, 2100, 64, 26, 1),
    (1, 40, 16, 128, 2),
]


def world(owners: int, rows: int, dim: int, classes: int, seed: int = 0) -> tuple[np.ndarray, Batch]:
    """Owners' models and records of norm about one; a tenth of the rows are padding."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(owners, rows, dim)).astype(np.float32) / np.float32(np.sqrt(dim))
    y = rng.integers(0, classes, (owners, rows)).astype(np.int32)
    mask = (rng.random((owners, rows)) < 0.9).astype(np.float32)
    return (3 * rng.normal(size=(owners, dim, classes))).astype(np.float32), Batch(x, y, mask)


def called(order: int, params: np.ndarray, batch: Batch):
    norms = jax.vmap(partial(row_norms, order=order))(jnp.asarray(batch.x))
    measured = _Measured(*jax.tree.map(jnp.asarray, batch), norms)
    return onepass._called(order, jnp.asarray(params), jnp.full(len(params), CLIP), measured)


def expected(order: int, params: np.ndarray, batch: Batch):
    def own(params, x, y, mask):
        slopes = softmax(params.shape[1]).slope(jnp.nan_to_num(x) @ params, y)
        return upright(clip_outer(Outer(x, slopes), mask, CLIP, order))

    return jax.vmap(own)(jnp.asarray(params), *map(jnp.asarray, batch[:3]))


def test_it_is_compiled_wherever_it_can_be():
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC")).split()[0]
    can = platform.machine() == "x86_64" and shutil.which(compiler) is not None
    built = find_spec("coterie.mechanisms._onepass") is not None
    assert built == can, "run `make install` again: the C function was not compiled"


@pytest.mark.parametrize(("owners", "rows", "dim", "classes", "order"), CASES)
def test_sums_and_norms_are_those_of_the_closed_form(width, owners, rows, dim, classes, order):
    params, batch = world(owners, rows, dim, classes)
    found, wanted = called(order, params, batch), expected(order, params, batch)
    np.testing.assert_allclose(found.norms, wanted.norms, rtol=2e-5, atol=5e-6)
    largest = np.max(np.abs(wanted.total))
    np.testing.assert_allclose(found.total / largest, wanted.total / largest, atol=2e-5)


HOSTILE = {
    "nan": np.nan,
    "infinity": np.inf,
    "overflows when squared": 1e30,
    "overflows when multiplied": 3e38,
    "vanishes when squared": 1e-30,
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_replaced_record_moves_its_owners_sum_by_twice_the_clip_norm_at_most(width, content, order):
    params, batch = world(2, 70, 40, 4)
    other = batch.x.copy()
    other[1, 33] = content
    one, two = (called(order, params, batch._replace(x=x)).total for x in (batch.x, other))
    assert np.array_equal(one[0], two[0])  # the other owner's sum does not change in any bit
    apart = np.linalg.norm(np.asarray(one[1] - two[1]).ravel().astype(np.float64), ord=order)
    assert apart <= 2 * CLIP * 1.00001


def test_the_worst_neighbours_are_as_far_apart_as_the_bound(width):
    """Opposite records, both clipped: a larger sum than certified would be seen here."""
    params, batch = world(1, 70, 40, 2)
    batch.mask[:] = 1
    one, two = batch.x.copy(), batch.x.copy()
    one[0, 5], two[0, 5] = 50.0, -50.0
    flat = np.zeros_like(params)
    apart = called(2, flat, batch._replace(x=one)).total - called(2, flat, batch._replace(x=two)).total
    np.testing.assert_allclose(np.linalg.norm(apart), 2 * CLIP, rtol=1e-4)


def test_an_owners_sum_is_the_same_to_the_bit_whoever_else_is_there(width):
    params, batch = world(5, 2100, 33, 4)
    everyone = called(2, params, batch).total
    for owner in (0, 3):
        alone = called(
            2,
            params[owner : owner + 1],
            jax.tree.map(lambda part, owner=owner: part[owner : owner + 1], batch),
        )
        assert np.array_equal(everyone[owner], alone.total[0])


def big_problem(**more) -> tuple[Problem, np.ndarray, Batch]:
    params, batch = world(3, 400, 100, 4)
    return Problem(linear(100, 4), softmax(4), none(), **more), params, batch


def text_of(problem: Problem, params: np.ndarray, batch: Batch) -> str:
    return str(jax.make_jaxpr(jax.vmap(partial(clipped, problem, clip_norm=CLIP)))(params, batch))


def test_simulated_owners_use_it_and_careful_ones_do_not():
    problem, params, batch = big_problem()
    assert ("onepass" in text_of(problem, params, batch)) == (onepass.available() is not None)
    assert "onepass" not in text_of(problem._replace(careful=True), params, batch)
    other = problem.loss._replace(slope=lambda scores, y: scores)  # by the same name
    assert "onepass" not in text_of(problem._replace(loss=other), params, batch)
    few = jax.tree.map(lambda part: part[:, :20], batch)
    assert "onepass" not in text_of(problem, params, few)


def test_repeats_on_the_same_records_are_the_runs_one_by_one():
    """Sweeps map over seeds what is mapped over owners."""
    problem, params, batch = big_problem()
    own = jax.vmap(partial(clipped, problem, clip_norm=CLIP))
    many = np.stack([params, 2 * params])
    found = jax.vmap(own, (0, None))(many, batch)
    for lane in range(2):
        wanted = own(many[lane], batch)
        np.testing.assert_allclose(found.total[lane], wanted.total, rtol=1e-4, atol=3e-5)
    alone = jax.vmap(partial(clipped, problem, clip_norm=CLIP), (0, None))
    first = jax.tree.map(lambda part: part[0], batch)  # one owner, several models
    np.testing.assert_allclose(alone(params, first).total[0], found.total[0, 0], rtol=1e-4, atol=3e-5)


def test_devices_find_what_one_process_finds():
    """`spmd` shares owners out; a device's sums must be simulate's to the bit."""
    problem, _, batch = big_problem()
    task = Task(
        problem=problem,
        sizes=(400,) * 3,
        clip_norm=CLIP,
        epsilon=(1.0,) * 3,
        delta=1e-5,
        topology=topologies.build("ring", 3),
        params=jnp.zeros((100, 4)),
    )
    program = build(task, Settings(rounds=3), "certified")
    shards = Shards(jnp.asarray(batch.x), jnp.asarray(batch.y), jnp.full(3, 400, jnp.int32))
    one = simulate(program, shards, topologies.mixer(task.topology), seed=1)
    two = spmd(program, shards, topologies.mixer(task.topology), seed=1)
    assert np.array_equal(one.model, two.model)
