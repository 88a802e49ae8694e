"""The network as plain values: owners as discs with areas by size, and links, or a hub in the middle."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from coterie.reports.amounts import many
from coterie.reports.reading import Reported
from coterie.reports.written import WrittenNetwork
from coterie.units import counted

_SIDE = 360.0  # of the picture
_MANY, _LARGE = 60, 720.0  # owners: beyond, the picture has the larger side
_MARGIN = 26.0
_LARGEST = 19.0  # radius of a disc
_SMALLEST = 2.5
NUMBERED = 40  # the most owners whose numbers fit
_DENSE = 200  # links beyond which they are drawn finer
MOST = 1_000  # the most owners that are drawn


class Disc(NamedTuple):
    """An owner; `label`: where its number stands, in the disc or just outside; None where numbers no longer fit."""

    title: str
    number: int
    x: float
    y: float
    r: float
    label: tuple[float, float, bool] | None  # `bool`: inside


def network(run: Reported) -> dict[str, Any] | None:
    """The picture's values; None where there are too many owners or links to draw."""
    links, names = run.network, run.names
    if links.links is None or len(names) > MOST:
        return None
    at = placed(links, run.sizes)
    places, middle = at.places.tolist(), [at.side / 2, at.side / 2]
    pairs = [(places[first], places[second]) for first, second in links.links]
    if links.hub:
        pairs = [(place, middle) for place in places]
    spoken = links.hub or f"{links.topology} of {many(links.number_of_links, 'link')}"
    kinds = ["network", *["large"] * (at.side > _SIDE), *["dense"] * at.dense]
    return {
        "kind": " ".join(kinds),
        "side": at.side,
        "top": at.top,
        "height": at.height,
        "described": f"{many(len(names), 'owner')} and their links: {spoken}",
        "lines": [(*start, *end) for start, end in pairs],
        "discs": _discs(at, run),
        "hub": links.hub,
    }


class Placed(NamedTuple):
    """Owners' places in a square, and the sizes of their discs."""

    side: float
    places: np.ndarray  # (owners, 2)
    radii: np.ndarray  # (owners,) areas as the sizes
    top: float  # the upper edge of the drawing
    height: float
    dense: bool  # whether links are many, and drawn finer


def placed(links: WrittenNetwork, sizes: tuple[int, ...]) -> Placed:
    """The places and sizes of a picture."""
    side = _SIDE if len(sizes) <= _MANY else _LARGE
    places = (side / 2 + (side / 2 - _MARGIN) * layout(links, len(sizes))).round(1)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    apart[np.diag_indices(len(places))] = np.inf
    # The largest just fits between its neighbours.
    room = min(_LARGEST, 0.44 * float(np.median(apart.min(1)))) if len(places) > 1 else _LARGEST
    radii = np.maximum(max(room, _SMALLEST) * np.sqrt(np.array(sizes) / max(sizes)), _SMALLEST)
    top, height = 0.0, side
    if len(places) > 1:
        low, high = places[:, 1].min() - _MARGIN, places[:, 1].max() + _MARGIN
        height = max(high - low, side / 3)  # some space where owners are side by side
        top = round((low + high - height) / 2, 1)
    dense = links.number_of_links > _DENSE or len(sizes) > _DENSE
    return Placed(side, places, radii.round(1), top, round(height, 1), dense)


def layout(links: WrittenNetwork, owners: int) -> np.ndarray:
    """(owners, 2) places within [-1, 1]: a grid for a torus, rays for a star or hub, a circle, or springs."""
    if owners == 1:
        return np.array([[0.0, 0.8 if links.hub else 0.0]])
    if owners == 2:  # side by side
        return np.array([[-0.6, 0.0], [0.6, 0.0]])
    if links.topology == "torus":
        return _grid(owners)
    around = owners - 1 if links.topology == "star" else owners
    angle = 2 * math.pi * np.arange(around) / around
    circle = np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    if links.topology == "star":
        return np.concatenate([np.zeros((1, 2)), circle])
    if links.hub or links.topology in ("ring", "complete", "exponential", "one_peer_exponential"):
        return circle
    return _springs(links, circle)


def _grid(owners: int) -> np.ndarray:
    """The grid nearest to a square with exactly so many places, as the torus is built."""
    rows = next(divisor for divisor in range(math.isqrt(owners), 0, -1) if owners % divisor == 0)
    columns = owners // rows
    across, down = np.arange(owners) % columns, np.arange(owners) // columns
    middle = np.array([(columns - 1) / 2, (rows - 1) / 2])
    return (np.stack([across, down], axis=1) - middle) / max(middle.max(), 1.0)


def _springs(links: WrittenNetwork, circle: np.ndarray) -> np.ndarray:
    """The places that springs along the links lead to, from a circle."""
    import networkx as nx

    owners = len(circle)
    graph = nx.empty_graph(owners)
    graph.add_edges_from(links.links or ())
    start = dict(enumerate(circle))
    positions = nx.spring_layout(graph, pos=start, iterations=60, seed=0)
    places = np.array([positions[at] for at in range(owners)])
    places -= (places.max(0) + places.min(0)) / 2
    return places / max(np.abs(places).max(), 1e-9)


def _discs(placed: Placed, run: Reported) -> list[Disc]:
    numbered, middle, drawn = len(run.names) <= NUMBERED, placed.side / 2, []
    for at, ((x, y), radius) in enumerate(zip(placed.places.tolist(), placed.radii.tolist())):
        number, label = run.numbers[at], None
        title = f"{number} {run.names[at]}: {counted(run.sizes[at], run.privacy.unit)}"
        if numbered and radius >= 4 + 3.5 * len(str(number)):
            label = (x, y, True)
        elif numbered:
            length = math.hypot(x - middle, y - middle)
            across, down = ((x - middle) / length, (y - middle) / length) if length > 1 else (0.0, -1.0)
            label = (round(x + across * (radius + 9), 1), round(y + down * (radius + 9), 1), False)
        drawn.append(Disc(title, number, x, y, radius, label))
    return drawn
