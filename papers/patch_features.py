"""Responses of an image to small patches of made-up pictures: strong features that no data went into.

The pipeline is Coates & Ng's (2011): normalise and whiten every patch, compare it with a bank of patches, keep what
exceeds a threshold, and pool over a coarse grid. They take bank and whitening from the images at hand; on private
images that would be a release. Here both come from "dead leaves" pictures (Lee, Mumford & Huang 2001): discs and bars
of random colours, of sizes with density r⁻³, that hide one another. They share statistics with photographs.

The same pictures say which features vary together in any picture. Their mean is taken off and their correlations are
evened out in part, so that a few steps of noisy descent reach directions that would otherwise take many.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array
from coterie.errors import InputError
from coterie.problems.features import FeatureMap

_PICTURES = 9_000  # made-up pictures: enough to see which of some thousand features go together
_ROWS = 20  # images at a time: their responses take 30 MB
_EVEN = 0.4  # how far correlations are evened out; 0.5 would whiten
_RIDGE = 1e-2  # of the mean variance, added to each
_LEAVES = 250  # shapes in a picture, enough to cover it
_DRAWN = 2  # pictures are drawn this many times larger and averaged down, so that edges are soft
_SMALLEST, _LARGEST = 3.0, 48.0  # radii in drawn pixels
_FLAT = 1e-2  # added to a patch's variance: patches flatter than this are noise


class Layout(NamedTuple):
    """How an image is read. The defaults are those of Coates & Ng: every place counts."""

    size: int = 6  # of a patch
    stride: int = 1  # between two patches
    threshold: float = 0.5
    cells: int = 2  # of the grid that responses are pooled over, in each direction


READ = Layout()


class Bank(NamedTuple):
    """What normalised patches are multiplied with, whitening included, and what is taken off; float32."""

    weights: np.ndarray  # (size² · 3, filters)
    offset: np.ndarray  # (filters,)


class Shape(NamedTuple):
    """What evens features out: their mean and scaled principal directions, on made-up pictures; float32."""

    mean: np.ndarray  # (features,)
    directions: np.ndarray  # (features, features)


def dead_leaves(count: int, side: int, seed: int) -> np.ndarray:
    """(count, side, side, 3) float32 pictures in [0, 1] of leaves that hide one another."""
    keys = jax.random.split(jax.random.key(seed), _check.count("count", count))
    return np.asarray(_pictures(keys, _check.count("side", side) * _DRAWN))


@partial(jax.jit, static_argnums=1)
def _pictures(keys: Array, side: int) -> Array:
    return jax.lax.map(partial(_picture, side=side), keys, batch_size=250)


def _picture(key: Array, side: int) -> Array:
    place = jnp.arange(side, dtype=jnp.float32)
    empty = jnp.full((side, side, 3), 0.5, jnp.float32)
    drawn, _ = jax.lax.scan(partial(_put, place), empty, _leaves(key, side))
    soft = jnp.clip(drawn, 0.0, 1.0).reshape(side // _DRAWN, _DRAWN, side // _DRAWN, _DRAWN, 3)
    return jnp.mean(soft, axis=(1, 3))


class _Leaf(NamedTuple):
    """A disc or a bar, stretched and turned, with a colour and a shading."""

    radius: Array
    centre: Array  # (2,)
    colour: Array  # (3,)
    angle: Array
    stretch: Array
    bar: Array
    shading: Array  # (2,)


def _leaves(key: Array, side: int) -> _Leaf:
    """Sizes with density r⁻³; colours mostly grey, as in photographs, where channels go together."""
    keys = jax.random.split(key, 8)
    share = jax.random.uniform(keys[0], (_LEAVES,))
    grey, tint = jax.random.uniform(keys[2], (_LEAVES, 1)), jax.random.normal(keys[3], (_LEAVES, 3))
    return _Leaf(
        radius=(_SMALLEST**-2 - share * (_SMALLEST**-2 - _LARGEST**-2)) ** -0.5,
        centre=jax.random.uniform(keys[1], (_LEAVES, 2), minval=-side / 4, maxval=side * 1.25),
        colour=jnp.clip(grey + 0.12 * tint, 0.0, 1.0),
        angle=jax.random.uniform(keys[4], (_LEAVES,), maxval=jnp.pi),
        stretch=jnp.exp(0.35 * jax.random.normal(keys[5], (_LEAVES,))),
        bar=jax.random.bernoulli(keys[6], 0.5, (_LEAVES,)),
        shading=0.01 * jax.random.normal(keys[7], (_LEAVES, 2)),
    )


def _put(place: Array, picture: Array, leaf: _Leaf) -> tuple[Array, None]:
    across, down = place[None, :] - leaf.centre[0], place[:, None] - leaf.centre[1]
    across, down = jnp.broadcast_arrays(across, down)
    along = (jnp.cos(leaf.angle) * across + jnp.sin(leaf.angle) * down) / (leaf.radius * leaf.stretch)
    beside = (jnp.cos(leaf.angle) * down - jnp.sin(leaf.angle) * across) * leaf.stretch / leaf.radius
    bar = jnp.maximum(jnp.abs(along), jnp.abs(beside)) < 0.9
    inside = jnp.where(leaf.bar, bar, along**2 + beside**2 < 1.0)
    shade = (leaf.shading[0] * across + leaf.shading[1] * down)[:, :, None]
    return jnp.where(inside[:, :, None], leaf.colour[None, None] + shade, picture), None


def bank(pictures: np.ndarray, size: int, filters: int, seed: int, ridge: float = 0.5) -> Bank:
    """`filters` patches of the pictures, whitened by the pictures' own patches and of norm one."""
    rng = np.random.default_rng(seed)
    many = _normalised(_patches(pictures, size, 200_000, rng))
    mean, (values, vectors) = many.mean(axis=0), np.linalg.eigh(np.cov(many, rowvar=False))
    whiten = (vectors / np.sqrt(np.maximum(values, 0.0) + ridge)) @ vectors.T
    chosen = (_normalised(_patches(pictures, size, 4 * filters, rng)) - mean) @ whiten
    norms = np.linalg.norm(chosen, axis=1)
    busy = norms > np.quantile(norms, 0.25)  # the flattest quarter are patches of nothing
    chosen = (chosen[busy] / norms[busy, None])[:filters]
    weights = whiten @ chosen.T
    return Bank(weights.astype(np.float32), (mean @ weights).astype(np.float32))


