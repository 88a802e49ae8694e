"""Layers that meet a record at many places, as a convolution does: clipped sums without their gradients.

With inputs a_t and slopes g_t at place t, a record's gradient is G = Σ_t a_t ⊗ g_t. Its norm needs no G:
‖G‖² = Σ_tu (a_t·a_u)(g_t·g_u), the ghost norm (Li, Tramèr, Liang & Hashimoto 2022). The sum of the clipped gradients
is one matrix product over all records and places, with no second backward pass (Bu, Wang, Zha & Karypis 2023).

Guarantee: what a record alone adds to the sum is no longer than `clip_norm`, whatever its inputs and slopes, and zero
where they are no numbers.

Argument. G can be far shorter than R = Σ_t ‖a_t‖‖g_t‖, as terms cancel, and rounding is relative to R. So the norm is
raised by what rounding can hide of it, and by what rounding adds to the sum, both in terms of R: `norms` never states
less than the length of what `weighted_sum` adds, and a record made to cancel pays with a smaller factor.
Both see the same numbers: bfloat16 arrays as they are, never a copy that a compiler left unrounded (`settled`).

Sums over many records round as in `clipping`, but relative to factor × R, at most `clip_norm` / √ε each (see `norms`).
That is why `careful` sums form the gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array

_TINY = float(jnp.finfo(jnp.float32).tiny)
# One addition: float32 rounds by 2⁻²⁴, tensor cores cut off up to 2⁻²³ of each addend and of the sum so far (Fasi,
# Higham, Mikaitis & Pranesh 2021). A quarter more covers that, and products of these errors.
_ADDITION = 2.5 * 2.0**-24

# Products in the time of writing a number and reading it twice: on an H200 6 bytes at 4 TB/s, 3·10⁻¹⁵ s an operation.
_MOVED = 200


class Places(NamedTuple):
    """One array's gradient for each record: the sum over places of inputs ⊗ slopes. Both float32 or both bfloat16."""

    inputs: Array  # (rows, places, ...fan in), with no NaN or infinity: see `clipping.finite`
    slopes: Array  # (rows, places, fan_out)


def pays(places: int, fan_in: int, fan_out: int) -> bool:
    """Whether the norm costs less than the gradients, as in mixed ghost clipping (Bu, Mao & Xu 2022).

    A record's norm takes places² (fan_in + fan_out) products, and moves two arrays of places² numbers. Its gradient
    takes places × fan_in × fan_out products, and moves as many numbers as there are weights. So early convolutions,
    of many places and few weights, are better formed, and late ones, which have most of the weights, are not.

    >>> pays(1024, 9 * 64, 64), pays(256, 9 * 128, 128), pays(64, 9 * 256, 256), pays(16, 9 * 512, 512)
    (False, False, True, True)
    """
    norm = places * places * (fan_in + fan_out + 2 * _MOVED)
    return norm < fan_in * fan_out * (places + _MOVED)


def settled(leaf: Places) -> Places:
    """The leaf with its arrays in memory: norm and sum read these, not what a fused loop would compute twice."""
    return Places(*jax.lax.optimization_barrier(tuple(leaf)))


def formed(leaf: Places) -> Array:
    """(rows, ...fan in, fan_out): the gradients themselves, in float32."""
    rows, places, *fan_in = leaf.inputs.shape
    inputs, slopes = (_full(part.reshape(rows, places, -1)) for part in leaf)
    gradients = jnp.einsum("rti,rto->rio", inputs, slopes, precision=jax.lax.Precision.HIGHEST)
    return gradients.reshape(rows, *fan_in, -1)


def norms(leaf: Places, known: Array | None = None) -> Array:
    """(rows,) at least the 2-norm of what `weighted_sum` adds for the record with factor one.

    Guarantee: for the computed square N̂ and the true one, |N̂ - ‖G‖²| <= ε R², as each a_t·a_u is wrong by at most
    fan_in additions of ‖a_t‖‖a_u‖ (in any order), each g_t·g_u likewise, and the two sums over places by 2 places.
    Underflow hides at most fan_in or fan_out times the smallest number in one of them: the floors, over ε, pay for it.
    On top comes λ R, what `weighted_sum` may add beside f G: by rounding its slopes, and in one addition a place.
    `known`: `gram` of the inputs, where somebody has it.
    """
    rows, places = leaf.slopes.shape[:2]
    inputs, slopes = (part.reshape(rows, places, -1) for part in leaf)
    terms = inputs.shape[2] + slopes.shape[2] + 2 * places + 4
    epsilon = _ADDITION * terms
    left, right = gram(inputs) if known is None else known, gram(slopes)
    # Two sums, kept apart by the barrier: one over places² would round as often.
    square = jnp.sum(jax.lax.optimization_barrier(jnp.sum(left * right, axis=2)), axis=1)
    lengths = [
        jnp.sqrt(jnp.diagonal(products, axis1=1, axis2=2) + fan * _TINY / epsilon)
        for products, fan in ((left, inputs.shape[2]), (right, slopes.shape[2]))
    ]
    reach = jnp.sum(lengths[0] * lengths[1], axis=1)
    # Squared from scaled numbers, as R² may overflow where ‖G‖² does not, and with it a record that can be kept.
    hidden = jnp.square(math.sqrt(epsilon) * reach) + places * places * _TINY
    slack = _ADDITION * places + (2.0**-17 if leaf.slopes.dtype == jnp.bfloat16 else 2.0**-23)
    return jnp.sqrt(jnp.abs(square) + hidden) + slack * reach  # infinite where a square is, of either sign


def weighted_sum(leaf: Places, factor: Array) -> Array:
    """Σ_i factor_i G_i, in float32: (...fan in, fan_out). Records of factor zero count for nothing, NaN or not.

    The weighted slopes of bfloat16 arrays are taken as two bfloat16 parts, 16 of their bits: what is left out is
    below 2⁻¹⁸ of them, so that the sum is off by less than 2⁻¹⁸ factor R of every record.
    """
    rows, places, *fan_in = leaf.inputs.shape
    inputs, slopes = leaf.inputs.reshape(rows * places, -1), leaf.slopes.reshape(rows, places, -1)
    factor = factor[:, None, None]
    weighted = jnp.where(factor > 0, factor * _full(slopes), 0.0).reshape(rows * places, -1)
    if leaf.inputs.dtype == jnp.bfloat16:
        high = _short(weighted)
        parts = jnp.concatenate([high, _short(weighted - high)], axis=1).astype(jnp.bfloat16)
        halves = jnp.matmul(inputs.T, parts, preferred_element_type=jnp.float32)
        total = halves[:, : weighted.shape[1]] + halves[:, weighted.shape[1] :]
    else:
        total = jnp.matmul(inputs.T, weighted, precision=jax.lax.Precision.HIGHEST)
    return total.reshape(*fan_in, -1)


def gram(vectors: Array) -> Array:
    """(rows, places, fan) -> (rows, places, places). Products of bfloat16 numbers are exact in float32."""
    return jnp.einsum(
        "rti,rui->rtu",
        vectors,
        vectors,
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )


def _full(numbers: Array) -> Array:
    """The numbers in float32; what was bfloat16 is rounded to it again, as compilers may drop a pair of conversions."""
    full = numbers.astype(jnp.float32)
    return _short(full) if numbers.dtype == jnp.bfloat16 else full


def _short(numbers: Array) -> Array:
    """Rounded to bfloat16's eight bits, and still float32."""
    return jax.lax.reduce_precision(numbers, exponent_bits=8, mantissa_bits=7)
