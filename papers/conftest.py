"""Strictness once, globally: silent promotion of types or ranks is a bug in numerical privacy code."""

import os

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# For the processes that pytest-xdist starts, as in tests/conftest.py: a second thread of NumPy's libraries waits by
# running, on a core that another of them needs.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
