"""Noise that pairs of owners share, for gossip: it hides each message, and cancels in the mean that owners agree on.

Owner i adds own noise η_i and Σ_j ± z_ij, where i and j draw z_ij from a secret of theirs, anew in every release. All
that is sent may be seen by everybody. A record moves owner i's message alone, so a release is a Gaussian shift of
Δ_i √[Σ⁻¹]_ii, Σ = diag(σ²) + L (`accounting.exposure`): mixing is post-processing, and rounds' noises are independent.

The mean over owners has no shared noise in it, as mixing keeps means. An owner's own value has what mixing has not yet
evened out: `protocols.mixing` computes how much that is.

The idea is that of DECOR (Allouah, Koloskova, El Firdoussi, Jaggi & Guerraoui 2024): neighbours share secrets, and the
noise made of them cancels over a connected graph. There a round is one step of gossip, and what has not cancelled yet
is part of the error. Here pairs need not be neighbours, and a round has as many steps of gossip as it takes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from coterie import _check
from coterie.accounting.exposure import circulant, exposure
from coterie.errors import InputError
from coterie.mechanisms import Shared

EXCESS = 1.05  # the mean's noise over that of masks, shared noise without end: more of it is more to even out
_CLOSE = 1e-2  # how near to that the search for the ratio ends, of what is above masks


def colluding_of(owners: int, colluding: int | None) -> int:
    """How many other owners may pool what they know: one unless told."""
    count = _check.count("colluding", 1 if colluding is None else colluding, least=0)
    if owners - count < 2:
        raise InputError(
            f"colluding={count}: with {owners} owners nobody is left to hide among. Use view=untrusted, or more owners."
        )
    return count


def check_degree(degree: int, colluding: int, members: int) -> None:
    """InputError unless `degree` is 0 (all) or exceeds the colluders, who could be all of an owner's neighbours."""
    _check.count("degree", degree, least=0)
    if degree and degree <= colluding and degree < members - 1:
        raise InputError(
            f"degree={degree}: {colluding} colluders could be all of an owner's neighbours, which leaves it its own "
            f"noise alone. Use degree={2 * (colluding // 2 + 1)} or more, 0 for all, or view=untrusted."
        )


def check_settings(certified: bool, settings: Any) -> None:
    """Shared noise is for gossip without absences, under the certified calibration."""
    if not certified:
        raise InputError("view='shared': shared noise is certified noise. Use calibration=certified.")
    for name in ("absent", "spare"):
        if (value := getattr(settings, name, None)) is not None:
            raise InputError(
                f"{name}={value}: only for view=masked. Shared noise cancels only if everybody is there."
            )


def pairs(owners: int, colluding: int | None = None, degree: int | None = None) -> Shared:
    """Who shares noise with whom, and how much of it: enough for a mean within `EXCESS` of what masks would give."""
    away = colluding_of(owners, colluding)
    check_degree(degree or 0, away, owners)
    links = None
    if degree and degree < owners - 1:
        first, second = np.nonzero(np.triu(circulant(owners, degree)))
        links = tuple(zip(first.tolist(), second.tolist()))
    return Shared(ratio=_ratio(owners, away, degree or 0), colluding=away, links=links)


@lru_cache(maxsize=64)
def exposed(shared: Shared, owners: int) -> float:
    """The exposure of the worst owner, for even shares of variance 1."""
    return float(exposure(np.ones(owners), shared.variances(owners), shared.colluding).max())


@lru_cache(maxsize=64)
def _ratio(owners: int, colluding: int, degree: int) -> float:
    """ρ for which the exposure is EXCESS² times that of masks: what is above it falls nearly as 1/ρ²."""
    honest, above = owners - colluding, EXCESS**2 - 1
    everybody = max((honest - 1) / above - 1, 0.0) / honest
    if not degree or degree >= owners - 1:
        return math.sqrt(everybody)
    even, least, squared = np.ones(owners), 1 / honest, everybody
    off = math.inf
    while abs(off - 1) > _CLOSE:
        off = (float(exposure(even, circulant(owners, degree, squared), colluding).max()) / least - 1) / above
        squared *= off
    return math.sqrt(squared)
