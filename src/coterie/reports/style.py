"""Colours by name, as the style sheet has them: once for light and once for dark; and those of classes and series."""

from __future__ import annotations

import re
from pathlib import Path

COLOURS = (Path(__file__).parent / "templates" / "colours.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+):(#\w+)", part)) for part in COLOURS.split("@media"))
CLASSES = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7")
OTHER = "#8a94a0"  # of classes beyond those
