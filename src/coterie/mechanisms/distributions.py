"""Noises as values: what is drawn, which norm it protects, what it costs and how likely it is, in one object each.

A `ReleasePlan` holds one of these, and whoever needs to know something of a noise asks the plan's own: simulation
draws `unit`, real owners draw `exact` or `stream`, accountants are given `event`, audits read `log_density`, reports
print `words`. So nothing can draw one noise and charge another. A noise of one's own is a subclass, frozen and
hashable (it is static under `jit`); nothing else in the tree has to know of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array
from coterie.errors import InputError
from coterie.mechanisms import discrete, normals

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_LARGEST = 2**30  # whole-number noise lies within this
WIDEST = 2.0**24  # a scale whose draws never reach it: it would be 64 times as far
_APART = 2.0  # scale of the discrete noise that turns normal noise into discrete noise


class Noise(ABC):
    """Independent noise on every number of a release. *Unit* noise is what a scale is multiplied with.

    Guarantee (what a subclass promises): a release whose value moves by at most s in the `norm`-norm between two
    neighbours, with noise of scale z·s on each number, costs no more than `event(z)`.
    """

    name: ClassVar[str]  # in files and reports
    norm: ClassVar[int]  # the norm that bounds a record's contribution: 1 or 2
    spread: ClassVar[float]  # standard deviation of unit noise; 0: nothing is added

    @abstractmethod
    def unit(self, key: Array, count: int) -> Array:
        """(count,) float32, for simulation: reproducible from the key, traceable by `jit`."""

    @abstractmethod
    def exact(self, scale: float, count: int) -> np.ndarray:
        """(count,) int32 of this scale for a real owner, by an exact sampler."""

    @abstractmethod
    def stream(self, scale: float, count: int, uniforms: Callable[[int], np.ndarray]) -> np.ndarray:
        """(count,) int32 of this scale for a real owner, from `uniforms(many)`: float64 in (0, 1], never repeated."""

    @abstractmethod
    def event(self, multiplier: float) -> DpEvent:
        """What one release costs, for noise of `multiplier` times the bound on a record's contribution."""

    @abstractmethod
    def log_density(self, values: Array) -> Array:
        """Logarithm of the unit noise's density at `values`, one by one, up to a constant."""

    @property
    def words(self) -> str:
        """How a statement says what was added."""
        return f"with {self.name.capitalize()} noise"

    def reach(self, numbers: int) -> float:
        """This norm of a vector of `numbers` ones: how far roundings of single numbers add up.

        >>> Laplace().reach(9), Gaussian().reach(9)
        (9.0, 3.0)
        """
        return numbers ** (1 / self.norm)

    def widening(self, numbers: int) -> float:
        """The largest ratio of this norm to the 2-norm over vectors of `numbers` numbers (Hölder).

        >>> Laplace().widening(9), Gaussian().widening(9)
        (3.0, 1.0)
        """
        return numbers ** (1 / self.norm - 1 / 2)


