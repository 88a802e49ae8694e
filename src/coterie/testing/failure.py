"""What a broken contract raises."""

from __future__ import annotations


class ContractError(AssertionError):
    """One line: what failed, how much was allowed, how much was measured, and what to do."""
