"""How far an owner shows in messages that carry noise shared with others: the certificate of masked sums.

Owner i sends y_i = v_i + Σ_j ±z_ij, where v_i has noise of its own of variance σ_i², and z_ij = −z_ji of variance τ_ij²
comes from a secret of i and j. A mask is shared noise of infinite variance. All messages are public; colluders know
their own values and every z_ij of theirs. What is left for the honest is Gaussian with covariance
Σ = diag(σ²) + L, L the Laplacian (weights τ²) of the graph between honest owners. A record moves v_i alone, so

    μ_i² = Δ_i² [Σ⁻¹]_ii,        and under masks [Σ⁻¹]_ii = 1 / Σ_k σ_k² over i's component of the honest graph.

`exposure` is [Σ⁻¹]_ii for the worst set of at most t colluders. Who colludes with somebody more knows more, so
only sets of exactly t have to be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from coterie import _check
from coterie.errors import InputError

MASK = math.inf  # variance of a pair's noise that hides everything but the sum
MOST_SETS = 100_000  # of colluders that are tried one by one


def complete(owners: int, variance: float = MASK) -> np.ndarray:
    """(owners, owners) τ²: everybody shares noise with everybody."""
    return np.where(np.eye(owners, dtype=bool), 0.0, variance)


def circulant(owners: int, degree: int, variance: float = MASK) -> np.ndarray:
    """(owners, owners) τ²: each shares noise with the degree/2 next ones on either side; complete where that is all.

    Such a graph stays connected without any degree − 1 of its owners (Harary 1962).

    >>> int((circulant(6, 2) > 0).sum(axis=1)[0])
    2
    """
    if _check.count("degree", degree) % 2:
        raise InputError(f"degree={degree}: must be even, half of it on either side. Use {degree + 1}.")
    if degree >= owners - 1:
        return complete(owners, variance)
    apart = np.abs(np.subtract.outer(np.arange(owners), np.arange(owners)))
    apart = np.minimum(apart, owners - apart)
    return np.where((apart > 0) & (apart <= degree // 2), variance, 0.0)


def exposure(own: Sequence[float] | np.ndarray, pairs: np.ndarray, colluding: int) -> np.ndarray:
    """(owners,) the largest [Σ⁻¹]_ii that any `colluding` others can bring about.

    `own` are the variances σ² of owners' own noise, `pairs` the τ² of shared noise: 0 for none, `MASK` for a mask.

    Guarantee: a release that a record moves by Δ in owner i's value is, for whoever sees all messages together with
    what at most `colluding` other owners know, no easier to tell apart than a Gaussian of deviation 1/√exposure_i.
    InputError where sets of colluders are too many to try and the graph is neither complete nor circulant.

    >>> exposure([1.0] * 4, circulant(4, 2), 1).tolist(), exposure([1.0] * 4, circulant(4, 2), 2).tolist()
    ([0.3333333333333333, 0.3333333333333333, 0.3333333333333333, 0.3333333333333333], [1.0, 1.0, 1.0, 1.0])
    """
    own, pairs = _checked(own, pairs)
    owners, away = len(own), _check.count("colluding", colluding, least=0)
    if away > owners - 1:
        raise InputError(f"colluding={away}: must be at most {owners - 1}, the others of {owners} owners.")
    if away == owners - 1:
        return 1 / own
    shared = pairs[~np.eye(owners, dtype=bool)]
    if shared.min() == shared.max():
        return _complete(own, float(shared.max()), away)
    if np.isin(shared, (0.0, MASK)).all():
        if away < _connectivity(pairs > 0):
            return _without_largest(own, away)  # any `away` of them leave the rest connected
        if _ring_like(pairs > 0):
            return 1 / own  # its neighbours collude and leave it alone; nothing worse can happen to it
    if not away and (offsets := _circulant(pairs)) is not None and own.min() == own.max():
        return np.full(owners, _by_spectrum(float(own[0]), offsets))
    return _exhaustive(own, pairs, away)


def together(
    own: Sequence[float] | np.ndarray,
    pairs: np.ndarray,
    colluding: int,
    reach: Sequence[float] | np.ndarray,
    owners: int,
) -> float:
    """The largest v' Σ⁻¹ v for values of any `owners` honest owners that move at once, |v_i| ≤ reach_i.

    Guarantee: no smaller than that for any `colluding` others. Exact where everybody shares alike, and where sets are
    few enough to try; else the bound (Σ reach_i √exposure_i)² over the largest, the triangle inequality of a norm.

    Argument: Σ = diag(σ²) + L is an M-matrix, so that Σ⁻¹ has no negative entry: all signs alike, at full reach, are
    the worst. On a complete graph with even noise Σ⁻¹ = (1 + (τ²/σ²) 11ᵀ) / (σ² + τ² h), so the largest reaches are.

    >>> together([1.0] * 4, complete(4), 1, [1.0] * 4, 2)  # masks: twice the shift, four times its square
    1.3333333333333333
    """
    own, pairs = _checked(own, pairs)
    reach = np.asarray(reach, float)
    away = _check.count("colluding", colluding, least=0)
    honest = len(own) - away
    if _check.count("owners", owners) > honest:
        raise InputError(f"owners={owners}: must be at most {honest}, the owners who do not collude.")
    shared = pairs[~np.eye(len(own), dtype=bool)]
    if np.ptp(own) == 0 and shared.min() == shared.max():
        top, variance = np.sort(reach)[-owners:], float(own[0])
        if math.isinf(shared.max()):
            return float(top.sum() ** 2 / (variance * honest))
        ratio = float(shared.max()) / variance
        return float((np.sum(top**2) + ratio * top.sum() ** 2) / (variance * (1 + ratio * honest)))
    if math.comb(len(own), away) * math.comb(honest, owners) > MOST_SETS:
        return float(np.sort(reach * np.sqrt(exposure(own, pairs, away)))[-owners:].sum() ** 2)
    return _largest(own, pairs, away, reach, owners)


def _largest(own: np.ndarray, pairs: np.ndarray, away: int, reach: np.ndarray, owners: int) -> float:
    worst = 0.0
    for gone in combinations(range(len(own)), away):
        honest = np.setdiff1d(np.arange(len(own)), gone)
        group, inverse = _precision(own[honest], pairs[np.ix_(honest, honest)])
        form = inverse[np.ix_(group, group)] * np.outer(reach[honest], reach[honest])
        for known in combinations(range(len(honest)), owners):
            worst = max(worst, float(form[np.ix_(known, known)].sum()))
    return worst


def colluders(
    own: Sequence[float] | np.ndarray, pairs: np.ndarray, colluding: int, owner: int
) -> tuple[int, ...]:
    """The others together with whom this owner shows most: whom an attack should listen to."""
    own, pairs = _checked(own, pairs)
    peers = [peer for peer in range(len(own)) if peer != owner]
    if np.ptp(pairs[~np.eye(len(own), dtype=bool)]) == 0:  # with everybody the same: those with most noise
        return tuple(sorted(peers, key=lambda peer: -own[peer])[:colluding])

    def shown(gone: tuple[int, ...]) -> float:
        honest = [owner, *(peer for peer in peers if peer not in gone)]
        return float(_shown(own[honest], pairs[np.ix_(honest, honest)])[0])

    _few_enough(len(peers), colluding)
    return max(combinations(peers, colluding), key=shown)


def _few_enough(owners: int, away: int) -> None:
    if math.comb(owners, away) > MOST_SETS:
        raise InputError(
            f"colluding={away}: {math.comb(owners, away):,} sets among {owners} owners are too many to try "
            f"({MOST_SETS:,} at most). Use a complete or circulant graph of masks, or allow fewer colluders."
        )


def _checked(own: Sequence[float] | np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    own, pairs = np.asarray(own, float), np.asarray(pairs, float)
    if own.ndim != 1 or not np.all((own > 0) & np.isfinite(own)):
        raise InputError("own: must be one finite variance > 0 for each owner. Give every owner noise.")
    if pairs.shape != (len(own), len(own)) or not np.array_equal(pairs, pairs.T) or not np.all(pairs >= 0):
        raise InputError(f"pairs of shape {pairs.shape}: must be symmetric and >= 0, a row for each owner.")
    if np.any(np.diag(pairs) != 0):
        raise InputError("pairs: must be 0 on the diagonal. Nobody shares noise with itself.")
    return own, pairs


def _without_largest(own: np.ndarray, away: int) -> np.ndarray:
    """Masks that hold: what is left of the sum's noise without the largest shares of others."""
    return 1 / _left(own, own, away)


