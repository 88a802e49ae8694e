"""An owner's own part in a run: its records, its ledger, and the machines that are made of them.

Guarantee: nothing made of records leaves but through `Outlet`, which charges the owner's ledger first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie._rounding import upper
from coterie._types import PyTree
from coterie.accounting.ledger import Ledger
from coterie.evaluation.held import Division
from coterie.evaluation.tables import Judged
from coterie.federation import records, training
from coterie.federation.after import evaluated, own_tables, sums_side
from coterie.federation.collaboration import Collaboration
from coterie.federation.honest import allowed, charged_plan, own_masks, refuse_one_witness, unaffordable
from coterie.federation.party import Party
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.releases.side import OwnRecords
from coterie.federation.shapes.tables import OwnTable
from coterie.federation.transport.lines import private, warning
from coterie.federation.transport.machine import Machine
from coterie.problems.datasets.schema import Rows

Log = Callable[[str], None]
TEST_NOISE = "TEST NOISE: whoever knows the seed can take it off again. Never use it on records that matter."
RESTORED = (
    "this ledger was restored from a copy: nothing leaves before every peer has said that it holds no later release. "
    "If that is not to be had, write the run off: coterie ledger write-off FOLDER"
)


@dataclass
class RecordsOwner:
    """What stands between an owner's records and its peers."""

    party: Party
    outlet: Outlet
    budget: float
    rows: Rows | None  # as they were read; None once the machine that trains has them
    division: Division | None
    injected_seed: int | None  # of a test's noise
    seed: int  # orders units, and chooses among the records of one that has too many
    records: OwnRecords | None = None  # what is trained on, once features are known
    _spent: float = 0.0
    _certified: int = -1  # releases that `_spent` is for
    _again: float = 0.0  # when the next certificate may be computed: some take seconds

    def public(self) -> dict[str, Any]:
        """For the status file: releases charged, and what everything charged on these records costs together."""
        now, releases = time.monotonic(), len(self.outlet.steps)
        if releases != self._certified and now >= self._again:
            self._spent, self._certified = self.outlet.spent().epsilon, releases
            self._again = now + 50 * (time.monotonic() - now)
        return {"releases": releases, "epsilon_spent": self._spent, "epsilon_budget": self.budget}

    def sums(self, planned: Collaboration) -> OwnTable | None:
        """What its sums of features are made with, where the agreement has a centre of them."""
        if planned.program.plan.centre is None:
            return None
        at = planned.agreement.owners.index(self.party.name)

        def emit(_: PyTree) -> bytes:
            """Made of the records when it is wanted: a restart finds them released."""
            own, _ = self._divided(replace(planned, features=planned.plain), at)
            return sums_side(self.party, planned, own, self.injected_seed)(None)

        return OwnTable(at, emit, self.outlet)

    def machine(self, planned: Collaboration) -> Machine:
        """What trains on the records, with the tables that come after it."""
        at, plan = planned.agreement.owners.index(self.party.name), planned.program.plan
        own, judged = self._divided(planned, at)
        self.rows, self.records = None, own
        source = (
            randomness.source(self.party.generator, plan, at)
            if self.injected_seed is None
            else randomness.injected(plan, self.injected_seed, at)
        )
        masks = None if plan.masked is None else own_masks(self.party, planned)
        machine = training.of_owner(planned, at, own, source, self.outlet, masks)
        tables = own_tables(self.party, planned, own, judged, self.outlet, self.injected_seed)
        return evaluated(self.party, planned, machine, tables, self.outlet.journal)

    def _divided(self, planned: Collaboration, at: int) -> tuple[OwnRecords, Judged]:
        assert self.rows is not None
        return records.divided_by(self.rows, planned, self.division, (self.seed, at))


@contextmanager
def owner(
    party: Party, planned: Collaboration, data: Path, journal: Journal, injected_seed: int | None, log: Log
) -> Iterator[RecordsOwner]:
    """Read the records, open the ledger, and say what an administrator must know; nothing is released here."""
    at = planned.agreement.owners.index(party.name)
    rows, hashes = records.read(party, planned, data)
    if rows.read_as:
        log(private(f"your file: {rows.read_as}"))
    for line in rows.findings:
        log(private(f"your file, for your eyes: {line}"))
    division = records.division(planned, at, journal, injected_seed)
    seed = records.seed_of(journal, injected_seed)
    content = records.known_to(party, hashes.content, data, log)
    plan, agreement = charged_plan(party, planned), planned.agreement
    order = records.order(hashes.order, division, agreement.unit, seed)
    part = OwnRun(agreement.run, plan, at, planned.messages(at), order, planned.table_steps)
    with _ledger(party, planned, at, content, log) as ledger:
        outlet = Outlet(ledger, journal, part)
        _affordable(party, planned, outlet, ledger, log)
        if planned.program.plan.masked is not None:
            own_masks(party, planned)  # an error now where its key is not the agreement's
        if injected_seed is not None:
            log(warning(TEST_NOISE))
        yield RecordsOwner(party, outlet, ledger.terms.epsilon, rows, division, injected_seed, seed)


def _affordable(party: Party, planned: Collaboration, outlet: Outlet, ledger: Ledger, log: Log) -> None:
    """Stop, or warn, where the ledger does not go with the whole run."""
    program, epsilon = planned.program, ledger.terms.epsilon
    relies = charged_plan(party, planned) is program.plan
    if outlet.restored:
        refuse_one_witness(party, planned, outlet.where)
        log(warning(RESTORED))
    if not outlet.affordable and not relies:
        raise unaffordable(party, planned, epsilon)
    if not outlet.affordable:
        log(
            warning(
                f"budget: ε = {upper(ledger.spent().epsilon)} of {epsilon:g} is spent on these records; this run needs "
                "more than is left. The owner releases what it can, then only passes on what others released."
            )
        )


def _ledger(party: Party, planned: Collaboration, at: int, content: str, log: Log) -> Ledger:
    """The owner's ledger; its budget is said aloud before any use."""
    plan = charged_plan(party, planned)
    budget = allowed(party, planned, at, plan)
    log(budget.words)
    return Ledger.open(
        party.ledger,
        data_hash=content,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=plan.relation,
    )
