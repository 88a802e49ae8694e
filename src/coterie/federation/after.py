"""What a party does after training, where the agreement has a selection or an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from coterie.evaluation.selection import chosen
from coterie.evaluation.tables import simulated_noise, step_of, tallied
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import Judged, OwnRecords, TableSide, table_layout
from coterie.federation.shapes.evaluation import Evaluated
from coterie.federation.shapes.tables import OwnTable, TableTerms
from coterie.federation.transport.machine import Machine
from coterie.mechanisms import Gaussian
from coterie.mechanisms.distributions import fitting


def table_sides(
    party: Party, planned: Collaboration, records: OwnRecords, judged: Judged, injected_seed: int | None
) -> dict[str, TableSide]:
    """What makes the owner's tables, by name, with noise of its own, or of the simulator's in tests.

    A choice is made by the records that were trained on, and what is chosen evaluated on those `judged`.
    """
    at, problem = planned.agreement.owners.index(party.name), planned.task.problem
    most = planned.task.unit.records
    tallies = {
        "selection": (partial(planned.ballot.tally, problem, most=most), records.laid_out),
        "evaluation": (partial(tallied, planned.sheet, problem, most=most), judged),
    }
    sides = {}
    for name, table in planned.program.plan.tables.items():
        noise = partial(randomness.drawn, Gaussian(), party.generator, fitting(table.scale(at)), table.width)
        if injected_seed is not None:
            noise = partial(simulated_noise, table, injected_seed, at, step_of(planned.program, name))
        tally, own = tallies[name]
        sides[name] = TableSide(tally, own, noise)
    return sides


def evaluated(
    party: Party,
    planned: Collaboration,
    machine: Machine,
    sides: Mapping[str, TableSide],
    outlet: Outlet | None,
    journal: Journal,
) -> Machine:
    """The party's machine, with a table after another around it; a party without records has no sides and no outlet."""
    owners, tables = planned.agreement.owners, planned.program.plan.tables
    for step, (name, table) in zip(planned.table_steps, tables.items()):
        terms = TableTerms(
            name,
            owners,
            step,
            table_layout(table),
            planned.peers(party.name),
            planned.agreement.patience,
            partial(chosen, variance=table.variance()) if name == "selection" else None,
        )
        own = None
        if outlet is not None:
            own = OwnTable(owners.index(party.name), sides[name].emit, outlet)
        machine = Evaluated(machine, terms, own, journal)
    return machine
