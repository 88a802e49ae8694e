"""What a release costs a person with several records: the profiles of groups of k records that change at once.

Full batches are exact: k records, each moving a sum by at most Δ, move it by at most k Δ, and do where they are alike.
Where releases are of samples, nobody sees how many of the k were drawn, and that hides some of it:

* Poisson, Gaussian, add or remove: the mixture of Gaussians over the binomial number drawn dominates, and is met by
  k equal records among zeros (Ganesh 2024, "Tight group-level DP guarantees for DP-SGD with sampling").
* Anything at all: changing one record after the other leads through k + 1 data sets, and what the whole run does to
  one record holds for each step: δ_{j+1}(ε) ≤ min over a of δ_1(a) + e^a δ_j(ε − a), the group privacy of f-DP
  (Dong, Roth & Su 2022). It is never above kε with δ (1 + e^ε + … + e^{(k−1)ε}), which is a = ε every time.
* Everything else that is sampled, too: let p be the chance that any of the k is drawn, and J how many. Both data sets'
  releases are (1 − p) A + p B with the same A of none drawn, and B a mixture over J ≥ 1 with weights that both share.
  Joint convexity takes the mixture out: the mean over J ≥ 1 of the profiles of (1 − p) A + p B_J. In each of these all
  that the k can do is to move a release by J parts, or to swap J records: one record's pair at rate p and noise z / J.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from coterie.accounting import profiles
from coterie.accounting.profiles import Floats, Profile
from coterie.relations import Direction

_NEGLIGIBLE = 1e-18  # chance of so many drawn that they are counted as all k: more of them never cost less
_TAIL = 10.0  # standard deviations, as in `profiles`
_HALVINGS = 48  # of an interval of some ten deviations: as near as doubles come to it
_FARTHEST = 350.0  # of epsilons that are added up: doubles end at e^709


TIGHT = "mixture of Gaussians over how many of them are drawn"
MEAN = "mean over how many of them are drawn"
CHAINED = "from one of them to the next"
_STEPS = 500  # of the grid that splits an epsilon among them


class Grouped(NamedTuple):
    """A sampled release as the k records of a group meet it."""

    atom: Any
    group: int


def directions(grouped: Grouped, ways: tuple[Direction, ...]) -> tuple[Profile, ...] | None:
    """The profiles in each direction; None where none is known."""
    import dp_accounting as dp

    match grouped.atom:
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(z)):
            return tuple(_poisson(z, way, rate, grouped.group) for way in ways)
        case dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(z)) if "replace" not in ways:
            return tuple(_laplace(z, way, rate, grouped.group) for way in ways)
        case dp.TruncatedSubsampledGaussianDpEvent(n, rate, cap, z):
            return tuple(_capped(z, way, rate, cap, n, min(grouped.group, n)) for way in ways)
        case dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(z)) if "replace" in ways:
            return (_fixed_size(z, b, n, min(grouped.group, n)),)
    return None


def _poisson(z: float, way: Direction, rate: float, group: int) -> Profile:
    """Sensitivity: J of the k are drawn, and each moves the sum by at most C, or by 2C when replaced."""
    drawn = _binomial(rate, group)
    real = mixtures(z, *_pair(way, drawn))
    if way != "replace":
        return real
    return _mean(drawn, lambda count, any_of: profiles.gaussian(z / count, way, any_of), real.tails)


def _laplace(z: float, way: Direction, rate: float, group: int) -> Profile:
    """Sensitivity: as for the Gaussian, in the 1-norm. Its lower end is that of one record alone."""
    alone = profiles.laplace(z, way, rate)
    return _mean(
        _binomial(rate, group), lambda count, any_of: profiles.laplace(z / count, way, any_of), alone.tails
    )


def _fixed_size(z: float, batch: int, size: int, group: int) -> Profile:
    """Sensitivity: a sample with J of the k becomes one with none of them, or with their replacements, by swapping J
    records: 2 J C at most. Its lower end: all other records at u, the group at v or u, 2C apart."""
    drawn = _hypergeometric(size, group, batch)
    real = mixtures(z, (2 * drawn[0], drawn[1]), _still())
    return _mean(drawn, lambda count, any_of: _swapped(z / count, any_of), real.tails)


def _capped(z: float, way: Direction, rate: float, cap: int, size: int, group: int) -> Profile:
    """How many others were drawn is not the group's doing: mix what holds while the cap leaves room for all k and not.

    Sensitivity: with room, as Poisson. Without, J of the k that are drawn add at most J to the sample or push J others
    out of it, which moves the sum by at most 2 J C, in every direction.
    """
    from scipy.stats import binom

    free, drawn = _poisson(z, way, rate, group), _binomial(rate, group)
    binds = float(binom.sf(cap - group, size - group, rate))
    real = mixtures(z, *_pair(way, _kept(rate, cap, size, group)))
    if binds == 0.0:
        return Profile(free.lower, free.upper, free.delta, real.tails)
    full = _mean(drawn, lambda count, any_of: _swapped(z / count, any_of), real.tails)
    return profiles.either(free, full, binds, real.tails)


def _swapped(z: float, rate: float) -> Profile:
    return profiles.fixed_size(z, rate) if rate < 1 else profiles.gaussian(z, "replace")


Drawn = tuple[Floats, Floats]  # how many of the group, and with which probability


def _binomial(rate: float, group: int) -> Drawn:
    from scipy.stats import binom

    counts = np.arange(group + 1.0)
    return _few(counts, binom.pmf(counts, group, rate))


def _hypergeometric(size: int, group: int, batch: int) -> Drawn:
    from scipy.stats import hypergeom

    counts = np.arange(group + 1.0)
    return _few(counts, hypergeom.pmf(counts, size, group, batch))


def _kept(rate: float, cap: int, size: int, group: int) -> Drawn:
    """How many of the group are in a sample cut at `cap`: any set of that many records is as likely to be kept."""
    from scipy.stats import binom, hypergeom

    samples = np.arange(cap + 1)
    chance = np.append(binom.pmf(samples[:-1], size, rate), binom.sf(cap - 1, size, rate))
    likely = samples[chance > _NEGLIGIBLE]
    counts = np.arange(group + 1.0)
    weights = chance[likely] @ hypergeom.pmf(counts[None], size, group, likely[:, None])
    return counts, weights / weights.sum()


def _few(counts: Floats, weights: Floats) -> Drawn:
    """Numbers that hardly ever occur are counted as the largest."""
    beyond = np.cumsum(weights[::-1])[::-1]
    rare = (beyond < _NEGLIGIBLE) & (counts < counts[-1])
    weights = np.append(weights[~rare][:-1], weights[rare].sum() + weights[-1])
    return counts[~rare], weights / weights.sum()


def _mean(drawn: Drawn, pair: Callable[[float, float], Profile], tails: Any) -> Profile:
    """The mean over how many were drawn, given that any were, of the pairs `pair(how many, chance of any)`."""
    any_of = 1.0 - drawn[1][0] if drawn[0][0] == 0 else 1.0
    given = [(weight / any_of, pair(count, any_of)) for count, weight in zip(*drawn) if count and weight > 0]

    def delta(epsilons: Floats) -> Floats:
        return sum(
            (weight * profile.delta(epsilons) for weight, profile in given), np.zeros(np.shape(epsilons))
        )

    lower, upper = min(profile.lower for _, profile in given), max(profile.upper for _, profile in given)
    return Profile(lower, upper, delta, tails)


def _still() -> Drawn:
    return np.zeros(1), np.ones(1)


def _pair(way: Direction, drawn: Drawn) -> tuple[Drawn, Drawn]:
    """The centres of P and of Q, P's on the right: equal records among zeros."""
    there, back = drawn, (-drawn[0], drawn[1])
    return {"remove": (there, _still()), "add": (_still(), back), "replace": (there, back)}[way]


