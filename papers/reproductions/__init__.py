"""Every table and figure of the five papers, each from a declarative spec."""

from __future__ import annotations

from importlib import import_module

from coterie import _check
from papers.reproductions.spec import Paper

NAMES = ("jin_2020", "farokhi_2020", "adad2p_2023", "liu_2022", "kang_2021")


def paper(name: str) -> Paper:
    """The spec of that name."""
    _check.one_of("name", name, NAMES)
    return import_module(f"{__package__}.{name}").PAPER


__all__ = ["NAMES", "Paper", "paper"]
