"""What an event costs, as a certificate. Built on dp-accounting's events and distributions of losses; the unknown is
refused, never a number.

Convention: a `GaussianDpEvent` or `LaplaceDpEvent` carries noise scale / C, where C bounds ONE record's
contribution. Adding or removing a record moves the released sum by C, replacing it by 2C. dp-accounting's
`PLDAccountant` reads events this way; its `RdpAccountant` ignores the relation and is not used.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie import _check
from coterie.accounting import gaussian, groups, profiles
from coterie.accounting.atoms import WIDEST, Flat, flatten, grouped
from coterie.accounting.events import event_from_json
from coterie.accounting.statements import Certificate, publishing
from coterie.errors import InputError
from coterie.relations import RELATIONS, REPLACE_ONE, UNIT, Relation, named

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.pld_pmf import PLDPmf


STANDS_STILL = 0.005  # relative change of epsilon between two grids at which refining stops
_SMALL = 0.01  # epsilons below this need only stand as still as this one
_COARSEST = 1000  # grid points over the widest single release, to begin with
_WIDEST = 700.0  # of a grid's steps: the library takes e to this power, and doubles end at e^709
_REFINE = 4  # each further grid is this much finer
_MOST_POINTS = 2**20  # grid points of a single release or a composition after which refining stops
_LONGEST = 2**24  # grid points of a composition on the first grid; more would not fit into memory
_TRUNCATED = 1e-15  # mass that the library may cut off a composition; it is counted as an infinite loss
# The n-th power of a Fourier transform multiplies n rounding errors of 2^-53. Against the exact Gaussian the
# library's delta was seen 2e-14 too small after 1,000 releases; four errors a release are well above that.
_ROUNDING = 4 * 2**-53

Curves: TypeAlias = list[tuple[tuple[profiles.Profile, ...], int]]


class Bound(NamedTuple):
    """Epsilon, who computed it, why it is infinite, the grid step it took (0 where it needed none), and whether no
    accountant could say less."""

    epsilon: float
    accountant: str
    reason: str = ""
    step: float = 0.0
    exact: bool = False


def certify(
    event: DpEvent,
    *,
    delta: float,
    relation: str = REPLACE_ONE,
    view: str = "public transcript",
    size: int | None = None,
    group: int = 1,
    unit: str = UNIT,
) -> Certificate:
    """Certify a whole run, given as one event, at `delta`. `size` is the owner's public number of units.

    At `delta` 0 only what has a largest loss, such as Laplace noise alone, has a bound: the sum of these losses.

    Guarantee: what `event` describes is (epsilon, delta)-private under `relation` for the `unit` that it is stated for;
    with `group`, for so many of them of one person that change at once. Equal events are computed once in a process.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> print(certify(SelfComposedDpEvent(GaussianDpEvent(40.0), 100), delta=1e-5))
    certified: ε ≤ 1.994 (δ = 1e-05, replace_one, unit: record, view: public transcript) by exact Gaussian
    """
    _check.below_one("delta", delta)
    relation = named(relation)
    flat = flatten(event)
    if _check.count("group", group) == 1:
        many, bound = flat, bound_of(flat, delta, relation, STANDS_STILL)
    else:
        many, bound = _of_group(flat, group, delta, relation)
    return Certificate(
        epsilon=bound.epsilon,
        delta=delta,
        relation=relation,
        unit=unit if group == 1 else f"{group:,} {unit}s of one person",
        view=view,
        accountant=bound.accountant,
        epsilon_optimistic=bound.epsilon if bound.exact else _optimistic(many, bound, delta, relation),
        reason=bound.reason,
        warnings=publishing(delta, [size]),
        event=event,
        size=size,
    )


def _of_group(flat: Flat, group: int, delta: float, relation: Relation) -> tuple[Flat, Bound]:
    """The releases as they concern `group` records at once, and the least bound that is proved for them."""
    of_group = grouped(flat, group)
    bound = bound_of(of_group, delta, relation, STANDS_STILL)
    if not any(isinstance(atom, groups.Grouped) for atom, _ in of_group.parts) or bound.step == 0:
        return of_group, bound
    if not relation.sizes_are_public and all(groups.is_tight(atom) for atom, _ in of_group.parts):
        return of_group, bound._replace(accountant=f"{bound.accountant}, {groups.TIGHT}")
    single = bound_of(flat, delta, relation, STANDS_STILL)
    chained = _chained(flat, single, group, delta, relation)
    if chained < bound.epsilon:
        return of_group, bound._replace(epsilon=chained, accountant=f"{single.accountant}, {groups.CHAINED}")
    return of_group, bound._replace(accountant=f"{bound.accountant}, {groups.MEAN}")


def _chained(flat: Flat, single: Bound, group: int, delta: float, relation: Relation) -> float:
    """The bound from neighbour to neighbour, one record after the other; it needs the whole run's curve alone."""
    if single.step == 0 or not math.isfinite(single.epsilon):
        return math.inf
    curves = _curves(flat, relation)
    totals, rounding = _totals(curves, single.step), _rounding(curves)

    def curve(epsilons: Any) -> Any:
        return rounding + groups.largest(total.get_delta_for_epsilon(epsilons) for total in totals)

    return groups.chained(curve, single.epsilon, group, delta)


