"""Files that are there whole or not at all."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path


def put(path: Path, content: bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Write beside the place and move there in one step, so that an interruption leaves no part. May raise OSError.

    `mode`: who may read it, from its first byte on, less whom the shell's umask leaves out. `durable`: on the disk when
    this returns, so that a crash of the machine leaves the old file or the new one.
    """
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with open(draft, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
        if durable:
            sync(path.parent)
    finally:
        with suppress(OSError):  # nor can a file be taken away where none can be written
            draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have a file, or a folder's list of names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
