"""Strictness once, globally: silent promotion of types or ranks is a bug in numerical privacy code."""

from pathlib import Path

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

_MAPS = Path("/proc/self/maps")
_MANY = 30_000  # Linux ends a process that needs more than 65,530 (vm.max_map_count); a compiled program takes some


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """After a file of tests, drop what was compiled, where that has become much."""
    yield
    if _MAPS.exists() and len(_MAPS.read_bytes().splitlines()) > _MANY:
        jax.clear_caches()
