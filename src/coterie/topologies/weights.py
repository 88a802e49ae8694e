"""How much of each message a receiver takes in: graphs to sparse weighted edge lists.

One convention everywhere: an edge (source, target, weight) adds weight × the source's message to what the
target receives, and every owner has an edge to itself. So W[target, source] = weight; *columns* are senders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.topologies.graphs import LinkList


class Edges(NamedTuple):
    """One mixing matrix as an edge list, sorted by target, then source."""

    source: np.ndarray  # (edges,) int32
    target: np.ndarray  # (edges,) int32
    weight: np.ndarray  # (edges,) float64


# Of a link, 1 over 1 and this number of links: made of those that its source and its target send over. The first two
# make W symmetric and doubly stochastic; the last splits a sender's message evenly, over any digraph.
WEIGHTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "metropolis": np.maximum,
    "uniform": lambda source, target: np.full_like(source, source.max(initial=0)),  # I - L / (1 + d_max)
    "column_stochastic": lambda source, target: source,
}


def weighted(graph: LinkList, weights: str) -> Edges:
    """The links between different owners with these of `WEIGHTS`, and what each sender keeps for itself, so that its
    column sums to one.

    >>> path = LinkList(3, ((0, 1), (1, 2)))
    >>> weighted(path, "metropolis").weight.round(2).tolist()
    [0.67, 0.33, 0.33, 0.33, 0.33, 0.33, 0.67]
    >>> arrows = LinkList(3, ((0, 1), (0, 2), (1, 0), (2, 0)), directed=True)
    >>> weighted(arrows, "column_stochastic").weight.round(2).tolist()
    [0.33, 0.5, 0.5, 0.33, 0.5, 0.33, 0.5]
    """
    among = WEIGHTS[_check.one_of("weights", weights, WEIGHTS)]
    if graph.directed and weights != "column_stochastic":
        raise InputError(
            f"weights={weights!r}: needs an undirected graph. Use weights='column_stochastic' for directed ones."
        )
    pairs = np.asarray(graph.links, np.int32).reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]  # a self-loop says nothing: everyone hears itself
    if not graph.directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    source, target = pairs.T
    sent = np.bincount(source, minlength=graph.owners)
    weight = 1.0 / (1.0 + among(sent[source], sent[target]))
    kept = 1.0 - np.bincount(source, weights=weight, minlength=graph.owners)
    self_ = np.arange(graph.owners, dtype=np.int32)
    source, target = np.concatenate([source, self_]), np.concatenate([target, self_])
    order = np.lexsort((source, target))
    return Edges(source[order], target[order], np.concatenate([weight, kept])[order])
