"""Residual networks for small images (He et al. 2016), with GroupNorm, in plain JAX. ResNet-18 is the default.

Small images, as usual: the first convolution is 3 × 3 with stride 1 and nothing is pooled before the end. GroupNorm
(Wu & He 2018) in place of BatchNorm: a batch's statistics would tie each record's gradient to the other records, and
no bound on one record's share of the sum would hold.

A convolution here is one matrix product with the pixels' neighbourhoods laid out side by side. Engines map a model
over owners, each with weights of its own: a convolution then becomes a grouped one, a matrix product a batched one.
On an H200 the two are level in early layers and the product is twice as fast in late ones (times in docs/gpu.md).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.problems.models import Model

Precision: TypeAlias = Literal["float32", "bfloat16"]

_EPSILON = 1e-5  # added to variances, as everywhere


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
    the gradients that are clipped stay float32, so bounds on a record's share hold as in full precision.

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
    dtype = jnp.dtype(precision)

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

    def scores(params: PyTree, x: Array) -> Array:
        x = ((x - 0.5) * 4.0).astype(dtype)
        x = jax.nn.relu(_convolve(params["stem"], x, groups))
        for block, (_, stride) in zip(params["blocks"], shape):
            x = _block(block, x, groups, stride)
        pooled = jnp.mean(x.astype(jnp.float32), axis=(1, 2))
        return pooled @ params["head"]["w"] + params["head"]["b"][None]

    return Model(name="resnet", outputs=classes, init=init, scores=scores)


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


def _block(block: PyTree, x: Array, groups: int, stride: int) -> Array:
    inner = jax.nn.relu(_convolve(block["first"], x, groups, stride))
    inner = _convolve(block["second"], inner, groups)
    skip = _convolve(block["skip"], x, groups, stride) if "skip" in block else x
    return jax.nn.relu(inner + skip)


def _convolve(layer: PyTree, x: Array, groups: int, stride: int = 1) -> Array:
    """Convolution and GroupNorm: (rows, height, width, inputs) -> (rows, ⌈height / stride⌉, …, outputs)."""
    size, _, inputs, outputs = layer["w"].shape
    weights = layer["w"].reshape(size * size * inputs, outputs).astype(x.dtype)
    return _normalise(layer, jnp.tensordot(_neighbourhoods(x, size, stride), weights, 1), groups)


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


def _normalise(layer: PyTree, x: Array, groups: int) -> Array:
    """GroupNorm, in float32 whatever the convolutions use."""
    rows, height, width, channels = x.shape
    parts = x.astype(jnp.float32).reshape(rows, height * width, groups, channels // groups)
    mean = jnp.mean(parts, axis=(1, 3), keepdims=True)
    spread = jnp.mean(jnp.square(parts - mean), axis=(1, 3), keepdims=True)
    unit = ((parts - mean) * jax.lax.rsqrt(spread + _EPSILON)).reshape(x.shape)
    return (unit * layer["scale"][None, None, None] + layer["shift"][None, None, None]).astype(x.dtype)
