"""Colours by name and looks by class, as the style sheet has them; colours of classes and series."""

from __future__ import annotations

import re
from pathlib import Path

_TEMPLATES = Path(__file__).parent / "templates"
COLOURS = (_TEMPLATES / "colours.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+):(#\w+)", part)) for part in COLOURS.split("@media"))
CLASSES = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7")
OTHER = "#8a94a0"  # for further classes
_RULES = [
    (set(classes.split(".")), block)
    for classes, block in re.findall(
        r"^\.([\w.]+)\{([^{}]*)\}$", (_TEMPLATES / "style.css").read_text(), re.MULTILINE
    )
]


def look(kind: str) -> dict[str, str]:
    """The style sheet's declarations for these classes; rules that name more of them take precedence.

    >>> look("floor")
    {'stroke': 'var(--floor)', 'stroke-width': '2', 'stroke-dasharray': '7 5'}
    """
    classes = set(kind.split())
    fitting = sorted((rule for rule in _RULES if rule[0] <= classes), key=lambda rule: len(rule[0]))
    return {key: value for _, block in fitting for key, value in re.findall(r"([\w-]+):([^;]+)", block)}
