"""Penalties on the parameters: value, gradient, and the exact minimiser that dual averaging and prox need.

A penalty reads no records, so it costs no privacy and is never part of a release's sensitivity.
All act on any tree of arrays; norms are taken over the whole tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array, PyTree

_SLACK = 1e-5  # a projected point may lie outside by float32 rounding: its value must not jump to infinity
_HALVINGS = 30  # from a length of 3/2 down to float32 resolution


class Penalty(NamedTuple):
    """A term h(params) of the objective. Equal settings give the same object, so it is static under `jit`."""

    name: str
    value: Callable[[PyTree], Array]
    gradient: Callable[[PyTree], PyTree]  # inside the domain; a subgradient where h has a kink
    minimise: Callable[[PyTree, Array | float, Array | float], PyTree]
    # (z, weight, quad) -> argmin_x ⟨z, x⟩ + weight h(x) + quad/2 ‖x‖²; quad may be 0 where that has a minimum
    strong_convexity: float  # largest m with h - m/2 ‖x‖² convex; negative where h is not convex
    smoothness: float  # Lipschitz constant of `gradient` inside the domain; inf where it jumps
    smooth: bool = False  # whether `gradient` is all there is to it: no kinks, and nowhere a wall
    affine: bool = False  # whether `gradient` is an affine function
    walled: bool = False  # whether it is infinite outside of its domain


# What a wall around a penalty changes: its gradient no longer says all.
_WALL = {"smooth": False, "affine": False, "walled": True}


def prox(penalty: Penalty, v: PyTree, step: Array | float) -> PyTree:
    """argmin_x ‖x - v‖²/2 + step h(x).

    >>> prox(l2(1.0), jnp.array([4.0]), 1.0).tolist()
    [2.0]
    """
    return penalty.minimise(_scaled(v, -1.0), step, 1.0)


@lru_cache
def none() -> Penalty:
    """No penalty."""
    return Penalty(
        name="none",
        value=lambda x: jnp.zeros(()),
        gradient=lambda x: jax.tree.map(jnp.zeros_like, x),
        minimise=lambda z, weight, quad: _scaled(z, -1.0 / quad),
        strong_convexity=0.0,
        smoothness=0.0,
        smooth=True,
        affine=True,
    )


@lru_cache
def l2(strength: float) -> Penalty:
    """strength/2 ‖x‖²."""
    _check.not_negative("strength", strength)
    return Penalty(
        name="l2",
        value=lambda x: 0.5 * strength * _square(x),
        gradient=lambda x: _scaled(x, strength),
        minimise=lambda z, weight, quad: _scaled(z, -1.0 / (weight * strength + quad)),
        strong_convexity=strength,
        smoothness=strength,
        smooth=True,
        affine=True,
    )


@lru_cache
def elastic_net(l1: float, l2: float) -> Penalty:
    """l1 ‖x‖₁ + l2/2 ‖x‖²; its minimiser is a soft threshold."""
    _check.not_negative("l1", l1)
    _check.not_negative("l2", l2)

    def value(x: PyTree) -> Array:
        ones = sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(x))
        return l1 * ones + 0.5 * l2 * _square(x)

    def minimise(z: PyTree, weight: Array | float, quad: Array | float) -> PyTree:
        threshold, curvature = weight * l1, weight * l2 + quad
        return jax.tree.map(lambda leaf: -_soft(leaf, threshold) / curvature, z)

    return Penalty(
        name="elastic_net",
        value=value,
        gradient=lambda x: jax.tree.map(lambda leaf: l1 * jnp.sign(leaf) + l2 * leaf, x),
        minimise=minimise,
        strong_convexity=l2,
        smoothness=math.inf if l1 else l2,
    )


@lru_cache
def ball(radius: float, strength: float = 0.0) -> Penalty:
    """strength/2 ‖x‖² inside the 2-norm ball, infinite outside; holds for every weight, also 0."""
    _check.positive("radius", radius)
    inside = l2(strength)

    def minimise(z: PyTree, weight: Array | float, quad: Array | float) -> PyTree:
        # -z / curvature, shortened to the radius: one quotient that is also right for curvature 0.
        curvature = weight * strength + quad
        return _scaled(z, -_quotient(radius, jnp.maximum(_norm(z), radius * curvature)))

    def value(x: PyTree) -> Array:
        return _inside(_norm(x), radius, inside.value(x))

    return inside._replace(name="ball", value=value, minimise=minimise, **_WALL)


@lru_cache
def box(bound: float, strength: float = 0.0) -> Penalty:
    """strength/2 ‖x‖² where every |x_j| <= bound, infinite elsewhere; holds for every weight, also 0."""
    _check.positive("bound", bound)
    inside = l2(strength)

    def value(x: PyTree) -> Array:
        largest = jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(x)]).max()
        return _inside(largest, bound, inside.value(x))

    def minimise(z: PyTree, weight: Array | float, quad: Array | float) -> PyTree:
        curvature = weight * strength + quad
        return jax.tree.map(
            lambda leaf: -leaf * _quotient(bound, jnp.maximum(jnp.abs(leaf), bound * curvature)), z
        )

    return inside._replace(name="box", value=value, minimise=minimise, **_WALL)


@lru_cache
def sine() -> Penalty:
    """‖x‖² + 3 sin²‖x‖: not convex, yet Polyak–Łojasiewicz. φ'' = 2 + 6 cos 2r lies in [-4, 8]."""

    def gradient(x: PyTree) -> PyTree:
        norm = _norm(x)
        return _scaled(x, 2.0 + 6.0 * jnp.sinc(2.0 * norm / jnp.pi))  # sin(2r)/r, also at r = 0

    def minimise(z: PyTree, weight: Array | float, quad: Array | float) -> PyTree:
        norm = _norm(z)
        return _scaled(z, -_sine_radius(norm, weight, quad) * _quotient(1.0, norm))

    return Penalty(
        name="sine",
        value=lambda x: _square(x) + 3.0 * jnp.square(jnp.sin(_norm(x))),
        gradient=gradient,
        minimise=minimise,
        strong_convexity=-4.0,
        smoothness=8.0,
        smooth=True,
    )


# What a user may write, made of the numbers that an experiment has: strength, l1 and radius.
PENALTIES: dict[str, Callable[[float, float, float], Penalty]] = {
    "none": lambda strength, l1, radius: none(),
    "l2": lambda strength, l1, radius: l2(strength),
    "elastic_net": lambda strength, l1, radius: elastic_net(l1, strength),
    "ball": lambda strength, l1, radius: ball(radius, strength),
    "box": lambda strength, l1, radius: box(radius, strength),
    "sine": lambda strength, l1, radius: sine(),
}


def _sine_radius(norm: Array, weight: Array | float, quad: Array | float) -> Array:
    """argmin over r >= 0 of -norm r + weight (r² + 3 sin² r) + quad/2 r²: one bisection finds the global minimum.

    With a = 2 weight + quad, c = norm/a and r = c + t this is a/2 t² + 3 weight sin²(c + t) up to a constant.
    Of ±t the better one goes downhill from c, as sin²(c+t) - sin²(c-t) = sin 2c sin 2t and |t| <= 3 weight/a <= 3/2.
    There the derivative vanishes once: it is a line minus an arch of the sine, a convex function that changes sign.
    """
    a = 2.0 * weight + quad
    centre = norm / a
    side = jnp.where(jnp.sin(2.0 * centre) >= 0, -1.0, 1.0)

    def halve(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        rising = a * middle + 3.0 * weight * side * jnp.sin(2.0 * (centre + side * middle)) > 0
        return jnp.where(rising, low, middle), jnp.where(rising, middle, high)

    low, high = jax.lax.fori_loop(
        0, _HALVINGS, halve, (jnp.zeros_like(centre), 3.0 * weight / a + 0.0 * centre)
    )
    return jnp.maximum(centre + side * 0.5 * (low + high), 0.0)


def _square(x: PyTree) -> Array:
    return jnp.stack([jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(x)]).sum()


def _norm(x: PyTree) -> Array:
    square = _square(x)  # the inner `where` keeps the derivative at zero finite
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _scaled(x: PyTree, factor: Array | float) -> PyTree:
    return jax.tree.map(lambda leaf: leaf * factor, x)


def _quotient(top: float, bottom: Array) -> Array:
    return jnp.where(bottom > 0, top / jnp.where(bottom > 0, bottom, 1.0), 0.0)


def _soft(leaf: Array, threshold: Array | float) -> Array:
    return jnp.sign(leaf) * jnp.maximum(jnp.abs(leaf) - threshold, 0.0)


def _inside(size: Array, limit: float, value: Array) -> Array:
    return jnp.where(size <= limit * (1.0 + _SLACK), value, jnp.inf)
