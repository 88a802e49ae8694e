"""A topology: who hears whom with which weight, in every step of a schedule. Its properties are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.topologies import graphs as graphs_
from coterie.topologies import spectrum
from coterie.topologies.weights import Edges, weighted

if TYPE_CHECKING:
    from coterie.topologies.graphs import Graph

_TOLERANCE = 1e-9  # on sums of float64 weights


@dataclass(frozen=True, eq=False)
class Topology:
    """A schedule of mixing matrices as edge lists; step t (from 1) uses `schedule[(t - 1) % period]`."""

    name: str
    owners: int
    schedule: tuple[Edges, ...]
    directed: bool
    averages: bool = False  # every step is the mean of all owners, too many for its edges to be listed
    period: int = field(
        init=False
    )  # number of steps after which the schedule repeats; 1 for a static topology

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", len(self.schedule))
        _check.count("owners", self.owners)
        _check.count("steps in the schedule", self.period)
        for edges in self.schedule:
            ends = np.concatenate([edges.source, edges.target])
            if ends.min(initial=0) < 0 or ends.max(initial=0) >= self.owners:
                raise InputError(
                    f"topology={self.name!r}: names an owner outside 0 … {self.owners - 1}. Renumber them."
                )
            if not (np.isfinite(edges.weight).all() and (edges.weight >= -_TOLERANCE).all()):
                raise InputError(
                    f"topology={self.name!r}: has a negative or infinite weight. Weights must be >= 0."
                )

    def __repr__(self) -> str:
        return f"<Topology {self.name}: {self.owners} owners, {self.period} in turn>"

    @cached_property
    def sums(self) -> dict[str, tuple[float, float]]:
        """Smallest and largest total weight that an owner receives ("row") and sends ("column")."""
        if self.averages:
            return {"row": (1.0, 1.0), "column": (1.0, 1.0)}
        ends = {
            "row": [np.bincount(e.target, e.weight, self.owners) for e in self.schedule],
            "column": [np.bincount(e.source, e.weight, self.owners) for e in self.schedule],
        }
        return {which: (float(np.min(totals)), float(np.max(totals))) for which, totals in ends.items()}

    @cached_property
    def is_column_stochastic(self) -> bool:
        """Whether mass is conserved: what an owner sends, itself included, adds up to one."""
        return bool(np.allclose(self.sums["column"], 1.0, rtol=0, atol=_TOLERANCE))

    @cached_property
    def is_doubly_stochastic(self) -> bool:
        """Whether mixing keeps the owners' mean and leaves an agreement as it is."""
        return bool(np.allclose(list(self.sums.values()), 1.0, rtol=0, atol=_TOLERANCE))

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every link carries the same weight both ways, in every step, up to rounding."""
        for edges in self.schedule:
            turned = np.lexsort((edges.target, edges.source))  # the transpose, sorted as the original is
            back = (edges.target[turned], edges.source[turned])
            if not np.array_equal((edges.source, edges.target), back) or not np.allclose(
                edges.weight, edges.weight[turned], rtol=0, atol=spectrum.ZERO
            ):
                return False
        return True

    @cached_property
    def is_static_gossip(self) -> bool:
        """Whether it is one symmetric, doubly stochastic W in every step: its eigenvalues tell all."""
        return self.period == 1 and self.is_symmetric and self.is_doubly_stochastic

    @cached_property
    def window(self) -> int:
        """Smallest B such that any B consecutive graphs are strongly connected together; an error if none."""
        if self.averages:
            return 1
        if not spectrum.connected(self.schedule, self.owners):
            apart = spectrum.groups(self.schedule, self.owners)
            raise InputError(
                f"topology={self.name!r}: disconnected; {self.owners} owners fall into {apart} groups over "
                f"a period of {self.period}. Add links, or raise probability, degree or period."
            )
        low, high, endless = 0, self.period, (*self.schedule, *self.schedule)
        while high - low > 1:  # a longer window contains a shorter one, so bisection is exact
            middle = (low + high) // 2
            every = all(spectrum.connected(endless[s : s + middle], self.owners) for s in range(self.period))
            low, high = (low, middle) if every else (middle, high)
        return high

    @cached_property
    def eigenvalue_range(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of a static symmetric W beside the 1 of the mean."""
        if self.averages or self.owners == 1:
            return 0.0, 0.0
        all_of_them = spectrum.values(self.schedule[0], self.owners)
        if all_of_them is None:
            return spectrum.extremes(self.schedule[0], self.owners)
        return float(all_of_them[0]), float(all_of_them[-1])

    @cached_property
    def spectral_gap(self) -> float:
        """1 - the factor a step leaves of a disagreement, averaged (geometrically) over a period.

        Static and doubly stochastic: 1 - the second largest singular value of W. Not doubly stochastic
        (push-sum): eigenvalue moduli instead. Zero when the owners never agree.
        """
        if self.is_static_gossip:
            low, high = self.eigenvalue_range
            return float(np.clip(1.0 - max(abs(low), abs(high)), 0.0, 1.0))
        measure = spectrum.product_norm if self.is_doubly_stochastic else spectrum.product_rate
        left = measure(self.schedule, self.owners)
        return float(np.clip(1.0 - left ** (1.0 / self.period), 0.0, 1.0))

    @property
    def links(self) -> np.ndarray:
        """(links, 2) pairs of owners that ever talk, smaller number first, each once; none where all average."""
        pairs = np.concatenate([np.stack([e.source, e.target], axis=1)[e.weight > 0] for e in self.schedule])
        pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
        return np.unique(pairs, axis=0)


def from_graphs(name: str, graphs: Sequence[Graph], weights: str | None = None) -> Topology:
    """A topology from one networkx graph (static) or several in turn (periodic), on the same owners.

    Without `weights`: Metropolis for undirected graphs, column-stochastic for directed ones.

    >>> import networkx as nx
    >>> from_graphs("path", [nx.path_graph(4)]).is_doubly_stochastic
    True
    """
    _check.count(f"graphs of topology {name!r}", len(graphs))
    lists = [graphs_.in_order(graph) for graph in graphs]
    if len(sizes := sorted({links.owners for links in lists})) > 1:
        raise InputError(
            f"topology={name!r}: its graphs have {sizes} owners. Use the same owners in every step."
        )
    directed = any(links.directed for links in lists)
    weights = weights or ("column_stochastic" if directed else "metropolis")
    return Topology(name, sizes[0], tuple(weighted(links, weights) for links in lists), directed)


def check_gossip(topology: Topology) -> Topology:
    """Return a topology that gossip averaging may use: symmetric, doubly stochastic, connected."""
    if not topology.is_doubly_stochastic:
        which = "row" if topology.is_column_stochastic else "column"
        low, high = topology.sums[which]
        raise InputError(
            f"topology={topology.name!r}: {which} sums of W are in [{low:.3g}, {high:.3g}]; gossip needs 1. "
            "Use weights='metropolis' on an undirected graph, or the push-sum protocol."
        )
    if not topology.is_symmetric:
        raise InputError(
            f"topology={topology.name!r}: W is not symmetric; gossip needs links both ways. "
            "Use an undirected graph (directed=false), or the push-sum protocol."
        )
    _ = topology.window
    return topology


def check_push_sum(topology: Topology) -> Topology:
    """Return a topology that push-sum may use: column-stochastic and strongly connected over a period."""
    if not topology.is_column_stochastic:
        low, high = topology.sums["column"]
        raise InputError(
            f"topology={topology.name!r}: column sums of W are in [{low:.3g}, {high:.3g}]; push-sum needs 1. "
            "Use weights='column_stochastic'."
        )
    _ = topology.window
    return topology
