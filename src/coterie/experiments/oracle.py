"""Values that no owner released: computed from private records, for the researcher's eyes.

They are marked by their type, so that whatever handles a result can tell them from what the messages gave.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

ORACLE = " (oracle)"  # behind the words for such a value


class Oracle(float):
    """A number; arithmetic and formats are a float's."""


class OracleArray(np.ndarray):
    """An array of such numbers."""


class OracleWords(tuple[str, ...]):
    """Sentences that such numbers stand in."""


@overload
def oracle(value: float) -> Oracle: ...
@overload
def oracle(value: np.ndarray) -> OracleArray: ...
@overload
def oracle(value: tuple[str, ...]) -> OracleWords: ...
def oracle(value: float | np.ndarray | tuple[str, ...]) -> Oracle | OracleArray | OracleWords:
    """Mark a value as no owner's release.

    >>> is_oracle(oracle(0.5)), is_oracle(oracle(np.zeros(2))), is_oracle(0.5)
    (True, True, False)
    """
    if isinstance(value, tuple):
        return OracleWords(value)
    return value.view(OracleArray) if isinstance(value, np.ndarray) else Oracle(value)


def is_oracle(value: Any) -> bool:
    """Whether the value is marked."""
    return isinstance(value, (Oracle, OracleArray, OracleWords))
