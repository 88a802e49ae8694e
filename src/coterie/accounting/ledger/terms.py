"""What a new ledger is created with, and whether one that is there is the one that is meant."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from coterie import _check
from coterie.accounting.ledger.chain import LedgerTerms
from coterie.errors import InputError
from coterie.relations import named


def terms_for(
    data_hash: str, epsilon: float, delta: float, relation: str, rows_per_unit: int = 1
) -> LedgerTerms:
    """What a new ledger would be created with; InputError where it makes no sense."""
    if not re.fullmatch("[0-9a-f]{64}", data_hash):
        raise InputError(f"data_hash={data_hash!r}: must be 64 hexadecimal digits, as data_hash() computes.")
    return LedgerTerms(
        data_hash=data_hash,
        epsilon=float(_check.positive("epsilon", epsilon)),
        delta=float(_check.probability("delta", delta)),
        relation=named(relation),
        rows_per_unit=_check.count("rows_per_unit", rows_per_unit),
        nonce=secrets.token_hex(32),
    )


def same_terms(path: Path, stored: LedgerTerms, given: LedgerTerms) -> None:
    """InputError unless a ledger's terms are those that it is to be used with."""
    if stored.data_hash != given.data_hash:
        raise InputError(
            f"data_hash={given.data_hash[:12]}…: the ledger {str(path)!r} belongs to {stored.data_hash[:12]}…. "
            "Give each data set its own file."
        )
    for name in ("epsilon", "delta", "relation", "rows_per_unit"):
        old, new = getattr(stored, name), getattr(given, name)
        if old != new:
            raise InputError(f"{name}={new!r}: the ledger {str(path)!r} was created with {old!r}. Use that.")
