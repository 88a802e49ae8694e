"""What a ledger is made of, and the chain of hashes by which a removed or edited row is noticed.

Row n is hashed together with the hash of row n − 1, row 1 together with the hash of the ledger's terms. There
is no secret in it: whoever can write the whole file can compute a new chain. The last hash, the *head*, kept
elsewhere, is what such a person cannot change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from coterie.errors import InputError

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class LedgerTerms:
    """What one ledger is about, fixed when it is created."""

    data_hash: str
    epsilon: float
    delta: float
    relation: str
    rows_per_unit: int  # the most records that one unit of privacy (a person) has in the data
    nonce: str  # random, so that a head shown to others tells nothing about the data's hash

    @property
    def unit(self) -> str:
        """The unit of privacy in the words that a certificate prints."""
        return "record" if self.rows_per_unit == 1 else f"up to {self.rows_per_unit} records"

    def to_text(self) -> str:
        """The text that is stored and hashed."""
        return canonical(asdict(self))


class LedgerRow(NamedTuple):
    """One line of the ledger. `sequence` orders; `time` only informs, because clocks go backwards."""

    sequence: int = 0
    time: str = ""  # UTC
    kind: str = "charge"  # or "partition" where one is declared
    run: str | None = None
    round: int | None = None
    partition: str | None = None
    part: int | None = None
    body: str = ""  # JSON: the charged event, or a partition's parts and digest
    message_sha256: str | None = None
    previous: str = ""
    hash: str = ""


class Head(NamedTuple):
    """The last row's number and hash; number 0 and the terms' hash where there is none."""

    sequence: int
    hash: str


def canonical(value: Any) -> str:
    """One text for each value. Values that only an edited file can hold become their `repr`.

    >>> canonical({"b": 1, "a": [None, 2.5]})
    '{"a":[null,2.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)


def sha256(content: bytes | str) -> str:
    """Hexadecimal SHA-256; text as UTF-8."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def sealed(row: LedgerRow) -> LedgerRow:
    """The row with its hash, over every other column."""
    return row._replace(hash=sha256(canonical([SCHEMA, *row[:-1]])))


def terms_from(text: str) -> LedgerTerms:
    """The terms that `LedgerTerms.to_text` wrote."""
    try:
        values = json.loads(text)
        wanted = {field.name for field in fields(LedgerTerms)}
        if not isinstance(values, dict) or set(values) != wanted:
            raise ValueError(f"its fields are not {sorted(wanted)}")
    except ValueError as error:
        raise InputError(f"ledger terms: unreadable ({error}). Restore the file from a copy.") from error
    return LedgerTerms(**values)


def breaks(start: str, rows: Iterable[LedgerRow], head: Head) -> Iterator[str]:
    """Every place where the chain from the terms' hash `start` to the `head` is broken, in words."""
    last = Head(0, start)
    for row in rows:
        if row.sequence != last.sequence + 1:
            yield f"{_rows(last.sequence + 1, row.sequence - 1)} removed"
        elif row.previous != last.hash:
            what = f"row {last.sequence} was" if last.sequence else "the terms (budget, data) were"
            yield f"row {row.sequence} does not continue what is before it: {what} replaced"
        if sealed(row).hash != row.hash:
            yield f"row {row.sequence} was edited"
        last = Head(row.sequence, row.hash)
    if head.sequence > last.sequence:
        yield f"{_rows(last.sequence + 1, head.sequence)} removed at the end"
    elif head != last:
        what = f"row {last.sequence}" if last.sequence else "the terms (budget, data)"
        yield f"the head record does not match {what}: one of them was edited"


def _rows(first: int, last: int) -> str:
    return f"row {first} was" if first == last else f"rows {first} to {last} were"
