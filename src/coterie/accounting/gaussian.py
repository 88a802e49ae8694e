"""One Gaussian release: what its noise costs, and which noise a budget asks for. Noise is over what a record moves."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache


def epsilon_of(noise: float, delta: float) -> float:
    """The exact ε.

    >>> round(epsilon_of(3.7302, 1e-5), 3)
    1.0
    """
    from dp_accounting import get_epsilon_gaussian

    with _log_of_zero():
        return float(get_epsilon_gaussian(noise, delta))


@lru_cache(maxsize=1024)  # owners by the thousand have a few budgets between them
def noise_for(epsilon: float, delta: float) -> float:
    """The noise with which one release uses the budget up.

    >>> round(noise_for(1.0, 1e-5), 2)
    3.73
    """
    from dp_accounting import get_sigma_gaussian

    with _log_of_zero():
        return float(get_sigma_gaussian(epsilon, delta))


def _log_of_zero() -> AbstractContextManager[None]:
    """The library takes the logarithm of zero where it means "none": nobody need be warned."""
    import numpy as np

    return np.errstate(divide="ignore")
