"""Exact discrete noise: whole numbers y with probability in proportion to exp(−y²/2σ²) or exp(−|y|/b), exactly.

Sizes are proposed, and taken or left (von Neumann 1951). With w = ⌈scale⌉ and γ = y²/2σ² or y/b:

    proposed    y = w k + u with probability 2^−(k+1)/w, for k = 0, 1, … and u = 0, …, w − 1; and a fair sign, but no −0
    taken       with probability p = 4/5 · 2^k · exp(−γ)

So y comes out in proportion to exp(−γ), if only p ≤ 1: as y ≥ k · scale, γ is at least k²/2 or k, and 2^k exp(−k²/2)
is at most 1.22. About every second proposal is taken.

Guarantee: given uniform words, the distribution is exact. *Taken* means U < p for a uniform real number U. Doubles
decide it where they must be right, with 53 bits of U and a p̂ that is within 2⁻⁴⁸ of p; where U and p̂ are closer
than `_MARGIN`, once in 2³⁸ proposals, more bits of U and digits of p are looked at until it is plain (`_settled`).
p̂ − p: three roundings move γ by 3 · 2⁻⁵³ γ, and so p by that times p γ < 1; the exponential's own error is a few units
in the last place of a number below 1 (NumPy tests for 4).

How long a draw takes says nothing of its values: how many proposals were left is independent of what is taken, and all
are computed alike. Samplers that count up to what they draw (Canonne, Kamath & Steinke 2020) give it away by their time
(Jin, McMurtry, Rubinstein & Ohrimenko 2022).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from coterie.errors import InputError

Words: TypeAlias = Callable[[int], np.ndarray]  # (count,) uniform uint64, never the same again

_BITS = 53  # of a word that a double holds exactly
_MARGIN = 2.0**-40
# Scales whose sizes fit into 64 bits, whatever k, and whose exponents are doubles.
_SMALLEST, _LARGEST = 2.0**-48, 2.0**48
_SPARE = 32  # proposals beyond what is expected: most draws need no second batch
_BATCH = 2**13  # proposals at once: what they take stays in the processor's cache


class _Law(NamedTuple):
    """Probability in proportion to exp(−|y|^power / divisor), proposed in steps of `width`."""

    power: int
    divisor: Fraction
    width: int


def key_stream(key: bytes, count: int) -> np.ndarray:
    """(count,) uint64, the first of a key's ChaCha20 stream: for keys that are used once."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), "<u8")


def words(count: int) -> np.ndarray:
    """(count,) uint64 under a key from the operating system that is used for these alone."""
    return key_stream(secrets.token_bytes(32), count)


def gaussian(scale: float, count: int, source: Words = words) -> np.ndarray:
    """(count,) int64 of the discrete Gaussian distribution, exp(−y² / 2 scale²)."""
    _check(scale)
    return _drawn(_Law(2, 2 * Fraction(scale) ** 2, math.ceil(scale)), count, source)


def laplace(scale: float, count: int, source: Words = words) -> np.ndarray:
    """(count,) int64 of the discrete Laplace distribution, exp(−|y| / scale)."""
    _check(scale)
    return _drawn(_Law(1, Fraction(scale), math.ceil(scale)), count, source)


def _check(scale: float) -> None:
    if not _SMALLEST <= scale <= _LARGEST:
        raise InputError(f"scale={scale}: must be between {_SMALLEST:g} and {_LARGEST:g}.")


def _drawn(law: _Law, count: int, source: Words) -> np.ndarray:
    draws, missing = [np.zeros(0, np.int64)], count
    while missing > 0:
        draws.append(_taken(law, min(2 * missing + _SPARE, _BATCH), source)[:missing])
        missing -= len(draws[-1])
    return np.concatenate(draws)


def _taken(law: _Law, count: int, source: Words) -> np.ndarray:
    """What is taken of this many proposals."""
    first, second, third = source(3 * count).reshape(3, count)
    steps = _steps(first, source)
    size = (second % np.uint64(law.width)).astype(np.int64) + law.width * steps
    even = second <= np.uint64(2**64 // law.width * law.width - 1)  # no remainder is likelier than others
    negative = (third & np.uint64(1)) == 1  # not among the bits that `_accepted` looks at
    proposed = even & ~(negative & (size == 0))
    return np.where(negative, -size, size)[proposed & _accepted(law, size, steps, _head(third), source)]


def _head(word: np.ndarray) -> np.ndarray:
    """The first bits of each word, as a whole number that a double holds."""
    return (word >> np.uint64(64 - _BITS)).astype(np.float64)


def _steps(word: np.ndarray, source: Words) -> np.ndarray:
    """k with probability 2^−(k+1): the zeros before the first one; all zeros go on with another word."""
    steps = _BITS - np.frexp(_head(word))[1].astype(np.int64)
    endless = steps == _BITS
    if endless.any():
        steps[endless] += _steps(source(int(endless.sum())), source)
    return steps


def _accepted(law: _Law, size: np.ndarray, steps: np.ndarray, head: np.ndarray, source: Words) -> np.ndarray:
    """Whether each U, known by its head, lies below its p."""
    exponent = size.astype(np.float64) ** law.power / float(law.divisor)
    apart = np.ldexp(head, -_BITS) - np.ldexp(0.8 * np.exp(-exponent), steps)
    below = apart < 0
    for at in np.flatnonzero(np.abs(apart) <= _MARGIN):
        exact = Fraction(int(size[at]) ** law.power) / law.divisor
        below[at] = _settled(int(head[at]), int(steps[at]), exact, source)
    return below


def _settled(known: int, steps: int, exponent: Fraction, source: Words) -> bool:
    """Whether U, of which these first bits are known, lies below 4/5 · 2^steps · exp(−exponent)."""
    bits = _BITS
    while True:
        known, bits = known << 64 | int(source(1)[0]), bits + 64
        chance = _chance(bits, steps, exponent)
        if abs(known - chance) > 2:  # one for the bits of U that are not known, one for the rounding of p
            return known < chance


def _chance(bits: int, steps: int, exponent: Fraction) -> int:
    """4/5 · 2^steps · exp(−exponent) in units of 2^−bits, off by less than 1.

    Decimal's operations are rounded correctly, the exponential too. The exponent's rounding moves the result by the
    exponent times as much: its digits are added.
    """
    with localcontext() as context:
        context.prec = math.ceil(0.302 * bits) + len(str(math.ceil(exponent))) + 10
        ratio = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        return int(Decimal(2 ** (bits + steps + 2)) / 5 * (-ratio).exp())
