"""What a party does before training, where the agreement has a centre of the features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coterie.federation import training
from coterie.federation.after import evaluated
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.side import table_layout
from coterie.federation.shapes.centring import Centring
from coterie.federation.shapes.tables import OwnTable, TableTerms
from coterie.federation.transport.machine import Machine


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
        centre, owners = planned.program.plan.centre, planned.agreement.owners
        if centre is None:
            return self._train(planned)
        terms = TableTerms(
            "centre",
            owners,
            planned.table_steps[0],
            table_layout(centre),
            planned.peers(self._party.name),
            planned.agreement.patience,
            all_needed=True,
        )
        forgotten = frozenset(owners.index(name) for name in planned.forgotten)
        return Centring(terms, own, journal, self._around, of=planned.steps, without=forgotten)

    def _around(self, sums: dict[int, np.ndarray]) -> Machine:
        self.planned = self.planned.centred(sums)
        return self._train(self.planned)
