"""The topologies by name, with weights that suit them, and the one function that builds any of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.registry import MARK, Registry
from coterie.topologies import graphs
from coterie.topologies.topology import Topology, from_graphs
from coterie.topologies.weights import WEIGHTS, Edges

if TYPE_CHECKING:
    import networkx as nx

_NO_LINKS = Edges(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
_TRIES = 100  # draws of a static random graph until one is connected


def build(
    name: str | Path, owners: int, seed: int = 0, *, names: Sequence[str] = (), **options: Any
) -> Topology:
    """A topology by its name in `TOPOLOGIES`, or from an edge list or GraphML file, which may call owners by `names`.

    What was registered from outside is called with the owners, and with `seed` if it has an argument of that name; it
    gives a networkx graph, several in turn, or a `Topology`.

    >>> build("ring", 20).spectral_gap > build("ring", 40).spectral_gap
    True
    """
    _check.count("owners", owners)
    _check.count("seed", seed, least=0)
    called = name if isinstance(name, str) else str(name)
    if called in TOPOLOGIES or called.startswith(MARK):
        builder = TOPOLOGIES.find(called)
    elif Path(name).suffix.lower() in graphs.SUFFIXES:
        builder, called = partial(_file, Path(name), tuple(names)), Path(name).stem
    else:
        raise InputError(
            f"topology={str(name)!r}: unknown. Choose one of: {', '.join(sorted(TOPOLOGIES))}; "
            f"or a file ending in {', '.join(graphs.SUFFIXES)}.{_check.meant(name, TOPOLOGIES)}"
        )
    parameters = inspect.signature(builder).parameters
    known = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in set(options) - set(known):
        raise InputError(
            f"{option}={options[option]!r}: topology {str(name)!r} has no such option. "
            f"It has: {', '.join(known) or 'none'}."
        )
    drawn = {"seed": seed} if "seed" in parameters else {}
    made = builder(owners, **drawn, **options)
    return made if TOPOLOGIES.is_own(called) else _fitting(called, made, owners)


def _fixed(draw: Callable[[int], graphs.Graph], owners: int, *, weights: str = "metropolis") -> Topology:
    """Every weighting of a complete graph is the mean, which needs no list of links."""
    if draw is graphs.complete and owners > graphs.COMPLETE_LIMIT:
        _check.one_of("weights", weights, WEIGHTS)
        return Topology("complete", owners, (_NO_LINKS,), directed=False, averages=True)
    return from_graphs(draw.__name__, [draw(owners)], weights)


def _exponential(owners: int, *, directed: bool = True, weights: str | None = None) -> Topology:
    """Directed: every owner splits alike, so that column-stochastic weights are doubly stochastic."""
    return from_graphs("exponential", [graphs.exponential(owners, directed)], weights)


def _one_peer_exponential(owners: int) -> Topology:
    return from_graphs("one_peer_exponential", graphs.one_peer_exponential(owners), "column_stochastic")


def _erdos_renyi(
    owners: int, seed: int, *, probability: float | None = None, period: int = 1, weights: str = "metropolis"
) -> Topology:
    """The default probability is 2 ln(owners) / owners, twice what connects almost all graphs."""
    likely = min(1.0, 2.0 * math.log(max(owners, 3)) / owners)
    draw = partial(graphs.erdos_renyi, owners, likely if probability is None else probability)
    return _drawn("erdos_renyi", draw, period, seed, weights)


def _random_regular(
    owners: int, seed: int, *, degree: int | None = None, period: int = 1, weights: str = "metropolis"
) -> Topology:
    """The default degree is 4, or what few owners allow."""
    draw = partial(graphs.random_regular, owners, min(4, owners - 1) if degree is None else degree)
    return _drawn("random_regular", draw, period, seed, weights)


def _random_matching(owners: int, seed: int, *, period: int = 64) -> Topology:
    """A new pairing in every round. Any 3 in a row connected 1,000 owners at seed 0; checks compute it."""
    draw = partial(graphs.random_matching, owners)
    drawn = [draw(seed=s) for s in _seeds(seed, _check.count("period", period))]
    return from_graphs("random_matching", drawn, "metropolis")


def _drawn(name: str, draw: Callable[..., nx.Graph], period: int, seed: int, weights: str) -> Topology:
    """A random schedule: `period` graphs drawn in advance. A static one is redrawn until connected."""
    if _check.count("period", period) > 1:
        return from_graphs(name, [draw(seed=s) for s in _seeds(seed, period)], weights)
    for s in _seeds(seed, _TRIES):
        graph = draw(seed=s)
        if graphs.is_connected(graph):
            return from_graphs(name, [graph], weights)
    raise InputError(
        f"topology={name!r}: no connected one in {_TRIES} draws (seed={seed}). Raise probability or degree."
    )


def _seeds(seed: int, count: int) -> list[int]:
    return np.random.SeedSequence(seed).generate_state(count).tolist()


def _file(
    path: Path,
    names: tuple[str, ...],
    owners: int,
    *,
    directed: bool | None = None,
    weights: str | None = None,
) -> Topology:
    return from_graphs(path.stem, [graphs.from_file(path, owners, directed, names)], weights)


_OWN: dict[str, Callable[..., Topology]] = {  # name -> builder(owners, **options), with a seed where it draws
    **{
        draw.__name__: partial(_fixed, draw)
        for draw in (graphs.ring, graphs.torus, graphs.star, graphs.complete)
    },
    "exponential": _exponential,
    "one_peer_exponential": _one_peer_exponential,
    "erdos_renyi": _erdos_renyi,
    "random_regular": _random_regular,
    "random_matching": _random_matching,
}


def _builder(name: str, thing: Any) -> Callable[..., Any]:
    """What makes the topology: a function; or nothing but a graph, or several, or a topology."""
    if callable(thing):
        return thing
    _fitting(name, thing, None)
    return lambda owners: thing


def _fitting(name: str, built: Any, owners: int | None) -> Topology:
    """What a builder made, as a topology of that name; for as many owners, where that is known already."""
    several = built if isinstance(built, (list, tuple)) else [built]
    if isinstance(built, Topology):
        topology = built if built.name == name else replace(built, name=name)
    elif several and all(
        isinstance(graph, graphs.LinkList) or hasattr(graph, "is_directed") for graph in several
    ):
        topology = from_graphs(name, several)
    else:
        raise InputError(
            f"topology={name!r}: is a {type(built).__name__}; must be a networkx graph, a list of them, a Topology, or "
            "a function (owners) that makes one of these."
        )
    if owners is not None and topology.owners != owners:
        raise InputError(
            f"topology={name!r}: has {topology.owners} owners, and {owners} take part. Give one for these."
        )
    return topology


TOPOLOGIES: Registry[Callable[..., Any]] = Registry("topology", "coterie.topologies", _builder, _OWN)
