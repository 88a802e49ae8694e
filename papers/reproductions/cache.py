"""Finished cells on disk: one JSON file each, named by everything the result depends on, with a checksum.

A file that is not exactly what was written (cut short, edited, of another cell) is noticed and done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.experiments import kept
from papers.reproductions.depends import version
from papers.reproductions.spec import Cell


def key(cell: Cell) -> str:
    """What the cell's file is called."""
    return kept.digest({"cell": asdict(cell), "code": version(cell.protocol, cell.data.name)})[:32]


def code_version(cells: Iterable[Cell]) -> str:
    """A digest of what the results of all these cells depend on, beside the cells."""
    return kept.digest(sorted({version(cell.protocol, cell.data.name) for cell in cells}))


@dataclass
class Cache:
    """A folder of cells. `damaged` lists the files that were found corrupt."""

    folder: Path
    damaged: list[Path] = field(default_factory=list)

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """The cell's result, or None where there is none that can be trusted."""
        file = self._file(cell)
        held = kept.read(file)
        if held is None:
            return None
        if held.get("key") == key(cell) and "result" in held:
            return held["result"]
        self.damaged.append(file)
        return None

    def put(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a result; an interruption leaves no part of it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            kept.write(self._file(cell), {"key": key(cell), "cell": asdict(cell), "result": result})
        except OSError as error:
            raise InputError(
                f"out={str(self.folder)!r}: cannot be written ({error.strerror}). Name another."
            ) from error

    def _file(self, cell: Cell) -> Path:
        return self.folder / f"{key(cell)}.json"
