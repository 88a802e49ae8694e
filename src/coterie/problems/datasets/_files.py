"""Where data files are, and whether they are the ones their checksums promise."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from coterie.errors import InputError


class File(NamedTuple):
    """One stored file: its path below the data folder, and the sha256 of its bytes."""

    path: str
    sha256: str


def data_dir(given: str | Path | None = None) -> Path:
    """The folder that holds the data sets: the argument, or the environment variable COTERIE_DATA."""
    chosen = given or os.environ.get("COTERIE_DATA")
    if not chosen:
        raise InputError(
            "data_dir: not given. Set COTERIE_DATA or --data-dir; the layout is in docs/data.md."
        )
    folder = Path(chosen)
    if not folder.is_dir():
        raise InputError(
            f"data_dir={str(folder)!r}: no such folder. Set COTERIE_DATA or --data-dir; see docs/data.md."
        )
    return folder.resolve()  # a caller may change its working folder before it opens a file


def verified(file: File, folder: Path) -> Path:
    """The file's path, after its checksum was compared (once a process for an unchanged file)."""
    path = folder / file.path
    if not path.is_file():
        raise InputError(
            f"{path}: missing. docs/data.md says where to get it; set COTERIE_DATA or --data-dir."
        )
    stat = path.stat()
    actual = _sha256(path, stat.st_size, stat.st_mtime_ns)
    if actual != file.sha256:
        raise InputError(
            f"{path}: sha256 is {actual[:12]}…, must be {file.sha256[:12]}…. Fetch the file again."
        )
    return path


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, changed: int) -> str:
    """Size and time of change are part of the key, so that an edited file is read again."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def frame_of(path: Path, **how: Any) -> Any:
    """A stored table as a pandas frame; `how`: what a CSV's reader is told."""
    import pandas as pd

    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, **how)
