"""Trees of a topology: who hands what to whom when a sum goes up to a root and down again.

>>> ring = graph_of([(0, 1), (1, 2), (2, 3), (0, 3)], 4)
>>> spanning(ring, {0, 1, 2, 3}, 0).parent
{1: 0, 3: 0, 2: 1}
>>> sorted(spanning(ring, {0, 1, 2}, 2).height.items())  # without 3 the ring is a path
[(0, 0), (1, 1), (2, 2)]
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple, TypeAlias

Graph: TypeAlias = tuple[tuple[int, ...], ...]  # each owner's neighbours, in order


class Tree(NamedTuple):
    """A breadth-first tree over those whom the root reaches."""

    parent: dict[int, int]  # of all but the root
    children: dict[int, tuple[int, ...]]
    height: dict[int, int]  # links to the farthest owner below


def graph_of(links: Iterable[tuple[int, int]], owners: int) -> Graph:
    """The graph of pairs that may talk, in either direction."""
    pairs = [(int(low), int(high)) for low, high in links]
    ends = [*pairs, *((high, low) for low, high in pairs)]
    return tuple(tuple(sorted({to for at, to in ends if at == owner})) for owner in range(owners))


def spanning(graph: Graph, members: Set[int], root: int) -> Tree:
    """The tree of members and root, the same for all: nearest first, neighbours in the agreement's order."""
    parent: dict[int, int] = {}
    order = [root]
    for owner in order:
        for peer in graph[owner]:
            if peer in members and peer != root and peer not in parent:
                parent[peer] = owner
                order.append(peer)
    children = {owner: tuple(peer for peer in order[1:] if parent[peer] == owner) for owner in order}
    height: dict[int, int] = {}
    for owner in reversed(order):
        height[owner] = max((height[child] + 1 for child in children[owner]), default=0)
    return Tree(parent, children, height)


def distances(graph: Graph, root: int) -> dict[int, int]:
    """How many links away each reachable owner is."""
    parent = spanning(graph, set(range(len(graph))), root).parent
    links = {root: 0}
    for owner, before in parent.items():
        links[owner] = links[before] + 1
    return links
