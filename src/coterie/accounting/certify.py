"""What an event costs, as a certificate. Built on dp-accounting; the unknown is refused, never a number.

Convention: a `GaussianDpEvent` or `LaplaceDpEvent` carries noise scale / C, where C bounds ONE record's
contribution. Adding or removing a record moves the released sum by C, replacing it by 2C. dp-accounting's
`PLDAccountant` reads events this way; its `RdpAccountant` ignores the relation and is not used.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie import _check
from coterie.accounting import profiles
from coterie.accounting.events import event_from_json
from coterie.accounting.statements import Certificate
from coterie.errors import InputError

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.pld_pmf import PLDPmf

RELATIONS = ("replace_one", "add_or_remove_one")

STANDS_STILL = 0.005  # relative change of epsilon between two grids at which refining stops
_SMALL = 0.01  # epsilons below this need only stand as still as this one
_COARSEST = 1000  # grid points over the widest single release, to begin with
_REFINE = 4  # each further grid is this much finer
_MOST_POINTS = 2**20  # grid points of a single release or a composition after which refining stops
_TRUNCATED = 1e-15  # mass that the library may cut off a composition; it is counted as an infinite loss
# The n-th power of a Fourier transform multiplies n rounding errors of 2^-53. Against the exact Gaussian the
# library's delta was seen 2e-14 too small after 1,000 releases; four errors a release are well above that.
_ROUNDING = 4 * 2**-53

Parts: TypeAlias = tuple[tuple[Any, int], ...]  # (atomic event, how many times)
Curves: TypeAlias = list[tuple[tuple[profiles.Profile, ...], int]]


class Flat(NamedTuple):
    """An event tree, composed: plain Gaussians as one, everything else counted; or why there is no bound."""

    precision: float  # sum of 1 / noise_multiplier² over the plain Gaussians
    parts: Parts
    reason: str


class Bound(NamedTuple):
    """Epsilon, who computed it, why it is infinite, and the grid step it took (0 where it needed none)."""

    epsilon: float
    accountant: str
    reason: str = ""
    step: float = 0.0


def certify(
    event: DpEvent,
    *,
    delta: float,
    relation: str = "replace_one",
    view: str = "public transcript",
    size: int | None = None,
) -> Certificate:
    """Certify a whole run, given as one event, at `delta`. `size` is the owner's public number of records.

    Guarantee: what `event` describes is (epsilon, delta)-private under `relation`, unit one record.
    Equal events are computed once in a process.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> print(certify(SelfComposedDpEvent(GaussianDpEvent(40.0), 100), delta=1e-5))
    certified: ε ≤ 1.993 (δ = 1e-05, replace_one, unit: record, view: public transcript) by exact Gaussian
    """
    _check.probability("delta", delta)
    _check.one_of("relation", relation, RELATIONS)
    flat = flatten(event)
    bound = bound_of(flat, delta, relation, STANDS_STILL)
    return Certificate(
        epsilon=bound.epsilon,
        delta=delta,
        relation=relation,
        unit="record",
        view=view,
        accountant=bound.accountant,
        epsilon_optimistic=_optimistic(flat, bound, delta, relation),
        reason=bound.reason,
        warnings=_warnings(delta, size),
        event=event,
        size=size,
    )


def recompute(obj: dict[str, Any]) -> Certificate:
    """Certify again what a certificate's JSON describes; compare the two to check it.

    Guarantee: only the event, delta, relation, view and size are read; no number of the original is trusted.
    """
    missing = sorted({"event", "delta", "relation", "view", "size"} - set(obj))
    if missing:
        raise InputError(f"certificate fields {missing}: missing. Pass what Certificate.to_json() wrote.")
    event = event_from_json(obj["event"])
    return certify(event, delta=obj["delta"], relation=obj["relation"], view=obj["view"], size=obj["size"])


def flatten(event: DpEvent) -> Flat:
    """Compose the tree: order does not matter, and Gaussians add their 1/z² exactly.

    >>> from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
    >>> twice = [GaussianDpEvent(1.0), SelfComposedDpEvent(GaussianDpEvent(2.0), 4)]
    >>> flatten(ComposedDpEvent(twice)).precision
    2.0
    """
    counts: Counter[Any] = Counter()
    _count(event, 1, counts)
    import dp_accounting as dp

    gaussians = {atom: n for atom, n in counts.items() if isinstance(atom, dp.GaussianDpEvent)}
    rest = {atom: n for atom, n in counts.items() if atom not in gaussians}
    if any(isinstance(atom, dp.NonPrivateDpEvent) for atom in rest):
        return Flat(
            0.0, (), "a release is not private: it carries no noise, or noise that depends on the data"
        )
    precision = math.fsum(n / atom.noise_multiplier**2 for atom, n in gaussians.items())
    return Flat(precision, tuple(sorted(rest.items(), key=repr)), "")


def _count(event: Any, times: int, counts: Counter[Any]) -> None:
    import dp_accounting as dp

    if isinstance(event, dp.ComposedDpEvent):
        for part in event.events:
            _count(part, times, counts)
    elif isinstance(event, dp.SelfComposedDpEvent):
        _count(event.event, times * _check.count("count", event.count, 0), counts)
    elif times and (atom := _atom(event)) is not None:
        counts[atom] += times


def _atom(event: Any) -> Any:
    """The event in its simplest form; None where it releases nothing; InputError where it is unknown."""
    import dp_accounting as dp

    match event:
        case dp.NoOpDpEvent():
            return None
        case dp.NonPrivateDpEvent():
            return event
        case dp.GaussianDpEvent() | dp.LaplaceDpEvent():
            return _noised(event, event.noise_multiplier)
        case dp.RandomizedResponseDpEvent():
            return _response(event)
        case dp.PoissonSampledDpEvent():
            return _sampled(event, event.sampling_probability)
        case dp.SampledWithoutReplacementDpEvent():
            _check.count("source_dataset_size", event.source_dataset_size)
            _check.count("sample_size", event.sample_size, 0)
            return _sampled(event, event.sample_size / event.source_dataset_size)
        case dp.TruncatedSubsampledGaussianDpEvent():
            return _capped(event)
    raise _unsupported(event)


def _noised(event: Any, noise_multiplier: float) -> Any:
    import dp_accounting as dp

    if not noise_multiplier >= 0:
        raise InputError(f"noise_multiplier={noise_multiplier}: must be >= 0.")
    return event if noise_multiplier > 0 else dp.NonPrivateDpEvent()


def _response(event: Any) -> Any:
    import dp_accounting as dp

    _check.count("num_buckets", event.num_buckets)
    _share("noise_parameter", event.noise_parameter)
    if event.num_buckets == 1 or event.noise_parameter == 1:
        return None
    return event if event.noise_parameter > 0 else dp.NonPrivateDpEvent()


def _sampled(event: Any, rate: float) -> Any:
    """Nothing at rate 0, the release itself at rate 1; otherwise of a Gaussian or Laplace release only."""
    import dp_accounting as dp

    _share("sampling rate", rate)
    inner = _atom(event.event)
    if rate == 0 or inner is None:
        return None
    if rate == 1 or isinstance(inner, dp.NonPrivateDpEvent):
        return inner
    poisson_laplace = isinstance(event, dp.PoissonSampledDpEvent) and isinstance(inner, dp.LaplaceDpEvent)
    if not (isinstance(inner, dp.GaussianDpEvent) or poisson_laplace):
        raise _unsupported(event)
    return event


def _capped(event: Any) -> Any:
    import dp_accounting as dp

    _check.count("dataset_size", event.dataset_size)
    _check.count("truncated_batch_size", event.truncated_batch_size, 0)
    if event.truncated_batch_size >= event.dataset_size:
        return _atom(
            dp.PoissonSampledDpEvent(event.sampling_probability, dp.GaussianDpEvent(event.noise_multiplier))
        )
    if event.sampling_probability == 0 or event.truncated_batch_size == 0:
        return None
    _check.probability("sampling_probability", event.sampling_probability)
    return _noised(event, event.noise_multiplier)


@lru_cache(maxsize=4096)
def bound_of(flat: Flat, delta: float, relation: str, stands_still: float) -> Bound:
    """Exact for Gaussians alone, otherwise the smaller of pure and numerical composition."""
    from dp_accounting import get_epsilon_gaussian

    if flat.reason:
        return Bound(math.inf, "none", flat.reason)
    if not flat.parts:
        sensitivity = 2 if relation == "replace_one" else 1
        shift = sensitivity * math.sqrt(flat.precision)
        return Bound(float(get_epsilon_gaussian(1 / shift, delta)) if shift else 0.0, "exact Gaussian")
    numerical, pure = _numerical(flat, delta, relation, stands_still), _pure(flat, relation)
    if numerical.epsilon <= pure:
        return numerical
    return Bound(pure, "pure composition", step=numerical.step)


@lru_cache(maxsize=4096)
def _optimistic(flat: Flat, bound: Bound, delta: float, relation: str) -> float:
    """The lower end of the bound's error bar, on the grid that the bound took."""
    if bound.step == 0:
        return 0.0 if bound.accountant == "PLD" else bound.epsilon
    curves = _curves(flat, relation)
    return min(_lower_end(curves, delta + _rounding(curves), bound.step), bound.epsilon)


