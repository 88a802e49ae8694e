"""Where a real owner's noise comes from: whole numbers, `LATTICE` to one unit, that `mechanisms.noise.noised` adds.

    exact     the discrete Gaussian and Laplace distributions, to the last bit (`mechanisms.discrete`), as much wider as
              makes them no dearer than continuous ones: the default. Millions of numbers a second and core.
    stream    made normal in double precision and rounded to whole numbers: two or three times as fast. Residual risk:
              the distribution differs from the discrete Gaussian by the rounding of doubles and by the tail that 53-bit
              uniform numbers cannot reach, beyond 8.5 standard deviations.
    injected  the simulator's noise, from a key that the test knows: for comparison with `simulate`, never for records.

All but the last are made of ChaCha20 key streams, seeded by the operating system, and keep no state that could leak: a
key of 256 bits is drawn anew for each release's noise, and another one for which records enter it. The sum that noise
meets is added up in single precision: `rounding_slack` bounds what that can betray, and the noise is wider by as much.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.mechanisms import FixedSize, Noise, Poisson, Sampler, discrete
from coterie.mechanisms import noise as noises
from coterie.mechanisms.distributions import fitting
from coterie.mechanisms.noise import LATTICE, NoiseSpec, rounding_slack
from coterie.mechanisms.plan import ReleasePlan
from coterie.mechanisms.sampling import Draw, Drawing

Generator: TypeAlias = Literal["exact", "stream"]
GENERATORS = ("exact", "stream")


class NoiseSource(Protocol):
    """An owner's randomness. Every call draws anew, but for injected keys."""

    def noise(self, step: int) -> PyTree:
        """Unit noise of the release of this step."""
        ...

    def sample(self, sampler: Sampler, rows: int, step: int) -> Draw | None:
        """Which records enter the release: hidden inside the owner. None where that is not left to chance."""
        ...

    def coin_key(self, step: int) -> np.ndarray:
        """Other coin flips, whose secrecy nothing rests on; step 0 is the start. Words, made a key where it is used."""
        ...


def source(generator: Generator, plan: ReleasePlan, owner: int) -> NoiseSource:
    """The owner's own source for this plan."""
    # Wider than the plan says, so that rounding, to whole numbers and in the sum, is covered (`rounding_slack`).
    lattice = LATTICE if plan.lattice is None else plan.lattice[owner]
    scale = lattice * (1.0 + rounding_slack(plan, owner))
    return _Own(generator, noises.spec(plan), fitting(scale))


@dataclass(frozen=True)
class _Own:
    generator: Generator
    spec: NoiseSpec
    scale: float

    def noise(self, step: int) -> PyTree:
        del step
        return noises.split(self.spec, drawn(self.spec.kind, self.generator, self.scale, self.spec.size))

    def sample(self, sampler: Sampler, rows: int, step: int) -> Draw | None:
        del step
        return sampler.exact(rows, discrete.words) if isinstance(sampler, Drawing) else None

    def coin_key(self, step: int) -> np.ndarray:
        del step
        return np.frombuffer(secrets.token_bytes(8), np.uint32)  # the operating system's, for one release


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

    def sample(self, sampler: Sampler, rows: int, step: int) -> Draw | None:
        """The simulator's sample."""
        if not isinstance(sampler, Drawing):
            return None
        with jax.threefry_partitionable(False):
            return jax.tree.map(np.asarray, _draw(sampler, rows, self._key(noises.SAMPLING, step)))

    def coin_key(self, step: int) -> np.ndarray:
        """The simulator's key; at the start it is not folded with a step."""
        return np.asarray(jax.random.key_data(self._key(noises.COINS, step)))

    def _key(self, stream: int, step: int) -> Array:
        with jax.threefry_partitionable(False):
            own = noises.owner_keys(jnp.uint32(self.seed), stream, self.owners)[self.owner]
            return jax.random.fold_in(own, step) if step else own


def injected(plan: ReleasePlan, seed: int, owner: int) -> NoiseSource:
    """The source with which a real owner repeats what `simulate` does with this seed."""
    return Injected(noises.spec(plan), seed, owner, len(plan.sizes))


_unit_noise = jax.jit(noises.unit_noise, static_argnums=0)


@partial(jax.jit, static_argnums=(0, 1))
def _draw(sampler: FixedSize | Poisson, rows: int, key: Array) -> Draw:
    return sampler.draw(key, rows, jnp.int32(rows), jnp.int32(0))


def drawn(noise: Noise, generator: Generator, scale: float, count: int) -> np.ndarray:
    """(count,) whole numbers of the noise, anew at every call."""
    if generator == "exact":
        return noise.exact(scale, count)
    return noise.stream(scale, count, _uniforms)


def _uniforms(count: int) -> np.ndarray:
    """(count,) float64 in (0, 1], multiples of 2⁻⁵³."""
    return ((discrete.words(count) >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
