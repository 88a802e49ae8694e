"""Who may talk to whom: graphs on the owners 0 … owners-1, built or read from a file.

Networkx draws, reads and compares graphs, and is imported where it is used. A node of a real network seldom needs it,
and would hold its memory as long as it runs: graphs that are only a list of links are `LinkList`, and made without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from coterie import _check
from coterie.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

    Graph: TypeAlias = "nx.Graph | LinkList"  # a DiGraph is a Graph; node labels are 0 … owners-1

COMPLETE_LIMIT = 1024  # owners; above it nobody lists the half million links of a complete graph
_SEPARATORS = {".txt": None, ".edgelist": None, ".csv": ","}
SUFFIXES = (*_SEPARATORS, ".graphml")


@dataclass(frozen=True)
class LinkList:
    """A list of links between owners 0 … owners-1: all that weights are made of."""

    owners: int
    links: tuple[tuple[int, int], ...]  # each once; (source, target) where directed
    directed: bool = False


def _plain(owners: int, links: Iterable[tuple[int, int]], directed: bool = False) -> LinkList:
    """Links as they come, each once: undirected, (1, 0) is (0, 1) again."""
    ordered = (
        (source, target) if directed else (min(source, target), max(source, target))
        for source, target in links
    )
    return LinkList(_check.count("owners", owners), tuple(dict.fromkeys(ordered)), directed)


def _ahead(owners: int, shifts: Iterable[int], directed: bool) -> LinkList:
    """Everyone linked to who is so many places ahead of it."""
    places = range(_check.count("owners", owners))
    return _plain(owners, ((i, (i + shift) % owners) for shift in shifts for i in places), directed)


def ring(owners: int) -> LinkList:
    """Each owner and its two neighbours on a circle."""
    return _plain(owners, ((owner, (owner + 1) % owners) for owner in range(owners) if owners > 1))


def torus(owners: int) -> LinkList:
    """A grid that wraps around, as square as the number of owners allows (a ring where it is prime)."""
    rows = max(r for r in range(1, math.isqrt(_check.count("owners", owners)) + 1) if owners % r == 0)
    if rows == 1:
        return ring(owners)
    columns = owners // rows
    along = ((at, at - at % columns + (at + 1) % columns) for at in range(owners))
    across = ((at, (at + columns) % owners) for at in range(owners))
    return _plain(owners, (*along, *across))


def star(owners: int) -> LinkList:
    """Owner 0 in the middle, linked to everyone else."""
    return _plain(owners, ((0, owner) for owner in range(1, _check.count("owners", owners))))


def complete(owners: int) -> LinkList:
    """Everyone linked to everyone."""
    if _check.count("owners", owners) > COMPLETE_LIMIT:
        raise InputError(
            f"owners={owners}: a complete graph's links are listed for {COMPLETE_LIMIT} owners at most. "
            "Use topologies.build('complete', owners), which averages without a list."
        )
    return _plain(owners, combinations(range(owners), 2))


def exponential(owners: int, directed: bool = True) -> LinkList:
    """Each owner sends to the owners 1, 2, 4, 8, … places ahead (and back, if not directed)."""
    return _ahead(owners, _powers(owners), directed)


def one_peer_exponential(owners: int) -> list[LinkList]:
    """The exponential graph one link at a time: in round k owner i sends to i + 2^(k mod period).

    >>> [graph.links[0] for graph in one_peer_exponential(6)]
    [(0, 1), (0, 2), (0, 4)]
    """
    return [_ahead(owners, [shift] if shift else [], directed=True) for shift in _powers(owners) or [0]]


def erdos_renyi(owners: int, probability: float, seed: int) -> nx.Graph:
    """Each pair of owners is linked independently with the given probability."""
    import networkx as nx

    if not 0 < probability <= 1:
        raise InputError(f"probability={probability}: must be > 0 and <= 1.")
    return nx.fast_gnp_random_graph(_check.count("owners", owners), probability, seed=seed)


def random_regular(owners: int, degree: int, seed: int) -> nx.Graph:
    """A graph drawn uniformly from those in which every owner has `degree` links."""
    import networkx as nx

    if not 0 <= degree < _check.count("owners", owners):
        raise InputError(f"degree={degree}: must be >= 0 and below owners={owners}.")
    if degree * owners % 2:
        raise InputError(
            f"degree={degree}: times owners={owners} must be even. Use degree={degree - 1} or {degree + 1}."
        )
    return nx.random_regular_graph(degree, owners, seed=seed)


def random_matching(owners: int, seed: int) -> nx.Graph:
    """Owners paired at random; with an odd number one stays alone."""
    import networkx as nx

    graph = nx.empty_graph(_check.count("owners", owners))
    order = np.random.default_rng(seed).permutation(owners).tolist()
    graph.add_edges_from(zip(order[0::2], order[1::2], strict=False))
    return graph


def from_file(
    path: str | Path, owners: int, directed: bool | None = None, names: Sequence[str] = ()
) -> LinkList:
    """A graph read from an edge list (.txt, .edgelist, .csv: two names a line) or from GraphML.

    `directed=None` believes GraphML, and takes an edge list as undirected. `names`: the owners', in their order, by
    which the file may call them; else by numbers, from 0 or from 1. Without `names` labels are sorted.
    """
    import networkx as nx

    path = Path(path)
    _check.one_of("topology file ending", path.suffix.lower(), SUFFIXES)
    if not path.is_file():
        raise InputError(
            f"topology={str(path)!r}: no such file. Give the path of an edge list or GraphML file."
        )
    graph = _read(path)
    directed = graph.is_directed() and path.suffix.lower() == ".graphml" if directed is None else directed
    plain: nx.Graph = nx.DiGraph(graph) if directed else nx.Graph(graph)  # also merges parallel edges
    if len(plain) != _check.count("owners", owners):
        raise InputError(
            f"topology={str(path)!r}: has {len(plain)} owner{'s' * (len(plain) != 1)}, the run has {owners}. Make "
            "them equal (a header line counts as a link: start it with #; an owner without links cannot appear)."
        )
    return _by_name(plain, names, str(path)) if names else in_order(plain)


def _by_name(graph: nx.Graph, names: Sequence[str], source: str) -> LinkList:
    """The same graph on 0 … owners-1: a label is an owner's name, or all of them are numbers from 0 or from 1."""
    import networkx as nx

    labels = [str(label) for label in graph.nodes]
    place = {name: at for at, name in enumerate(names)}
    if unknown := [label for label in labels if label not in place]:
        for first in (0, 1):
            numbers = {str(at + first): at for at in range(len(names))}
            if set(labels) == set(numbers):
                place, unknown = numbers, []
    if unknown:
        raise InputError(
            f"topology={source!r}: {unknown[0]!r} is no owner. Call all of them by name ({', '.join(names[:5])}"
            f"{', …' * (len(names) > 5)}), or all by number, 0 to {len(names) - 1}."
        )
    return in_order(nx.relabel_nodes(graph, {label: place[str(label)] for label in graph.nodes}))


