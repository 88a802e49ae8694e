"""Privacy profiles of single releases, and their discretisation in both directions.

A profile is the curve ε → H_{e^ε}(P‖Q) of a dominating pair. dp-accounting has those of the Gaussian, the
Laplace and the Poisson-sampled mechanisms; the one of a fixed-size sample under replace-one is here. Put on a
grid, a profile gives two privacy loss distributions that enclose it:

* above: connect the dots (the chords of a convex curve lie above it), done by dp-accounting;
* below: losses rounded down, except near zero, where outcomes are merged into one with its exact loss (that
  is post-processing). Rounding all of them down, the library's way, is wrong by one grid step a release:
  nothing would be left of it after the 60,000 releases of a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from coterie.relations import Direction

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

Floats: TypeAlias = np.ndarray
Tails: TypeAlias = Callable[[Floats], tuple[Floats, Floats]]

_LARGEST_LOSS = 700.0  # doubles end at e^709
_TAIL = 10.0  # standard deviations; the mass beyond, 8e-24 a release, is counted as an infinite loss


@dataclass(frozen=True)
class Profile:
    """A dominating pair (P, Q) by its privacy loss ln(P/Q), of interest on [lower, upper]."""

    lower: float
    upper: float
    delta: Callable[[Floats], Floats]  # ε -> H_{e^ε}(P‖Q)
    tails: Tails  # ε -> P(loss >= ε), Q(loss >= ε)


def gaussian(noise_multiplier: float, direction: Direction, rate: float = 1.0) -> Profile:
    """Gaussian noise, each record in the sample with probability `rate`, from dp-accounting.

    Sensitivity: one record contributes at most C, so adding it moves the sum by C (library: sensitivity 1);
    replacing it moves the sum from one side of the others' to the other, 2C apart, which the library's
    "replace" pair states as two mixtures, one C to either side.
    """
    from dp_accounting.pld import privacy_loss_mechanism as library

    loss = library.GaussianPrivacyLoss(
        noise_multiplier, sampling_prob=rate, adjacency_type=_adjacency(direction)
    )
    if direction != "replace" or rate == 1:
        return _from_library(loss)

    def outcomes(epsilons: Floats) -> Floats:
        return _replace_outcomes(epsilons, noise_multiplier, rate)

    def delta(epsilons: Floats) -> Floats:
        # What loss.get_delta_for_epsilon computes with one Python call for each grid point.
        x = outcomes(epsilons)
        return loss.mu_upper_cdf(x) - np.exp(epsilons + loss.mu_lower_log_cdf(x))

    return replace(_from_library(loss, outcomes), delta=delta)


def laplace(noise_multiplier: float, direction: Direction, rate: float = 1.0) -> Profile:
    """Laplace noise, each record in the sample with probability `rate`, from dp-accounting.

    Sensitivity: one record contributes at most C in the 1-norm; replacing it moves the sum by at most 2C, and
    without sampling the pair depends on that distance alone, so "replace" is "remove" at sensitivity 2. Where a loss is
    beyond what the library takes e to the power of, sampling is left out: it hides ln(1/rate) of that at most.
    """
    from dp_accounting.pld import privacy_loss_mechanism as library

    sensitivity, kind = (2, "remove") if direction == "replace" else (1, direction)
    rate = 1.0 if sensitivity > _LARGEST_LOSS * noise_multiplier else rate
    loss = library.LaplacePrivacyLoss(
        noise_multiplier, sensitivity=sensitivity, sampling_prob=rate, adjacency_type=_adjacency(kind)
    )
    return _from_library(loss)


def fixed_size(noise_multiplier: float, rate: float) -> Profile:
    """Gaussian noise on a sample of fixed size without replacement, replace-one: the dominating profile.

    With mix = (1−rate) N(0, 1) + rate N(μ, 1) and Q = N(0, 1) it is H_α(mix‖Q) for α ≥ 1 and H_α(Q‖mix) for
    α < 1, glued before composing (Zhu, Dong & Wang 2022; Lebeda et al. 2024). Neither pair dominates alone.
    Its `tails` are those of (mix, Q): others all at u, the record at v or u, 2C apart. Two real data sets.

    Sensitivity: μ = 2C/σ. A sample with the record becomes one without it by swapping it for another record,
    and one with its replacement by swapping it for that: either moves the sum by at most 2C.
    """
    mu, least = 2 / noise_multiplier, math.log1p(-rate)

    def delta(epsilons: Floats) -> Floats:
        # H_α(mix‖Q) = rate · H_{e^t}(N(μ)‖Q) with α = 1 + rate (e^t − 1); and the half below zero mirrors the
        # half above it, because H_α(Q‖mix) = 1 − α + α H_{1/α}(mix‖Q).
        below = np.minimum(epsilons, 0)
        half = rate * _gaussian_delta(_unsampled_loss(np.abs(epsilons), rate), mu)
        return -np.expm1(below) + np.exp(below) * half

    def tails(epsilons: Floats) -> tuple[Floats, Floats]:
        from scipy.special import ndtr

        # mix/Q = e^ε where e^t = (e^ε − (1 − rate))/rate = (1 − rate)/rate · (e^(ε − least) − 1), which keeps its
        # digits down to the least loss; every outcome has a loss above that one.
        loss = least - math.log(rate) + _log_expm1(np.maximum(epsilons - least, 1e-300))
        threshold = np.where(epsilons > least, loss / mu + mu / 2, -np.inf)
        return (1 - rate) * ndtr(-threshold) + rate * ndtr(mu - threshold), ndtr(-threshold)

    lower = min(0.0, -_mixture_loss(_TAIL, mu, rate))
    return Profile(lower, _mixture_loss(mu + _TAIL, mu, rate), delta, tails)


def truncated(noise_multiplier: float, direction: Direction, rate: float, cap: int, size: int) -> Profile:
    """Poisson sampling capped at `cap` records, as in dp-accounting (arXiv:2508.15089, with its slack).

    Sensitivity: as `gaussian` while the cap does not bind. When it binds, the record may also push another
    one out: twice the distance, with the probability of being kept among those that were drawn.
    """
    from scipy.stats import binom

    free = gaussian(noise_multiplier, direction, rate)
    binds = float(binom.sf(cap - 1, size - 1, rate))  # given that the record was drawn
    if binds == 0.0:
        return free
    chance = float(binom.sf(cap, size, rate)) * cap / binds / size
    capped = gaussian(noise_multiplier / 2, "replace", chance)
    # All other records at zero: two real data sets, sampled at the rate of being drawn and kept.
    realised = gaussian(noise_multiplier, direction, float(binom.sf(np.arange(cap), size, rate).sum()) / size)
    return either(free, capped, binds, realised.tails)


def either(free: Profile, full: Profile, binds: float, tails: Tails) -> Profile:
    """The cap binds with probability `binds`: a bound is the mean of those with and without it."""
    return Profile(
        min(free.lower, full.lower),
        max(free.upper, full.upper),
        lambda epsilons: (1 - binds) * free.delta(epsilons) + binds * full.delta(epsilons),
        tails,
    )


def randomized_response(noise_parameter: float, buckets: int) -> Profile:
    """One of `buckets` answers, replaced by a uniform one with probability `noise_parameter`."""
    wrong = noise_parameter / buckets
    truth = 1 - noise_parameter + wrong
    most = math.log(truth / wrong)

    def delta(epsilons: Floats) -> Floats:
        alpha = np.exp(np.minimum(epsilons, most))
        own, swapped = np.maximum(truth - alpha * wrong, 0), np.maximum(wrong - alpha * truth, 0)
        return own + swapped + (buckets - 2) * wrong * np.maximum(1 - alpha, 0)

    def tails(epsilons: Floats) -> tuple[Floats, Floats]:
        own, rest, swapped = epsilons <= most, epsilons <= 0, epsilons <= -most
        middle = (buckets - 2) * wrong
        return own * truth + rest * middle + swapped * wrong, own * wrong + rest * middle + swapped * truth

    return Profile(-most, most, delta, tails)


def above(profile: Profile, step: float) -> PLDPmf:
    """The least discrete privacy loss distribution on this grid that dominates the profile."""
    from dp_accounting.pld import pld_pmf

    first, last = math.floor(profile.lower / step), math.ceil(profile.upper / step)
    deltas = np.clip(profile.delta(np.arange(first, last + 1) * step), 0.0, 1.0)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, deltas)


def below(profile: Profile, step: float) -> tuple[PLDPmf, float]:
    """A discrete distribution under the losses of a real pair of data sets, and what to add to each of them.

    Outcomes with a loss in [−step, step) are merged; the loss of the merged one is exact and becomes the
    grid's origin. All other losses are rounded down to that grid, those below `lower` to minus infinity.
    """
    from dp_accounting.pld import pld_pmf

    upper, lower = profile.tails(np.array([-step, step]))
    centre_p, centre_q = float(upper[0] - upper[1]), float(lower[0] - lower[1])
    # Between the two ends in exact arithmetic; where hardly any mass is in between, rounding must not move it out.
    origin = min(max(math.log(centre_p / centre_q), -step), step) if min(centre_p, centre_q) > 0 else -step
    first, last = math.floor((profile.lower - origin) / step), math.ceil((profile.upper - origin) / step)
    points = np.arange(min(first, -2), max(last, 2) + 1)
    mass = _mass_from(profile, points * step + origin, step)
    mass[points == 0] += centre_p
    return pld_pmf.DensePLDPmf(step, int(points[0]), mass, 0.0, False), origin


def composed(single: PLDPmf, times: int) -> PLDPmf:
    """So many of them, composed; where a power of the Fourier transform overflows, its masses are NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return single.self_compose(times)