def _patches(pictures: np.ndarray, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, size² · 3) at random places."""
    rows, height, width, channels = pictures.shape
    which = rng.integers(0, rows, count)
    down, right = rng.integers(0, height - size + 1, count), rng.integers(0, width - size + 1, count)
    span = np.arange(size)
    places = (which[:, None, None], (down[:, None] + span)[:, :, None], (right[:, None] + span)[:, None, :])
    return pictures[places].reshape(count, size * size * channels)


def _normalised(patches: np.ndarray) -> np.ndarray:
    """Mean zero and, where a patch is not flat, variance one."""
    centred = patches - patches.mean(axis=1, keepdims=True)
    energy = np.einsum("ij,ij->i", centred, centred) / np.float32(centred.shape[1])
    return centred / np.sqrt(energy + np.float32(_FLAT))[:, None]


@partial(jax.jit, static_argnums=2)
def responses(images: Array, bank: Bank, layout: Layout) -> Array:
    """(rows, cells · 2 · filters) mean responses above the threshold, of either sign, over image and mirror image."""
    pixels = images.transpose(1, 2, 0, 3)  # so that the sums over places add whole blocks of rows and filters
    return _pooled(pixels, bank, layout) + _pooled(pixels[:, ::-1], bank, layout)


def _pooled(pixels: Array, bank: Bank, layout: Layout) -> Array:
    """(height, width, rows, 3) -> (rows, cells · 2 · filters)."""
    ends = [1 + extent - layout.size for extent in pixels.shape[:2]]
    shifts = [(down, right) for down in range(layout.size) for right in range(layout.size)]
    patches = jnp.concatenate(
        [
            pixels[down : down + ends[0] : layout.stride, right : right + ends[1] : layout.stride]
            for down, right in shifts
        ],
        axis=3,
    )
    centred = patches - jnp.mean(patches, axis=3, keepdims=True)
    unit = centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=3, keepdims=True) + _FLAT)
    match = jnp.matmul(unit, bank.weights, precision="highest") - bank.offset[None, None, None]
    cells = []
    for top, bottom in _cuts(match.shape[0], layout.cells):
        for left, right in _cuts(match.shape[1], layout.cells):
            cells += _above(match[top:bottom, left:right], layout.threshold)
    return jnp.concatenate(cells, axis=1)


def _above(match: Array, threshold: float) -> list[Array]:
    """Means over places, of either sign; place by place, as XLA's reduction takes seven times as long on a CPU."""
    places = match.reshape(-1, *match.shape[2:])

    def add(sums: tuple[Array, Array], one: Array) -> tuple[tuple[Array, Array], None]:
        up, down = jnp.maximum(one - threshold, 0.0), jnp.maximum(-one - threshold, 0.0)
        return (sums[0] + up, sums[1] + down), None

    zero = jnp.zeros(match.shape[2:], match.dtype)
    return [total / len(places) for total in jax.lax.scan(add, (zero, zero), places)[0]]