def _left(values: np.ndarray, by: np.ndarray, away: int) -> np.ndarray:
    """(owners,) the sum of `values` without those of the `away` others that are largest `by`."""
    order = np.argsort(-by, kind="stable")
    rank = np.argsort(order, kind="stable")
    # Whoever is among the largest itself is replaced by the next one: it never colludes against itself.
    top = np.where(rank < away, values[order[: away + 1]].sum() - values, values[order[:away]].sum())
    return values.sum() - top


def _complete(own: np.ndarray, shared: float, away: int) -> np.ndarray:
    """Sherman & Morrison on diag(d) − τ² 11ᵀ, d = σ² + τ² h: those with the largest σ² are the worst to lose.

    1 − τ² Σ 1/d is Σ σ²/(h d), which has no difference in it and grows with every σ².
    """
    if math.isinf(shared):
        return _without_largest(own, away)
    honest = len(own) - away
    d = own + shared * honest
    return 1 / d + shared * honest / d**2 / _left(own / d, own, away)


def _by_spectrum(own: float, offsets: np.ndarray) -> float:
    """Exposure by equal noise on a circulant graph, no colluders: the mean of 1/(σ² + λ_k), λ of the Laplacian."""
    spectrum = offsets.sum() - np.fft.fft(offsets).real
    return float(np.mean(1 / (own + spectrum)))


