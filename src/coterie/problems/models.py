"""Models: how parameters and a record's features make scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array, PyTree
from coterie.mechanisms.clipping import Outer


class Model(NamedTuple):
    """Scores of records. Equal settings give the same object, so a model is static under `jit`."""

    name: str
    outputs: int
    init: Callable[[Array], PyTree]  # (key) -> params
    scores: Callable[[PyTree, Array], Array]  # (params, x (rows, ...)) -> (rows, outputs)
    factors: Callable[[PyTree, Array, Callable[[Array], Array]], PyTree] | None = None
    # (params, x, slope of the loss in the scores) -> a tree like params of `Outer` or `Places`; None: no closed form
    is_linear: bool = False  # params is one (dim, outputs) array and scores = x @ params
    microbatch: int | None = None  # records worked on at once, unless told; None: as many as stay in cache


@lru_cache
def linear(dim: int, outputs: int = 1) -> Model:
    """x @ params, from zeros. An intercept is a feature (see `features`).

    >>> linear(3, 2).init(jax.random.key(0)).shape
    (3, 2)
    """
    _check.count("dim", dim)
    _check.count("outputs", outputs)
    return Model(
        name="linear",
        outputs=outputs,
        init=lambda key: jnp.zeros((dim, outputs), jnp.float32),
        scores=lambda params, x: x @ params,
        factors=lambda params, x, slope: Outer(x, slope(_narrow(x, params))),
        is_linear=True,
    )


def _narrow(x: Array, columns: Array) -> Array:
    """x @ columns. A CPU's vectors have 16 numbers, or 8: ten columns cost as much as 16, eight and two cost less."""
    many, few = columns.shape[1], x.shape[0] < 64
    if few or not 8 < many % 16 <= 12:
        return x @ columns
    cut = many // 8 * 8
    return jnp.concatenate([x @ columns[:, :cut], x @ columns[:, cut:]], axis=1)


@lru_cache
def two_layer(dim: int, hidden: int, outputs: int = 1, activation: str = "tanh") -> Model:
    """One hidden layer (`tanh` or `relu`), Xavier weights, zero biases; features are flattened."""
    for name, value in (("dim", dim), ("hidden", hidden), ("outputs", outputs)):
        _check.count(name, value)
    bend, bend_slope = _BENDS[_check.one_of("activation", activation, _BENDS)]

    def init(key: Array) -> PyTree:
        xavier, (first, second) = jax.nn.initializers.glorot_uniform(), jax.random.split(key)
        return {
            "w1": xavier(first, (dim, hidden), jnp.float32),
            "b1": jnp.zeros(hidden, jnp.float32),
            "w2": xavier(second, (hidden, outputs), jnp.float32),
            "b2": jnp.zeros(outputs, jnp.float32),
        }

    def inner(params: PyTree, x: Array) -> Array:
        return bend(x.reshape(x.shape[0], -1) @ params["w1"] + params["b1"][None])

    def outer(params: PyTree, hidden_values: Array) -> Array:
        return hidden_values @ params["w2"] + params["b2"][None]

    def factors(params: PyTree, x: Array, slope: Callable[[Array], Array]) -> PyTree:
        """Backpropagation by hand: each layer's inputs and the loss's slopes in its outputs."""
        values = inner(params, x)
        last = slope(outer(params, values))
        first = (last @ params["w2"].T) * bend_slope(values)
        return {
            "w1": Outer(x.reshape(x.shape[0], -1), first),
            "b1": Outer(None, first),
            "w2": Outer(values, last),
            "b2": Outer(None, last),
        }

    return Model(
        name="two_layer",
        outputs=outputs,
        init=init,
        scores=lambda params, x: outer(params, inner(params, x)),
        factors=factors,
    )


# An activation, and its derivative as a function of the activation's own value.
_BENDS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (jnp.tanh, lambda value: 1.0 - value * value),
    "relu": (jax.nn.relu, lambda value: (value > 0).astype(value.dtype)),
}

MODELS: dict[str, Callable[..., Model]] = {"linear": linear, "two_layer": two_layer}
