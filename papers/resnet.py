"""Residual networks for small images (He et al. 2016), with GroupNorm, in plain JAX. ResNet-18 is the default.

Small images, as usual: the first convolution is 3 × 3 with stride 1 and nothing is pooled before the end. GroupNorm
(Wu & He 2018) in place of BatchNorm: a batch's statistics would tie each record's gradient to the other records, and
no bound on one record's share of the sum would hold.

A convolution here is one matrix product. Engines map a model over owners, each with weights of its own: a convolution
then becomes a grouped one, a matrix product a batched one. Where pixels are many and channels few, the product takes
rows of pixels side by side and the sums of rows follow it; elsewhere it takes whole neighbourhoods, nine times the
image. On an H200, forward and back, the first is the fastest way in early layers (times in docs/gpu.md).

Clipping record by record needs no record's whole gradient (`factors`): late layers, with most of the weights, give
their inputs and the slopes of their outputs; early ones, whose gradients are small, the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.mechanisms.clipping import Outer, finite
from coterie.mechanisms.places import Places, pays
from coterie.problems.models import Model

Precision: TypeAlias = Literal["float32", "bfloat16"]

_EPSILON = 1e-5  # added to variances, as everywhere
_TOGETHER = 64  # records of an owner: 20 owners' ResNet-18 takes 9 GB so; more are faster (docs/gpu.md)


@lru_cache
def resnet(
    classes: int,
    blocks: tuple[int, ...] = (2, 2, 2, 2),
    width: int = 64,
    groups: int = 32,
    precision: Precision = "float32",
) -> Model:
    """Stages of `blocks` blocks of two convolutions; `width` channels at first, twice as many in each next stage.

    Every stage but the first halves height and width.

    Records are (height, width, 3) with pixels in [0, 1]; the shift and scale onto about [-2, 2] are constants.
    `precision="bfloat16"`: convolutions take their factors in bfloat16 and add up in float32. Parameters, norms and
    clipped sums are float32, and norms are those of the very numbers that are added up, so bounds on a record's share
    hold as in full precision.

    >>> params = jax.eval_shape(resnet(10).init, jax.random.key(0))
    >>> sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
    11173962
    """
    _check.count("classes", classes, least=2)
    _check.count("width", width)
    # One entry for each block: how many times `width` its channels are, and its stride.
    shape = [(2**stage, 2 if stage and not at else 1) for stage, n in enumerate(blocks) for at in range(n)]
    if width % _check.count("groups", groups):
        raise InputError(f"groups={groups}: must divide the {width} channels of the first stage.")
    _check.one_of("precision", precision, ("float32", "bfloat16"))
    network = _Network(tuple(stride for _, stride in shape), groups, jnp.dtype(precision))

    def init(key: Array) -> PyTree:
        first, last, *keys = jax.random.split(key, 2 + len(shape))
        made, channels = [], width
        for key, (times, _) in zip(keys, shape):
            made.append(_new_block(key, channels, width * times))
            channels = width * times
        head = jax.random.normal(last, (channels, classes), jnp.float32) / math.sqrt(channels)
        return {
            "stem": _new_convolution(first, 3, 3, width),
            "blocks": made,
            "head": {"w": head, "b": jnp.zeros(classes, jnp.float32)},
        }

    return Model(
        name="resnet",
        outputs=classes,
        init=init,
        scores=lambda params, x: _forward(network, params, x)[0],
        factors=partial(_factors, network),
        microbatch=_TOGETHER,
    )


def _new_block(key: Array, inputs: int, outputs: int) -> PyTree:
    first, second, third = jax.random.split(key, 3)
    block = {
        "first": _new_convolution(first, 3, inputs, outputs),
        "second": _new_convolution(second, 3, outputs, outputs),
    }
    return block if inputs == outputs else block | {"skip": _new_convolution(third, 1, inputs, outputs)}


def _new_convolution(key: Array, size: int, inputs: int, outputs: int) -> PyTree:
    """He's normal weights by fan-out, and the norm that follows every convolution."""
    spread = math.sqrt(2.0 / (size * size * outputs))
    return {
        "w": spread * jax.random.normal(key, (size, size, inputs, outputs), jnp.float32),
        "scale": jnp.ones(outputs, jnp.float32),
        "shift": jnp.zeros(outputs, jnp.float32),
    }


class _Network(NamedTuple):
    """What is static about it."""

    strides: tuple[int, ...]  # of each block
    groups: int
    dtype: Any


