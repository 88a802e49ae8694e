"""Losses of one record as functions of its scores, with the constants that theorems and step sizes need.

Scores are (rows, outputs) and targets (rows,), coded as in `Table`: binary -1.0 / +1.0, multiclass 0 … K-1,
regression any float. The constants are suprema over all scores and over targets in that coding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array


class Loss(NamedTuple):
    """One record's loss. Equal settings give the same object, so a loss is static under `jit`."""

    name: str
    outputs: int  # scores of a record: 1 for binary and regression, K for K classes
    value: Callable[[Array, Array], Array]  # scores (rows, outputs), y (rows,) -> (rows,)
    slope: Callable[
        [Array, Array], Array
    ]  # d value / d scores, (rows, outputs); a subgradient where not smooth
    lipschitz: float  # sup ‖slope‖₂
    smoothness: float  # Lipschitz constant of the slope; inf where it jumps
    strong_convexity: float
    predict: Callable[[Array], Array]  # scores (rows, outputs) -> y (rows,)


@lru_cache
def logistic() -> Loss:
    """log(1 + exp(-y s)). Slope within (-1, 1); second derivative σ(1-σ) <= 1/4, attained at s = 0."""
    return Loss(
        name="logistic",
        outputs=1,
        value=lambda scores, y: jax.nn.softplus(-y * scores[:, 0]),
        slope=lambda scores, y: (-y * jax.nn.sigmoid(-y * scores[:, 0]))[:, None],
        lipschitz=1.0,
        smoothness=0.25,
        strong_convexity=0.0,
        predict=_sign,
    )


@lru_cache
def hinge() -> Loss:
    """max(0, 1 - y s); the slope at the kink is taken as 0."""
    return Loss(
        name="hinge",
        outputs=1,
        value=lambda scores, y: jnp.maximum(1.0 - y * scores[:, 0], 0.0),
        slope=lambda scores, y: jnp.where(y * scores[:, 0] < 1.0, -y, jnp.zeros_like(y))[:, None],
        lipschitz=1.0,
        smoothness=math.inf,
        strong_convexity=0.0,
        predict=_sign,
    )


@lru_cache
def squared() -> Loss:
    """(s - y)² / 2. Not Lipschitz: a release of its gradients needs clipping."""
    return Loss(
        name="squared",
        outputs=1,
        value=lambda scores, y: 0.5 * jnp.square(scores[:, 0] - y),
        slope=lambda scores, y: scores - y[:, None],
        lipschitz=math.inf,
        smoothness=1.0,
        strong_convexity=1.0,
        predict=lambda scores: scores[:, 0],
    )


@lru_cache
def huber(threshold: float = 1.0) -> Loss:
    """(s - y)² / 2 up to `threshold`, linear beyond it."""
    _check.positive("threshold", threshold)

    def value(scores: Array, y: Array) -> Array:
        size = jnp.abs(scores[:, 0] - y)
        return jnp.where(size <= threshold, 0.5 * size * size, threshold * (size - 0.5 * threshold))

    return Loss(
        name="huber",
        outputs=1,
        value=value,
        slope=lambda scores, y: jnp.clip(scores - y[:, None], -threshold, threshold),
        lipschitz=threshold,
        smoothness=1.0,
        strong_convexity=0.0,
        predict=lambda scores: scores[:, 0],
    )


@lru_cache
def softmax(classes: int) -> Loss:
    """Cross-entropy. Slope p - e_y, norm below √2; second derivative diag(p) - ppᵀ, norm ½ at p = (½, ½)."""
    _check.count("classes", classes, least=2)

    def value(scores: Array, y: Array) -> Array:
        own = jnp.take_along_axis(scores, y[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(scores, axis=1) - own

    return Loss(
        name="softmax",
        outputs=classes,
        value=value,
        slope=lambda scores, y: (
            jax.nn.softmax(scores, axis=1) - jax.nn.one_hot(y, classes, dtype=scores.dtype)
        ),
        lipschitz=math.sqrt(2.0),
        smoothness=0.5,
        strong_convexity=0.0,
        predict=_largest,
    )


@lru_cache
def one_vs_all(classes: int) -> Loss:
    """Sum of one logistic loss for each class. One record acts on all of them: slope norm below √classes."""
    _check.count("classes", classes, least=2)

    def signs(scores: Array, y: Array) -> Array:
        return 2.0 * jax.nn.one_hot(y, classes, dtype=scores.dtype) - 1.0

    def slope(scores: Array, y: Array) -> Array:
        sign = signs(scores, y)
        return -sign * jax.nn.sigmoid(-sign * scores)

    return Loss(
        name="one_vs_all",
        outputs=classes,
        value=lambda scores, y: jnp.sum(jax.nn.softplus(-signs(scores, y) * scores), axis=1),
        slope=slope,
        lipschitz=math.sqrt(classes),
        smoothness=0.25,
        strong_convexity=0.0,
        predict=_largest,
    )


LOSSES: dict[str, Callable[..., Loss]] = {
    "logistic": logistic,
    "hinge": hinge,
    "squared": squared,
    "huber": huber,
    "softmax": softmax,
    "one_vs_all": one_vs_all,
}


def loss_for(name: str, classes: int = 0) -> Loss:
    """The loss of that name with its default options; `classes` is read by the multiclass ones alone.

    >>> loss_for("softmax", 3).outputs
    3
    >>> loss_for("logistic") is logistic()
    True
    """
    _check.one_of("loss", name, LOSSES)
    return LOSSES[name](classes) if name in ("softmax", "one_vs_all") else LOSSES[name]()


def _sign(scores: Array) -> Array:
    return jnp.where(scores[:, 0] > 0, 1.0, -1.0).astype(scores.dtype)


def _largest(scores: Array) -> Array:
    return jnp.argmax(scores, axis=1).astype(jnp.int32)
