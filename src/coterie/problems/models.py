"""Models: how parameters and a record's features make scores."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.mechanisms.clipping import Outer
from coterie.registry import Registry


class Model(NamedTuple):
    """Scores of records. Equal settings give the same object, so a model is static under `jit`."""

    name: str
    outputs: int
    init: Callable[[Array], PyTree]  # (key) -> params
    scores: Callable[[PyTree, Array], Array]  # (params, x (rows, ...)) -> (rows, outputs)
    factors: Callable[[PyTree, Array, Callable[[Array], Array]], PyTree] | None = None
    # (params, x, slope of the loss in the scores) -> a tree like params of `Outer` or `Places`; None: no closed form
    is_linear: bool = False  # params is one (dim, outputs) array and scores = x @ params
    activation: str | None = None  # of the hidden layer
    microbatch: int | None = None  # records worked on at once, unless told; None: as many as stay in cache
    reach: float = 1.0  # how far parameters that move by one move the score of a record of norm one, about


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
        init=lambda key: jax.device_put(np.zeros((dim, outputs), np.float32)),  # compiles nothing
        scores=lambda params, x: x @ params,
        factors=lambda params, x, slope: Outer(x, slope(_narrow(x, params))),
        is_linear=True,
    )


def _narrow(x: Array, columns: Array) -> Array:
    """x @ columns. A CPU's vectors have 16 numbers, or 8: ten columns cost as much as 16, eight and two cost less."""
    width, few_rows = columns.shape[1], x.shape[0] < 64
    if few_rows or not 8 < width % 16 <= 12:
        return x @ columns
    cut = width // 8 * 8
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
        activation=activation,
        reach=math.sqrt(hidden + 1),  # the last layer's weights and constant meet hidden values of up to one
    )


# An activation, and its derivative as a function of the activation's own value.
_BENDS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (jnp.tanh, lambda value: 1.0 - value * value),
    "relu": (jax.nn.relu, lambda value: (value > 0).astype(value.dtype)),
}


def _factory(name: str, thing: Any) -> Callable[..., Model]:
    """(dim, outputs) -> model, of a model or a module, or of a function that makes one of these.

    A module is what Flax has, with `init(key, x)` and `apply(params, x)`, or what Equinox has: a tree of arrays that is
    called with one row.
    """
    if thing is linear or thing is two_layer:
        return thing
    if not callable(thing) and not _is_model(thing):
        raise InputError(
            f"model={name!r}: is a {type(thing).__name__}; must be a Model, a module with init and apply, a module of "
            "arrays that is called with one row, or a function (dim, outputs) that makes one of these."
        )

    @lru_cache
    def make(dim: int, outputs: int) -> Model:
        built = thing
        if isinstance(thing, type) or not _is_model(thing):
            known = inspect.signature(thing).parameters
            given = {"dim": dim, "outputs": outputs}
            built = thing(**{key: value for key, value in given.items() if key in known})
        return _one_by_one(_fitting(_as_model(name, built, dim, outputs), dim))

    return make


def _is_model(thing: Any) -> bool:
    return (
        isinstance(thing, Model)
        or (hasattr(thing, "init") and hasattr(thing, "apply"))
        or bool(_arrays(thing))
    )


def _arrays(thing: Any) -> list[Any]:
    """The arrays of a module that is a tree of them."""
    return [leaf for leaf in jax.tree.leaves(thing) if isinstance(leaf, (jax.Array, np.ndarray))]


def _as_model(name: str, built: Any, dim: int, outputs: int) -> Model:
    if isinstance(built, Model):
        if built.outputs != outputs:
            raise InputError(f"model={name!r}: gives {built.outputs} scores a row; the loss takes {outputs}.")
        return built._replace(name=name)
    if hasattr(built, "init") and hasattr(built, "apply"):
        row = jnp.zeros((1, dim), jnp.float32)
        return Model(
            name, outputs, lambda key: built.init(key, row), lambda params, x: built.apply(params, x)
        )
    if not _arrays(built):
        raise InputError(f"model={name!r}: gave a {type(built).__name__}, where a Model or a module is due.")
    leaves, form = jax.tree.flatten(built)
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]

    def scores(params: PyTree, x: Array) -> Array:
        filled = list(leaves)
        for at, value in zip(places, params):
            filled[at] = value
        return jax.vmap(jax.tree.unflatten(form, filled))(x)

    return Model(name, outputs, lambda key: [jnp.asarray(leaves[at]) for at in places], scores)


def _one_by_one(model: Model) -> Model:
    """Somebody else's model, of every record by itself, whatever it does to a batch.

    Sensitivity: a record's gradient is clipped by itself, so it must not depend on other records; here it cannot, as
    scores are of one row and no closed form of several is taken.
    """

    def scores(params: PyTree, x: Array) -> Array:
        return jax.vmap(lambda row: model.scores(params, row[None])[0])(x)

    return model._replace(scores=scores, factors=None, is_linear=False)


def _fitting(model: Model, dim: int) -> Model:
    """The model, if rows of `dim` numbers have scores by it and its parameters are real numbers; else an error."""
    try:
        params = jax.eval_shape(model.init, jax.random.key(0))
        scores = jax.eval_shape(model.scores, params, jax.ShapeDtypeStruct((2, dim), jnp.float32))
    except Exception as error:  # of somebody else's function
        why = " ".join(f"{type(error).__name__}: {error}".split())[:_SAID]
        raise InputError(f"model={model.name!r}: has no scores of rows of {dim} numbers ({why}).") from error
    if any(leaf.dtype != jnp.float32 for leaf in jax.tree.leaves(params)) or not jax.tree.leaves(params):
        raise InputError(f"model={model.name!r}: its parameters must be float32 arrays, one or more.")
    if getattr(scores, "shape", None) != (2, model.outputs):
        raise InputError(
            f"model={model.name!r}: two rows of {dim} numbers have scores of shape {getattr(scores, 'shape', None)}; "
            f"must be (2, {model.outputs})."
        )
    return model


_SAID = 200  # characters of somebody else's error that are repeated
MODELS: Registry[Callable[..., Model]] = Registry(
    "model", "coterie.models", _factory, {"linear": linear, "two_layer": two_layer}
)


_path = partial(jax.tree_util.keystr, simple=True, separator="/")


def flat(params: PyTree) -> dict[str, np.ndarray]:
    """A tree of parameters as arrays by name: `weights` where it is one array, else its path, such as `layer/bias`.

    >>> {name: leaf.shape for name, leaf in flat({"w1": jnp.zeros(2), "deep": [jnp.ones(1)]}).items()}
    {'deep/0': (1,), 'w1': (2,)}
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {_path(path) or "weights": np.asarray(leaf, np.float32) for path, leaf in leaves}


def filled(model: Model, arrays: Mapping[str, np.ndarray]) -> PyTree:
    """The model's parameters, of arrays as `flat` names them; ValueError unless they are those and of their shapes."""
    like, form = jax.tree_util.tree_flatten_with_path(jax.eval_shape(model.init, jax.random.key(0)))
    names = [_path(path) or "weights" for path, _ in like]
    if set(names) != set(arrays) or any(
        arrays[name].shape != leaf.shape for name, (_, leaf) in zip(names, like)
    ):
        raise ValueError(f"its weights are not those of the model {model.name!r}")
    return jax.tree.unflatten(form, [jnp.asarray(arrays[name]) for name in names])
