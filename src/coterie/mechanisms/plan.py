"""The release plan: the only place where sampling, contribution bound, noise and accounting event meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from coterie import _check
from coterie._types import PyTree
from coterie.errors import InputError
from coterie.mechanisms.sampling import Sampler

if TYPE_CHECKING:
    from dp_accounting import DpEvent

NoiseKind: TypeAlias = Literal["gaussian", "laplace", "none"]


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """What each owner releases in a run, how it is protected, and what that is charged as.

    Guarantee: one record changes a released sum by at most `clip_norm` when it is added and 2 `clip_norm`
    when it is replaced (2-norm for Gaussian, 1-norm for Laplace noise); noise of scale
    `noise_multiplier × clip_norm` is added to that sum. `event` says exactly this, no more.
    """

    sampler: Sampler
    clip_norm: float  # bound on one record's contribution to the released sum
    noise: NoiseKind
    noise_multiplier: tuple[float, ...]  # for each owner, the noise's scale over clip_norm
    releases: tuple[int, ...]  # for each owner, the most it may release; engines stop it there
    sizes: tuple[int, ...]  # public numbers of records
    noise_like: PyTree  # shapes (jax.ShapeDtypeStruct) of the unit noise handed to one emit
    relation: str = "replace_one"
    view: str = "public transcript"  # what the adversary sees, in the words that a certificate prints
    charged: tuple[float, ...] | None = (
        None  # noise over clip_norm that this view faces; None: the owner's own
    )
    extra: tuple[DpEvent, ...] | None = None  # for each owner, what else leaves it: charged on top
    quorum: int = 0  # fewest owners whose noise `charged` relies on: with fewer, the sum is not released
    rounded: tuple[float, ...] | None = (
        None  # norm of what float32 rounds on the way to the released sum, over clip_norm; None: the sum, its size
    )
    flaw: str = ""  # why no finite guarantee holds, if none does: certifies as infinite with this reason

    def __post_init__(self) -> None:
        _check.positive("clip_norm", self.clip_norm)
        if not len(self.noise_multiplier) == len(self.releases) == len(self.sizes):
            raise InputError(
                f"noise_multiplier, releases and sizes have lengths {len(self.noise_multiplier)}, "
                f"{len(self.releases)} and {len(self.sizes)}: must be one entry for each owner."
            )

    @property
    def noise_scale(self) -> np.ndarray:
        """(owners,) what unit noise is multiplied with on the released sum."""
        return np.asarray(self.noise_multiplier, np.float32) * np.float32(self.clip_norm)

    def event(self, owner: int) -> DpEvent:
        """What the owner's whole run is charged as. Noise multipliers are relative to `clip_norm`."""
        import dp_accounting as dp

        multiplier = (self.charged or self.noise_multiplier)[owner]
        if self.flaw or self.noise == "none" or multiplier <= 0:
            return dp.NonPrivateDpEvent()
        release = (
            dp.GaussianDpEvent(multiplier) if self.noise == "gaussian" else dp.LaplaceDpEvent(multiplier)
        )
        event = self.sampler.event(release, self.sizes[owner], self.releases[owner])
        return event if self.extra is None else dp.ComposedDpEvent([event, self.extra[owner]])