def length(profile: Profile, step: float, times: int) -> int:
    """How many grid points so many composed releases take: known before any of them is allocated."""
    from dp_accounting.pld import common

    masses = above(profile, step).to_dense_pmf()._probs
    lowest, highest = common.compute_self_convolve_bounds(masses, times, 1e-15)  # pyright: ignore
    return highest - lowest + 1


def epsilon_between(pmf: PLDPmf, delta: float) -> tuple[float, float]:
    """Two numbers a millionth apart that enclose the epsilon of a discrete privacy loss distribution.

    The library's own inverse divides by e^−loss, which underflows between losses of 709 and 745. A distribution that
    overflowed into NaN bounds nothing.
    """
    from scipy.optimize import brentq

    if math.isnan(float(pmf.get_delta_for_epsilon(0.0))):
        return 0.0, math.inf

    def excess(epsilon: float) -> float:
        return math.log(max(float(pmf.get_delta_for_epsilon(epsilon)), 1e-300) / delta)

    if excess(math.inf) > 0:
        return math.inf, math.inf
    if excess(0.0) <= 0:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
    root, width = float(brentq(excess, low, high, xtol=1e-9, rtol=1e-8)), 1e-8 + 5e-7 * high  # pyright: ignore
    return max(root - width, 0.0), root + width


