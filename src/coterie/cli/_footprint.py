"""Gives memory that only start-up needed back to the system, for processes that run for long.

Importing JAX and compiling a program touch about 100 MB of the libraries' code and constants once. These pages stay
resident, although they are parts of files that the system can read again; so does memory that the allocator keeps.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_DONTNEED = 4  # Linux: MADV_DONTNEED
_COMPILED = 2  # steps after which all programs of a round are compiled
# Names of JAX's events; and the seconds above which a program was compiled, not read from the cache.
_LOWERED, _BUILT = (
    f"/jax/core/compile/{what}_duration" for what in ("jaxpr_to_mlir_module", "backend_compile")
)
_LONG = 0.02


@contextmanager
def importing() -> Iterator[None]:
    """Import in a fifth less time, without garbage collection: nothing that is imported is garbage.

    Objects that exist at the end are excluded from later collections as well.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def give_back() -> int:
    """Release pages of files, and freed memory; return the number of stretches released. Linux alone.

    Only pages that are read-only and unchanged since they were read: nothing can be lost.
    """
    if sys.platform != "linux":
        return 0
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # glibc's
        library.malloc_trim(0)
    return sum(
        library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED) == 0
        for start, end in _unchanged(Path("/proc/self/smaps").read_text())
    )


def _unchanged(smaps: str) -> Iterator[tuple[int, int]]:
    """(start, end) of mappings that equal their files, from a process's own list of its mappings (smaps).

    >>> said = ("1-2 r-xp", "Anonymous: 0 kB", "2-3 r--p", "Anonymous: 0 kB", "3-4 r--p", "Anonymous: 4 kB", "4-5 rw-p")
    >>> list(_unchanged("\\n".join(f"{one} 0 00:01 7  /lib/a.so" if "-" in one else one for one in said)))
    [(1, 2), (2, 3)]
    """
    span: tuple[int, int] | None = None
    for line in smaps.splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            start, _, end = first.partition("-")
            is_file = rest[0] in ("r-xp", "r--p") and rest[-1].startswith("/")
            span = (int(start, 16), int(end, 16)) if is_file else None
        elif span is not None and first == "Anonymous:" and rest[0] == "0":
            yield span


@contextmanager
def compiling() -> Iterator[None]:
    """Without a cache of programs, release the memory of each compilation before the next one."""
    from jax import monitoring

    built = False

    def heard(event: str, duration_secs: float, **_: str | int) -> None:
        nonlocal built
        built = built or (event == _BUILT and duration_secs > _LONG)
        if built and event in (_LOWERED, _BUILT):
            give_back()

    monitoring.register_event_duration_secs_listener(heard)
    try:
        yield
    finally:
        monitoring.unregister_event_duration_listener(heard)


class Slimmed:
    """A watcher of a node: releases memory when it is ready, and when the programs of its rounds are compiled."""

    def __init__(self) -> None:
        self._left = [0, _COMPILED]  # steps at which there is something to give back

    def __call__(self, snapshot: Mapping[str, Any]) -> None:
        """Called about once a second with the node's snapshot."""
        due = [step for step in self._left if snapshot["step"] >= step]
        if due:
            self._left = [step for step in self._left if step not in due]
            give_back()
