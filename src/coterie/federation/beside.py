"""What owners release beside training: the makers of their tables, and the machines around the one that trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from coterie.evaluation.centre import Sums
from coterie.evaluation.selection import chosen
from coterie.evaluation.tables import simulated_noise, step_of, tallied
from coterie.federation import training
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases import randomness
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet
from coterie.federation.releases.side import Judged, OwnRecords, TableSide, table_layout
from coterie.federation.shapes.centring import Centring
from coterie.federation.shapes.evaluation import Evaluated
from coterie.federation.shapes.tables import OwnTable, TableTerms
from coterie.federation.transport.machine import Machine
from coterie.mechanisms import Gaussian
from coterie.mechanisms.distributions import fitting


def table_sides(
    party: Party, planned: Collaboration, records: OwnRecords, judged: Judged, injected_seed: int | None
) -> dict[str, TableSide]:
    """What makes the owner's tables after training, by name, with the owner's own noise (in tests, the simulator's).

    The model is chosen by the training records and evaluated on those in `judged`.
    """
    problem, most = planned.task.problem, planned.task.unit.records
    tallies = {
        "selection": (partial(planned.ballot.tally, problem, most=most), records.laid_out),
        "evaluation": (partial(tallied, planned.sheet, problem, most=most), judged),
    }
    return {
        name: TableSide(tally, own, _noise(party, planned, name, injected_seed))
        for name, (tally, own) in tallies.items()
        if name in planned.program.plan.tables
    }


def sums_side(
    party: Party, planned: Collaboration, records: OwnRecords, injected_seed: int | None
) -> TableSide:
    """What makes the owner's sums of features, before training. `records`: with features that nothing was taken off."""
    centre = planned.program.plan.centre
    assert centre is not None
    x, _, unit = records.laid_out
    noise = _noise(party, planned, "centre", injected_seed)
    return TableSide(lambda model, *own: Sums(centre.width).tally(*own), (x, unit), noise)


def _noise(
    party: Party, planned: Collaboration, name: str, injected_seed: int | None
) -> Callable[[], np.ndarray]:
    """Of the scale that the plan charges, drawn anew at every call."""
    at, table = planned.agreement.owners.index(party.name), planned.program.plan.tables[name]
    if injected_seed is not None:
        return partial(simulated_noise, table, injected_seed, at, step_of(planned.program, name))
    return partial(randomness.drawn, Gaussian(), party.generator, fitting(table.scale(at)), table.width)


def _terms(party: Party, planned: Collaboration, name: str) -> TableTerms:
    """What the agreement says of one of the plan's tables."""
    tables = planned.program.plan.tables
    return TableTerms(
        name,
        planned.agreement.owners,
        dict(zip(tables, planned.table_steps))[name],
        table_layout(tables[name]),
        planned.peers(party.name),
        planned.agreement.patience,
        choose=partial(chosen, variance=tables[name].variance()) if name == "selection" else None,
        all_needed=name == "centre",
    )


def evaluated(
    party: Party,
    planned: Collaboration,
    machine: Machine,
    sides: Mapping[str, TableSide],
    outlet: Outlet | None,
    journal: Journal,
) -> Machine:
    """The party's machine, wrapped once for each table; a party without records has no sides and no outlet."""
    owner = planned.agreement.owners.index(party.name) if outlet is not None else 0
    for name in planned.program.plan.tables:
        if name != "centre":  # that is over
            own = None if outlet is None else OwnTable(owner, sides[name].emit, outlet)
            machine = Evaluated(machine, _terms(party, planned, name), own, journal)
    return machine


def hub(party: Party, journal: Journal, injected_seed: int | None) -> Callable[[Collaboration], Machine]:
    """What makes the machine of a party without records, with the tables that come after training."""

    def machine(planned: Collaboration) -> Machine:
        own = training.of_hub(planned, journal, follow_schedule=injected_seed is not None)
        return evaluated(party, planned, own, {}, None, journal)

    return machine


class Start:
    """How a party's training begins: at once, or around the centre of all owners' features."""

    def __init__(
        self, party: Party, planned: Collaboration, train: Callable[[Collaboration], Machine]
    ) -> None:
        """`train`: makes the machine that trains, once features are known."""
        self.planned = planned  # with the centre, as soon as there is one
        self._party, self._train = party, train

    def machine(self, own: OwnTable | None, journal: Journal) -> Machine:
        """What the party runs. `own`: what an owner's sums are made with, where sums are wanted."""
        planned = self.planned
        if planned.program.plan.centre is None:
            return self._train(planned)
        terms = _terms(self._party, planned, "centre")
        forgotten = frozenset(planned.agreement.owners.index(name) for name in planned.forgotten)
        return Centring(terms, own, journal, self._around, of=planned.steps, without=forgotten)

    def _around(self, sums: dict[int, np.ndarray]) -> Machine:
        self.planned = self.planned.centred(sums)
        return self._train(self.planned)
