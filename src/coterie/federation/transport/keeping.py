"""Files of a network: put in place whole; those of keys and certificates readable by their owner alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from coterie import _files
from coterie.errors import InputError


def write_new(folder: Path, files: dict[str, bytes]) -> None:
    """Write files that must not exist yet: all of them, or none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from error
    refuse_existing(folder, files)
    written: list[Path] = []
    try:
        for name, content in files.items():
            replace(folder / name, content)
            written.append(folder / name)
    except InputError:
        for path in written:
            path.unlink()
        raise


def read_json(path: Path, kind: Any, fault: str, what: str = "") -> Any:
    """What is in a file, of a kind that msgspec knows. `fault`: the words where it holds something else."""
    named = f"{what}={str(path)!r}" if what else str(path)
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise InputError(f"{named}: cannot be read ({error.strerror}).") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{named}: {fault}") from error


def refuse_existing(folder: Path, names: Iterable[str]) -> None:
    """InputError where one of these files exists."""
    for name in names:
        if (folder / name).exists():
            raise InputError(f"{folder / name}: exists already. Delete it, or choose another folder.")


def replace(path: Path, content: bytes) -> None:
    """Put a file in place whole. It is readable by its owner alone from its first byte on."""
    try:
        _files.put(path, content, mode=0o600, durable=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from error


def put(path: Path, text: str) -> None:
    """Put a file in place whole; nothing in it is secret, so the system's usual mode applies."""
    _files.put(path, text.encode(), durable=True)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns errors of writing in the block into InputError: a full disk, a folder of another user."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"folder={str(folder)!r}: cannot be read or written ({error.strerror}: {error.filename or folder}). Make "
            "room, or mend what is in the way, and run the same command again."
        ) from error
