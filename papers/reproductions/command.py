"""What `coterie reproduce` calls: run a paper, write what was found, and say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from papers.reproductions import paper
from papers.reproductions.page import name_of, section, write, write_docs
from papers.reproductions.runner import Reproduction, Tell, reproduce


def run(name: str, quick: bool, out: Path, data_dir: Path | None, tell: Tell) -> Reproduction:
    """Reproduce the paper of that name; cells and results go to `out`."""
    done = reproduce(paper(name), quick, out / "cells" / name, data_dir, tell)
    write(done.found, out)
    return done


def words(found: dict[str, Any]) -> str:
    """The tables, in Markdown."""
    return "\n".join(section(found, f"{name_of(found)}-"))


__all__ = ["run", "words", "write_docs"]
