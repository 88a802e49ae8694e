"""What an owner of rounds knows of the run and of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coterie.federation.transport.machine import Patience
from coterie.federation.transport.wire import Kind, Message, Refused
from coterie.topologies.neighbourhood import Neighbourhood


@dataclass
class Peer:
    """What an owner knows of a neighbour. Kept in memory only."""

    heard: float = -np.inf  # when it last said anything
    newest: int = -1  # the highest place of its values so far
    absent: bool = False  # gone on without; until it tells something new
    asked: dict[int, float] = field(default_factory=dict)  # place -> when

    def due(self, places: Sequence[int], now: float, every: float) -> list[int]:
        """The places that are due to be asked for (again); they are noted as asked for."""
        wanted = [place for place in places if now - self.asked.get(place, -np.inf) >= every]
        self.asked |= dict.fromkeys(wanted, now)
        return wanted


class RoundsTerms(NamedTuple):
    """What the agreement says of a run in rounds."""

    names: Sequence[str]  # of all owners
    view: Neighbourhood
    rounds: int
    debiased: bool  # messages carry their own weight
    patience: Patience

    def place_of(self, message: Message) -> int:
        """The gossip step that a message is about; Refused where the run has none such."""
        gossip = self.view.gossip_steps
        if message.kind not in (Kind.VALUE, Kind.WANT, Kind.REFUSAL):
            raise Refused(f"{message.kind.name}: not in a protocol of rounds")
        if not (1 <= message.step <= self.rounds and message.sub < gossip):
            raise Refused("no such round")
        return (message.step - 1) * gossip + message.sub

    def called(self, owners: Sequence[int]) -> str:
        """Owners by name."""
        return ", ".join(self.names[owner] for owner in owners)
