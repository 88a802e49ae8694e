"""What a run costs a person whom several owners know: their records at up to m owners change at once.

Where every owner has its own noise, the owners' mechanisms compose (adaptively: what one sends may depend on all that
was sent before), and the cost is that of their events together. Where noise protects several owners at once, as in
masked sums, in a trusted aggregator's sum and in noise that owners share, a person at owners S shifts one Gaussian of
covariance Σ by v, |v_i| ≤ what one unit of owner i shows by itself, and the cost is that of μ² = max v' Σ⁻¹ v:

* the sum alone is seen: Σ⁻¹ has rank one, all shifts may point the same way, and μ_S = Σ μ_i over S, exactly;
* shared noise: `exposure.together`, exactly, as Σ⁻¹ of a Laplacian and a diagonal has no negative entry;
* any Σ at all: |v' Σ⁻¹ v| ≤ (Σ |v_i| √[Σ⁻¹]_ii)², the triangle inequality of a norm. So μ_S ≤ Σ μ_i always.

The worst S is the one that costs most. It holds the m largest where owners' events are Gaussian, for these add up;
else all sets of different events are tried; and where these are too many, all count as one that is no better than any
of them (`_weakest`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

from coterie import _check
from coterie.accounting.atoms import Flat, flatten
from coterie.accounting.certifying import certify
from coterie.accounting.statements import Certificate
from coterie.errors import InputError
from coterie.relations import Relation, named
from coterie.units import at_owners

if TYPE_CHECKING:
    from dp_accounting import DpEvent

MOST_SETS = 40  # of different events that are composed one by one: each may take a second


def check_owners(owners_per_person: int, owners: int) -> int:
    """How many of the owners may know one person."""
    if _check.count("owners_per_person", owners_per_person) > owners:
        raise InputError(
            f"owners_per_person={owners_per_person}: must be at most {owners}, as many as there are owners."
        )
    return owners_per_person


def of_events(
    events: Sequence[DpEvent], owners: int, delta: float, relation: str, view: str, unit: str
) -> Certificate:
    """The largest certificate of any so many of these events together, each of an owner with noise of its own.

    Argument: owners' noises are independent, and a unit of each of `owners` changes at most one of theirs: what all
    owners send is the adaptive composition of their mechanisms, of which only these see a difference.
    """
    by_kind: dict[Flat, list[DpEvent]] = {}
    for event in events:
        by_kind.setdefault(flatten(event), []).append(event)
    gaussian = not any(kind.parts or kind.reason for kind in by_kind)
    if gaussian or math.comb(len(by_kind) + owners - 1, owners) > MOST_SETS:
        sets = [no_better(events, owners, named(relation))]
    else:
        sets = [
            _composed([by_kind[kind][0] for kind in kinds])
            for kinds in combinations_with_replacement(by_kind, owners)
            if all(len(by_kind[kind]) >= times for kind, times in Counter(kinds).items())
        ]
    certificates = (
        certify(group, delta=delta, relation=relation, view=view, unit=at_owners(unit, owners))
        for group in sets
    )
    return max(certificates, key=lambda certificate: certificate.epsilon)


def no_better(events: Sequence[DpEvent], owners: int, relation: Relation) -> DpEvent:
    """An event that costs no less than any so many of these: exactly the largest where they are Gaussian."""
    flats = [flatten(event) for event in events]
    if not any(flat.parts or flat.reason for flat in flats):
        by_cost = sorted(zip(flats, events), key=lambda pair: -pair[0].precision)
        return _composed([event for _, event in by_cost[:owners]])
    return _composed([_weakest(flats, relation)] * owners)


def _composed(events: Sequence[DpEvent]) -> DpEvent:
    """The events as one; equal ones stand in it once, with their number, so that a file of it stays short."""
    import dp_accounting as dp

    counts = Counter(map(repr, events))
    first = {repr(event): event for event in reversed(events)}
    parts = [
        first[name] if times == 1 else dp.SelfComposedDpEvent(first[name], times)
        for name, times in counts.items()
    ]
    return parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)


def _weakest(flats: Sequence[Flat], relation: Relation) -> DpEvent:
    """An event that is no better than any of these.

    Argument: with more releases, a higher rate and less noise each pair of outputs is told apart no worse (a lower rate
    is a mixture with an output that both sides share, and privacy profiles are jointly convex in mixtures).
    """
    import dp_accounting as dp

    if any(flat.reason for flat in flats):
        return dp.NonPrivateDpEvent()
    events: list[Any] = []
    if precision := max(flat.precision for flat in flats):
        events.append(dp.GaussianDpEvent(1 / math.sqrt(precision)))
    every = [[(*_shape(atom, relation), times) for atom, times in flat.parts] for flat in flats]
    for shape in sorted({shape for parts in every for shape, *_ in parts}, key=repr):
        alike = [[part for part in parts if part[0] == shape] for parts in every]
        rate = max(rate for parts in alike for _, rate, _, _ in parts)
        noise = min(noise for parts in alike for _, _, noise, _ in parts)
        times = max(sum(times for *_, times in parts) for parts in alike)
        events.append(dp.SelfComposedDpEvent(_of_shape(shape, rate, noise), times))
    return dp.ComposedDpEvent(events)


def _shape(atom: Any, relation: Relation) -> tuple[tuple[Any, ...], Fraction | float, float]:
    """What kind of release it is, how often it sees a record, and its noise.

    Argument: a cap on a Poisson sample mixes the pair without it with one of half the noise at a lower rate
    (`profiles.truncated`), both of which half the noise at the rate itself is no better than, for replaced records.
    """
    import dp_accounting as dp

    match atom:
        case dp.LaplaceDpEvent(z):
            return ("every", dp.LaplaceDpEvent), 1.0, z
        case dp.RandomizedResponseDpEvent(share, buckets):
            return ("answer", buckets), 1.0, share
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(z)):
            return ("Poisson", dp.GaussianDpEvent), rate, z
        case dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(z)):
            return ("Poisson", dp.LaplaceDpEvent), rate, z
        case dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(z)):
            return ("fixed",), Fraction(b, n), z
        case dp.TruncatedSubsampledGaussianDpEvent(_, rate, _, z) if relation.sizes_are_public:
            return ("Poisson", dp.GaussianDpEvent), rate, z / 2
    return ("unknown",), 1.0, 0.0


def _of_shape(shape: tuple[Any, ...], rate: Fraction | float, noise: float) -> DpEvent:
    import dp_accounting as dp

    match shape, rate:
        case ("every", kind), _:
            return kind(noise)
        case ("answer", buckets), _:
            return dp.RandomizedResponseDpEvent(noise, buckets)
        case ("Poisson", kind), _:
            return dp.PoissonSampledDpEvent(float(rate), kind(noise))
        case ("fixed",), Fraction(numerator=b, denominator=n):
            return dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(noise))
    return dp.NonPrivateDpEvent()
