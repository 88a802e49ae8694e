"""How cases are timed and reported: everything of one case in turns, the best of several, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from coterie.mechanisms import normals


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case. Seconds are for one unit of work, which `case` names."""

    case: str
    work: str  # what the floor counts, in words
    floor: float | None  # seconds
    ours: float
    peers: Mapping[str, float | str] = field(default_factory=dict)  # seconds, or why there are none
    wanted: str = ""  # the target, in words
    met: bool | None = None
    note: str = ""

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """The fastest peer that did the work."""
        found = [(name, one) for name, one in self.peers.items() if not isinstance(one, str)]
        return min(found, key=lambda pair: pair[1]) if found else None


_REST = 0.1  # seconds: threads of a library that was just measured still spin for a while (OpenBLAS's do)


def in_turns(functions: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """The best seconds of each, measured in turns, so that a busy moment of the machine hits all alike."""
    best = dict.fromkeys(functions, float("inf"))
    for name, function in functions.items():
        function()  # compiles, warms
        del name
    for _ in range(repeats):
        for name, function in functions.items():
            time.sleep(_REST)
            started = time.perf_counter()
            jax.block_until_ready(function())
            best[name] = min(best[name], time.perf_counter() - started)
    return best


class Rates:
    """What the machine can do, measured beside each case: operations, bytes and normals a second."""

    @staticmethod
    def probes() -> dict[str, Callable[[], object]]:
        """Functions to be timed in turns with a case; `of` reads their times."""
        return {"gemm": _gemm, "read": _read, "normals": _normals}

    @staticmethod
    def of(best: Mapping[str, float]) -> dict[str, float]:
        """Rates from the times of `probes`."""
        return {
            "operations": 2.0 * _SIDE**3 / best["gemm"],
            "bytes": 4.0 * _LARGE / best["read"],
            "normals": float(_TIMES * _BLOCK) / best["normals"],
        }


_SIDE, _LARGE, _BLOCK, _TIMES = 1024, 1 << 26, 1 << 17, 16


@cache
def _matrices() -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).standard_normal((_SIDE, _SIDE), dtype=np.float32))


@cache
def _numbers() -> jax.Array:
    return jnp.ones(_LARGE, jnp.float32)


_multiply = jax.jit(lambda a: a @ a, compiler_options=normals.WIDE)
_sum = jax.jit(jnp.sum)


@jax.jit
def _draw_blocks(key: jax.Array) -> jax.Array:
    def block(total: jax.Array, step: jax.Array) -> tuple[jax.Array, None]:
        return total + normals.normal(jax.random.fold_in(key, step), _BLOCK), None

    return jax.lax.scan(block, jnp.zeros(_BLOCK), jnp.arange(_TIMES))[0]


_drawing = jax.jit(_draw_blocks, compiler_options=normals.WIDE)


def _gemm() -> jax.Array:
    return _multiply(_matrices())


def _read() -> jax.Array:
    return _sum(_numbers())


def _normals() -> jax.Array:
    return _drawing(jax.random.key(0))
