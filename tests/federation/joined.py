"""A test's parties among witnesses, as `federation.node` puts a real one among them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coterie.federation.releases.journal import Journal
from coterie.federation.releases.marks import Hand
from coterie.federation.releases.witness import Joining, Witnessed
from coterie.federation.transport.machine import Machine, Patience

AGREEMENT = bytes(32)
TWIN = " again"  # behind the name of a second process with the same certificate, on a copy of its files


def named(process: str) -> str:
    """Under which name a process speaks."""
    return process.removesuffix(TWIN)


def hand(name: str) -> Hand:
    return Hand(b"key of " + name.encode(), AGREEMENT)


def files(folder: Path, process: str) -> list[Path]:
    """A party's ledger and journal, with what SQLite keeps beside them."""
    return [file for kind in ("ledger", "journal") for file in folder.glob(f"{process}.{kind}*")]


def copied(folder: Path, process: str) -> None:
    """Give a second process a copy of the first one's files, as they are now."""
    if process.endswith(TWIN) and not files(folder, process):
        for file in files(folder, named(process)):
            shutil.copy(file, folder / f"{process}{file.name.removeprefix(named(process))}")


def joined(
    machine: Machine,
    name: str,
    peers: Sequence[str],
    journal: Journal,
    releases: Any,
    *,
    steps: int,
    first: int,
    again: int,
    patience: Patience,
    log: Callable[[str], None] = lambda line: None,
    opening: int = 0,
) -> Witnessed:
    joining = Joining(name, tuple(peers), steps, first, again, patience, opening)
    return Witnessed(machine, joining, journal, hand(name), releases, log)