def in_order(graph: Graph) -> LinkList:
    """The same graph on 0 … owners-1, in the order of its labels: as numbers where all are, else as text."""
    if isinstance(graph, LinkList):
        return graph
    labels = list(graph.nodes)
    if labels != list(range(len(graph))):
        import networkx as nx

        try:
            labels.sort(key=int)
        except (ValueError, TypeError):
            labels.sort(key=str)
        renamed = nx.relabel_nodes(graph, {label: i for i, label in enumerate(labels)})
        graph = graph.__class__()
        graph.add_nodes_from(range(len(labels)))
        graph.add_edges_from(renamed.edges)
    return LinkList(len(graph), tuple(graph.edges()), graph.is_directed())


def is_connected(graph: nx.Graph) -> bool:
    """Whether everyone can reach everyone (along the arrows)."""
    import networkx as nx

    return nx.is_strongly_connected(graph) if isinstance(graph, nx.DiGraph) else nx.is_connected(graph)


def _powers(owners: int) -> list[int]:
    """1, 2, 4, … below owners: ⌊log₂(owners-1)⌋ + 1 of them, none for a single owner."""
    return [2**j for j in range((owners - 1).bit_length())]


def _read(path: Path) -> Any:
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        if path.suffix.lower() == ".graphml":
            return nx.read_graphml(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        separator = _SEPARATORS[path.suffix.lower()]
        graph = nx.parse_edgelist(lines, delimiter=separator, create_using=nx.DiGraph, data=False)
        return nx.relabel_nodes(graph, {label: str(label).strip() for label in graph})
    except (
        OSError,
        UnicodeDecodeError,
        ValueError,
        TypeError,
        KeyError,
        ParseError,
        nx.NetworkXError,
    ) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"topology={str(path)!r}: cannot be read ({reason}). Save it as an edge list or GraphML."
        ) from error