def _circulant(pairs: np.ndarray) -> np.ndarray | None:
    """The first row, where every other is the same turned on and all of it is finite."""
    turned = all(np.array_equal(np.roll(pairs[0], at), row) for at, row in enumerate(pairs))
    return pairs[0] if turned and np.isfinite(pairs).all() else None


def _ring_like(linked: np.ndarray) -> bool:
    """Whether the graph is `circulant`'s: neighbours up to some distance on either side."""
    return np.array_equal(linked, circulant(len(linked), max(2, int(linked[0].sum()) // 2 * 2)) > 0)


def _connectivity(linked: np.ndarray) -> int:
    """How many owners must go before the rest falls apart."""
    if _ring_like(linked):
        return int(linked[0].sum())
    import networkx as nx

    return int(nx.node_connectivity(nx.from_numpy_array(linked.astype(int))))


def _exhaustive(own: np.ndarray, pairs: np.ndarray, away: int) -> np.ndarray:
    owners = len(own)
    _few_enough(owners, away)
    worst = np.zeros(owners)
    for gone in combinations(range(owners), away):
        honest = np.setdiff1d(np.arange(owners), gone)
        worst[honest] = np.maximum(worst[honest], _shown(own[honest], pairs[np.ix_(honest, honest)]))
    return worst


def _shown(own: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The exposure of each honest owner, diag Σ⁻¹."""
    group, inverse = _precision(own, pairs)
    return np.diag(inverse)[group]


def _precision(own: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each owner's group, and Σ⁻¹ between groups of the honest: owners joined by masks show their sum alone, so they
    count as one."""
    from scipy.sparse.csgraph import connected_components

    groups, group = connected_components(np.isinf(pairs))
    member = (group == np.arange(groups)[:, None]).astype(float)
    between = member @ np.where(np.isinf(pairs), 0.0, pairs) @ member.T
    np.fill_diagonal(between, 0.0)  # within a group shared noise cancels in its sum
    covariance = np.diag(member @ own + between.sum(axis=1)) - between
    return group, np.linalg.inv(covariance)
