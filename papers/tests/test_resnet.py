"""The residual network: its layers against JAX's own, its gradients record by record, and a run of the engine."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.mechanisms import FixedSize
from coterie.problems.losses import softmax
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped, clipped_mean, objective
from coterie.program import Batch, Shards
from coterie.protocols import Task, build
from coterie.topologies import build as topology
from coterie.topologies import mixer
from papers.resnet import _by_rows, _convolve, _neighbourhoods, _normalise, resnet

TINY = resnet(3, blocks=(1, 1), width=4, groups=2)
PROBLEM = Problem(TINY, softmax(3), none())
START = jax.jit(TINY.init)(jax.random.key(0))


def images(rows: int, seed: int = 0) -> Batch:
    """Classes are told apart by their brightest colour."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    x = rng.uniform(0, 0.5, (rows, 8, 8, 3)) + 0.5 * np.eye(3)[y][:, None, None]
    return Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.int32), jnp.ones(rows, jnp.float32))


@pytest.mark.parametrize(("size", "stride", "pixels"), [(3, 1, 8), (3, 2, 8), (3, 2, 7), (1, 2, 8)])
def test_neighbourhoods_make_a_convolution(size: int, stride: int, pixels: int) -> None:
    x = jax.random.normal(jax.random.key(0), (2, pixels, pixels, 3))
    w = jax.random.normal(jax.random.key(1), (size, size, 3, 5))
    margin = [(size // 2, size // 2)] * 2
    expected = jax.lax.conv_general_dilated(
        x, w, (stride, stride), margin, dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )
    found = jnp.tensordot(_neighbourhoods(x, size, stride), w.reshape(-1, 5), 1, precision="highest")
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("pixels", [(8, 8), (7, 5)])
def test_rows_of_pixels_make_the_same_convolution(pixels: tuple[int, int]) -> None:
    x = jax.random.normal(jax.random.key(0), (2, *pixels, 3))
    w = jax.random.normal(jax.random.key(1), (3, 3, 3, 5))

    def direct(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
        )

    (expected, back), (found, ours) = (
        jax.jit(lambda x, w, f=f: _with_slopes(f, x, w))(x, w) for f in (direct, _by_rows)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-3), ours, back)


def _with_slopes(function: Callable, *arguments: jax.Array) -> tuple:
    """Its value, and the slopes of the sum of the value's squares."""
    value, back = jax.vjp(function, *arguments)
    return value, back(2 * value)


@pytest.mark.parametrize(("groups", "own"), [(1, True), (2, True), (6, False)])
def test_the_norms_own_derivative_is_jaxs(groups: int, own: bool) -> None:
    """With scales and shifts of each record's own, and without."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = 3.0 * jax.random.normal(keys[0], (2, 5, 4, 6)) + 1.0
    shape = (2, 6) if own else (6,)
    scale, shift = jax.random.normal(keys[1], shape), jax.random.normal(keys[2], shape)

    def plain(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
        parts = x.reshape(2, 20, groups, 6 // groups)
        unit = jax.nn.standardize(parts, axis=(1, 3), epsilon=1e-5).reshape(x.shape)
        return unit * jnp.atleast_2d(scale)[:, None, None] + jnp.atleast_2d(shift)[:, None, None]

    expected, back = jax.jit(lambda *given: _with_slopes(plain, *given))(x, scale, shift)
    found, ours = jax.jit(lambda *given: _with_slopes(lambda *own: _normalise(*own, groups), *given))(
        x, scale, shift
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), ours, back)


def test_every_group_of_channels_is_normalised_by_itself() -> None:
    layer = {
        "w": jax.random.normal(jax.random.key(1), (3, 3, 3, 6)),
        "scale": jnp.ones(6),
        "shift": jnp.zeros(6),
    }
    x = jax.random.normal(jax.random.key(0), (4, 8, 8, 3)) * 7.0
    groups = np.asarray(_convolve(layer, x, groups=2)[0]).reshape(4, 64, 2, 3)
    np.testing.assert_allclose(groups.mean(axis=(1, 3)), 0.0, atol=1e-5)
    np.testing.assert_allclose(groups.std(axis=(1, 3)), 1.0, atol=1e-3)


def test_a_record_is_scored_alone() -> None:
    """GroupNorm's point: neither the other records nor their number matter."""
    rows, scores = images(3), jax.jit(TINY.scores)
    alone = jnp.concatenate([scores(START, rows.x[i : i + 1]) for i in range(3)])
    together = scores(START, rows.x)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_half_precision_comes_close_and_its_gradients_are_float32() -> None:
    params, rows = START, images(4)
    half = resnet(3, blocks=(1, 1), width=4, groups=2, precision="bfloat16")
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(half.scores(p, rows.x)[:, 0])))(params)
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {jnp.dtype("float32")}
    np.testing.assert_allclose(
        jax.jit(half.scores)(params, rows.x), jax.jit(TINY.scores)(params, rows.x), atol=0.2
    )


def test_clipping_records_one_by_one_and_as_a_whole() -> None:
    params, rows = START, images(5)
    free = jax.jit(lambda: clipped(PROBLEM._replace(microbatch=2), params, rows, np.inf))()
    together = jax.jit(lambda clip: clipped_mean(PROBLEM, params, rows, clip))
    mean = together(np.inf)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a / 5, b, atol=1e-5), free.total, mean.total)
    for clip in (0.1, 0.5):
        bound = clip * float(mean.norms[0])
        kept = together(bound)
        squares = [float(jnp.sum(jnp.square(leaf))) for leaf in jax.tree.leaves(kept.total)]
        assert np.sqrt(sum(squares)) == pytest.approx(bound, rel=1e-5)
        assert kept.norms[0] == pytest.approx(float(mean.norms[0]), rel=1e-5)


def test_a_batch_with_a_record_that_is_no_number_is_left_out() -> None:
    rows = images(3)
    broken = rows._replace(x=rows.x.at[0, 0, 0, 0].set(jnp.nan))
    found = jax.jit(lambda params: clipped_mean(PROBLEM, params, broken, 1.0))(START)
    assert all(float(jnp.abs(leaf).max()) == 0.0 for leaf in jax.tree.leaves(found.total))


def test_owners_learn_it_together_with_batches_that_count_as_one() -> None:
    owners, size, rows = 4, 12, images(48)
    task = Task(
        problem=PROBLEM,
        sizes=(size,) * owners,
        clip_norm=2.0,
        epsilon=(3.0,) * owners,
        delta=1e-5,
        topology=topology("one_peer_exponential", owners),
        params=START,
    )
    options = {"policy": "clipped", "batch": 6, "rounds": 30, "step": 0.1, "sigma": 0.01}
    program = build("push_sum", task, options, "paper")
    assert program.plan.sampler == FixedSize(6)
    shards = Shards(
        rows.x.reshape(owners, size, 8, 8, 3), rows.y.reshape(owners, size), jnp.full(owners, size, jnp.int32)
    )
    trace = simulate(program, shards, mixer(task.topology), seed=0)
    mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), trace.model)
    loss = jax.jit(lambda params: objective(PROBLEM, params, rows))
    assert loss(mean) < 0.5 * loss(task.params)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(InputError, match="groups=5: must divide the 8 channels"):
        resnet(10, width=8, groups=5)
