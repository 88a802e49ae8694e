"""How tests compile: quickly, or as users have it.

Compiling is most of what tests take, and few of them ask how: in tests, and in programs that these start, the compiler
does not try hard, and takes a third to a half of its time. Where last bits are compared it does.

Of the rest of that time, a good part goes into the context that JAX makes anew for each program; here many share one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import jax
from jax._src import compiler
from jax._src.interpreters import mlir

# Options of XLA for CPUs: quickly, and as users have them. The last: in how many parts a program is compiled, each of
# which costs time and maps of memory.
_OPTIONS = {
    "xla_cpu_use_fusion_emitters": (False, True),
    "xla_backend_optimization_level": (0, 3),
    "xla_llvm_disable_expensive_passes": (True, False),
    "xla_cpu_parallel_codegen_split_count": (1, 32),
}
QUICK = " ".join(f"--{name}={str(quick).lower()}" for name, (quick, _) in _OPTIONS.items())  # for XLA_FLAGS

_PROGRAMS = 200  # that share a context: the constants of each stay in it


def share_contexts() -> None:
    """Load the dialects that programs are written in once for many of them: 3.5 ms of processor time for each."""
    made, own = mlir.make_ir_context, threading.local()

    def shared():
        if not getattr(own, "left", 0):
            own.context, own.left = made(), _PROGRAMS
        own.left -= 1
        return own.context

    mlir.make_ir_context = shared


@contextmanager
def as_users_do() -> Iterator[None]:
    """Also where the environment says otherwise. Of JAX's own settings none gives the compiler other options."""
    theirs = {name: users for name, (_, users) in _OPTIONS.items()}
    before = compiler.get_compile_options

    def options(*args, env_options_overrides=None, **more):
        return before(*args, env_options_overrides=theirs | (env_options_overrides or {}), **more)

    with patch.object(compiler, "get_compile_options", options):
        # Of no effect on a CPU, but that nothing is taken which was compiled under another value.
        jax.config.update("jax_optimization_level", "O1")
        try:
            yield
        finally:
            jax.config.update("jax_optimization_level", "UNKNOWN")
