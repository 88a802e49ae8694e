"""Which of an owner's records enter a release: the draw the engine makes, and the event it is charged as.

The draw and its accounting stand side by side in one class, so that they cannot disagree. All draws are
hidden inside the owner; the batch's size is never used, only the public `expected` one.

`draw` is the simulations', reproducible from a key. A real owner's samples are `exact`: of words of a cipher that only
the owner has. What sampling saves rests on nobody's knowing the sample; a key of 64 bits could be searched for, and 30
bits a record favour some records by a part in millions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie._types import Array
from coterie.errors import InputError
from coterie.mechanisms import normals
from coterie.mechanisms.discrete import Words

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Every record draws a lot, a whole number of 30 bits, and those with the smallest lots are the sample. Where two lots
# are equal (n / 2^30 of all records), the record that is stored first counts as the smaller.
_BITS = 30
# XLA finds the smallest floats faster than the smallest integers. So a lot is read as a float32: with this offset its
# bits are those of a positive, normal float, and floats of such bits are in the same order as the lots.
_FIRST = 0x00800000
_NEVER = 2**_BITS  # the lot of padding: larger than any record's, so that it is never in the sample
_ENDS = 2**64  # above all lots of a real owner's records


class Draw(NamedTuple):
    """Positions (batch,) of the drawn records and a mask (batch,), 0.0 where there is none."""

    positions: Array
    mask: Array


@dataclass(frozen=True)
class FullBatch:
    """Every record in every release."""

    def cost(self, rows: int) -> int:
        """How many random numbers one draw takes."""
        del rows
        return 0

    def draw(self, key: Array, rows: int, count: Array, turn: Array) -> None:
        """Nothing to draw: engines hand over all records without copying them."""
        del key, rows, count, turn

    def expected(self, size: int) -> float:
        """The public number that a released sum is divided by."""
        return float(size)

    def event(self, release: DpEvent, size: int, releases: int) -> DpEvent:
        """All releases of a run: a record is in each of them."""
        from dp_accounting import SelfComposedDpEvent

        del size
        return SelfComposedDpEvent(release, releases)


@dataclass(frozen=True)
class FixedSize:
    """`batch` records drawn uniformly without replacement, anew for each release."""

    batch: int

    def cost(self, rows: int) -> int:
        """How many random numbers one draw takes."""
        return 1 if self.batch == 1 else rows

    def draw(self, key: Array, rows: int, count: Array, turn: Array) -> Draw:
        """One record by a uniform integer; more by the smallest of the records' lots."""
        del turn
        if self.batch == 1:
            return Draw(jax.random.randint(key, (1,), 0, count), jnp.ones(1, jnp.float32))
        return _below(_NEVER, key, rows, count, self.batch)

    def exact(self, rows: int, source: Words) -> Draw:
        """A real owner's: those with the smallest lots."""
        return _smallest(_ENDS, rows, self.batch, source)

    def expected(self, size: int) -> float:
        """Exactly `batch`, public."""
        del size
        return float(self.batch)

    def event(self, release: DpEvent, size: int, releases: int) -> DpEvent:
        """Sampling without replacement, composed; refuses a batch larger than the owner."""
        from dp_accounting import SampledWithoutReplacementDpEvent, SelfComposedDpEvent

        if self.batch > size:
            raise InputError(
                f"batch={self.batch}: must be <= the owner's {size} records. Use a smaller batch."
            )
        return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(size, self.batch, release), releases)


@dataclass(frozen=True)
class Poisson:
    """Each record independently with probability `rate`; at most `cap` of them, a random subset if more came."""

    rate: float
    cap: int

    def cost(self, rows: int) -> int:
        """How many random numbers one draw takes."""
        return rows

    def draw(self, key: Array, rows: int, count: Array, turn: Array) -> Draw:
        """Included when its lot is below the rate; the `cap` smallest are a uniform subset.

        The rate is rounded down to a multiple of 2^-30: a record is never drawn more often than it is charged for.
        """
        del turn
        return _below(math.floor(self.rate * _NEVER), key, rows, count, min(self.cap, rows))

    def exact(self, rows: int, source: Words) -> Draw:
        """A real owner's: as `draw`, with the rate rounded down to a multiple of 2^-64."""
        return _smallest(math.floor(self.rate * _ENDS), rows, self.cap, source)

    def expected(self, size: int) -> float:
        """rate × size: public, unlike the number that was really drawn."""
        return self.rate * size

    def event(self, release: DpEvent, size: int, releases: int) -> DpEvent:
        """Capped Poisson sampling of a Gaussian; uncapped where the cap can never bind."""
        import dp_accounting as dp

        _check.probability("rate", self.rate)
        _check.count("cap", self.cap)
        if self.cap >= size:
            return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(self.rate, release), releases)
        if not isinstance(release, dp.GaussianDpEvent):
            raise InputError(
                f"cap={self.cap}: capped Poisson sampling is certified for Gaussian noise only. Use cap={size}."
            )
        event = dp.TruncatedSubsampledGaussianDpEvent(size, self.rate, self.cap, release.noise_multiplier)
        return dp.SelfComposedDpEvent(event, releases)