def recompute(obj: dict[str, Any]) -> Certificate:
    """Certify again what a certificate's JSON describes; compare the two to check it.

    Guarantee: only the event, delta, relation, unit, view and size are read; no number of the original is trusted.
    """
    missing = sorted({"event", "delta", "relation", "unit", "view", "size"} - set(obj))
    if missing:
        raise InputError(f"certificate fields {missing}: missing. Pass what Certificate.to_json() wrote.")
    event = event_from_json(obj["event"])
    given = {name: obj[name] for name in ("delta", "relation", "unit", "view", "size")}
    return certify(event, **given)


def check_known(event: DpEvent, relation: str) -> None:
    """Raise what `certify` would for an event that has no bound under this relation, before any of it is computed."""
    _curves(flatten(event), named(relation))


@lru_cache(maxsize=4096)
def bound_of(flat: Flat, delta: float, relation: Relation, stands_still: float) -> Bound:
    """Exact for Gaussians alone, otherwise the smaller of pure and numerical composition."""
    if flat.reason:
        return Bound(math.inf, "none", flat.reason, exact=True)
    shift = relation.reach * math.sqrt(flat.precision)
    if not flat.parts and not shift:
        return Bound(0.0, "exact Gaussian", exact=True)
    pure = math.inf if flat.precision else _pure(flat, relation)
    if delta == 0 and math.isfinite(pure):  # every largest loss is met, and by one pair of data sets: exact
        return Bound(pure, "pure composition", exact=True)
    if delta == 0:
        raise InputError(
            "delta=0: no epsilon bounds Gaussian noise without it. Give a delta above 0, or Laplace noise."
        )
    if not flat.parts:
        return Bound(gaussian.epsilon_of(1 / shift, delta), "exact Gaussian", exact=True)
    numerical = _numerical(flat, delta, relation, stands_still)
    if numerical.epsilon <= pure:
        return numerical
    return Bound(pure, "pure composition", step=numerical.step)


@lru_cache(maxsize=4096)
def _optimistic(flat: Flat, bound: Bound, delta: float, relation: Relation) -> float:
    """The lower end of the error bar of a bound that is not exact, on the grid that it took."""
    if bound.step == 0:  # numerical, without a grid: nothing was computed
        return 0.0
    curves = _curves(flat, relation)
    return min(_lower_end(curves, delta + _rounding(curves), bound.step), bound.epsilon)


def _pure(flat: Flat, relation: Relation) -> float:
    """The sum of the largest losses, of releases that are no plain Gaussians."""
    import dp_accounting as dp

    def largest(atom: Any) -> float:
        if isinstance(atom, groups.Grouped):
            # Losses of one record after the other add up, and may all be met.
            return atom.group * largest(atom.atom)
        inner = atom.event if isinstance(atom, dp.PoissonSampledDpEvent) else atom
        bounded = isinstance(inner, dp.LaplaceDpEvent | dp.RandomizedResponseDpEvent)
        return max(profile.upper for profile in _directions(atom, relation)) if bounded else math.inf

    return math.fsum(n * largest(atom) for atom, n in flat.parts)


