"""A mixer as one owner sees it: whom it hears and whom it tells in each gossip step, and with which weight.

All owners' views together are what `mixing.mixer` computes at once. Where a link fails, two rules keep the sum over
owners; which one applies is the topology's and the protocol's:

    balanced   W symmetric and doubly stochastic: a step moves a w_ij (x_j - x_i) over each link, the same both ways
               with opposite signs. A link that is down at both ends moves nothing; an end that missed it makes it up.
    directed   W column-stochastic: a sender's shares add up to what it had; a share that is late is added when it
               comes. Only where messages carry their own weight (push-sum) does that leave the average right.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.topologies import gossip, mixing
from coterie.topologies.topology import Topology
from coterie.topologies.weights import Edges


class Hop(NamedTuple):
    """One gossip step of one owner: x⁺ = x + pull · (Σ_j hears_j (x_j − x)) + momentum · (x − x⁻) where balanced,
    x⁺ = keep · x + Σ_j hears_j x_j where directed."""

    hears: dict[int, float]  # weight of each other owner's value
    tells: dict[int, float]  # who takes this owner's value in, and with which weight
    keep: float  # weight of its own value
    pull: float  # a
    momentum: float  # c
    gain: float  # what one unit that enters the owners' sum in this step is worth at the round's end


@dataclass(frozen=True)
class Neighbourhood:
    """All gossip steps of one owner. Steps of a round are counted from 0, rounds from 1."""

    gossip_steps: int  # in a round
    balanced: bool
    hops: tuple[Hop, ...]  # one after the other, repeated for ever
    joined: int  # the first place whose value has everyone's first value in it: nobody gets there before all have come

    def hop(self, place: int) -> Hop:
        """The gossip step at this place, counted from 0 over all rounds."""
        return self.hops[place % len(self.hops)]

    @property
    def peers(self) -> tuple[int, ...]:
        """Everyone the owner ever hears or tells."""
        return tuple(sorted({peer for hop in self.hops for peer in (*hop.hears, *hop.tells)}))

    def without(self, gone: Collection[int]) -> Neighbourhood:
        """Where some owners will not come back and all others know: the weight of each link to them stays at this end.

        So both rules hold among the others: W is symmetric and doubly stochastic where it was, and a sender's shares
        add up to what it had, so that nothing drains away into those who are gone.
        """
        return replace(self, hops=tuple(_without(hop, gone) for hop in self.hops))


def neighbourhood(
    topology: Topology, owner: int, gossip_steps: int = 1, accelerate: bool = True
) -> Neighbourhood:
    """The owner's part in `mixing.mixer(topology, gossip_steps, accelerate)`.

    >>> from coterie.topologies import build
    >>> sorted(neighbourhood(build("ring", 5), 0).hop(0).tells)
    [1, 4]
    """
    refuse_averaging(topology)
    if _check.count("gossip_steps", gossip_steps) > 1 and mixing.is_average(topology):
        gossip_steps = 1  # everyone has the mean after one
    balanced = topology.is_symmetric and topology.is_doubly_stochastic
    numbers = np.tile([1.0, 0.0], (gossip_steps, 1))
    if accelerate and gossip.accelerates(topology, gossip_steps):
        numbers = gossip.chebyshev(topology, gossip_steps)
    gains = _gains(numbers[:, 1])
    repeat = np.lcm(topology.period, gossip_steps)
    views = [_view(edges, owner) for edges in topology.schedule]
    hops = [
        Hop(*views[place % topology.period], *map(float, numbers[k]), gain=float(gains[k]))
        for place in range(repeat)
        for k in (place % gossip_steps,)
    ]
    return Neighbourhood(gossip_steps, balanced, tuple(hops), _joined(topology, owner))


def refuse_averaging(topology: Topology) -> None:
    """InputError where everybody would have to talk to everybody, and they are too many for that."""
    if topology.averages:
        raise InputError(
            f"topology={topology.name!r}: real owners cannot each talk to {topology.owners - 1:,} others. "
            "Use 'exponential' or 'random_regular'."
        )


def _joined(topology: Topology, owner: int) -> int:
    """How many steps it takes until something of everyone has reached the owner."""
    _ = topology.window  # an error if it never does
    reached = np.eye(topology.owners, dtype=bool)  # [target, source]
    place = 0
    while not reached[owner].all():
        edges = topology.schedule[place % topology.period]
        live = edges.weight > 0
        before = reached.copy()
        np.logical_or.at(reached, edges.target[live], before[edges.source[live]])
        place += 1
    return place


def _without(hop: Hop, gone: Collection[int]) -> Hop:
    withheld = sum(weight for peer, weight in hop.tells.items() if peer in gone)
    hears, tells = (
        {owner: weight for owner, weight in links.items() if owner not in gone}
        for links in (hop.hears, hop.tells)
    )
    return hop._replace(hears=hears, tells=tells, keep=hop.keep + withheld)


def _view(edges: Edges, owner: int) -> tuple[dict[int, float], dict[int, float], float]:
    live = edges.weight > 0
    heard = live & (edges.target == owner) & (edges.source != owner)
    sent = live & (edges.source == owner) & (edges.target != owner)
    own = edges.weight[(edges.source == owner) & (edges.target == owner)].sum()
    hears = dict(zip(edges.source[heard].tolist(), edges.weight[heard].tolist()))
    tells = dict(zip(edges.target[sent].tolist(), edges.weight[sent].tolist()))
    return hears, tells, float(own)


def _gains(momentum: np.ndarray) -> np.ndarray:
    """g_k = 1 + c_{k+1} (1 + c_{k+2} (1 + …)): momentum carries on what enters the owners' sum in step k."""
    gains = np.ones(len(momentum))
    for k in range(len(momentum) - 2, -1, -1):
        gains[k] = 1.0 + momentum[k + 1] * gains[k + 1]
    return gains
