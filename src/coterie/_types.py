"""Names for the values that cross module borders. Shapes are written in the docstrings that use them."""

from typing import Any, TypeAlias

import jax

Array: TypeAlias = jax.Array
PyTree: TypeAlias = Any  # a model's parameters, a message, a state: any nesting of arrays