def _mass_from(profile: Profile, edges: Floats, step: float) -> Floats:
    """P's mass of losses in [edge, next edge) outside [−step, step); the last takes all above it."""
    upper, _ = profile.tails(edges)
    (left, right), _ = profile.tails(np.array([-step, step]))
    outside = np.where(edges < -step, upper - left, 0.0) + np.where(edges < step, right, upper)
    return np.maximum(outside - np.append(outside[1:], 0.0), 0.0)


def _unsampled_loss(epsilons: Floats, rate: float) -> Floats:
    """t with 1 + rate (e^t − 1) = e^ε for ε >= 0, without overflow for large and without cancellation for small ε."""
    small = np.log1p(np.expm1(np.minimum(epsilons, 1.0)) / rate)
    large = np.maximum(epsilons, 1.0)
    return np.where(epsilons < 1, small, large + np.log1p(-(1 - rate) * np.exp(-large)) - math.log(rate))


def _log_expm1(x: Floats) -> Floats:
    """ln(e^x − 1) for x > 0, without overflow."""
    return np.where(x < 1, np.log(np.expm1(np.minimum(x, 1.0))), x + np.log1p(-np.exp(-np.maximum(x, 1.0))))


def _gaussian_delta(losses: Floats, mu: float) -> Floats:
    """H_{e^t}(N(μ, 1)‖N(0, 1)) at each loss t, in log space."""
    from scipy.special import log_ndtr

    threshold = losses / mu + mu / 2
    log_upper, log_lower = log_ndtr(mu - threshold), log_ndtr(-threshold)
    return np.exp(log_upper) * -np.expm1(np.minimum(losses + log_lower - log_upper, 0))


def _mixture_loss(x: float, mu: float, rate: float) -> float:
    """ln(mix(x)/Q(x)) = ln(1 − rate + rate e^(μx − μ²/2))."""
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2))


def _adjacency(direction: Direction) -> Any:
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType

    return AdjacencyType[direction.upper()]


def _from_library(loss: Any, outcomes: Callable[[Floats], Floats] | None = None) -> Profile:
    """The library's profile. `outcomes` inverts the loss, point by point if not given."""
    bounds = loss.connect_dots_bounds()
    outcomes = outcomes or (lambda epsilons: np.array([loss.inverse_privacy_loss(e) for e in epsilons]))

    def tails(epsilons: Floats) -> tuple[Floats, Floats]:
        inside = (epsilons > bounds.epsilon_lower) & (epsilons <= bounds.epsilon_upper)
        x = np.where(epsilons > bounds.epsilon_upper, -np.inf, np.inf)  # the library's losses fall with x
        x[inside] = outcomes(epsilons[inside])
        return loss.mu_upper_cdf(x), np.exp(loss.mu_lower_log_cdf(x))

    return Profile(bounds.epsilon_lower, bounds.epsilon_upper, loss.get_delta_for_epsilon, tails)


def _replace_outcomes(epsilons: Floats, noise_multiplier: float, rate: float) -> Floats:
    """x with ln(P(x)/Q(x)) = ε for P, Q = (1−rate) N(0, z²) + rate N(∓1, z²): z² (asinh(−a sinh(ε/2)) − ε/2).

    a = e^(1/(2z²)) (1−rate)/rate can overflow, so that asinh(e^y) is taken in log space.
    """
    half = np.abs(epsilons) / 2
    log_a = 0.5 / noise_multiplier**2 + math.log1p(-rate) - math.log(rate)
    with np.errstate(divide="ignore"):  # ε = 0 is y = −∞ and asinh 0
        y = log_a + half + np.log(-np.expm1(-2 * half) / 2)
    large = np.maximum(y, 0.0)
    asinh = np.where(
        y > 0, large + np.log1p(np.sqrt(1 + np.exp(-2 * large))), np.arcsinh(np.exp(np.minimum(y, 0)))
    )
    return -(noise_multiplier**2) * np.sign(epsilons) * (asinh + half)
