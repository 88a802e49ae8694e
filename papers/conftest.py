"""Strictness once, globally: silent promotion of types or ranks is a bug in numerical privacy code."""

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
