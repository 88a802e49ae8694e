"""How masked sums go without an aggregator: the picture of docs/honest.md and docs/federation-inside.md.

    python -m papers.honest_tree docs/images/honest-tree.png

The links are a topology's and the trees those that owners find for themselves: with everybody, and without one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from coterie import topologies
from coterie.federation.shapes.tree import Graph, Tree, graph_of, spanning

OWNERS, LOST = 8, 4
TOPOLOGY = "ring"
CHORDS = ((0, 4), (2, 6))  # so that the picture has more than one way round


def graph() -> Graph:
    """A ring with two chords."""
    links = topologies.build(TOPOLOGY, OWNERS).links.tolist()
    return graph_of([*links, *CHORDS], OWNERS)


def trees() -> list[tuple[str, set[int], int, Tree]]:
    """Title, members, root and tree of each part of the picture."""
    everyone = set(range(OWNERS))
    left = everyone - {LOST}
    return [
        ("a sum of all: a is root", everyone, 0, spanning(graph(), everyone, 0)),
        ("e is lost: another roll, another tree", left, 0, spanning(graph(), left, 0)),
    ]


def draw(file: Path) -> None:
    """Both trees side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, parts = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained")
    for axes, part in zip(parts, trees()):
        _part(axes, *part)
    figure.savefig(file, dpi=150, metadata={"Software": None})


def _part(axes: Any, title: str, members: set[int], root: int, tree: Tree) -> None:
    from coterie.reports.style import LIGHT

    turn = np.pi / 2 - 2 * np.pi * np.arange(OWNERS) / OWNERS
    places = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for owner, peers in enumerate(graph()):
        for peer in peers:
            axes.plot(*places[[owner, peer]].T, color=LIGHT["line"], linewidth=1.2, zorder=1)
    for child, parent in tree.parent.items():
        arrow = {"arrowstyle": "-|>", "color": LIGHT["joint"], "linewidth": 2.2, "shrinkA": 13, "shrinkB": 13}
        axes.annotate("", places[parent], places[child], arrowprops=arrow, zorder=2)
    for owner, place in enumerate(places):
        there = owner in members
        face = LIGHT["ceiling"] if owner == root else LIGHT["card"] if there else LIGHT["track"]
        edge = LIGHT["ink"] if there else LIGHT["line"]
        axes.scatter(*place, s=420, facecolor=face, edgecolor=edge, linewidth=1.4, zorder=3)
        ink = LIGHT["card"] if owner == root else LIGHT["ink"] if there else LIGHT["soft"]
        axes.text(*place, "abcdefgh"[owner], ha="center", va="center", color=ink, zorder=4)
    axes.set(title=title, aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25))
    axes.axis("off")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
