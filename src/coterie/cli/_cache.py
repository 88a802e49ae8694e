"""Keeps compiled programs between commands, so that only the first command of a kind waits for the compiler."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path


def folder() -> Path:
    """COTERIE_CACHE, or `coterie` in the user's own cache folder."""
    given = os.environ.get("COTERIE_CACHE")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "coterie"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie"


def keep_compiled() -> Path | None:
    """Make JAX keep compiled programs, and return the folder; None where it cannot be used.

    Compiled programs are code: the folder is the user's own (mode 700), and one that others may write is not used.
    They hold functions and shapes, no record and no key: those are arguments.
    """
    place = folder() / "compiled"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = place.stat()
    except OSError:
        return None
    unsafe = os.name == "posix" and (state.st_uid != os.getuid() or bool(state.st_mode & 0o022))
    if unsafe or not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return None
    import jax

    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    # JAX writes entries in place: one that another process is writing, or was killed over, is compiled anew.
    warnings.filterwarnings("ignore", r"Error (reading|writing) persistent compilation cache entry")
    return place
