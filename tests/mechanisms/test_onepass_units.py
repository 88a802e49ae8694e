"""The C function for units of several records: XLA's sums and norms, and the bound, whatever a unit is made of."""

from functools import cache, partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie import topologies
from coterie.engines.simulate import simulate
from coterie.engines.spmd import spmd
from coterie.mechanisms import onepass
from coterie.mechanisms.clipping import Clipped
from coterie.problems.losses import softmax
from coterie.problems.models import linear
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped
from coterie.program import Batch, Shards
from coterie.protocols.dual_averaging import Settings, build
from coterie.protocols.task import Task
from coterie.units import Unit

CLIP = 0.3
CASES = [  # owners, units, most records of one, dim, classes: groups and their rests, one part and several
    (2, 130, 5, 784, 10),
    (3, 40, 2, 250, 3),
    (2, 700, 3, 64, 26),
    (1, 12, 32, 784, 10),
    (2, 60, 20, 81, 128),
    (2, 3, 1, 11000, 4),
]


def world(owners: int, units: int, most: int, dim: int, classes: int) -> tuple[np.ndarray, Batch]:
    """Owners' models and units of one to `most` records of norm about one; what fills the other places is no number."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(owners, units, most, dim)).astype(np.float32) / np.float32(np.sqrt(dim))
    within = rng.integers(1, most + 1, (owners, units)).astype(np.int32)
    x[np.arange(most) >= within[..., None]] = np.nan
    y = rng.integers(0, classes, (owners, units, most)).astype(np.int32)
    mask = (rng.random((owners, units)) < 0.9).astype(np.float32)
    return (3 * rng.normal(size=(owners, dim, classes))).astype(np.float32), Batch(x, y, mask, within)


def found(params: np.ndarray, batch: Batch, mean: bool = False, compiled: bool = True) -> Clipped:
    """Everyone's sums, by the C function or by XLA's products."""
    own = clipping(*params.shape[1:], mean, onepass.available() if compiled else None)
    with mock.patch.object(onepass, "serves", return_value=compiled):
        if compiled:
            assert "onepass_gram" in str(jax.make_jaxpr(own)(params, batch))
        return own(params, batch)


@cache
def clipping(dim: int, classes: int, mean: bool, name: str | None):
    """Compiled once for the C function of a `name`, as one program: step by step it would be some fifty."""
    problem = Problem(linear(dim, classes), softmax(classes), none(), mean=mean)
    return jax.jit(jax.vmap(partial(clipped, problem, clip_norm=CLIP)))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(("owners", "units", "most", "dim", "classes"), CASES)
def test_sums_and_norms_are_those_of_xlas_products(width, owners, units, most, dim, classes, mean):
    params, batch = world(owners, units, most, dim, classes)
    ours, wanted = (found(params, batch, mean, compiled) for compiled in (True, False))
    np.testing.assert_allclose(ours.norms, wanted.norms, rtol=5e-5, atol=1e-5)
    largest = np.max(np.abs(wanted.total))
    assert np.all(np.isfinite(ours.total))
    assert largest > 0.01
    np.testing.assert_allclose(ours.total / largest, wanted.total / largest, atol=5e-5)


@pytest.mark.parametrize(("owners", "units", "most", "dim", "classes"), CASES)
def test_products_of_features_are_those_of_numpy(width, owners, units, most, dim, classes):
    _, batch = world(owners, units, most, dim, classes)
    there = np.arange(most) < batch.within[..., None]
    x = np.where(there[..., None], batch.x, 0).astype(np.float64)
    wanted = np.einsum("outi,ousi->outs", x, x)
    np.testing.assert_allclose(jax.vmap(onepass.gram)(batch), wanted, atol=1e-5)
    np.testing.assert_allclose(onepass.gram(jax.tree.map(lambda leaf: leaf[0], batch)), wanted[0], atol=1e-5)


def one_unit(kind: str, most: int, dim: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Features and classes of a hostile unit, and how many records it has."""
    rng = np.random.default_rng(1)
    x = np.repeat(rng.normal(size=(1, dim)), most, axis=0).astype(np.float32)  # all aligned
    y, within = np.zeros(most, np.int32), most
    if kind == "one record":
        within = 1
    elif kind == "cancelling":
        x[1::2] *= -1
    elif kind == "cancelling, huge":
        x *= np.float32(1e15)
        x[1::2] *= np.float32(-1 - 2e-7)
    elif kind == "tiny":
        x *= np.float32(1e-30)
    elif kind == "huge and tiny":
        x[0] *= np.float32(1e17)
        x[1:] *= np.float32(1e-20)
    elif kind == "overflows when squared":
        x *= np.float32(1e30)
    elif kind == "one is no number":
        x[most // 2, 3] = np.nan
    elif kind == "one is infinite":
        x[most - 1, 0] = np.inf
    elif kind == "classes differ":
        y = rng.integers(0, 4, most).astype(np.int32)
    return x, y, within


KINDS = ("aligned", "one record", "cancelling", "cancelling, huge", "tiny", "huge and tiny", "overflows when squared",
         "one is no number", "one is infinite", "classes differ")  # fmt: skip


@pytest.mark.parametrize("flat", [True, False], ids=["zero model", "steep model"])
@pytest.mark.parametrize("most", [5, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_a_replaced_unit_moves_its_owners_sum_by_twice_the_clip_norm_at_most(width, kind, most, flat):
    params, batch = world(2, 80, most, 400, 4)
    params, batch.mask[:] = params * (not flat), 1
    other = Batch(*(part.copy() for part in batch[:3]), batch.within.copy())
    batch.within[1, 41] = 1  # a unit of one record …
    other.x[1, 41], other.y[1, 41], other.within[1, 41] = one_unit(kind, most, 400)  # … by a hostile one
    one, two = found(params, batch), found(params, other)
    assert np.array_equal(one.total[0], two.total[0])  # the other owner's sum does not change in any bit
    apart = np.linalg.norm(np.asarray(one.total[1], np.float64) - np.asarray(two.total[1], np.float64))
    assert apart <= 2 * CLIP * 1.00001


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [2, 5, 31])
def test_what_a_unit_adds_is_within_its_stated_norm_and_the_clip(width, kind, most):
    """Alone, so that no other unit's rounding has part in it; against its gradient in float64."""
    params = np.random.default_rng(2).normal(size=(1, 784, 10)).astype(np.float32)
    x, y, within = one_unit(kind, most, 784)
    batch = Batch(x[None, None], y[None, None], np.ones((1, 1), np.float32), np.array([[within]], np.int32))
    ours = found(params, batch)
    added = np.linalg.norm(np.asarray(ours.total, np.float64))
    assert added <= CLIP
    norm = float(ours.norms[0, 0])
    if np.isfinite(norm) and norm < 1e38:
        factor = min(1.0, CLIP / norm)
        assert added <= factor * norm * (1 + 1e-6)
        if kind in ("aligned", "classes differ", "one record"):  # nothing is lost where nothing cancels
            wanted = found(params, batch, compiled=False)
            np.testing.assert_allclose(ours.total, wanted.total, atol=1e-5)
            assert added > 0.9 * min(CLIP, norm)
    else:
        assert added == 0


def test_the_worst_neighbours_are_as_far_apart_as_the_bound(width):
    """Opposite units, both clipped: a larger sum than certified would be seen here."""
    params, batch = world(1, 70, 5, 40, 2)
    batch.mask[:] = 1
    batch.within[0, 5], batch.y[0, 5] = 5, 0
    one, two = batch.x.copy(), batch.x.copy()
    one[0, 5], two[0, 5] = 50.0, -50.0
    totals = [np.asarray(found(0 * params, batch._replace(x=x)).total) for x in (one, two)]
    np.testing.assert_allclose(np.linalg.norm(totals[0] - totals[1]), 2 * CLIP, rtol=1e-4)


def test_an_owners_sum_is_the_same_to_the_bit_whoever_else_is_there(width):
    params, batch = world(5, 700, 3, 33, 4)
    everyone = found(params, batch).total
    for owner in (0, 3):
        alone = jax.tree.map(lambda part, owner=owner: part[owner : owner + 1], batch)
        assert np.array_equal(everyone[owner], found(params[owner : owner + 1], alone).total[0])


def test_padding_is_never_seen(width):
    params, batch = world(2, 90, 5, 100, 4)
    there = np.arange(5) < batch.within[..., None]
    zeros = batch._replace(x=np.where(there[..., None], batch.x, 0), y=np.where(there, batch.y, 0))
    assert np.array_equal(found(params, batch).total, found(params, zeros).total)


def test_simulated_owners_use_it_and_careful_or_large_units_do_not():
    params, batch = world(3, 100, 5, 100, 4)
    problem = Problem(linear(100, 4), softmax(4), none())

    def text(problem: Problem, batch: Batch) -> str:
        return str(jax.make_jaxpr(jax.vmap(partial(clipped, problem, clip_norm=CLIP)))(params, batch))

    assert ("onepass" in text(problem, batch)) == (onepass.available() is not None)
    assert "onepass" not in text(problem._replace(careful=True), batch)
    few = jax.tree.map(lambda part: part[:, :4], batch)
    assert "onepass" not in text(problem, few)
    _, large = world(3, 20, 33, 100, 4)
    assert "onepass" not in text(problem, large)


def test_repeats_on_the_same_records_are_the_runs_one_by_one():
    """Sweeps map over seeds what is mapped over owners."""
    params, batch = world(3, 100, 5, 100, 4)
    own = jax.jit(jax.vmap(partial(clipped, Problem(linear(100, 4), softmax(4), none()), clip_norm=CLIP)))
    many = np.stack([params, 2 * params])
    found = jax.jit(jax.vmap(own, (0, None)))(many, batch)
    for lane in range(2):
        np.testing.assert_allclose(found.total[lane], own(many[lane], batch).total, rtol=1e-4, atol=3e-5)
    twice = jax.tree.map(lambda part: np.stack([part, part]), batch)
    np.testing.assert_allclose(jax.jit(jax.vmap(own))(many, twice).total, found.total, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("mean", [False, True])
def test_devices_find_what_one_process_finds(mean):
    """`spmd` shares owners out; a device's sums must be simulate's to the bit."""
    _, batch = world(3, 100, 5, 100, 4)
    task = Task(
        problem=Problem(linear(100, 4), softmax(4), none()),
        sizes=(100,) * 3,
        clip_norm=CLIP,
        epsilon=(1.0,) * 3,
        delta=1e-5,
        topology=topologies.build("ring", 3),
        params=jnp.zeros((100, 4)),
        unit=Unit("column", column="person", records=5, mean=mean),
    )
    program = build(task, Settings(rounds=3), "certified")
    shards = Shards(
        jnp.asarray(batch.x), jnp.asarray(batch.y), jnp.full(3, 100, jnp.int32), jnp.asarray(batch.within)
    )
    one = simulate(program, shards, topologies.mixer(task.topology), seed=1)
    two = spmd(program, shards, topologies.mixer(task.topology), seed=1)
    assert np.array_equal(one.model, two.model)