def _cuts(length: int, parts: int) -> list[tuple[int, int]]:
    ends = np.linspace(0, length, parts + 1).round().astype(int)
    return list(pairwise(ends))


def made_up_patches(filters: int, side: int = 32, layout: Layout = READ, seed: int = 0) -> FeatureMap:
    """(rows, side, side, 3) -> (rows, 2 · cells² · filters) of norm one: roots of responses, evened out in part.

    Guarantee: bank and shape are functions of `filters`, `side`, `layout` and `seed` alone; a record's features are a
    function of that record. So the map costs no privacy, and every row's norm is one (zero where it is no number).
    """
    _check.count("filters", filters)
    patches, shape = _prepared(filters, _check.count("side", side, least=layout.size), layout, seed)

    def apply(images: np.ndarray) -> np.ndarray:
        if images.shape[1:] != (side, side, 3):
            raise InputError(f"images of shape {images.shape[1:]}: must be ({side}, {side}, 3).")
        with np.errstate(over="ignore", invalid="ignore"):  # records that are no numbers become zero
            even = (_features(images, patches, layout) - shape.mean) @ shape.directions
            norms = np.linalg.norm(even, axis=1, keepdims=True)
            unit = even / np.maximum(norms, 1e-12)
        return np.where(np.isfinite(norms) & (norms > 0), unit, np.float32(0.0))

    return FeatureMap(f"patches:{filters}", apply, 1.0)


@lru_cache(maxsize=2)
def _prepared(filters: int, side: int, layout: Layout, seed: int) -> tuple[Bank, Shape]:
    pictures = dead_leaves(_PICTURES, side, seed)
    patches = bank(pictures, layout.size, filters, seed)
    seen = _features(pictures, patches, layout)
    mean = seen.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(seen, rowvar=False))
    scale = (np.maximum(values, 0.0) + _RIDGE * values.mean()) ** -_EVEN
    return patches, Shape(mean, (vectors * scale).astype(np.float32))


def _features(images: np.ndarray, patches: Bank, layout: Layout) -> np.ndarray:
    parts = range(0, len(images), _ROWS)
    found = [responses(jnp.asarray(images[at : at + _ROWS], jnp.float32), patches, layout) for at in parts]
    return np.sqrt(np.concatenate(found))
