"""How much of each message a receiver takes in: graphs to sparse weighted edge lists.

One convention everywhere: an edge (source, target, weight) adds weight × the source's message to what the
target receives, and every owner has an edge to itself. So W[target, source] = weight; *columns* are senders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.errors import InputError
from coterie.topologies.graphs import in_order

if TYPE_CHECKING:
    from coterie.topologies.graphs import Graph


class Edges(NamedTuple):
    """One mixing matrix as an edge list, sorted by target, then source."""

    source: np.ndarray  # (edges,) int32
    target: np.ndarray  # (edges,) int32
    weight: np.ndarray  # (edges,) float64


def metropolis(graph: Graph) -> Edges:
    """Weight 1 / (1 + the larger degree of the two); symmetric and doubly stochastic on any undirected graph.

    >>> import networkx as nx
    >>> metropolis(nx.path_graph(3)).weight.round(2).tolist()
    [0.67, 0.33, 0.33, 0.33, 0.33, 0.33, 0.67]
    """
    return _weighted(graph, np.maximum, "metropolis")


def uniform(graph: Graph) -> Edges:
    """Weight 1 / (1 + largest degree) on every link, I - L / (1 + d_max); symmetric, doubly stochastic."""
    return _weighted(graph, lambda source, target: np.full_like(source, source.max(initial=0)), "uniform")


def column_stochastic(graph: Graph) -> Edges:
    """Each sender splits its message evenly over its out-neighbours and itself; for any digraph.

    >>> import networkx as nx
    >>> column_stochastic(nx.DiGraph([(0, 1), (0, 2), (1, 0), (2, 0)])).weight.round(2).tolist()
    [0.33, 0.5, 0.5, 0.33, 0.5, 0.33, 0.5]
    """
    return _weighted(graph, lambda source, target: source)


WEIGHTS: dict[str, Callable[[Graph], Edges]] = {
    "metropolis": metropolis,
    "uniform": uniform,
    "column_stochastic": column_stochastic,
}


def _weighted(
    graph: Graph, among: Callable[[np.ndarray, np.ndarray], np.ndarray], undirected: str = ""
) -> Edges:
    """Links between different owners of weight 1 / (1 + `among`), a number of links made of those that source and
    target send over; and what each sender keeps for itself, so that its column sums to one.

    `undirected`: weights that need such a graph.
    """
    listed = in_order(graph)
    if undirected and listed.directed:
        raise InputError(
            f"weights={undirected!r}: needs an undirected graph. Use weights='column_stochastic' for directed ones."
        )
    pairs = np.asarray(listed.links, np.int32).reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]  # a self-loop says nothing: everyone hears itself
    if not listed.directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    source, target = pairs.T
    sent = np.bincount(source, minlength=listed.owners)
    weight = 1.0 / (1.0 + among(sent[source], sent[target]))
    kept = 1.0 - np.bincount(source, weights=weight, minlength=listed.owners)
    self_ = np.arange(listed.owners, dtype=np.int32)
    source, target = np.concatenate([source, self_]), np.concatenate([target, self_])
    order = np.lexsort((source, target))
    return Edges(source[order], target[order], np.concatenate([weight, kept])[order])
