"""Finished cells on disk: one JSON file each, named by everything the result depends on, with a checksum.

A file that is not exactly what was written (cut short, edited, of another cell) is noticed and done again.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import coterie
from coterie.errors import InputError
from coterie.experiments.reproductions.spec import Cell

_CODE = ("accounting", "engines", "mechanisms", "problems", "protocols", "topologies", "program.py")
_CODE += ("experiments/reproductions/cases.py", "experiments/reproductions/measure.py")


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest of the source that results depend on: with other code, cells are computed again."""
    root = Path(coterie.__file__).parent
    digest = hashlib.sha256()
    for name in _CODE:
        place = root / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def key(cell: Cell) -> str:
    """What the cell's file is called."""
    return _digest({"cell": asdict(cell), "code": code_version()})[:32]


@dataclass
class Cache:
    """A folder of cells. `damaged` lists the files that were found corrupt."""

    folder: Path
    damaged: list[Path] = field(default_factory=list)

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """The cell's result, or None where there is none that can be trusted."""
        file = self._file(cell)
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            text = ""
        try:
            held = json.loads(text)
            if held.pop("sha256") == _digest(held) and held["key"] == key(cell):
                return held["result"]
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # falls through to the same place as a wrong checksum
        self.damaged.append(file)
        return None

    def put(self, cell: Cell, result: dict[str, Any]) -> None:
        """Write beside the place and move there in one step, so that an interruption leaves no part."""
        held = {"key": key(cell), "cell": asdict(cell), "result": result}
        text = json.dumps(held | {"sha256": _digest(held)}, allow_nan=False, ensure_ascii=False)
        file = self._file(cell)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            staging = file.with_suffix(f".{os.getpid()}")
            staging.write_text(text, encoding="utf-8")
            staging.replace(file)
        except OSError as error:
            raise InputError(
                f"out={str(self.folder)!r}: cannot be written ({error.strerror}). Name another."
            ) from error

    def _file(self, cell: Cell) -> Path:
        return self.folder / f"{key(cell)}.json"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
