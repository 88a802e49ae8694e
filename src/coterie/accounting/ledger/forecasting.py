"""What a ledger would say at the end of a run, before anything of it is charged: reads only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.accounting.ledger import store
from coterie.accounting.ledger.account import Account
from coterie.accounting.ledger.chain import LedgerTerms
from coterie.accounting.ledger.reading import accounted, read
from coterie.accounting.ledger.terms import same_terms
from coterie.accounting.ledger.units import tally
from coterie.accounting.statements import Certificate

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class ChargeForecast(NamedTuple):
    """What a run would cost a ledger."""

    spent: float  # epsilon of everything charged so far
    after: Certificate  # of everything, once the run is complete
    affordable: bool
    messages: int  # of the run that are charged already


def forecast(path: Path, run: str, event: DpEvent, wanted: LedgerTerms) -> ChargeForecast:
    """What is spent, and what would be after a run that costs `event` as a whole, whatever of it is charged already.

    A file that is not there counts as a new ledger, as `Ledger.open` would create it with the `wanted` terms; nothing
    is created. InputError as `Ledger.open` and `read`.
    """
    spent, messages, other_runs = 0.0, 0, Account(wanted)
    if path.exists():
        now = read(path)
        same_terms(path, now.account.terms, wanted)
        spent = now.account.spent(wanted.delta).epsilon
        messages = sum(past.messages for past in now.runs if past.name == run)
        with store.reader(path) as connection:
            other_runs = accounted(connection, [row for row in store.rows(connection) if row.run != run])
    cases = other_runs.worst_cases(tally(event, other_runs.terms.rows_per_unit), None)
    return ChargeForecast(
        spent, other_runs.certificate(cases, wanted.delta), other_runs.within(cases), messages
    )
