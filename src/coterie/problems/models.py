"""Models: how parameters and a record's features make scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array, PyTree


class Model(NamedTuple):
    """Scores of records. Equal settings give the same object, so a model is static under `jit`."""

    name: str
    outputs: int
    init: Callable[[Array], PyTree]  # (key) -> params
    scores: Callable[[PyTree, Array], Array]  # (params, x (rows, ...)) -> (rows, outputs)
    is_linear: bool = (
        False  # params is one (dim, outputs) array and scores = x @ params: gradients are x ⊗ slope
    )


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
        is_linear=True,
    )


@lru_cache
def two_layer(dim: int, hidden: int, outputs: int = 1, activation: str = "tanh") -> Model:
    """One hidden layer (`tanh` or `relu`), Xavier weights, zero biases; features are flattened."""
    for name, value in (("dim", dim), ("hidden", hidden), ("outputs", outputs)):
        _check.count(name, value)
    bend = {"tanh": jnp.tanh, "relu": jax.nn.relu}[_check.one_of("activation", activation, ("tanh", "relu"))]

    def init(key: Array) -> PyTree:
        xavier, (first, second) = jax.nn.initializers.glorot_uniform(), jax.random.split(key)
        return {
            "w1": xavier(first, (dim, hidden), jnp.float32),
            "b1": jnp.zeros(hidden, jnp.float32),
            "w2": xavier(second, (hidden, outputs), jnp.float32),
            "b2": jnp.zeros(outputs, jnp.float32),
        }

    def scores(params: PyTree, x: Array) -> Array:
        inner = bend(x.reshape(x.shape[0], -1) @ params["w1"] + params["b1"][None])
        return inner @ params["w2"] + params["b2"][None]

    return Model(name="two_layer", outputs=outputs, init=init, scores=scores)


MODELS: dict[str, Callable[..., Model]] = {"linear": linear, "two_layer": two_layer}