def _pure(flat: Flat, relation: str) -> float:
    """The sum of the largest losses; infinite once there is a Gaussian."""
    import dp_accounting as dp

    def largest(atom: Any) -> float:
        inner = atom.event if isinstance(atom, dp.PoissonSampledDpEvent) else atom
        bounded = isinstance(inner, dp.LaplaceDpEvent | dp.RandomizedResponseDpEvent)
        return max(profile.upper for profile in _directions(atom, relation)) if bounded else math.inf

    return math.inf if flat.precision else math.fsum(n * largest(atom) for atom, n in flat.parts)


def _numerical(flat: Flat, delta: float, relation: str, stands_still: float) -> Bound:
    """Refine the grid until epsilon stands still; every grid's value is a bound, so the smallest is kept."""
    curves = _curves(flat, relation)
    rounding = _rounding(curves)
    if delta <= 2 * rounding:
        return Bound(math.inf, "PLD", f"delta={delta:g} is below its resolution of {2 * rounding:.1g} here")
    widths = [profile.upper - profile.lower for directions, _ in curves for profile in directions]
    step = max(widths) / _COARSEST
    best, points = _upper_end(curves, delta - rounding, step)
    still = False
    while not still and points * _REFINE <= _MOST_POINTS:
        step /= _REFINE
        epsilon, points = _upper_end(curves, delta - rounding, step)
        still = abs(best - epsilon) <= stands_still * max(epsilon, _SMALL)
        best = min(best, epsilon)
    return Bound(best, "PLD", step=step)


