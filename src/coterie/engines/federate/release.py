"""The only way out for anything made of private records: charged and on the disk first, and then sent."""

from __future__ import annotations

from coterie.accounting import Certificate
from coterie.accounting.ledger import Ledger, data_hash
from coterie.accounting.plans import charges_of
from coterie.errors import BudgetError
from coterie.mechanisms import ReleasePlan


class Outlet:
    """One owner's releases of one run, through its ledger.

    Guarantee: `release` returns only what the ledger holds, with its charge; a step has one message for ever, also
    after a crash; the messages of a run never exceed the plan's, nor the ledger's budget.
    """

    def __init__(self, ledger: Ledger, run: str, plan: ReleasePlan, owner: int, messages: int) -> None:
        """`messages`: how many the owner sends in the run, at most; one, or as many as the plan has releases."""
        self._ledger, self._run, self._messages = ledger, run, messages
        self._charges = charges_of(plan, owner, messages)
        self._made = len(ledger.rounds(run))
        self._partition = _partition(plan, owner, self._charges.parts)
        if self._charges.parts:
            ledger.declare_partition(
                self._partition, parts=self._charges.parts, digest=data_hash(_bounds(plan, owner))
            )
        # Asked of the whole run first: its rounds are then charged without a new certificate.
        self.affordable = self._made > 0 or not ledger.would_exceed(plan.event(owner))

    def stored(self, step: int) -> bytes | None:
        """The message that was released at this step, to be sent again; None where none was."""
        return self._ledger.stored(self._run, step)

    def release(self, step: int, turn: int, body: bytes) -> bytes:
        """Charge the message and write it down; what is returned, and nothing else, may leave.

        BudgetError, with nothing charged or written, where the plan's releases or the budget are used up.
        """
        found = self.stored(step)
        if found is not None:
            return found
        if self._made >= self._messages:
            raise BudgetError(
                f"step={step}: all {self._messages} releases of run {self._run!r} were made. Nothing may leave."
            )
        charges = self._charges
        if charges.upfront is not None:
            self._ledger.charge(self._run, 0, charges.upfront, None)
        part = (self._partition, turn % charges.parts) if charges.parts else None
        stored = self._ledger.charge(self._run, step, charges.each, body, part=part)
        assert stored is not None
        self._made += 1
        return stored

    def turns(self) -> int:
        """How many releases were made in this run, before and after any restart."""
        return self._made

    def spent(self) -> Certificate:
        """What all of the owner's runs on these records have cost so far."""
        return self._ledger.spent()


def _partition(plan: ReleasePlan, owner: int, parts: int) -> str:
    batch = getattr(plan.sampler, "batch", 0)  # in the name: two sizes may make equally many parts
    return f"{plan.sizes[owner]} records by position, {batch} in each of {parts} batches"


def _bounds(plan: ReleasePlan, owner: int):
    """What fixes the division: position alone, so that no record's content can move it."""
    import numpy as np

    return np.array([plan.sizes[owner], getattr(plan.sampler, "batch", 0)])