class _Seen(NamedTuple):
    """Of one convolution: what went in, and what came out, before the norm."""

    inputs: Array  # (rows, height, width, inputs)
    outputs: Array

    @property
    def stride(self) -> int:
        """As many pixels go to one, but for the last; where one is all there is, it does not matter."""
        return max(-(-self.inputs.shape[axis] // self.outputs.shape[axis]) for axis in (1, 2))


def _forward(network: _Network, params: PyTree, x: Array) -> tuple[Array, PyTree]:
    """Scores, and what the layers saw: a tree like the parameters, with a `_Seen` a convolution."""
    x, blocks = ((x - 0.5) * 4.0).astype(network.dtype), []
    x, stem = _convolve(params["stem"], x, network.groups)
    x = jax.nn.relu(x)
    for block, stride in zip(params["blocks"], network.strides):
        x, seen = _block(block, x, network.groups, stride)
        blocks.append(seen)
    pooled = jnp.mean(x.astype(jnp.float32), axis=(1, 2))
    scores = pooled @ params["head"]["w"] + params["head"]["b"][None]
    return scores, {"stem": stem, "blocks": blocks, "head": pooled}


def _block(block: PyTree, x: Array, groups: int, stride: int) -> tuple[Array, PyTree]:
    seen = {}
    inner, seen["first"] = _convolve(block["first"], x, groups, stride)
    inner, seen["second"] = _convolve(block["second"], jax.nn.relu(inner), groups)
    skip = x
    if "skip" in block:
        skip, seen["skip"] = _convolve(block["skip"], x, groups, stride)
    return jax.nn.relu(inner + skip), seen


def _convolve(layer: PyTree, x: Array, groups: int, stride: int = 1) -> tuple[Array, _Seen]:
    """Convolution and GroupNorm: (rows, height, width, inputs) -> (rows, ⌈height / stride⌉, …, outputs).

    Scale and shift may be each record's own, (rows, outputs), and `tap` is added to the convolution's outputs.
    """
    weights = layer["w"].astype(x.dtype)
    if "tap" in layer and _by_places(weights, layer["tap"]):
        x = finite(x)
    found = _product(x, weights, stride)
    if "tap" in layer:
        found = found + layer["tap"]
    return _normalise(found, layer["scale"], layer["shift"], groups), _Seen(x, found)


def _product(x: Array, weights: Array, stride: int) -> Array:
    size, _, _, outputs = weights.shape
    if size > 1 and stride == 1 and x.shape[1] * x.shape[2] > outputs:
        return _by_rows(x, weights)
    return jnp.tensordot(_neighbourhoods(x, size, stride), weights.reshape(-1, outputs), 1)


def _factors(network: _Network, params: PyTree, x: Array, slope: Callable[[Array], Array]) -> PyTree:
    """See `Model.factors`. Backpropagation to zeros beside each layer, which have the records apart, not to weights."""
    layers = _of_layers(params)
    _, seen = jax.eval_shape(partial(_forward, network), params, x)
    taps = jax.tree.map(_taps, layers, _of_layers(seen), is_leaf=_is_layer)

    def run(taps: PyTree) -> tuple[Array, PyTree]:
        tapped = jax.tree.map(lambda layer, tap: layer | tap, layers, taps, is_leaf=_is_layer)
        return _forward(network, params | tapped, x)

    scores, back, seen = jax.vjp(run, taps, has_aux=True)
    last = slope(scores)
    factors = jax.tree.map(_layer_factors, layers, _of_layers(seen), *back(last), is_leaf=_is_layer)
    return factors | {"head": {"w": Outer(seen["head"], last), "b": Outer(None, last)}}


def _layer_factors(layer: PyTree, seen: _Seen, slopes: PyTree) -> PyTree:
    """Late layers: inputs and slopes at each pixel. Early ones: each record's gradient, as plain training forms it."""
    weights, found = layer["w"].astype(seen.inputs.dtype), slopes["tap"]

    def gradient(x: Array, slope: Array) -> Array:
        return jax.linear_transpose(lambda w: _product(x[None], w, seen.stride), weights)(slope[None])[0]

    if _by_places(weights, found):
        around = _neighbourhoods(seen.inputs, weights.shape[0], seen.stride)
        rows, pixels = len(found), found.shape[1] * found.shape[2]
        w = Places(around.reshape(rows, pixels, *weights.shape[:3]), found.reshape(rows, pixels, -1))
    else:
        w = Outer(None, jax.vmap(gradient)(seen.inputs, found))
    return {"w": w, "scale": Outer(None, slopes["scale"]), "shift": Outer(None, slopes["shift"])}


def _taps(layer: PyTree, seen: _Seen) -> PyTree:
    """Zeros for the convolution's outputs; and for every record a scale and a shift of its own."""
    rows, *_, outputs = seen.outputs.shape
    own = {name: jnp.broadcast_to(layer[name], (rows, outputs)) for name in ("scale", "shift")}
    return own | {"tap": jnp.zeros(seen.outputs.shape, seen.outputs.dtype)}


def _by_places(weights: Array, outputs: Array) -> bool:
    """Whether a layer's gradients are not formed. One record's is: it is the sum."""
    rows, height, width, channels = outputs.shape
    return rows > 1 and pays(height * width, math.prod(weights.shape[:3]), channels)


def _is_layer(node: PyTree) -> bool:
    return isinstance(node, dict) and "scale" in node


def _of_layers(tree: PyTree) -> PyTree:
    """The part about convolutions."""
    return {name: tree[name] for name in ("stem", "blocks")}


def _by_rows(x: Array, weights: Array) -> Array:
    """Every row of pixels with each row of the weights, then the sums of rows below one another.

    Lays out and sums three times the image and the result, where neighbourhoods lay out nine times the image.
    """
    size, _, inputs, outputs = weights.shape
    _, height, width, _ = x.shape
    margin = size // 2
    wide = jnp.pad(x, ((0, 0), (0, 0), (margin, margin), (0, 0)))
    beside = jnp.concatenate([wide[:, :, right : right + width] for right in range(size)], axis=3)
    rows = jnp.tensordot(beside, weights.transpose(1, 2, 0, 3).reshape(size * inputs, size * outputs), 1)
    tall = jnp.pad(rows, ((0, 0), (margin, margin), (0, 0), (0, 0)))
    parts = [
        tall[:, down : down + height, :, down * outputs : (down + 1) * outputs].astype(jnp.float32)
        for down in range(size)
    ]
    return sum(parts[1:], start=parts[0]).astype(x.dtype)


def _neighbourhoods(x: Array, size: int, stride: int) -> Array:
    """(rows, height, width, channels) -> (rows, ⌈height / stride⌉, …, size² channels), zeros beyond the edge."""
    _, height, width, _ = x.shape
    margin = size // 2
    padded = jnp.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    shifts = [(down, right) for down in range(size) for right in range(size)]
    return jnp.concatenate(
        [padded[:, down : down + height : stride, right : right + width : stride] for down, right in shifts],
        axis=3,
    )


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _normalise(x: Array, scale: Array, shift: Array, groups: int) -> Array:
    """GroupNorm, in float32 whatever the convolutions use; scale and shift: (channels,), or (rows, channels).

    Its own derivative, as small pictures are bound by the number of passes: two over `x`, and two back over `x` and
    the slope, where JAX's would take a dozen.
    """
    return _normalised(x, scale, shift, groups)[0]


class _Moments(NamedTuple):
    """Of each record and group: (rows, groups), float32."""

    mean: Array
    inverse: Array  # 1 / spread


def _normalised(x: Array, scale: Array, shift: Array, groups: int) -> tuple[Array, tuple]:
    full = x.astype(jnp.float32)
    count = x.shape[1] * x.shape[2] * (x.shape[3] // groups)
    mean = _by_group(jnp.sum(full, axis=(1, 2)), groups) / count
    square = _by_group(jnp.sum(full * full, axis=(1, 2)), groups) / count
    moments = _Moments(mean, jax.lax.rsqrt(jnp.maximum(square - mean * mean, 0.0) + _EPSILON))
    slope = _by_channel(moments.inverse, x) * jnp.atleast_2d(scale)
    offset = jnp.atleast_2d(shift) - _by_channel(mean, x) * slope
    return (full * _spread(slope) + _spread(offset)).astype(x.dtype), (x, scale, moments)


def _normalised_back(groups: int, kept: tuple, slope: Array) -> tuple[Array, Array, Array]:
    """With unit = (x - mean) / spread: dx = (scale dy - mean(scale dy) - unit mean(scale dy unit)) / spread."""
    x, scale, moments = kept
    full, dy = x.astype(jnp.float32), slope.astype(jnp.float32)
    mean, inverse = (_by_channel(one, x) for one in moments)
    unit = (full - _spread(mean)) * _spread(inverse)
    total, along = jnp.sum(dy, axis=(1, 2)), jnp.sum(dy * unit, axis=(1, 2))
    count = x.shape[1] * x.shape[2] * (x.shape[3] // groups)
    times = jnp.atleast_2d(scale)
    level = _by_channel(_by_group(total * times, groups) / count, x)
    tilt = _by_channel(_by_group(along * times, groups) / count, x)
    dx = (dy * _spread(times) - _spread(level) - unit * _spread(tilt)) * _spread(inverse)
    if scale.ndim == 1:
        along, total = jnp.sum(along, axis=0), jnp.sum(total, axis=0)
    return dx.astype(x.dtype), along, total


_normalise.defvjp(_normalised, _normalised_back)


def _by_group(channels: Array, groups: int) -> Array:
    """(rows, channels) -> (rows, groups) sums."""
    return jnp.sum(channels.reshape(channels.shape[0], groups, -1), axis=2)


def _by_channel(groups: Array, x: Array) -> Array:
    """(rows, groups) -> (rows, channels): each group's number for each of its channels."""
    return jnp.repeat(groups, x.shape[3] // groups.shape[1], axis=1)


def _spread(channels: Array) -> Array:
    """(rows, channels) -> (rows, 1, 1, channels)."""
    return channels[:, None, None]
