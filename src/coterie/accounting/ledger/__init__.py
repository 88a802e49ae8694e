"""The owner's ledger: what was charged to its records, stored before the message it paid for may leave."""

from coterie.accounting.ledger.book import Ledger, data_hash
from coterie.accounting.ledger.reading import Snapshot, Verification, read, verify

__all__ = ["Ledger", "Snapshot", "Verification", "data_hash", "read", "verify"]
