"""Events as one unit of privacy meets them: a person may have several records in the data.

An event is stated for one record. Where a person has up to k of them, the person's cost is that of changing k
records at once (group privacy). What has no sound conversion here is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie import _check
from coterie.errors import InputError

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Tally: TypeAlias = Counter[Any]  # how many times each simple event was charged


def tally(event: DpEvent, rows_per_unit: int) -> Tally:
    """The simple events of a composed one, each for `rows_per_unit` records, counted.

    Guarantee: sequential composition of what is returned dominates `event` when any `rows_per_unit` records
    change.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> tally(SelfComposedDpEvent(GaussianDpEvent(6.0), 10), 3)
    Counter({GaussianDpEvent(noise_multiplier=2.0): 10})
    """
    counts: Tally = Counter()
    _count(event, 1, rows_per_unit, counts)
    return counts


def _count(event: Any, times: int, rows: int, counts: Tally) -> None:
    import dp_accounting as dp

    match event:
        case dp.ComposedDpEvent():
            for part in event.events:
                _count(part, times, rows, counts)
        case dp.SelfComposedDpEvent():
            _count(event.event, times * _check.count("count", event.count, 0), rows, counts)
        case _ if times:
            counts[_for_unit(event, rows) if rows > 1 else event] += times


def _for_unit(event: Any, rows: int) -> Any:
    import dp_accounting as dp

    match event:
        case dp.NoOpDpEvent() | dp.NonPrivateDpEvent():
            return event
        case dp.GaussianDpEvent(z) | dp.LaplaceDpEvent(z):
            # Sensitivity: k records, each moving the sum by at most C (2C when replaced), move it by at most
            # k times that, in either norm; the noise over that distance is z / k.
            return type(event)(z / rows)
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent() | dp.LaplaceDpEvent()):
            # Sensitivity: none of the k is drawn with probability (1−q)^k, and then nothing changes; else the
            # sum moves by at most k contributions. Joint convexity takes the mixture over how many were drawn.
            any_drawn = -math.expm1(rows * math.log1p(-rate)) if 0 < rate < 1 else rate
            return dp.PoissonSampledDpEvent(any_drawn, _for_unit(event.event, rows))
        case dp.SampledWithoutReplacementDpEvent(size, sample, dp.GaussianDpEvent()):
            # Sensitivity: one of the k is in the sample with probability at most k b / n; swapping those out
            # for other records, or for their replacements, moves the sum by at most 2 k C.
            drawn = min(size, rows * sample)
            return dp.SampledWithoutReplacementDpEvent(size, drawn, _for_unit(event.event, rows))
    raise InputError(
        f"event={event!r}: no bound is known for rows_per_unit={rows}. "
        "Keep one record of each person, or release Gaussian or Laplace sums."
    )
