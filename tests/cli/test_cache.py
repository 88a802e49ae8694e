"""Where compiled programs are kept, and that a folder which cannot or must not be used changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli import _cache

PROGRAM = """
import jax, jax.numpy as jnp
from coterie.cli._cache import keep_compiled
print(keep_compiled())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # keep even what this machine compiles in no time
print(jax.jit(lambda x: jnp.sin(x @ x))(jnp.ones((9, 9))).shape)
"""


def started(cache: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"COTERIE_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")


def test_programs_are_kept_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    where, shape, _ = started(tmp_path / "cache")
    assert (where, shape) == (str(tmp_path / "cache" / "compiled"), "(9, 9)")
    assert Path(where).stat().st_mode & 0o777 == 0o700
    assert any(Path(where).iterdir())


def test_entries_that_are_not_whole_are_compiled_anew_without_a_word(tmp_path: Path) -> None:
    """As another process finds them that starts meanwhile, or after a kill."""
    kept = Path(started(tmp_path)[0])
    entries = [entry for entry in kept.iterdir() if entry.is_file()]
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-10])
    assert started(tmp_path)[1] == "(9, 9)"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert started(file)[:2] == ["None", "(9, 9)"]


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "compiled"
    shared.mkdir()
    shared.chmod(0o777)
    assert started(tmp_path)[0] == "None"


def test_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COTERIE_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _cache.folder() == tmp_path / "coterie"
    monkeypatch.setenv("COTERIE_CACHE", str(tmp_path / "other"))
    assert _cache.folder() == tmp_path / "other"
