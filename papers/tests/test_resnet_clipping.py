"""The residual network clipped record by record without the records' gradients: as with them, for any record."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie._types import PyTree
from coterie.mechanisms import places
from coterie.problems.losses import softmax
from coterie.problems.penalties import none
from coterie.problems.problem import Problem, clipped, clipped_sum
from coterie.program import Batch
from coterie.relations import REPLACE_ONE
from papers import resnet

CLIP = 0.3
OWNERS, ROWS = 2, 5
# What is compared is arithmetic, and the compiler is most of what these tests take: it shall not try hard.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def pictures(owners: int = OWNERS, rows: int = ROWS) -> Batch:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (owners, rows, 8, 8, 3)).astype(np.float32)
    y = rng.integers(0, 3, (owners, rows)).astype(np.int32)
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones((owners, rows), jnp.float32))


def problem(precision: resnet.Precision = "float32") -> Problem:
    model = resnet.resnet(3, blocks=(1, 1), width=4, groups=2, precision=precision)
    return Problem(model, softmax(3), none())


START = jax.jit(problem().model.init)(jax.random.key(0))


def everywhere(places: int, fan_in: int, fan_out: int) -> bool:
    return True


def nowhere(places: int, fan_in: int, fan_out: int) -> bool:
    return False


def late(places: int, fan_in: int, fan_out: int) -> bool:
    return places <= 16


@pytest.mark.parametrize(
    ("size", "stride", "pixels", "dtype"),
    [
        (3, 1, 8, jnp.float32),
        (3, 1, 2, jnp.float32),
        (3, 2, 7, jnp.float32),
        (1, 2, 8, jnp.float32),
        (3, 2, 1, jnp.float32),
        (3, 1, 8, jnp.bfloat16),
        (3, 2, 8, jnp.bfloat16),
    ],
)
def test_a_layers_factors_make_its_gradients(
    size: int, stride: int, pixels: int, dtype: jnp.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of pixels (eight a side) and neighbourhoods, strides, the skip's single pixels; formed and not."""
    draw, side = np.random.default_rng(0).standard_normal, -(-pixels // stride)
    x = jnp.asarray(draw((2, pixels, pixels, 3)), dtype)
    layer = {
        "w": jnp.asarray(draw((size, size, 3, 6)), jnp.float32),
        "scale": jnp.full(6, 1.5),
        "shift": jnp.ones(6),
    }
    slope = jnp.asarray(draw((2, side, side, 6)), dtype)

    def value(layer: PyTree, x: jax.Array) -> tuple[jax.Array, resnet._Seen]:
        return resnet._convolve(layer, x, 2, stride)

    def one_by_one(x: jax.Array, slope: jax.Array) -> PyTree:
        return jax.vjp(lambda layer: value(layer, x[None])[0], layer)[1](slope[None])[0]

    def factors(rule: Callable) -> PyTree:
        monkeypatch.setattr(resnet, "pays", rule)
        taps = resnet._taps(layer, jax.eval_shape(value, layer, x)[1])
        _, back, seen = jax.vjp(lambda taps: value(layer | taps, x), taps, has_aux=True)
        found = resnet._layer_factors(layer, seen, *back(slope))
        w = found["w"]
        assert isinstance(w, places.Places) == (rule is everywhere)
        formed = places.formed(w) if isinstance(w, places.Places) else w.slopes.astype(jnp.float32)
        return {"w": formed, "scale": found["scale"].slopes, "shift": found["shift"].slopes}

    expected, *found = jax.jit(
        lambda: (jax.vmap(one_by_one)(x, slope), factors(everywhere), factors(nowhere))
    )()
    close = 1e-4 if dtype == jnp.float32 else 0.02
    for one in found:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=close * float(np.abs(b).max() + 1)),
            *jax.device_get((one, expected)),
        )


def test_sums_are_those_of_formed_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """No layer formed; and careful, as real owners are, all of them: then to the last bits."""
    monkeypatch.setattr(resnet, "pays", everywhere)
    closed, rows = problem(), jax.tree.map(lambda leaf: leaf[0], pictures())
    formed = closed._replace(model=closed.model._replace(factors=None))
    found, exact, expected = (
        jax.jit(lambda params, one=one: clipped(one, params, rows, 2.3), compiler_options=QUICK)(START)
        for one in (closed, closed._replace(careful=True), formed)
    )
    assert float(expected.norms.min()) < 2.3 < float(expected.norms.max())  # some clipped, some not
    for one, close in ((found, 1e-3), (exact, 2e-6)):
        np.testing.assert_allclose(one.norms, expected.norms, rtol=close)
        jax.tree.map(
            lambda a, b, close=close: np.testing.assert_allclose(a, b, atol=close), one.total, expected.total
        )


def test_owners_sums_are_those_of_formed_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped over owners, in parts, in half precision, with early layers formed and late ones not."""
    monkeypatch.setattr(resnet, "pays", late)
    closed = problem("bfloat16")
    formed = closed._replace(model=closed.model._replace(factors=None))
    params, bound = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.8 * leaf]), START), 2.3
    found, expected = (
        jax.jit(
            jax.vmap(lambda p, b, one=one: clipped(one._replace(microbatch=3), p, b, bound)),
            compiler_options=QUICK,
        )(params, pictures())
        for one in (closed, formed)
    )
    assert float(expected.norms.min()) < bound < float(expected.norms.max())
    np.testing.assert_allclose(found.norms, expected.norms, rtol=0.03)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=0.03 * bound), found.total, expected.total
    )


def test_hostile_pictures_move_the_sum_by_no_more_than_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours that differ in one record: huge, tiny, constant, NaN and infinite ones; and parameters that are."""
    monkeypatch.setattr(resnet, "pays", late)
    small, rows = problem("bfloat16"), jax.tree.map(lambda leaf: leaf[0], pictures())
    release = jax.jit(
        lambda params, x: clipped_sum(small, params, rows._replace(x=x), CLIP), compiler_options=QUICK
    )
    before = release(START, rows.x)
    changes = []
    for row in (1 - rows.x[0], rows.x[0] * 1e30, rows.x[0] * 1e-30, 0.5, np.nan, np.inf, 3e38, -1e19):
        after = release(START, rows.x.at[0].set(row))
        changes.append(np.linalg.norm([_apart(a, b) for a, b in zip(*map(jax.tree.leaves, (before, after)))]))
    assert 0.5 * CLIP < max(changes) <= REPLACE_ONE.reach * CLIP * (1 + 1e-4)
    for number in (np.nan, np.inf, 1e30):
        broken = jax.tree.map(lambda leaf, number=number: leaf.at[0].set(number), START)
        assert np.isfinite(
            [_apart(leaf, 0 * leaf) for leaf in jax.tree.leaves(release(broken, rows.x))]
        ).all()


def _apart(one: jax.Array, other: jax.Array) -> float:
    return float(np.linalg.norm((np.asarray(one, np.float64) - np.asarray(other, np.float64)).ravel()))