def mixtures(z: float, p: Drawn, q: Drawn) -> Profile:
    """Mixtures of Gaussians of deviation z, every centre of P at or right of all centres of Q.

    Then ln(P/Q) grows with the outcome: its slope is the difference of the two posterior mean centres, over z².

    >>> half = (np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    >>> profile = mixtures(1.0, half, (np.zeros(1), np.ones(1)))
    >>> float(np.round(profile.delta(np.array([0.0])), 4)[0])
    0.1915
    """
    from scipy.special import log_ndtr

    ends = min(q[0].min(), p[0].min()) - _TAIL * z, max(p[0].max(), q[0].max()) + _TAIL * z

    def density(x: Floats, side: Drawn) -> Floats:
        at, weight = side
        return _log_mean((x[:, None] * at - at**2 / 2) / z**2, weight)

    def loss(x: Floats) -> Floats:
        return density(x, p) - density(x, q)

    def above(x: Floats, side: Drawn) -> Floats:
        """ln of the mass above each outcome."""
        return _log_mean(log_ndtr((side[0] - x[:, None]) / z), side[1])

    def outcomes(epsilons: Floats) -> Floats:
        low, high = np.full(len(epsilons), ends[0]), np.full(len(epsilons), ends[1])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            under = loss(middle) < epsilons
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.where(epsilons <= lower, -np.inf, high)

    def tails(epsilons: Floats) -> tuple[Floats, Floats]:
        x = outcomes(epsilons)
        mass_p, mass_q = np.ones(len(x)), np.ones(len(x))
        inside = np.isfinite(x)
        mass_p[inside], mass_q[inside] = np.exp(above(x[inside], p)), np.exp(above(x[inside], q))
        beyond = epsilons > upper
        return np.where(beyond, 0.0, mass_p), np.where(beyond, 0.0, mass_q)

    def delta(epsilons: Floats) -> Floats:
        x, deltas = outcomes(epsilons), -np.expm1(np.minimum(epsilons, 0.0))
        inside = np.isfinite(x)
        log_p, log_q = above(x[inside], p), above(x[inside], q)
        deltas[inside] = np.exp(log_p) * -np.expm1(np.minimum(epsilons[inside] + log_q - log_p, 0.0))
        return deltas

    lower, upper = (float(end) for end in loss(np.array(ends)))
    return Profile(lower, upper, delta, tails)