@dataclass(frozen=True)
class Gaussian(Noise):
    """Normal noise of variance 1: protects contributions that are bounded in the 2-norm."""

    name = "gaussian"
    norm = 2
    spread = 1.0

    def unit(self, key: Array, count: int) -> Array:
        """Standard normal numbers."""
        return normals.normal(key, count)

    def exact(self, scale: float, count: int) -> np.ndarray:
        """The discrete Gaussian distribution of variance scale² + 4: no dearer than the normal one of scale².

        By Rényi's divergences equal scales would do (Canonne, Kamath & Steinke 2020), but not by (ε, δ): at scale 10
        there are ε whose δ is 1.9 % too large. Argument: let X be normal noise on a whole number, and Y a draw in
        proportion to exp(−(y − X)² / 8), which costs nothing more. What that is divided by to be a distribution is the
        same for all X but for one part in 10³⁴ (Poisson's sum): so nearly, too, is this distribution Y's.
        """
        return whole(discrete.gaussian(math.hypot(fitting(scale), _APART), count))

    def stream(self, scale: float, count: int, uniforms: Callable[[int], np.ndarray]) -> np.ndarray:
        """Box & Muller 1958: exactly normal, were the uniforms real numbers; then rounded."""
        pairs = -(-count // 2)
        first, second = uniforms(2 * pairs).reshape(2, pairs)
        radius, angle = np.sqrt(-2.0 * np.log(first)), 2 * np.pi * second
        return whole(
            fitting(scale) * np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
        )

    def event(self, multiplier: float) -> DpEvent:
        """The Gaussian mechanism."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(multiplier)

    def log_density(self, values: Array) -> Array:
        """−x²/2."""
        return -0.5 * jnp.square(values)


@dataclass(frozen=True)
class Laplace(Noise):
    """Two-sided exponential noise of scale 1: protects contributions that are bounded in the 1-norm."""

    name = "laplace"
    norm = 1
    spread = math.sqrt(2.0)

    def unit(self, key: Array, count: int) -> Array:
        """Unit Laplace numbers: their variance is 2."""
        return normals.laplace(key, count)

    def exact(self, scale: float, count: int) -> np.ndarray:
        """The discrete Laplace distribution of scale + ¼: no dearer than the continuous one of `scale`.

        Argument: moved by n, one of scale b has δ(ε) = 1 − e^((ε − n/b)/2) continuously, and discretely a chord of that
        between losses 2/b apart: what it lacks to 1 is smaller by up to cosh(1/2b) ≤ e^(1/8b²). With b + ¼ in place of
        b, n/2b falls by n/8b(b + ¼) ≥ 1/8(b + ¼)², which is as much.
        """
        return whole(discrete.laplace(fitting(scale) + 0.25, count))

    def stream(self, scale: float, count: int, uniforms: Callable[[int], np.ndarray]) -> np.ndarray:
        """A fair sign and an exponential length, rounded."""
        signs = np.where(uniforms(count) <= 0.5, -1.0, 1.0)
        return whole(fitting(scale) * signs * -np.log(uniforms(count)))

    def event(self, multiplier: float) -> DpEvent:
        """The Laplace mechanism."""
        from dp_accounting import LaplaceDpEvent

        return LaplaceDpEvent(multiplier)

    def log_density(self, values: Array) -> Array:
        """−|x|."""
        return -jnp.abs(values)


@dataclass(frozen=True)
class NoNoise(Noise):
    """Nothing is added: a baseline, which protects nobody."""

    name = "none"
    norm = 2
    spread = 0.0

    def unit(self, key: Array, count: int) -> Array:
        """Zeros."""
        del key
        return jnp.zeros((count,), jnp.float32)

    def exact(self, scale: float, count: int) -> np.ndarray:
        """Zeros, of a type that rounds nothing: there is no secret in the last bits of what is not protected."""
        del scale
        return np.zeros(count, np.float32)

    def stream(self, scale: float, count: int, uniforms: Callable[[int], np.ndarray]) -> np.ndarray:
        """Zeros, as `exact`."""
        del uniforms
        return self.exact(scale, count)

    def event(self, multiplier: float) -> DpEvent:
        """No finite cost."""
        from dp_accounting import NonPrivateDpEvent

        del multiplier
        return NonPrivateDpEvent()

    def log_density(self, values: Array) -> Array:
        """As sharp as the scale that the caller takes for rounding: −x²/2."""
        return -0.5 * jnp.square(values)

    @property
    def words(self) -> str:
        """How a statement says it."""
        return "without any noise"


_WORDS: dict[str, Noise] = {noise.name: noise for noise in (Gaussian(), Laplace())}  # what a user may write


def named(word: str) -> Noise:
    """The noise of a setting's word: the only place where a name becomes a noise.

    >>> named("laplace")
    Laplace()
    """
    return _WORDS[_check.one_of("noise", word, _WORDS)]


def fitting(scale: float) -> float:
    """A scale whose whole numbers are never cut; a draw at the bound would leave bare what it is added to.

    >>> fitting(65536.0)
    65536.0
    """
    if not 0 < scale <= WIDEST:
        raise InputError(
            f"noise: would be {scale:.3g} whole numbers wide; must be above 0 and at most {WIDEST:.3g}. Ask for fewer "
            "releases, fewer features or a larger epsilon."
        )
    return scale


def whole(values: np.ndarray) -> np.ndarray:
    """The nearest whole numbers as int32, at the bounds where a draw lies beyond them, which none ever will."""
    return np.clip(np.rint(values), -_LARGEST, _LARGEST).astype(np.int32)
