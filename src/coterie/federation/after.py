"""What owners release beside training: the makers of their tables, and the machines around the one that trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from coterie.evaluation.centre import Sums
from coterie.evaluation.selection import chosen
from coterie.evaluation.tables import simulated_noise, step_of, tallied
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import Judged, OwnRecords, noisy_table, table_layout
from coterie.federation.shapes.evaluation import Evaluated
from coterie.federation.shapes.tables import Emit, OwnTable, TableTerms
from coterie.federation.transport.machine import Machine
from coterie.mechanisms import Gaussian
from coterie.mechanisms.distributions import fitting


def own_tables(
    party: Party,
    planned: Collaboration,
    records: OwnRecords,
    judged: Judged,
    outlet: Outlet,
    injected_seed: int | None,
) -> dict[str, OwnTable]:
    """What makes the owner's tables after training, by name, with the owner's own noise (in tests, the simulator's).

    The model is chosen by the training records and evaluated on those in `judged`.
    """
    problem, most = planned.task.problem, planned.task.unit.records
    at = planned.agreement.owners.index(party.name)
    tallies = {
        "selection": (partial(planned.ballot.tally, problem, most=most), records.laid_out),
        "evaluation": (partial(tallied, planned.sheet, problem, most=most), judged),
    }
    return {
        name: OwnTable(
            at, partial(noisy_table, tally, own, _noise(party, planned, name, injected_seed)), outlet
        )
        for name, (tally, own) in tallies.items()
        if name in planned.program.plan.tables
    }


def sums_side(party: Party, planned: Collaboration, records: OwnRecords, injected_seed: int | None) -> Emit:
    """What makes the owner's sums of features, before training. `records`: with features that nothing was taken off."""
    centre = planned.program.plan.centre
    assert centre is not None
    x, _, unit = records.laid_out
    noise = _noise(party, planned, "centre", injected_seed)
    return partial(noisy_table, lambda model, *own: Sums(centre.width).tally(*own), (x, unit), noise)


def _noise(
    party: Party, planned: Collaboration, name: str, injected_seed: int | None
) -> Callable[[], np.ndarray]:
    """Of the scale that the plan charges, drawn anew at every call."""
    at, table = planned.agreement.owners.index(party.name), planned.program.plan.tables[name]
    if injected_seed is not None:
        return partial(simulated_noise, table, injected_seed, at, step_of(planned.program, name))
    return partial(randomness.drawn, Gaussian(), party.generator, fitting(table.scale(at)), table.width)


def evaluated(
    party: Party,
    planned: Collaboration,
    machine: Machine,
    own: Mapping[str, OwnTable],
    journal: Journal,
) -> Machine:
    """The party's machine, wrapped once for each table; a party without records has none of its own."""
    for name, table in planned.program.plan.tables.items():
        if name == "centre":  # it is over
            continue
        choose = partial(chosen, variance=table.variance()) if name == "selection" else None
        terms = terms_of(party, planned, name)._replace(choose=choose)
        machine = Evaluated(machine, terms, own.get(name), journal)
    return machine


def terms_of(party: Party, planned: Collaboration, name: str) -> TableTerms:
    """What the agreement says of a table."""
    tables, agreement = planned.program.plan.tables, planned.agreement
    step = dict(zip(tables, planned.table_steps))[name]
    layout, peers = table_layout(tables[name]), planned.peers(party.name)
    return TableTerms(name, agreement.owners, step, layout, peers, agreement.patience)
