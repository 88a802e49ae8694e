"""What a ledger's events cost together, and whether one more fits the budget.

Events compose sequentially, except on the parts of one declared partition: a record lies in exactly one part,
so that it meets the sequential events and one part's. The cost is the worst case over those choices.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.accounting.atoms import flatten
from coterie.accounting.certifying import STANDS_STILL, bound_of, certify
from coterie.accounting.ledger.chain import LedgerTerms
from coterie.accounting.ledger.units import Tally
from coterie.accounting.statements import Certificate
from coterie.errors import InputError
from coterie.relations import named

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_CASES = 64  # choices of one part in each partition that are certified one by one
_REMEMBERED = 32  # compositions within the budget that are kept, so that smaller ones need no certificate


class Part(NamedTuple):
    """One part of a declared partition."""

    partition: str
    number: int


@dataclass
class ChargedParts:
    """A fixed division of the records that does not depend on them, and what each part was charged."""

    parts: int
    digest: str
    shares: dict[int, Tally] = field(default_factory=dict)


class Account:
    """The running composition of one ledger's events."""

    def __init__(self, terms: LedgerTerms) -> None:
        self.terms = terms
        self.partitions: dict[str, ChargedParts] = {}
        self._sequential: Tally = Counter()
        self._affordable: list[Tally] = []
        self._pace = _Lookahead(None, 1, True)

    def add(self, events: Tally, part: Part | None) -> None:
        """Charge the events, to one part or to all records."""
        self._target(part).update(events)

    def worst_cases(self, events: Tally, part: Part | None) -> list[Tally]:
        """What a record may meet, with `events` charged too: at least one case is as bad as any record's.

        Guarantee: every record's (for several rows a unit: every unit's) composition is dominated by a case.
        """
        sequential = self._sequential + (events if part is None else Counter())
        choices = []
        for name, partition in self.partitions.items():
            shares = partition.shares
            if part is not None and part.partition == name:
                shares = shares | {part.number: shares.get(part.number, Counter()) + events}
            choices.append(_worst_shares(shares.values(), self.terms.rows_per_unit))
        if math.prod(map(len, choices)) > _MOST_CASES:
            choices = [[_join(shares)] for shares in choices]
        return [_sum([sequential, *chosen]) for chosen in product(*choices)]

    def within(self, cases: Iterable[Tally]) -> bool:
        """Whether all these compositions fit the budget.

        A composition that is contained in one known to fit also fits: what costs seconds to certify is asked
        once for a run that announces itself, not once for each of its rounds.
        """
        for case in cases:
            if any(_contained(case, known) for known in self._affordable):
                continue
            if not self.epsilon(case) <= self.terms.epsilon:
                return False
            self._affordable = [*self._affordable[1 - _REMEMBERED :], case]
        return True

    def affords(self, events: Tally, part: Part | None) -> bool:
        """Whether `events` fit, looking ahead in growing and then shrinking strides over their repetitions.

        So a run of n equal rounds that did not announce itself is certified about 2 log n times.
        """
        cases = self.worst_cases(events, part)
        if all(any(_contained(case, known) for known in self._affordable) for case in cases):
            return True
        key = frozenset(events.items())
        pace = self._pace if self._pace.events == key else _Lookahead(key, 1, True)
        while pace.stride > 1 and not self.within(self.worst_cases(_times(events, pace.stride), part)):
            pace = _Lookahead(key, pace.stride // 2, False)
        self._pace = pace._replace(stride=pace.stride * 2) if pace.growing else pace
        return self.within(cases)

    def epsilon(self, case: Tally) -> float:
        """What one composition costs at the budget's delta."""
        terms = self.terms
        return bound_of(flatten(composed(case)), terms.delta, named(terms.relation), STANDS_STILL).epsilon

    def certificate(self, cases: Iterable[Tally], delta: float) -> Certificate:
        """The certificate of the worst of these compositions, for the ledger's unit of privacy."""
        certificates = [certify(composed(case), delta=delta, relation=self.terms.relation) for case in cases]
        return replace(max(certificates, key=lambda certificate: certificate.epsilon), unit=self.terms.unit)

    def spent(self, delta: float) -> Certificate:
        """What everything charged so far costs."""
        return self.certificate(self.worst_cases(Counter(), None), delta)

    def _target(self, part: Part | None) -> Tally:
        if part is None:
            return self._sequential
        return self.known(part).shares.setdefault(part.number, Counter())

    def known(self, part: Part) -> ChargedParts:
        """The partition that this is a part of; InputError where it was not declared, or has no such part."""
        partition = self.partitions.get(part.partition)
        if partition is None:
            raise InputError(f"partition={part.partition!r}: not declared. Call declare_partition first.")
        if not 0 <= part.number < partition.parts:
            raise InputError(
                f"part={part.number}: must lie in 0..{partition.parts - 1} of {part.partition!r}."
            )
        return partition


class _Lookahead(NamedTuple):
    """How far ahead the next certificate for these events should look."""

    events: Any
    stride: int
    growing: bool


def composed(case: Tally) -> DpEvent:
    """The tally as one event.

    >>> from dp_accounting import GaussianDpEvent
    >>> composed(Counter({GaussianDpEvent(2.0): 3}))
    ComposedDpEvent(events=[SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=3)])
    """
    import dp_accounting as dp

    return dp.ComposedDpEvent([dp.SelfComposedDpEvent(event, n) for event, n in case.items()])


def _worst_shares(shares: Iterable[Tally], rows_per_unit: int) -> list[Tally]:
    """Parts of one partition, without those that another one dominates.

    A unit's k rows may lie in different parts. For Gaussians that costs no more than all in the worst part:
    with j_p rows in part p, the sum of j_p² x_p is at most k² max x_p. Otherwise all parts are composed.
    """
    distinct = list({frozenset(share.items()): share for share in shares}.values())
    if rows_per_unit > 1 and any(_not_gaussian(share) for share in distinct):
        return [_sum(shares)]
    undominated: list[Tally] = []
    for share in sorted(distinct, key=_precision, reverse=True):
        if not any(
            _contained(_not_gaussian(share), _not_gaussian(heavier)) for heavier in undominated
        ):  # their Gaussians weigh more
            undominated.append(share)
    return undominated or [Counter()]


def _join(shares: list[Tally]) -> Tally:
    """A composition that dominates each of these: the most of every event, of Gaussians the heaviest."""
    heaviest = max(shares, key=_precision)
    joined: Tally = Counter({event: n for event, n in heaviest.items() if _is_gaussian(event)})
    rest: Tally = Counter()
    for share in shares:
        rest |= _not_gaussian(share)
    return joined + rest


def _precision(share: Tally) -> float:
    """Sum of 1/z² over the Gaussians, by which they are ordered exactly. Infinite without noise."""
    return math.fsum(
        n / event.noise_multiplier**2 if event.noise_multiplier else math.inf
        for event, n in share.items()
        if _is_gaussian(event)
    )


def _not_gaussian(share: Tally) -> Tally:
    return Counter({event: n for event, n in share.items() if not _is_gaussian(event)})


def _is_gaussian(event: Any) -> bool:
    import dp_accounting as dp

    return isinstance(event, dp.GaussianDpEvent)


def _contained(small: Tally, large: Tally) -> bool:
    return len(small) <= len(large) and all(large[event] >= n for event, n in small.items())


def _sum(tallies: Iterable[Tally]) -> Tally:
    total: Tally = Counter()
    for tally in tallies:
        total.update(tally)
    return total


def _times(events: Tally, times: int) -> Tally:
    return Counter({event: n * times for event, n in events.items()})
