"""What clipping below a gradient's bound costs: records that are badly misclassified pull less than they should."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_PLACES = 2000


@lru_cache(maxsize=64)
def bias(share: float) -> float:
    """Excess logistic loss of the best model whose slopes are clipped at `share` of their bound.

    Where the label is +1 with probability p > ½, slopes σ(−m) (label +1) and σ(m) (label −1) balance at
    p σ(−m) = (1 − p) min(σ(m), share), so that above p = share the model is too sure: 1 − σ(m) = share (1 − p)/p.
    The loss that this costs is the divergence of p from σ(m), here averaged over p uniform on [½, 1].

    >>> bias(1.0), round(bias(0.75), 4), round(bias(0.5), 3)
    (0.0, 0.0005, 0.014)
    """
    if share >= 1:
        return 0.0
    p = 0.5 + (np.arange(_PLACES) + 0.5) / (2 * _PLACES)
    wrong = np.where(p > share, share * (1 - p) / p, 1 - p)
    return float(np.mean(p * np.log(p / (1 - wrong)) + (1 - p) * np.log((1 - p) / wrong)))


def typical_slope(quantile: float) -> float:
    """The slope, over its bound, that a `quantile` of records stays below when predictions are calibrated and uniform.

    A record's own label has probability p with density 2p, and its slope is 1 − p.

    >>> round(typical_slope(0.8), 3)
    0.553
    """
    return 1 - float(np.sqrt(1 - quantile))
