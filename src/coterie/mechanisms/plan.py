"""The release plan: the only place where sampling, contribution bound, noise and accounting event meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie import _check
from coterie._types import PyTree
from coterie.errors import InputError
from coterie.mechanisms.distributions import Noise
from coterie.mechanisms.sampling import Sampler
from coterie.relations import REPLACE_ONE, Relation, named
from coterie.units import RECORD, Unit

if TYPE_CHECKING:
    from dp_accounting import DpEvent


# What a plan says of each owner.
_FOR_EACH = ("noise_multiplier", "releases", "sizes", "charged", "extra", "rounded", "lattice")
# Far below, cells of noise would be zero in single precision, and let a sum's signs through; far above, sums overflow.
_LEAST_CLIP, _LEAST_NOISE = 2.0**-64, 2.0**-96


@dataclass(frozen=True)
class TableNoise:
    """Gaussian noise on a table of whole numbers that each owner releases once, before or after training.

    Guarantee: a table that one record moves by at most `reach` when it is added and 2 `reach` when it is replaced
    (2-norm) costs `event`.
    """

    noise_multiplier: tuple[float, ...]  # for each owner, the noise's scale over `reach`
    reach: float
    width: int
    sizes: tuple[int, ...]  # over how many records of each owner

    def scale(self, owner: int) -> float:
        """Standard deviation of the noise on each whole number."""
        return self.noise_multiplier[owner] * self.reach

    def variance(self, owners: Iterable[int] | None = None) -> float:
        """The variance of the noise on each whole number of the sum of these owners' tables; None: of all."""
        everyone = range(len(self.noise_multiplier)) if owners is None else owners
        return sum(self.scale(owner) ** 2 for owner in everyone)

    def among(self, who: Sequence[int]) -> TableNoise:
        """The noise on the tables of these owners, in this order."""
        return replace(
            self,
            noise_multiplier=tuple(self.noise_multiplier[owner] for owner in who),
            sizes=tuple(self.sizes[owner] for owner in who),
        )

    def event(self, owner: int) -> DpEvent:
        """What the owner's table is charged as."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.noise_multiplier[owner])


@dataclass(frozen=True, kw_only=True)
class Masked:
    """Messages are whole numbers under masks that cancel in their sum: nothing smaller than the sum can be seen."""

    colluding: int  # owners who may pool what they know, with whoever adds up among them for free
    absent: int  # owners who may be left out of a sum
    spare: int  # sums that may fail and be made anew, with new noise: charged for beforehand
    degree: int  # how many others an owner shares masks with; 0: all


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Noise that pairs of owners have in common, with opposite signs, on top of everyone's own: its sum is zero.

    In units of an owner's own noise everybody's messages together have covariance 1 + ratio² L, L the Laplacian of the
    graph of pairs. Simulations alone draw it.
    """

    ratio: float  # a pair's noise over an owner's own, standard deviations
    colluding: int  # owners who may pool what they know
    # The pairs, the smaller number first; None: all there are.
    links: tuple[tuple[int, int], ...] | None = None

    def variances(self, owners: int) -> np.ndarray:
        """(owners, owners) of each pair's noise, in units of an owner's own; 0 for none."""
        if self.links is None:
            return np.where(np.eye(owners, dtype=bool), 0.0, self.ratio**2)
        variances = np.zeros((owners, owners))
        for first, second in self.links:
            variances[first, second] = variances[second, first] = self.ratio**2
        return variances

    def covariance(self, owners: int) -> np.ndarray:
        """(owners, owners) of everybody's unit noise: 1 + ratio² L."""
        variances = self.variances(owners)
        return np.eye(owners) + np.diag(variances.sum(axis=1)) - variances

    def among(self, who: Sequence[int]) -> Shared:
        """What is shared between these owners alone, numbered in this order: what others know of it is taken off."""
        if self.links is None:
            return self
        place = {owner: at for at, owner in enumerate(who)}
        ends = [sorted((place[a], place[b])) for a, b in self.links if a in place and b in place]
        return replace(self, links=tuple((a, b) for a, b in ends))


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """What each owner releases in a run, how it is protected, and what that is charged as.

    Guarantee: one record changes a released sum by at most `clip_norm` when it is added and 2 `clip_norm`
    when it is replaced, in the norm of `noise`; noise of scale
    `noise_multiplier × clip_norm` is added to that sum. `event` says exactly this, no more.
    """

    sampler: Sampler
    clip_norm: float  # bound on one record's contribution to the released sum
    noise: Noise
    noise_multiplier: tuple[float, ...]  # for each owner, the noise's scale over clip_norm
    releases: tuple[int, ...]  # for each owner, the most it may release; engines stop it there
    sizes: tuple[int, ...]  # public numbers of records
    noise_like: PyTree  # shapes (jax.ShapeDtypeStruct) of the unit noise handed to one emit
    relation: Relation = REPLACE_ONE
    view: str = "public transcript"  # what the adversary sees, in the words that a certificate prints
    # Noise over clip_norm that this view faces; None: the owner's own.
    charged: tuple[float, ...] | None = None
    extra: tuple[DpEvent, ...] | None = None  # for each owner, what else leaves it: charged on top
    quorum: int = 0  # fewest owners whose noise `charged` relies on: with fewer, the sum is not released
    # Norm of what float32 rounds on the way to the released sum, over clip_norm; None: the sum, its size.
    rounded: tuple[float, ...] | None = None
    centre: TableNoise | None = None  # of the sums of features whose mean is taken off before training
    selection: TableNoise | None = None  # of the sums of losses that a model is chosen by after training
    # Of the table of scores that is released after training, where one is.
    evaluation: TableNoise | None = None
    # Messages are whole numbers of a lattice that all have in common: for each owner, cells to one unit of its noise.
    # None: they are real numbers.
    lattice: tuple[float, ...] | None = None
    masked: Masked | None = None  # None: whoever adds messages up, or hears them, sees each of them
    unit: Unit = RECORD  # whom `event` is for: all that is said of a record here is said of one of these
    shared: Shared | None = None  # None: every owner's noise is its own
    flaw: str = ""  # why no finite guarantee holds, if none does: certifies as infinite with this reason
    # Derived from the others. What is released beside training, in this order, each once: the centre before it, the
    # others after it.
    tables: dict[str, TableNoise] = field(init=False, compare=False)
    # How many other owners `charged` lets pool what they know; None: no noise is owed to others.
    colluding: int | None = field(init=False)
    # Whether an owner's own noise carries its guarantee: nobody adds up for it, and no other owner's hides it.
    own_noise: bool = field(init=False)

    def __post_init__(self) -> None:
        _check.positive("clip_norm", self.clip_norm)
        noise = min((z for z in self.noise_multiplier if z > 0), default=1.0) * self.clip_norm
        if not _LEAST_CLIP <= self.clip_norm <= 1 / _LEAST_CLIP:
            raise InputError(
                f"clip_norm={self.clip_norm:g}: must be between {_LEAST_CLIP:.2g} and {1 / _LEAST_CLIP:.2g}, for "
                "single precision to hold sums and noise. Choose another clip."
            )
        if noise < _LEAST_NOISE:
            raise InputError(
                f"noise={noise:.2g}: must be at least {_LEAST_NOISE:.2g}, for single precision to hold it. Choose a "
                "smaller epsilon."
            )
        beside = {"centre": self.centre, "selection": self.selection, "evaluation": self.evaluation}
        together = self.masked or self.shared
        for name, value in {
            "relation": named(self.relation),
            "tables": {name: table for name, table in beside.items() if table is not None},
            "colluding": None if together is None else together.colluding,
            "own_noise": self.charged is None or not (self.quorum or self.shared),
        }.items():
            object.__setattr__(self, name, value)
        if not isinstance(self.noise, Noise):
            raise InputError(
                f"noise={self.noise!r}: must be a noise of coterie.mechanisms: Gaussian(), Laplace() or NoNoise()."
            )
        if not len(self.noise_multiplier) == len(self.releases) == len(self.sizes):
            raise InputError(
                f"noise_multiplier, releases and sizes have lengths {len(self.noise_multiplier)}, "
                f"{len(self.releases)} and {len(self.sizes)}: must be one entry for each owner."
            )

    def __repr__(self) -> str:
        return (
            f"<ReleasePlan: {len(self.sizes)} owners, at most {max(self.releases)} releases, clip norm "
            f"{self.clip_norm:g}, {self.noise.name} noise, {self.relation}>"
        )

    @property
    def parts(self) -> np.ndarray:
        """(owners,) what part of a sum of whole numbers each owner's records are.

        A record moves its owner's message by lattice / z cells: so many of them count for lattice × size / z.
        """
        assert self.lattice is not None
        sampled = np.array([self.sampler.expected(size) for size in self.sizes])
        parts = sampled * np.array(self.lattice) / np.array(self.noise_multiplier)
        return parts / parts.sum()

    @property
    def clip_norms(self) -> np.ndarray:
        """(owners,) float32, what `emit` clips records to: `clip_norm`, or the number below it.

        Guarantee: with `noise_scale`, no less noise over the clip norm is executed than `event` is charged for.
        """
        return np.full(len(self.sizes), _float32(Fraction(self.clip_norm), -np.inf))

    @property
    def noise_scale(self) -> np.ndarray:
        """(owners,) float32, what unit noise is multiplied with on the released sum, rounded up."""
        clip = Fraction(self.clip_norm)
        # Each different one once: fractions are slow, and a hundred thousand owners may be alike.
        scale = {z: _float32(Fraction(z) * clip, np.inf) for z in set(self.noise_multiplier)}
        return np.array([scale[z] for z in self.noise_multiplier], np.float32)

    def event(self, owner: int) -> DpEvent:
        """What the owner's whole run is charged as. Noise multipliers are relative to `clip_norm`."""
        import dp_accounting as dp

        multiplier = (self.charged or self.noise_multiplier)[owner]
        if self.flaw or multiplier <= 0:
            return dp.NonPrivateDpEvent()
        release = self.noise.event(multiplier)
        if isinstance(release, dp.NonPrivateDpEvent):  # however it is sampled and composed
            return release
        event = self.sampler.event(release, self.sizes[owner], self.releases[owner])
        extra = () if self.extra is None else (self.extra[owner],)
        tables = [table.event(owner) for table in self.tables.values()]
        return dp.ComposedDpEvent([event, *extra, *tables]) if extra or tables else event

    def among(self, who: Sequence[int]) -> ReleasePlan:
        """The plan of these owners, in this order; of noise shared with others nothing is left."""
        own: dict[str, Any] = {
            name: None if (rows := getattr(self, name)) is None else tuple(rows[owner] for owner in who)
            for name in _FOR_EACH
        }
        tables = {name: table.among(who) for name, table in self.tables.items()}
        shared = None if self.shared is None else self.shared.among(who)
        return replace(self, **own, **tables, shared=shared)


def _float32(exact: Fraction, towards: float) -> np.float32:
    """The nearest float32 not below `exact` where `towards` is +∞, and not above it where that is −∞."""
    near = np.float32(float(exact))
    wrong = Fraction(float(near)) < exact if towards > 0 else Fraction(float(near)) > exact
    return np.nextafter(near, np.float32(towards)) if wrong else near