def _numerical(flat: Flat, delta: float, relation: Relation, stands_still: float) -> Bound:
    """Refine the grid until epsilon stands still; every grid's value is a bound, so the smallest is kept."""
    curves = _curves(flat, relation)
    rounding = _rounding(curves)
    widths = [profile.upper - profile.lower for directions, _ in curves for profile in directions]
    step = max(widths) / _COARSEST
    if step > _WIDEST:
        return Bound(
            math.inf, "PLD", f"one release may lose ε = {max(widths):.2g}, which no grid here resolves"
        )
    for directions, n in curves:
        for profile in directions if n * _COARSEST > _LONGEST else ():
            if profiles.length(profile, step, n) > _LONGEST:
                return Bound(math.inf, "PLD", f"no grid here is long enough for {n:,} releases")
    if delta <= 2 * rounding:
        reason = f"delta={delta:g} is below its resolution of {2 * rounding:.1g} here"
        return Bound(math.inf, "PLD", reason, step)
    best, points = _upper_end(curves, delta - rounding, step)
    still = False
    while not still and points * _REFINE <= _MOST_POINTS:
        step /= _REFINE
        epsilon, points = _upper_end(curves, delta - rounding, step)
        still = abs(best - epsilon) <= stands_still * max(epsilon, _SMALL)
        best = min(best, epsilon)
    return Bound(best, "PLD", step=step)


def _curves(flat: Flat, relation: Relation) -> Curves:
    import dp_accounting as dp

    parts = flat.parts
    if flat.precision:
        # Beside others, on a grid: no more noise than one can hold, which never costs less.
        parts = (*parts, (dp.GaussianDpEvent(min(1 / math.sqrt(flat.precision), WIDEST)), 1))
    return [(_directions(atom, relation), n) for atom, n in parts]


def _rounding(curves: Curves) -> float:
    return _ROUNDING * (100 + sum(n for _, n in curves))


def _directions(atom: Any, relation: Relation) -> tuple[profiles.Profile, ...]:
    """The profiles in each direction in which a record can change: one where they are equal."""
    import dp_accounting as dp

    ways = relation.directions
    if isinstance(atom, groups.Grouped) and (grouped_profiles := groups.directions(atom, ways)) is not None:
        return grouped_profiles
    match atom:
        case dp.GaussianDpEvent(z):
            return (profiles.gaussian(z, ways[0]),)
        case dp.LaplaceDpEvent(z):
            return (profiles.laplace(z, ways[0]),)
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(z)):
            return tuple(profiles.gaussian(z, way, rate) for way in ways)
        case dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(z)) if "replace" not in ways:
            return tuple(profiles.laplace(z, way, rate) for way in ways)
        case dp.TruncatedSubsampledGaussianDpEvent(n, rate, cap, z):
            return tuple(profiles.truncated(z, way, rate, cap, n) for way in ways)
        case dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(z)) if "replace" in ways:
            return (profiles.fixed_size(z, b / n),)
        case dp.RandomizedResponseDpEvent(p, buckets) if "replace" in ways:
            return (profiles.randomized_response(p, buckets),)
    usable = " or ".join(repr(known) for known in RELATIONS if known != relation)
    raise InputError(f"event={atom!r}: not defined under relation={relation!r}. Use {usable}.")


def _upper_end(curves: Curves, delta: float, step: float) -> tuple[float, int]:
    """The largest epsilon over the directions, and how many grid points it took."""
    totals = _totals(curves, step)
    epsilons = [profiles.epsilon_between(total, delta)[1] for total in totals]
    return max(epsilons), max(total.size for total in totals)


def _totals(curves: Curves, step: float) -> list[PLDPmf]:
    """All releases composed, in each direction."""
    from dp_accounting.pld import pld_pmf

    totals = []
    for way in range(max(len(directions) for directions, _ in curves)):
        total = None
        for directions, n in curves:
            composed = profiles.composed(profiles.above(directions[way % len(directions)], step), n)
            total = composed if total is None else pld_pmf.compose_pmfs(total, composed, _TRUNCATED)
        assert total is not None
        totals.append(total)
    return totals


def _lower_end(curves: Curves, delta: float, step: float) -> float:
    """A lower bound on epsilon: what the first direction's real pair of data sets gives away for sure."""
    from dp_accounting.pld import pld_pmf

    total, shift = None, 0.0
    for directions, n in curves:
        single, origin = profiles.below(directions[0], step)
        composed = profiles.composed(single, n)
        total = composed if total is None else pld_pmf.compose_pmfs(total, composed, _TRUNCATED)
        shift += n * origin
    assert total is not None
    epsilon = profiles.epsilon_between(total, delta)[0]
    return max(0.0, epsilon + shift) if epsilon > 0 else 0.0
