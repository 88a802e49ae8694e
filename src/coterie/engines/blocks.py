"""Steps in blocks whose randomness is drawn at once, and values that the compiler must not compute twice."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree
from coterie.engines.schedule import Tick


def in_blocks(step: Callable, draw: Callable, carry: PyTree, ticks: Tick, block: int) -> tuple:
    """Scan over blocks; in each, draw all randomness at once, then scan over its steps."""
    total = ticks.step.shape[0]
    whole = total // block * block

    def one_block(carry: PyTree, ticks: Tick) -> tuple:
        noise, *rest = jax.vmap(draw)(ticks)
        return jax.lax.scan(step, carry, (ticks, (once(noise, ticks.step[0]), *rest)))

    folded = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, block, *leaf.shape[1:]), ticks)
    carry, out = jax.lax.scan(one_block, carry, folded)
    out = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), out)
    if whole == total:
        return carry, out
    carry, rest = one_block(carry, jax.tree.map(lambda leaf: leaf[whole:], ticks))
    return carry, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), out, rest)


def once(tree: PyTree, step: Array) -> PyTree:
    """`tree`, computed once and stored, however many readers it has.

    XLA may compute a value anew wherever it is read, if it thinks that cheap; it does so with normal quantiles, which
    are not cheap, and an optimization barrier does not stop it. But what a loop starts from has to be stored first. So
    this is a loop whose body never runs: it asks for a negative step, steps count from 1, and XLA cannot know that.
    """

    if not jax.tree.leaves(tree):
        return tree
    return jax.lax.while_loop(
        lambda pair: pair[0] < 0,  # never
        lambda pair: (pair[0] + 1, jax.tree.map(jnp.negative, pair[1])),
        (step, tree),
    )[1]