def _log_mean(logs: Floats, weights: Floats) -> Floats:
    """ln Σ w e^log along the last axis, without overflow."""
    top = logs.max(axis=1)
    return top + np.log(np.exp(logs - top[:, None]) @ weights)


def is_tight(atom: Any) -> bool:
    """Whether two real data sets meet the profile, where a record is added or removed."""
    import dp_accounting as dp

    if not isinstance(atom, Grouped):
        return True
    inner = atom.atom.event if isinstance(atom.atom, dp.PoissonSampledDpEvent) else None
    return isinstance(inner, dp.GaussianDpEvent)


def largest(curves: Iterable[Any]) -> Floats:
    """The pointwise largest of some curves."""
    return np.max(np.stack(list(curves)), axis=0)


def chained(curve: Callable[[Floats], Floats], epsilon: float, group: int, delta: float) -> float:
    """The least ε on a grid for `group` records changed one after the other, of one record's δ(ε) and its ε at this δ.

    Guarantee: every way of splitting ε is a bound, so that a grid finds none that does not hold.
    """
    reach = max(2 * group * epsilon, 1e-3)
    while math.isfinite(reach) and reach < _FARTHEST:
        grid = np.linspace(0.0, reach, _STEPS + 1)
        deltas = _power(np.asarray(curve(grid)), grid, group)
        if (enough := np.flatnonzero(deltas <= delta)).size:
            return float(grid[enough[0]])
        reach *= 2
    return math.inf


def _power(deltas: Floats, grid: Floats, times: int) -> Floats:
    """δ of so many steps on the grid: squares, and their products."""
    if times == 1:
        return deltas
    half = _power(deltas, grid, times // 2)
    both = _joined(half, half, grid)
    return _joined(deltas, both, grid) if times % 2 else both


def _joined(first: Floats, second: Floats, grid: Floats) -> Floats:
    """min over a of first(a) + e^a second(ε − a)."""
    least = np.full(len(grid), np.inf)
    for at, epsilon in enumerate(grid):
        split = first[at] + math.exp(epsilon) * second[: len(grid) - at]
        least[at:] = np.minimum(least[at:], split)
    return least
