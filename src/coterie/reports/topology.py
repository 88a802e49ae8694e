"""Who talks to whom, drawn: owners as discs whose areas are their sizes, links between them, or a hub amidst."""

from __future__ import annotations

import math

import numpy as np

from coterie.reports.markup import Markup, many, tag
from coterie.reports.reading import Network, Run

BOX = 360.0  # side of the picture
_MARGIN = 26.0
_LARGEST = 19.0  # radius of a disc
_SMALLEST = 2.5
_NUMBERED = 40  # owners beyond which numbers no longer fit
_DENSE = 200  # links beyond which they are drawn finer
_MOST = 1_000  # owners beyond which a picture shows nothing


def network(links: Network, run: Run) -> Markup:
    """The picture, or a sentence where there is too much to draw."""
    names, sizes = run.names, run.sizes
    if links.links is None or len(names) > _MOST:
        return tag(
            "p", f"{many(len(names), 'owner')}, {many(links.number_of_links, 'link')}: too many to draw."
        )
    places = (BOX / 2 + (BOX / 2 - _MARGIN) * layout(links, len(names))).round(1)
    radii = _radii(places, sizes)
    spoken = links.hub or f"{links.topology} of {many(links.number_of_links, 'link')}"
    drawn = [*_lines(links, places), *_discs(places, radii, run)]
    if links.hub is not None:
        drawn.append(_hub(links.hub))
    return tag(
        "svg",
        *drawn,
        class_="network dense" if links.number_of_links > _DENSE or len(names) > _DENSE else "network",
        viewBox=f"0 0 {BOX:g} {BOX:g}",
        role="img",
        aria_label=f"{many(len(names), 'owner')} and their links: {spoken}",
    )


def layout(links: Network, owners: int) -> np.ndarray:
    """(owners, 2) places within [-1, 1]: a grid for a torus, rays for a star or hub, a circle, or springs."""
    if owners == 1:
        return np.array([[0.0, 0.8 if links.hub else 0.0]])
    if links.topology == "torus":
        return _grid(owners)
    if links.topology == "star":
        return np.concatenate([np.zeros((1, 2)), _circle(owners - 1)])
    if links.hub or links.topology in ("ring", "complete", "exponential", "one_peer_exponential"):
        return _circle(owners)
    return _springs(links, owners)


def _circle(owners: int) -> np.ndarray:
    angle = 2 * math.pi * np.arange(owners) / owners
    return np.stack([np.sin(angle), -np.cos(angle)], axis=1)


def _grid(owners: int) -> np.ndarray:
    """The most square of grids with exactly that many places, as the torus is built."""
    rows = next(one for one in range(math.isqrt(owners), 0, -1) if owners % one == 0)
    columns = owners // rows
    across, down = np.arange(owners) % columns, np.arange(owners) // columns
    middle = np.array([(columns - 1) / 2, (rows - 1) / 2])
    return (np.stack([across, down], axis=1) - middle) / max(middle.max(), 1.0)


def _springs(links: Network, owners: int) -> np.ndarray:
    import networkx as nx

    graph = nx.empty_graph(owners)
    graph.add_edges_from(links.links or ())
    start = dict(enumerate(_circle(owners)))
    found = nx.spring_layout(graph, pos=start, iterations=60, seed=0)
    places = np.array([found[at] for at in range(owners)])
    places -= (places.max(0) + places.min(0)) / 2
    return places / max(np.abs(places).max(), 1e-9)


def _radii(places: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Areas as the sizes; the largest just fits between its neighbours."""
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    apart[np.diag_indices(len(places))] = np.inf
    room = min(_LARGEST, 0.44 * float(np.median(apart.min(1)))) if len(places) > 1 else _LARGEST
    return np.maximum(max(room, _SMALLEST) * np.sqrt(np.array(sizes) / max(sizes)), _SMALLEST).round(1)


def _lines(links: Network, places: np.ndarray) -> list[Markup]:
    middle = np.array([BOX / 2, BOX / 2])
    pairs = [(place, middle) for place in places] if links.hub else [
        (places[one], places[other]) for one, other in links.links or ()
    ]  # fmt: skip
    return [tag("line", x1=f"{a[0]:g}", y1=f"{a[1]:g}", x2=f"{b[0]:g}", y2=f"{b[1]:g}") for a, b in pairs]


def _discs(places: np.ndarray, radii: np.ndarray, run: Run) -> list[Markup]:
    """Numbers stand in their discs, or just outside where these are too small."""
    drawn = []
    for at, ((x, y), radius) in enumerate(zip(places, radii)):
        title = tag("title", f"{run.numbers[at]} {run.names[at]}: {many(run.sizes[at], 'record')}")
        parts = [title, tag("circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{radius:g}")]
        if len(run.names) <= _NUMBERED:
            parts.append(_number(run.numbers[at], x, y, radius))
        drawn.append(tag("g", *parts))
    return drawn


def _number(shown: int, x: float, y: float, radius: float) -> Markup:
    if radius >= 4 + 3.5 * len(str(shown)):
        return tag("text", shown, x=f"{x:g}", y=f"{y:g}", class_="inside")
    out = np.array([x, y]) - BOX / 2
    length = float(np.linalg.norm(out))
    out = out / length if length > 1 else np.array([0.0, -1.0])
    x, y = np.array([x, y]) + out * (radius + 9)
    return tag("text", shown, x=f"{x:.1f}", y=f"{y:.1f}")


def _hub(word: str) -> Markup:
    width, height = 7.0 * len(word) + 16, 26
    box = tag("rect", x=f"{(BOX - width) / 2:g}", y=f"{(BOX - height) / 2:g}", width=f"{width:g}",
              height=height, rx=6, class_="hub")  # fmt: skip
    return tag("g", box, tag("text", word, x=f"{BOX / 2:g}", y=f"{BOX / 2:g}"))
