"""What only starting up needed of a long process's memory is given back to the system.

Importing JAX and compiling a program touch about 100 MB of the libraries' code and constants once. It stays resident,
though these are pages of files, which the system reads again should they be needed; and so does what the allocator
keeps for later.
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
_COMPILED = 2  # steps after which everything that a round calls was compiled
# JAX's names of what it tells its listeners; and the seconds of a compiler's work, where a kept program takes none.
_LOWERED, _BUILT = (
    f"/jax/core/compile/{what}_duration" for what in ("jaxpr_to_mlir_module", "backend_compile")
)
_LONG = 0.02


@contextmanager
def importing() -> Iterator[None]:
    """Import in a fifth less of the time: nothing that is imported is garbage, and none is looked for among it.

    Nor later: what is there at the end is taken to stay.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def give_back() -> int:
    """Let go of code and constants that are a file's, and of freed memory; of how many stretches. Linux alone.

    Only what cannot be written and was not changed since it was read: nothing can be lost.
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
    """(start, end) of what is as in its file, in a process's own list of what it has mapped.

    >>> said = ("1-2 r-xp", "Anonymous: 0 kB", "2-3 r--p", "Anonymous: 0 kB", "3-4 r--p", "Anonymous: 4 kB", "4-5 rw-p")
    >>> list(_unchanged("\\n".join(f"{one} 0 00:01 7  /lib/a.so" if "-" in one else one for one in said)))
    [(1, 2), (2, 3)]
    """
    found: tuple[int, int] | None = None
    for line in smaps.splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            start, _, end = first.partition("-")
            is_file = rest[0] in ("r-xp", "r--p") and rest[-1].startswith("/")
            found = (int(start, 16), int(end, 16)) if is_file else None
        elif found is not None and first == "Anonymous:" and rest[0] == "0":
            yield found


@contextmanager
def compiling() -> Iterator[None]:
    """Where programs are not kept, give back what compiling one took before the next one takes as much again."""
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
    """A watcher of a node: gives back when the node is ready, and when it has compiled what its rounds call."""

    def __init__(self) -> None:
        self._left = [0, _COMPILED]  # steps at which there is something to give back

    def __call__(self, snapshot: Mapping[str, Any]) -> None:
        """Told about once a second where the node stands."""
        due = [step for step in self._left if snapshot["step"] >= step]
        if due:
            self._left = [step for step in self._left if step not in due]
            give_back()
