"""Where a real owner's noise comes from: whole numbers, `LATTICE` to one unit, that `mechanisms.noise.noised` adds.

    exact     OpenDP's samplers of the discrete Gaussian and Laplace distributions, which are exact (Canonne, Kamath &
              Steinke 2020): the default. Tens of thousands of numbers a second and core.
    stream    a ChaCha20 key stream, made normal in double precision and rounded to whole numbers: a thousand times as
              fast. Residual risk: the distribution differs from the discrete Gaussian by the rounding of doubles and by
              the tail that 53-bit uniform numbers cannot reach, beyond 8.5 standard deviations.
    injected  the simulator's noise, from a key that the test knows: for comparison with `simulate`, never for records.

All but the last are seeded by the operating system and keep no state that could leak: a key is drawn anew for each
release. The sum that they meet is added up in single precision: `rounding_slack` bounds what that can betray, and the
noise is wider by as much.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.mechanisms import noise as noises
from coterie.mechanisms.noise import LATTICE, NoiseSpec, rounding_slack
from coterie.mechanisms.plan import ReleasePlan

Generator: TypeAlias = Literal["exact", "stream"]
GENERATORS = ("exact", "stream")
SLOW = 5_000  # numbers a release above which the exact sampler takes long enough to say so


class Source(Protocol):
    """An owner's randomness. Every call draws anew, but for injected keys."""

    def noise(self, step: int) -> PyTree:
        """Unit noise of the release of this step."""
        ...

    def sampling_key(self, step: int) -> Array:
        """Which records enter the release: hidden inside the owner."""
        ...

    def coin_key(self, step: int) -> Array:
        """Other coin flips; step 0 is the start."""
        ...


def source(generator: Generator, plan: ReleasePlan, owner: int) -> Source:
    """The owner's own source for this plan."""
    # Wider than the plan says, so that rounding, to whole numbers and in the sum, is covered (`rounding_slack`).
    scale = LATTICE * (1.0 + rounding_slack(plan, owner))
    return _Own(generator, noises.spec(plan), scale)


@dataclass(frozen=True)
class _Own:
    generator: Generator
    spec: NoiseSpec
    scale: float

    def noise(self, step: int) -> PyTree:
        del step
        if self.spec.kind == "none":
            return noises.split(self.spec, np.zeros(self.spec.size, np.float32))
        draw = _exact if self.generator == "exact" else _stream
        return noises.split(self.spec, draw(self.spec.kind, self.scale, self.spec.size))

    def sampling_key(self, step: int) -> Array:
        del step
        return _fresh_key()

    def coin_key(self, step: int) -> Array:
        del step
        return _fresh_key()


@dataclass(frozen=True)
class Injected:
    """The keys that `simulate` would use. Whoever knows the seed can take the noise off again: tests only."""

    spec: NoiseSpec
    seed: int
    owner: int
    owners: int

    def noise(self, step: int) -> PyTree:
        """The simulator's noise."""
        with jax.threefry_partitionable(False):
            return _unit_noise(self.spec, self._key(noises.NOISE, step))

    def sampling_key(self, step: int) -> Array:
        """The simulator's key."""
        return self._key(noises.SAMPLING, step)

    def coin_key(self, step: int) -> Array:
        """The simulator's key; at the start it is not folded with a step."""
        return self._key(noises.COINS, step)

    def _key(self, stream: int, step: int) -> Array:
        with jax.threefry_partitionable(False):
            own = noises.owner_keys(jnp.uint32(self.seed), stream, self.owners)[self.owner]
            return jax.random.fold_in(own, step) if step else own


def injected(plan: ReleasePlan, seed: int, owner: int) -> Source:
    """The source with which a real owner repeats what `simulate` does with this seed."""
    return Injected(noises.spec(plan), seed, owner, len(plan.sizes))


_unit_noise = jax.jit(noises.unit_noise, static_argnums=0)


def _fresh_key() -> Array:
    """64 bits of the operating system's randomness, for one release."""
    words = jnp.asarray(np.frombuffer(secrets.token_bytes(8), np.uint32))
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _exact(kind: str, scale: float, size: int) -> np.ndarray:
    """Exact discrete noise by OpenDP, which samples with arbitrary-precision fractions."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        measure = make_laplace(domain, l1_distance(T="i64"), scale=scale)
    else:
        measure = make_gaussian(domain, l2_distance(T="i64"), scale=scale)
    return _whole(np.asarray(measure([0] * size)))


def _stream(kind: str, scale: float, size: int) -> np.ndarray:
    """Rounded continuous noise from a ChaCha20 key stream under a key of its own."""
    pairs = -(-size // 2)
    first, second = _uniforms(2 * pairs).reshape(2, pairs)
    if kind == "laplace":
        signs = np.where(np.concatenate([first, second]) < 0.5, -1.0, 1.0)
        values = signs * -np.log(_uniforms(2 * pairs))
    else:  # Box & Muller 1958: exactly normal, were the uniforms real numbers
        radius = np.sqrt(-2.0 * np.log(first))
        values = np.concatenate([radius * np.cos(2 * np.pi * second), radius * np.sin(2 * np.pi * second)])
    return _whole(np.rint(scale * values[:size]))


def _uniforms(count: int) -> np.ndarray:
    """(count,) float64 in (0, 1], multiples of 2⁻⁵³."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(secrets.token_bytes(32), bytes(16)), mode=None).encryptor()
    bits = np.frombuffer(stream.update(bytes(8 * count)), "<u8")
    return ((bits >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53


def _whole(values: np.ndarray) -> np.ndarray:
    """As int32, at the bounds where a draw lies beyond 2¹⁴ standard deviations, which none ever will."""
    return np.clip(values, -(2**30), 2**30).astype(np.int32)