@dataclass(frozen=True)
class OnePass:
    """Disjoint batches of `batch` records in stored order; each record is in at most one release."""

    batch: int

    def cost(self, rows: int) -> int:
        """How many random numbers one draw takes."""
        del rows
        return 0

    def draw(self, key: Array, rows: int, count: Array, turn: Array) -> Draw:
        """The owner's next unseen batch; empty once all records were seen."""
        del key, rows
        return _from(turn * self.batch, self.batch, count)

    def expected(self, size: int) -> float:
        """Exactly `batch`, public."""
        del size
        return float(self.batch)

    def event(self, release: DpEvent, size: int, releases: int) -> DpEvent:
        """One release: the partition is fixed and data-independent, so the releases compose in parallel (max)."""
        from dp_accounting import NoOpDpEvent

        del size
        return release if releases else NoOpDpEvent()


@dataclass(frozen=True)
class Passes:
    """Disjoint batches of `batch` records in stored order, from the start again once all were seen."""

    batch: int

    def cost(self, rows: int) -> int:
        """How many random numbers one draw takes."""
        del rows
        return 0

    def draw(self, key: Array, rows: int, count: Array, turn: Array) -> Draw:
        """The owner's next batch; the last one of a pass may be short."""
        del key, rows
        return _from(turn % ((count + self.batch - 1) // self.batch) * self.batch, self.batch, count)

    def expected(self, size: int) -> float:
        """Exactly `batch`, public."""
        del size
        return float(self.batch)

    def event(self, release: DpEvent, size: int, releases: int) -> DpEvent:
        """One release for each pass begun: batches of one pass are disjoint, so they compose in parallel."""
        from dp_accounting import SelfComposedDpEvent

        batches = -(-size // self.batch)
        return SelfComposedDpEvent(release, -(-releases // batches))


Sampler: TypeAlias = FullBatch | FixedSize | Poisson | OnePass | Passes
Drawing = (FixedSize, Poisson)  # of these, the ones that leave it to chance


def _from(first: Array, batch: int, count: Array) -> Draw:
    """The `batch` records in stored order from this one on, those beyond the last masked."""
    positions = first + jnp.arange(batch)
    return Draw(jnp.minimum(positions, count - 1), (positions < count).astype(jnp.float32))


def _below(bound: int, key: Array, rows: int, count: Array, batch: int) -> Draw:
    """The `batch` records with the smallest lots, those with a lot of at least `bound` masked.

    A record's lot follows from the key and the record's place alone, not from how many rows of padding follow.
    """
    lots = normals.words(key, rows) >> jnp.uint32(32 - _BITS)
    lots = jnp.where(jnp.arange(rows) < count, lots, jnp.uint32(_NEVER))
    as_floats = jax.lax.bitcast_convert_type(lots + jnp.uint32(_FIRST), jnp.float32)
    _, positions = jax.lax.top_k(-as_floats, min(batch, rows))
    positions = jnp.pad(positions, (0, batch - len(positions)))
    drawn = (jnp.arange(batch) < rows) & (lots[positions] < bound)
    return Draw(positions, drawn.astype(jnp.float32))


def _smallest(bound: int, rows: int, most: int, source: Words) -> Draw:
    """The `most` records with the smallest lots of 64 bits, those with a lot of at least `bound` masked.

    Which of two equal lots is the smaller is not by chance; but n records have any with a chance of n² / 2^65 alone.
    """
    lots, batch = source(rows), min(most, rows)
    positions = np.argpartition(lots, batch - 1)[:batch]
    drawn = (lots[positions] < bound).astype(np.float32)
    return Draw(positions.astype(np.int32), drawn)  # type: ignore[arg-type]
