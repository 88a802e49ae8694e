"""The owner's ledger: what was charged to its records, stored before the message it paid for may leave."""

from coterie.accounting.ledger.book import Ledger, data_hash
from coterie.accounting.ledger.chain import Head
from coterie.accounting.ledger.forecasting import ChargeForecast, forecast
from coterie.accounting.ledger.reading import Snapshot, Verification, head_of, read, terms_of, verify
from coterie.accounting.ledger.terms import terms_for

__all__ = [
    "ChargeForecast",
    "Head",
    "Ledger",
    "Snapshot",
    "Verification",
    "data_hash",
    "forecast",
    "head_of",
    "read",
    "terms_for",
    "terms_of",
    "verify",
]
