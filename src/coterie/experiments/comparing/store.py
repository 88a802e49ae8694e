"""A comparison's folder: what was asked, and each finished cell, so that a killed comparison goes on where it stopped.

Cells hold metrics on test rows, which are oracle values where these are owners' records: the folder is readable by
its owner alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie import _files
from coterie.errors import InputError, OutputError
from coterie.experiments import kept
from coterie.experiments.comparing.question import Comparison

ASKED, CELLS = "asked.json", "cells"
FORMAT = 3  # of cells: one more with every change of what they hold (`jobs.told_of`)


@dataclass
class Store:
    """Where finished cells are kept. `damaged` lists files that were not what had been written."""

    folder: Path
    asked: dict[str, Any]
    damaged: list[Path] = field(default_factory=list)

    def begin(self) -> None:
        """Make the folder, unless an earlier beginning did."""
        with _writing(self.folder):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
            (self.folder / CELLS).mkdir(exist_ok=True)
            kept.write(self.folder / ASKED, self.asked)

    def get(self, name: str) -> dict[str, Any] | None:
        """A finished cell, or None where there is none that can be trusted."""
        file = self._file(name)
        held = kept.read(file)
        if held and held.get("cell") == name:
            return held["found"]
        if held is not None:
            self.damaged.append(file)
        return None

    def put(self, name: str, cell: dict[str, Any]) -> None:
        """Keep a finished cell."""
        with _writing(self.folder):
            kept.write(self._file(name), {"cell": name, "found": cell})

    def finish(self, files: dict[str, bytes]) -> None:
        """The result's own files, each whole; those of an earlier end are replaced."""
        with _writing(self.folder):
            for name, content in files.items():
                _files.put(self.folder / name, content)

    def _file(self, name: str) -> Path:
        return self.folder / CELLS / f"{kept.digest(name)[:16]}.json"


def store_of(folder: Path, comparison: Comparison) -> Store:
    """The folder of exactly this comparison, begun or not there yet; of anything else, an error before any work."""
    asked = identity(comparison)
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        if not isinstance(comparison.shared.data, str):
            raise InputError(
                f"out={str(folder)!r}: holds something, and nobody can tell whether it is of these rows in memory. "
                "Name a folder that is not there yet."
            )
        _check_same(folder, asked)
    return Store(folder, asked)


def identity(comparison: Comparison) -> dict[str, Any]:
    """All that cells depend on. Files by size and time: a checksum of records could be tried against guesses of one."""
    from importlib.metadata import version

    shared = comparison.shared
    files = (shared.data, shared.columns, shared.topology)
    states = {name: Path(name).stat() for name in files if isinstance(name, str) and Path(name).is_file()}
    changed = {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}
    versions = {"coterie": version("coterie"), "format": FORMAT, "jax": version("jax")}
    return comparison.to_dict() | {"files": changed} | versions


def _check_same(folder: Path, asked: dict[str, Any]) -> None:
    there = kept.read(folder / ASKED) if folder.is_dir() else None
    if not there:
        raise InputError(f"out={str(folder)!r}: exists and holds no comparison. Name a new folder.")
    if there.get("format") != FORMAT:
        raise InputError(
            f"out={str(folder)!r}: was begun by another version of coterie, whose cells hold other things. Name a new "
            "folder."
        )
    differing = [key for key in {**asked, **there} if asked.get(key) != there.get(key)]
    if differing:
        key = differing[0]
        raise InputError(
            f"out={str(folder)!r}: holds another comparison: {key} is {there.get(key)!r} there and {asked.get(key)!r} "
            "here. Name a new folder, or ask the same again."
        )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"out={str(folder)!r}: cannot be written ({error.strerror}). Make room or name another folder; "
            "finished cells are kept, and the same command goes on from there."
        ) from error