def _curves(flat: Flat, relation: str) -> Curves:
    import dp_accounting as dp

    parts = flat.parts
    if flat.precision:
        parts = (*parts, (dp.GaussianDpEvent(1 / math.sqrt(flat.precision)), 1))
    return [(_directions(atom, relation), n) for atom, n in parts]


def _rounding(curves: Curves) -> float:
    return _ROUNDING * (100 + sum(n for _, n in curves))


def _directions(atom: Any, relation: str) -> tuple[profiles.Profile, ...]:
    """The profiles in each direction in which a record can change: one where they are equal."""
    import dp_accounting as dp

    ways: tuple[profiles.Direction, ...] = ("replace",) if relation == "replace_one" else ("remove", "add")
    match atom:
        case dp.GaussianDpEvent(z):
            return (profiles.gaussian(z, ways[0]),)
        case dp.LaplaceDpEvent(z):
            return (profiles.laplace(z, ways[0]),)
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(z)):
            return tuple(profiles.gaussian(z, way, rate) for way in ways)
        case dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(z)) if relation == "add_or_remove_one":
            return tuple(profiles.laplace(z, way, rate) for way in ways)
        case dp.TruncatedSubsampledGaussianDpEvent(n, rate, cap, z):
            return tuple(profiles.truncated(z, way, rate, cap, n) for way in ways)
        case dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(z)) if relation == "replace_one":
            return (profiles.fixed_size(z, b / n),)
        case dp.RandomizedResponseDpEvent(p, buckets) if relation == "replace_one":
            return (profiles.randomized_response(p, buckets),)
    other = RELATIONS[relation == RELATIONS[0]]
    raise InputError(f"event={atom!r}: not defined under relation={relation!r}. Use {other!r}.")


def _upper_end(curves: Curves, delta: float, step: float) -> tuple[float, int]:
    """The largest epsilon over the directions, and how many grid points it took."""
    from dp_accounting.pld import pld_pmf

    epsilon, points = 0.0, 0
    for way in range(max(len(directions) for directions, _ in curves)):
        total = None
        for directions, n in curves:
            composed = profiles.above(directions[way % len(directions)], step).self_compose(n)
            total = composed if total is None else pld_pmf.compose_pmfs(total, composed, _TRUNCATED)
        assert total is not None
        epsilon, points = max(epsilon, _epsilon_between(total, delta)[1]), max(points, total.size)
    return epsilon, points


def _lower_end(curves: Curves, delta: float, step: float) -> float:
    """What the first direction's real pair of data sets gives away for sure."""
    from dp_accounting.pld import pld_pmf

    total, shift = None, 0.0
    for directions, n in curves:
        single, origin = profiles.below(directions[0], step)
        composed = single.self_compose(n)
        total = composed if total is None else pld_pmf.compose_pmfs(total, composed, _TRUNCATED)
        shift += n * origin
    assert total is not None
    epsilon = _epsilon_between(total, delta)[0]
    return max(0.0, epsilon + shift) if epsilon > 0 else 0.0


def _epsilon_between(pmf: PLDPmf, delta: float) -> tuple[float, float]:
    """Two numbers a millionth apart that enclose the epsilon of a discrete privacy loss distribution.

    The library's own inverse divides by e^−loss, which underflows between losses of 709 and 745.
    """
    from scipy.optimize import brentq

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


def _warnings(delta: float, size: int | None) -> tuple[str, ...]:
    if size is None or delta < 1 / size:
        return ()
    return (f"delta={delta:g} is not below 1/{size}: publishing one record in full would satisfy it.",)


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name}={value}: must lie between 0 and 1.")


def _unsupported(event: Any) -> InputError:
    return InputError(f"event={event!r}: no certificate is known for it. Compose it from supported events.")
