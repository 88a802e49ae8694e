"""How many records persons have, as somebody declares it, and what that does to a clipped sum. Reads no record.

A unit's summed gradient is clipped to what a record's is, so noise does not depend on the cap: what does is how much
each person adds. Outcomes of a person's records are taken to be independent of each other given a calibrated model, so
that r of them add up like a walk of r steps, to √r times one's length, and nothing is lost until that reaches the clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from coterie.errors import InputError

# Root mean square of a record's slope, over its bound, for calibrated and uniform predictions: the slope is 1 − p where
# a record's own label has probability p with density 2p (see `candidates.typical_slope`), and ∫ 2p (1 − p)² dp = 1/6.
TYPICAL = math.sqrt(1 / 6)
MOST = 1000  # of a person's records where only their mean is declared: beyond it nobody is left
_OFF = 1e-3  # shares are declared with few digits


@dataclass(frozen=True)
class Persons:
    """Shares of persons by how many records they have; the default: everybody has one."""

    shares: tuple[tuple[int, float], ...] = ((1, 1.0),)

    @property
    def mean(self) -> float:
        """Records of a person, on average."""
        return self.kept(max(records for records, _ in self.shares))

    def kept(self, cap: int) -> float:
        """Records of a person that a cap leaves, on average.

        >>> declared("1:0.5,4:0.3,20:0.2").kept(5)
        2.7
        """
        return sum(share * min(records, cap) for records, share in self.shares)

    def gain(self, cap: int, clip: float) -> float:
        """How many times as much as one record a person adds to the sum, on average; `clip`: share of a record's bound.

        >>> everybody = declared("4")
        >>> [round(everybody.gain(cap, 0.75), 2) for cap in (1, 2, 5, 20)]
        [1.0, 1.75, 2.73, 3.05]
        """
        return sum(
            share * min(records, cap) * min(1.0, clip / (TYPICAL * math.sqrt(min(records, cap))))
            for records, share in self.shares
        )


EVERYBODY_ONE = Persons()


def declared(text: str) -> Persons:
    """A mean, which stands for a geometric distribution, or shares of persons by their records: 1:0.5,4:0.3,20:0.2.

    >>> declared("1:0.5,3:0.5").mean
    2.0
    >>> declared("1:0.5,3:0.4")
    Traceback (most recent call last):
    coterie.errors.InputError: records_per_person='1:0.5,3:0.4': the shares add up to 0.9; must be 1.
    """
    try:
        return _geometric(text, float(text)) if ":" not in text else _shares(text)
    except ValueError:
        raise InputError(
            f"records_per_person={text!r}: must be a mean, such as 5, or shares of persons by their number of records, "
            "such as 1:0.5,4:0.3,20:0.2."
        ) from None


def _geometric(text: str, mean: float) -> Persons:
    if not 1 <= mean <= MOST / 10:
        raise InputError(f"records_per_person={text!r}: a mean must be between 1 and {MOST // 10}.")
    going_on = 1 - 1 / mean
    chances = [going_on ** (records - 1) / mean for records in range(1, MOST)] + [going_on ** (MOST - 1)]
    return Persons(tuple((at, chance) for at, chance in enumerate(chances, 1) if chance > 0))


def _shares(text: str) -> Persons:
    pairs = [part.split(":") for part in text.split(",")]
    counted = [(int(records), float(share)) for records, share in pairs]
    counts, total = [records for records, _ in counted], sum(share for _, share in counted)
    if min(counts) < 1 or len(set(counts)) < len(counts):
        raise InputError(
            f"records_per_person={text!r}: numbers of records must be 1 or more, and each named once."
        )
    if not all(0 < share <= 1 for _, share in counted):
        raise InputError(f"records_per_person={text!r}: shares must be above 0 and at most 1.")
    if abs(total - 1) > _OFF:
        raise InputError(f"records_per_person={text!r}: the shares add up to {total:.4g}; must be 1.")
    return Persons(tuple((records, share / total) for records, share in sorted(counted)))
